#!/usr/bin/env python3
"""The table of CSV files that experiments/training/run wrote.

    summarize.py FILE.csv [FILE.csv...]

Several files are read as one; rounds of a later file count on from those before.

For every loop and allocator: whether all losses are those of native-classic, bit by bit; the peak of
reserved memory; how long a step takes beside native-classic in the same round (median over rounds,
least to most); retries and failures. Below it, which of the allocator's numbers differ where they
should be equal, and which differ when PyTorch's own allocator is run again.
"""

import argparse
import csv
import json
import statistics
import sys

import allocators

GIB = float(1 << 30)
BASE = "native-classic"
LISTED = 12  # differing numbers that are named; the CSV holds all


def read(path):
    """Rows of the file as dictionaries; lines that begin with # are notes."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for row in rows:
        row["losses"] = json.loads(row["losses"] or "[]")
        row["step_seconds"] = json.loads(row["step_seconds"] or "[]")
        row["stats"] = {name[5:]: value for name, value in row.items()
                        if name.startswith("stat:") and value != ""}
        for name in ("round", "warm_up", "rank"):
            row[name] = int(row[name] or 0)
    return rows


def read_all(paths):
    rows = []
    for path in paths:
        more = read(path)
        first = 1 + max((row["round"] for row in rows), default=-1)
        for row in more:
            row["round"] += first
        rows.extend(more)
    return rows


class Group:
    """All runs of one allocator in one loop, by round."""

    def __init__(self, rows):
        self.all = rows
        self.good = {row["round"]: row for row in rows if not row["error"]}

    def median(self, name):
        values = [float(row[name]) for row in self.good.values() if row[name] not in ("", None)]
        return statistics.median(values) if values else None


def group(rows):
    """{loop: {allocator: Group}} in the order of the file."""
    found = {}
    for row in rows:
        loop = row["loop"] + (f".{row['rank']}" if row["rank"] else "")
        found.setdefault(loop, {}).setdefault(row["allocator"], []).append(row)
    return {loop: {name: Group(runs) for name, runs in by.items()} for loop, by in found.items()}


def losses_equal(groups, name):
    """yes, no (how many steps differ), or why it cannot be said."""
    if BASE not in groups or not groups[BASE].good:
        return "no base"
    wanted = next(iter(groups[BASE].good.values()))["losses"]
    if not groups[name].good:
        return "-"
    worst = 0
    for row in groups[name].good.values():
        if len(row["losses"]) != len(wanted):
            return f"{len(row['losses'])} of {len(wanted)} steps"
        worst = max(worst, sum(a != b for a, b in zip(row["losses"], wanted)))
    return "yes" if worst == 0 else f"NO ({worst} of {len(wanted)})"


def ratios(groups, name):
    """Per round: the median over the steps of time/time of the base, and the same of the sums."""
    by_step = []
    by_sum = []
    if BASE not in groups:
        return by_step, by_sum
    for number, row in groups[name].good.items():
        base = groups[BASE].good.get(number)
        if base is None or len(base["step_seconds"]) != len(row["step_seconds"]):
            continue
        ours = row["step_seconds"][row["warm_up"]:]
        theirs = base["step_seconds"][row["warm_up"]:]
        if ours and sum(theirs) > 0:
            by_step.append(statistics.median(a / b for a, b in zip(ours, theirs)))
            by_sum.append(sum(ours) / sum(theirs))
    return by_step, by_sum


def spread(values):
    if not values:
        return "-"
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def differing(first, second):
    """Names of the numbers that are not equal in two rows."""
    names = set(first["stats"]) | set(second["stats"])
    return {name for name in names if first["stats"].get(name) != second["stats"].get(name)}


def compare_pairs(ours, theirs):
    """Rounds compared, and {name: (ours, theirs)} of the numbers that differed in any of them."""
    found = {}
    count = 0
    for number, row in ours.good.items():
        other = theirs.good.get(number)
        if other is None or not row["stats"] or not other["stats"]:
            continue
        count += 1
        for name in sorted(differing(row, other)):
            found.setdefault(name, (row["stats"].get(name), other["stats"].get(name)))
    return count, found


def compare_reruns(runs):
    """The same, of later rounds of one allocator with its first."""
    rows = [row for row in runs.good.values() if row["stats"]]
    found = {}
    for row in rows[1:]:
        for name in sorted(differing(row, rows[0])):
            found.setdefault(name, (row["stats"].get(name), rows[0]["stats"].get(name)))
    return max(0, len(rows) - 1), found


def name_differences(found):
    words = [f"{name} {a} | {b}" for name, (a, b) in list(found.items())[:LISTED]]
    if len(found) > LISTED:
        words.append(f"and {len(found) - LISTED} more")
    return "; ".join(words)


def statistics_lines(loop, groups):
    """Whether the numbers of exact modes are PyTorch's, and whether PyTorch repeats its own."""
    lines = []
    for name, twin in allocators.TWINS.items():
        if name in groups and twin in groups:
            count, found = compare_pairs(groups[name], groups[twin])
            total = max((len(row["stats"]) for row in groups[twin].good.values()), default=0)
            verdict = "not compared" if not count else (
                f"all {total} equal" if not found else f"{len(found)} of {total} DIFFER: "
                + name_differences(found))
            lines.append(f"{loop}: {name} against {twin}, {count} round(s): {verdict}")
    for name in ("native-classic", "native-expandable"):
        if name in groups:
            count, found = compare_reruns(groups[name])
            if count:
                verdict = "all equal" if not found else f"{len(found)} differ: " + \
                    name_differences(found)
                lines.append(f"{loop}: {name} run {count} time(s) more: {verdict}")
    return lines


def gib(value):
    return "-" if value is None else f"{value / GIB:.2f}"


HEADER = ("loop", "allocator", "losses equal", "reserved", "of base", "allocated", "step ratio",
          "time ratio", "retries", "failed")


def table_rows(rows):
    lines = []
    for loop, groups in group(rows).items():
        base = groups[BASE].median("peak_reserved") if BASE in groups else None
        for name, runs in groups.items():
            reserved = runs.median("peak_reserved")
            by_step, by_sum = ratios(groups, name)
            retries = runs.median("num_alloc_retries")
            lines.append((
                loop, name, losses_equal(groups, name), gib(reserved),
                "-" if not base or reserved is None else f"{reserved / base:.3f}",
                gib(runs.median("peak_allocated")), spread(by_step), spread(by_sum),
                "-" if retries is None else f"{retries:g}",
                f"{sum(bool(row['error']) for row in runs.all)} of {len(runs.all)}"))
    return lines


def text(rows):
    """The whole report."""
    table = [HEADER] + table_rows(rows)
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip()
             for line in table]
    lines.append("reserved and allocated: peaks in GiB, median over rounds; ratios: to "
                 f"{BASE} in the same round, median (least-most)")
    for loop, groups in group(rows).items():
        lines.extend(statistics_lines(loop, groups))
    for row in rows:
        if row["error"]:
            lines.append(f"failed: {row['loop']} {row['allocator']} round {row['round']}: "
                         f"{' '.join(row['error'].split())[:240]}")
    unsure = {(row["loop"], word) for row in rows
              for word in json.loads(row.get("nondeterministic") or "[]")}
    lines.extend(f"not deterministic: {loop}: {word}" for loop, word in sorted(unsure))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("csv", nargs="+")
    arguments = parser.parse_args()
    try:
        rows = read_all(arguments.csv)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"summarize.py: error: {error}")
    print(text(rows))


if __name__ == "__main__":
    main()
