#!/usr/bin/env python3
"""Checks a file of --perfetto against what trace viewers need of Chrome's trace format:
check_perfetto.py FILE NAME...; a NAME is the beginning of the name of a process, in order."""
import json
import sys

COUNTERS = {"reserved", "allocated", "active", "inactive_split", "unreturnable"}
KEYS = {"M": {"name", "pid", "tid", "args"}, "C": {"name", "pid", "ts", "args"},
        "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
        "i": {"name", "cat", "s", "pid", "tid", "ts", "args"}}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def need(is_good, what):
    if not is_good:
        sys.exit(f"{sys.argv[1]}: {what}")


data = json.load(open(sys.argv[1], encoding="utf-8"))
need(set(data) == {"displayTimeUnit", "otherData", "traceEvents"}, f"keys {list(data)}")
processes, tracks, counters, ends, times = {}, {}, {}, {}, {}
for event in data["traceEvents"]:
    kind = event["ph"]
    need(set(event) - {"ph"} == KEYS[kind], f"{event}")
    need(isinstance(event["pid"], int) and isinstance(event["args"], dict), f"{event}")
    if kind == "M" and event["name"] == "process_name":
        processes[event["pid"]] = event["args"]["name"]
    elif kind == "M" and event["name"] == "thread_name":
        tracks[event["pid"], event["tid"]] = event["args"]["name"]
    elif kind == "C":
        place = event["pid"], event["name"]
        need(list(event["args"]) == ["bytes"] and isinstance(event["args"]["bytes"], int), f"{event}")
        need(event["args"]["bytes"] >= 0 and event["ts"] >= times.get(place, 0), f"{event}")
        times[place] = event["ts"]
        counters.setdefault(event["pid"], set()).add(event["name"])
    elif kind == "X":
        place = event["pid"], event["tid"]
        need(tracks[place] == "driver (simulated)", f"{event}")
        need(is_number(event["ts"]) and is_number(event["dur"]) and event["dur"] >= 0, f"{event}")
        need(event["ts"] >= ends.get(place, 0) - 0.002, f"slices overlap: {event}")
        need(event["args"]["cost_us"] <= event["dur"] + 0.002, f"{event}")
        ends[place] = event["ts"] + event["dur"]
    elif kind == "i":
        need(tracks[event["pid"], event["tid"]] == "allocator" and event["s"] == "p", f"{event}")
names = [processes[pid] for pid in sorted(processes)]
need(len(names) == len(sys.argv) - 2, f"processes {names}")
for name, wanted in zip(names, sys.argv[2:]):
    need(name.startswith(wanted), f"processes {names}")
for pid in processes:
    need(counters.get(pid) == COUNTERS, f"counters of {pid}: {counters.get(pid)}")
