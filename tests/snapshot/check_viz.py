#!/usr/bin/env python3
"""Runs PyTorch's own views over memory snapshots: check_viz.py FILE...

They are in torch/cuda/_memory_viz.py: of the installation that this Python has, or the file that
PLEAT_MEMORY_VIZ names. Without any the test is skipped (status 77)."""
import importlib.util
import os
import pickle
import sys


def find():
    path = os.environ.get("PLEAT_MEMORY_VIZ")
    if path is None:
        spec = importlib.util.find_spec("torch")
        if spec is None:
            print("there is no torch here; PLEAT_MEMORY_VIZ may name its _memory_viz.py")
            sys.exit(77)
        path = os.path.join(os.path.dirname(spec.origin), "cuda", "_memory_viz.py")
    return path


spec = importlib.util.spec_from_file_location("memory_viz", find())
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        data = pickle.load(file)
    views = {
        "trace": viz.trace(data),
        "segsum": viz.segsum(data),
        # The script that draws flame graphs is fetched from the network; its input is enough.
        "segments": viz.segments(data, format_flamegraph=lambda lines: lines),
        "memory": viz.memory(data, format_flamegraph=lambda lines: lines),
        "compare": viz.compare(data["segments"], [], format_flamegraph=lambda lines: lines),
        "trace_plot": viz.trace_plot(data),
        "segment_plot": viz.segment_plot(data),
    }
    for name, text in views.items():
        if not isinstance(text, str) or len(text) < 100 and data["segments"]:
            sys.exit(f"{path}: {name} gives {text!r}")
    print(f"{path}: {', '.join(f'{name} {len(text)} bytes' for name, text in views.items())}")
