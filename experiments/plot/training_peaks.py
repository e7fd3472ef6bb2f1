#!/usr/bin/python3
"""Draw the peak of reserved memory by training loop and allocator.

    training_peaks.py FILE.csv [FILE.csv...] --output PICTURE

Reads the CSV files that experiments/training/run writes. A bar is the median over rounds, a whisker
the least and the most, and the line through a loop's bars the most that its tensors held under
native-classic. PDF, PNG or SVG by the suffix. Needs python3-matplotlib and nothing else.
"""

import argparse
import csv
import os
import statistics
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError as missing:
    sys.exit(f"training_peaks.py: error: {missing}; install the package python3-matplotlib")

GIB = float(1 << 30)
SUFFIXES = (".pdf", ".png", ".svg")
BASE = "native-classic"

# Okabe and Ito's palette: told apart with every common colour blindness, and in grey.
COLOURS = {"native-classic": "#56B4E9", "native-expandable": "#0072B2", "native-async": "#999999",
           "pleat-classic": "#F0E442", "pleat-torch_expandable": "#E69F00",
           "pleat-pleated": "#D55E00"}
SPARE = ("#009E73", "#CC79A7", "#000000")
INK = "#333333"


def fail(text):
    sys.exit(f"training_peaks.py: error: {text}")


def read_csv(paths):
    """{loop: {allocator: ([reserved], [allocated])}} in GiB, of runs that came through."""
    found = {}
    for path in paths:
        try:
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(line for line in file if not line.startswith("#")):
                    if row["error"] or not row["peak_reserved"] or row["rank"] != "0":
                        continue
                    peaks = found.setdefault(row["loop"], {}).setdefault(row["allocator"],
                                                                         ([], []))
                    peaks[0].append(float(row["peak_reserved"]) / GIB)
                    peaks[1].append(float(row["peak_allocated"] or 0) / GIB)
        except OSError as error:
            fail(f"{path}: {error.strerror}")
        except (KeyError, ValueError) as error:
            fail(f"{path}: not a file of experiments/training/run: {error}")
    if not found:
        fail("no run with a peak of reserved memory")
    return found


def order(found):
    """Allocators in the order of the palette, others after them."""
    names = {name for by in found.values() for name in by}
    return [name for name in COLOURS if name in names] + sorted(names - set(COLOURS))


def draw(found, path):
    names = order(found)
    spare = list(SPARE)
    colours = {name: COLOURS.get(name) or spare.pop(0) if name in COLOURS or spare else INK
               for name in names}
    figure, axis = plt.subplots(figsize=(1.2 + 1.25 * len(found), 3.0))
    width = 0.82 / len(names)
    for place, (_, by) in enumerate(found.items()):
        for number, name in enumerate(names):
            if name not in by:
                continue
            values = by[name][0]
            middle = statistics.median(values)
            x = place + (number - (len(names) - 1) / 2) * width
            axis.bar(x, middle, width * 0.92, color=colours[name], edgecolor=INK, linewidth=0.4,
                     label=name if name not in axis.get_legend_handles_labels()[1] else None)
            axis.errorbar(x, middle, [[middle - min(values)], [max(values) - middle]], color=INK,
                          linewidth=0.8, capsize=1.5)
        held = max(by.get(BASE, ([], []))[1], default=0)
        if held > 0:
            axis.plot([place - 0.43, place + 0.43], [held, held], color=INK, linewidth=1.0,
                      linestyle=(0, (4, 2)))
    axis.set_xticks(range(len(found)), list(found))
    axis.set_ylabel("peak reserved memory (GiB)")
    axis.set_ylim(bottom=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=8)
    figure.legend(loc="outside upper center", ncols=3, fontsize=7, frameon=False)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=200, metadata={"Date": None} if path.endswith(".svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    if os.path.splitext(arguments.output)[1] not in SUFFIXES:
        fail(f"{arguments.output}: the name must end in {', '.join(SUFFIXES)}")
    draw(read_csv(arguments.csv), arguments.output)


if __name__ == "__main__":
    main()
