#!/usr/bin/env python3
"""Loads what write_samples wrote with Python's own pickle and compares types, order of keys, values
and sharing with what was put in: check_samples.py WRITE_SAMPLES"""
import pickle
import pickletools
import subprocess
import sys
import tempfile

FRAMES, STACKS, SEGMENTS, ENTRIES = 700, 500, 2500, 30000
BLOCKS = SEGMENTS + 2999
ACTIONS = ("alloc free_requested free_completed segment_alloc segment_free segment_map "
           "segment_unmap snapshot oom").split()
STATES = ["inactive", "active_allocated", "active_pending_free"]
# What the web viewer's own reader of pickles knows.
VIEWER = set("APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPUT BINUNICODE EMPTY_DICT "
             "EMPTY_LIST EMPTY_TUPLE FRAME LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE "
             "NEWTRUE NONE PROTO SETITEM SETITEMS SHORT_BINUNICODE STOP TUPLE TUPLE1 TUPLE2 "
             "TUPLE3".split())

name_of = {i: f"f{i}" for i in range(FRAMES)}
name_of[1] = "y" * 200000
name_of[2] = "\udcff"
frames = [{"name": name_of[i], "filename": "a.py" if i % 2 == 0 else "b\ufffd.py", "line": i}
          for i in range(FRAMES)]
stacks = [[frames[(4 * i + k) * 7 % FRAMES] for k in range(4 if i == STACKS - 1 else i % 5)]
          for i in range(STACKS)]


def block(i):
    return {"address": i * 512, "size": i, "requested_size": i // 2, "state": STATES[i % 3],
            "frames": stacks[i % STACKS] if i % 2 == 0 else []}


def segment(i):
    count = 3000 if i == SEGMENTS - 1 else 1
    return {"device": i % 2, "address": 0x7F0000000000 + i, "total_size": 1 << i % 64,
            "allocated_size": 255 + i % 2, "active_size": 65535 + i % 2,
            "requested_size": (1 << 31) - i % 2, "stream": (1 << 64) - 1 - i,
            "segment_type": "small" if i % 2 == 0 else "large", "segment_pool_id": (i % 3, i),
            "is_expandable": i % 5 == 0, "frames": stacks[i % STACKS] if i % 3 == 0 else [],
            "blocks": [block(i + k) for k in range(count)]}


def entry(i):
    action = ACTIONS[i % 9]
    result = {"action": action, "device_free" if action == "oom" else "addr": 2**64 - 1 - i * 512,
              "size": i, "stream": i % 3, "time_us": 1795993711516917 + i, "compile_context": "N/A",
              "user_metadata": "" if i % 4 == 0 else f"m{i * i % 9973}"}
    if i % 2 == 0:
        result["frames"] = stacks[i * 13 % STACKS]
    return result


entries = [entry(i) for i in range(ENTRIES)]
want = {
    "segments": [segment(i) for i in range(SEGMENTS)],
    "device_traces": [[], entries, entries[:1]],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "max_split_size": -2**63,
        "garbage_collection_threshold": 0.8, "expandable_segments": True,
        "pinned_num_register_threads": -1, "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False,
        "roundup_power2_divisions": {str(1 << k): 8 if k == 3 else 0 for k in range(16)}},
    "external_annotations": [{"stage": "START", "name": 'step "1"', "device": 0, "time_us": 1},
                             {"stage": "END", "name": "", "device": 7, "time_us": 2**64 - 1}],
}


def compare(got, wanted, place):
    if type(got) is not type(wanted):
        sys.exit(f"{place}: {type(got)} instead of {type(wanted)}")
    if isinstance(wanted, dict):
        if list(got) != list(wanted):
            sys.exit(f"{place}: keys {list(got)} instead of {list(wanted)}")
        for key in wanted:
            compare(got[key], wanted[key], f"{place}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        if len(got) != len(wanted):
            sys.exit(f"{place}: {len(got)} items instead of {len(wanted)}")
        for i, item in enumerate(wanted):
            compare(got[i], item, f"{place}[{i}]")
    elif got != wanted:
        sys.exit(f"{place}: {got!r} instead of {wanted!r}")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], folder], check=True)
    for protocol in range(2, 6):
        with open(f"{folder}/{protocol}", "rb") as file:
            data = file.read()
        # Python has two readers, one in C and a slow one in Python.
        for load in (pickle._loads, pickle.loads) if protocol == 4 else (pickle.loads,):
            got = load(data)
            compare(got, want, f"protocol {protocol}: ")
        first = got["device_traces"][1][0]["frames"]
        again = got["device_traces"][1][1000]["frames"]
        if first is not again:
            sys.exit(f"protocol {protocol}: equal stacks are not shared")
        names = [op.name for op, _, _ in pickletools.genops(data)]
        if data[1] != protocol or not set(names) <= VIEWER:
            sys.exit(f"protocol {protocol}: opcodes {set(names) - VIEWER}")
        print(f"protocol {protocol}: {len(data)} bytes are right")
