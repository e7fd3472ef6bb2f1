#!/usr/bin/env python3
"""Memory snapshots that were read and written again are the same for Python, in every protocol:
check_rewritten.py REWRITE FILE..."""
import pickle
import subprocess
import sys
import tempfile


def same(got, want, place):
    if type(got) is not type(want):
        sys.exit(f"{place}: {type(got)} instead of {type(want)}")
    if isinstance(want, dict):
        # PyTorch puts the frames of a segment behind its blocks when there are any.
        keys = [key for key in want if key != "frames"]
        if [key for key in got if key != "frames"] != keys or ("frames" in got) != ("frames" in want):
            sys.exit(f"{place}: keys {list(got)} instead of {list(want)}")
        for key in want:
            same(got[key], want[key], f"{place}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        if len(got) != len(want):
            sys.exit(f"{place}: {len(got)} items instead of {len(want)}")
        for i, item in enumerate(want):
            same(got[i], item, f"{place}[{i}]")
    elif got != want:
        sys.exit(f"{place}: {got!r} instead of {want!r}")


for path in sys.argv[2:]:
    with open(path, "rb") as file:
        original = pickle.load(file)
    for protocol in range(2, 6):
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run([sys.argv[1], path, out.name, str(protocol)], check=True)
            data = out.read()
        same(pickle.loads(data), original, f"{path}, protocol {protocol}: ")
        print(f"{path}, protocol {protocol}: {len(data)} bytes, the same")
