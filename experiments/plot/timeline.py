#!/usr/bin/python3
"""Draw reserved, active and free bytes over time, one panel a replay.

Reads the CSV files that `pleat replay --timeline` and `pleat compare --timeline` write, and draws
them for a paper: PDF, PNG or SVG by the suffix of the output. Panels of one trace share their axes,
so that modes and settings can be compared by eye. Allocated bytes are drawn where they differ
visibly from active ones, unreturnable bytes where they differ so from inactive_split. Needs
python3-matplotlib and nothing else.
"""

import argparse
import csv
import os
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
except ImportError as missing:
    sys.exit(f"timeline.py: error: {missing}; install the package python3-matplotlib")

GIB = float(1 << 30)
SUFFIXES = (".pdf", ".png", ".svg")
COLUMNS = ("time_us", "reserved_bytes", "active_bytes", "inactive_split_bytes")
EXTRA_COLUMNS = ("allocated_bytes", "unreturnable_bytes")

# Okabe and Ito's palette: told apart with every common colour blindness, and in grey.
RESERVED = "#0072B2"
ACTIVE = "#56B4E9"
SPLIT = "#D55E00"
ALLOCATED = "#009E73"
STUCK = "#CC79A7"
INK = "#333333"

VISIBLE = 0.02  # of the height of a panel
POINTS = 1500  # about three a printed pixel column; more only makes the file larger


class Panel:
    """One replay: its names and its series in seconds and GiB."""

    def __init__(self, trace, mode, setting, rows):
        data = np.array(rows, dtype=float)
        column = dict(zip(COLUMNS + EXTRA_COLUMNS, data.T))
        self.trace = trace
        self.mode = mode
        self.setting = setting
        self.seconds = column["time_us"] / 1e6
        self.reserved = column["reserved_bytes"] / GIB
        self.active = column["active_bytes"] / GIB
        self.split = column["inactive_split_bytes"] / GIB
        # NaN where the file has no such column.
        self.allocated = column["allocated_bytes"] / GIB
        self.stuck = column["unreturnable_bytes"] / GIB


def fail(text):
    sys.exit(f"timeline.py: error: {text}")


def read_csv(path):
    """The replays of a CSV file; lines that begin with # are notes, the first other line names the
    columns. Rows of several replays are told apart by the columns trace, mode and conf."""
    replays = {}
    done = []
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(line for line in file if not line.startswith("#"))
            header = next(rows, [])
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                fail(f"{path}: no column {', '.join(missing)}; the first line must name them")
            names = [header.index(name) for name in ("trace", "mode", "conf") if name in header]
            numbers = [header.index(name) if name in header else -1
                       for name in COLUMNS + EXTRA_COLUMNS]
            for row in rows:
                key = tuple(row[i] for i in names)
                values = [float(row[i]) if i >= 0 else np.nan for i in numbers]
                starts_anew = key in replays and values[0] < replays[key][-1][0]
                if starts_anew:  # a trace of the same name
                    done.append((key, replays.pop(key)))
                replays.setdefault(key, []).append(values)
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except (IndexError, ValueError) as error:
        fail(f"{path}: line {rows.line_num}: {error}")
    if not replays:
        fail(f"{path}: no rows")
    stem = os.path.splitext(os.path.basename(path))[0]
    panels = []
    for key, values in done + list(replays.items()):
        trace = key[0] if key else stem
        setting = ", ".join(word for word in key[1:] if word)
        mode = key[1] if len(key) > 1 else ""
        panels.append(Panel(trace, mode, setting, values))
    return panels


def thin(seconds, values):
    """Fewer points with the same outline: of every bin of time the highest and the lowest."""
    if len(seconds) <= 2 * POINTS or seconds[-1] <= seconds[0]:
        return seconds, values
    edges = np.linspace(seconds[0], seconds[-1], POINTS + 1)
    starts = np.unique(np.searchsorted(seconds, edges[:-1]))
    starts = starts[starts < len(seconds)]
    times = np.repeat(seconds[starts], 2)
    outline = np.empty(len(times))
    outline[0::2] = np.minimum.reduceat(values, starts)
    outline[1::2] = np.maximum.reduceat(values, starts)
    return times, outline


def envelope(seconds, values):
    """Highest value of every bin of time, for areas: an area cannot go back and forth."""
    if len(seconds) <= 2 * POINTS or seconds[-1] <= seconds[0]:
        return seconds, values
    edges = np.linspace(seconds[0], seconds[-1], POINTS + 1)
    starts = np.unique(np.searchsorted(seconds, edges[:-1]))
    starts = starts[starts < len(seconds)]
    return seconds[starts], np.maximum.reduceat(values, starts)


def mark_peak(axis, panel, values, colour, size):
    index = int(np.argmax(values))
    axis.plot(panel.seconds[index], values[index], "o", color=colour, markersize=size, zorder=5)


def name_peaks(panel):
    """The peaks in words: beside the curves they would lie on them in one panel or another."""
    reserved = panel.reserved.max()
    active = panel.active.max()
    share = f" ({100 * active / reserved:.1f} %)" if reserved > 0 else ""
    return f"peaks: reserved {reserved:.2f} GiB, active {active:.2f} GiB{share}"


def is_visible(values, others, top):
    """Would two lines be told apart in a panel of that height?"""
    return bool(np.nanmax(np.abs(values - others), initial=0.0) > VISIBLE * top)


def draw_panel(axis, panel, title, top):
    times, highest = envelope(panel.seconds, panel.active)
    axis.fill_between(times, 0, highest, step="post", facecolor=ACTIVE, alpha=0.55, linewidth=0,
                      label="active")
    # A peak of a moment is narrower than the area can show.
    axis.plot(times, highest, drawstyle="steps-post", color=ACTIVE, linewidth=0.4)
    if is_visible(panel.allocated, panel.active, top):
        axis.plot(*envelope(panel.seconds, panel.allocated), drawstyle="steps-post",
                  color=ALLOCATED, linewidth=0.7, label="allocated")
    axis.plot(*thin(panel.seconds, panel.split), drawstyle="steps-post", color=SPLIT,
              linewidth=0.6, label="inactive_split")
    if is_visible(panel.stuck, panel.split, top):
        axis.plot(*thin(panel.seconds, panel.stuck), drawstyle="steps-post", color=STUCK,
                  linewidth=0.6, label="unreturnable")
    axis.plot(*envelope(panel.seconds, panel.reserved), drawstyle="steps-post", color=RESERVED,
              linewidth=1.3, label="reserved")
    mark_peak(axis, panel, panel.reserved, RESERVED, 4)
    mark_peak(axis, panel, panel.active, ACTIVE, 2.5)
    axis.set_title(title, fontsize=8, loc="left", color=INK, pad=14)
    words = axis.annotate(name_peaks(panel), (0, 1), xytext=(0, 4), xycoords="axes fraction",
                          textcoords="offset points", fontsize=7, color=INK)
    words.set_in_layout(False)  # may be wider than its panel, into the gap beside it
    axis.tick_params(labelsize=7, color=INK, labelcolor=INK, width=0.6, length=2.5)
    axis.margins(x=0.01)
    axis.grid(axis="y", linewidth=0.3, color="#cccccc")
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_linewidth(0.6)


def layout(panels):
    """Rows and columns: a row a trace with its modes and settings side by side; of one trace a row
    a mode with its settings, if there are several of both; what is only one trace, or only one
    setting, wraps."""
    traces = list(dict.fromkeys(panel.trace for panel in panels))
    modes = list(dict.fromkeys(panel.mode for panel in panels))
    if len(traces) == 1 and 1 < len(modes) < len(panels) and len(panels) % len(modes) == 0:
        columns = len(panels) // len(modes)
        by_mode = sorted(panels, key=lambda panel: modes.index(panel.mode))
        places = {id(panel): divmod(i, columns) for i, panel in enumerate(by_mode)}
        return len(modes), columns, places
    per_trace = max(sum(panel.trace == trace for panel in panels) for trace in traces)
    if per_trace == 1 or len(traces) == 1:
        columns = min(len(panels), 2 if per_trace == 1 else 3)
        places = {id(panel): divmod(i, columns) for i, panel in enumerate(panels)}
        return (len(panels) + columns - 1) // columns, columns, places
    places = {}
    for row, trace in enumerate(traces):
        for column, panel in enumerate(p for p in panels if p.trace == trace):
            places[id(panel)] = (row, column)
    return len(traces), per_trace, places


def tops(panels):
    """Highest value of all panels of a trace, by trace."""
    highest = {}
    for panel in panels:
        top = max(panel.reserved.max(), panel.active.max())
        highest[panel.trace] = max(highest.get(panel.trace, 0.0), top)
    return highest


def share_axes(axes_of):
    """The same limits for all panels of a trace."""
    highest = tops([panel for panel, _ in axes_of])
    for trace, top in highest.items():
        mine = [(panel, axis) for panel, axis in axes_of if panel.trace == trace]
        first = min(panel.seconds[0] for panel, _ in mine)
        last = max(panel.seconds[-1] for panel, _ in mine)
        if 0 < first < 0.02 * last:
            first = 0.0
        for _, axis in mine:
            axis.set_ylim(0, top * 1.16 or 1.0)
            axis.set_xlim(first, last if last > first else first + 1.0)


def draw_legend(figure, axes_of):
    """One legend for all panels; what is drawn in some of them only is there once."""
    found = {}
    for _, axis in axes_of:
        handles, labels = axis.get_legend_handles_labels()
        found.update(zip(labels, handles))
    order = [name for name in ("reserved", "active", "allocated", "inactive_split", "unreturnable")
             if name in found]
    figure.legend([found[name] for name in order], order, loc="upper center", borderaxespad=0.1,
                  ncol=len(order), fontsize=7.5, frameon=False, labelcolor=INK)


def draw(panels, output):
    rows, columns, places = layout(panels)
    width = 3.4 * columns if columns > 1 else 5.0
    plt.rcParams.update({"font.family": "DejaVu Sans", "pdf.fonttype": 42, "svg.fonttype": "none"})
    figure, grid = plt.subplots(rows, columns, figsize=(width, 1.85 * rows + 0.55), squeeze=False)
    axes_of = []
    used = set()
    highest = tops(panels)
    for panel in panels:
        row, column = places[id(panel)]
        axis = grid[row][column]
        used.add((row, column))
        title = f"{panel.trace}: {panel.setting}" if panel.setting else panel.trace
        draw_panel(axis, panel, title, highest[panel.trace])
        axes_of.append((panel, axis))
        if column == 0:
            axis.set_ylabel("GiB", fontsize=7.5, color=INK)
        if row == rows - 1 or (row + 1, column) not in places.values():
            axis.set_xlabel("time in the trace, s", fontsize=7.5, color=INK)
    for row in range(rows):
        for column in range(columns):
            if (row, column) not in used:
                grid[row][column].set_visible(False)
    share_axes(axes_of)
    draw_legend(figure, axes_of)
    head = 0.22 / figure.get_figheight()
    figure.tight_layout(rect=(0, 0, 1, 1 - head), pad=0.4, h_pad=0.9, w_pad=1.2)
    try:
        figure.savefig(output, dpi=200, metadata={} if output.endswith(".svg") else None)
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", required=True, help="picture to write: .pdf, .png or .svg")
    parser.add_argument("timelines", nargs="+", metavar="CSV", help="timelines to draw")
    arguments = parser.parse_args()
    if not arguments.output.endswith(SUFFIXES):
        fail(f"{arguments.output}: the name of a picture ends with .pdf, .png or .svg")
    draw([panel for path in arguments.timelines for panel in read_csv(path)], arguments.output)


if __name__ == "__main__":
    main()
