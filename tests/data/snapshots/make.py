#!/usr/bin/env python3
"""Writes the small snapshots of this folder, made by hand: make.py [FOLDER]"""
import os
import pickle
import sys

MIB = 1 << 20
A, B, C = 0x7F0000000000, 0x7F0000200000, 0x7F0010000000


def frame(name, line):
    return {"name": name, "filename": "train.py", "line": line}


STACK = [frame("step", 10), frame("main", 3)]
SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": False,
            "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False,
            "roundup_power2_divisions": {str(1 << k): 0 for k in range(16)}}


def entry(action, addr, size, stream, time_us, frames=None):
    result = {"action": action, "device_free" if action == "oom" else "addr": addr, "size": size,
              "stream": stream, "time_us": 1700000000000000 + time_us, "compile_context": "N/A",
              "user_metadata": ""}
    return result if frames is None else {**result, "frames": frames}


def block(address, size, requested, state, frames=()):
    return {"address": address, "size": size, "requested_size": requested, "state": state,
            "frames": list(frames)}


def segment(device, stream, kind, blocks, pool=(0, 0), expandable=False):
    used = [b for b in blocks if b["state"] == "active_allocated"]
    active = [b for b in blocks if b["state"] != "inactive"]
    return {"device": device, "address": blocks[0]["address"],
            "total_size": sum(b["size"] for b in blocks),
            "allocated_size": sum(b["size"] for b in used),
            "active_size": sum(b["size"] for b in active),
            "requested_size": sum(b["requested_size"] for b in active), "stream": stream,
            "segment_type": kind, "segment_pool_id": pool, "is_expandable": expandable,
            "frames": [], "blocks": blocks}


def snapshot(segments, traces, **settings):
    return {"segments": segments, "device_traces": traces,
            "allocator_settings": {**SETTINGS, **settings}, "external_annotations": []}


def two_devices():
    """Histories of devices 0 and 2, whole; a free waits for stream 7 on device 2."""
    zero = [entry("segment_alloc", A, 2 * MIB, 0, 0, STACK),
            entry("alloc", A, 1000, 0, 1, STACK),
            entry("alloc", A + 1024, 512, 0, 2, STACK),
            entry("free_requested", A, 1000, 0, 5, STACK),
            entry("free_completed", A, 1000, 0, 5, STACK),
            entry("snapshot", 0, 512, 0, 6)]
    two = [entry("segment_alloc", B, 20 * MIB, 7, 10),
           entry("alloc", B, 3 * MIB, 7, 11),
           entry("free_requested", B, 3 * MIB, 7, 12),
           entry("alloc", B + 3 * MIB, 4 * MIB, 7, 13),
           entry("free_completed", B, 3 * MIB, 7, 14),
           entry("alloc", B, 2 * MIB, 7, 15)]
    segments = [
        segment(0, 0, "small", [block(A, 1024, 1000, "inactive"),
                                block(A + 1024, 512, 512, "active_allocated", STACK),
                                block(A + 1536, 2 * MIB - 1536, 0, "inactive")]),
        segment(2, 7, "large", [block(B, 2 * MIB, 2 * MIB, "active_allocated"),
                                block(B + 2 * MIB, MIB, 0, "inactive"),
                                block(B + 3 * MIB, 4 * MIB, 4 * MIB, "active_allocated"),
                                block(B + 7 * MIB, 13 * MIB, 0, "inactive")])]
    return snapshot(segments, [zero, [], two])


def middle():
    """Begins in the middle: a block that is freed, one that waits, one that stays, a segment that
    goes back, and one that nothing happens in."""
    trace = [entry("free_requested", A, 700, 0, 100), entry("free_completed", A, 700, 0, 100),
             entry("free_completed", A + 1024, 600, 0, 101),
             entry("segment_free", C, 20 * MIB, 0, 102),
             entry("alloc", A, 900, 0, 103)]
    segments = [
        segment(0, 0, "small", [block(A, 1024, 900, "active_allocated"),
                                block(A + 1024, 1024, 600, "inactive"),
                                block(A + 2048, 512, 100, "active_allocated"),
                                block(A + 2560, 512, 200, "active_pending_free"),
                                block(A + 3072, 2 * MIB - 3072, 0, "inactive")]),
        segment(0, 9, "small", [block(B, 2 * MIB, 0, "inactive")])]
    return snapshot(segments, [trace])


def expandable():
    """Begins in the middle, with expandable segments: 4 MiB of 6 were mapped before, 2 after; 2 MiB
    behind them go back."""
    trace = [entry("segment_unmap", A + 6 * MIB, 2 * MIB, 0, 1),
             entry("segment_map", A + 4 * MIB, 2 * MIB, 0, 2),
             entry("alloc", A + 4 * MIB, 512, 0, 3)]
    segments = [segment(0, 0, "small", [block(A, 4 * MIB, 4 * MIB - 100, "active_allocated"),
                                        block(A + 4 * MIB, 512, 512, "active_allocated"),
                                        block(A + 4 * MIB + 512, 2 * MIB - 512, 0, "inactive")],
                        expandable=True)]
    return snapshot(segments, [trace], expandable_segments=True,
                    PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


def private():
    trace = [entry("segment_alloc", A, 2 * MIB, 0, 0), entry("alloc", A, 512, 0, 1)]
    return snapshot([segment(0, 0, "small", [block(A, 512, 512, "active_allocated"),
                                             block(A + 512, 2 * MIB - 512, 0, "inactive")],
                             pool=(0, 1))], [trace])


def old():
    """As versions before 2.0 wrote it, with keys of nobody and an action of nobody."""
    blocks = [{"size": 1024, "state": "active_allocated", "colour": "red",
               "history": [{"addr": A, "real_size": 1000, "frames": STACK}]},
              {"size": 512, "state": "active_awaiting_free", "history": []},
              {"size": 2 * MIB - 1536, "state": "inactive"}]
    trace = [{"action": "segment_alloc", "addr": A, "size": 2 * MIB, "stream": 0, "frames": STACK},
             {"action": "workspace_snapshot", "addr": 0, "size": 0, "stream": 0},
             {"action": "alloc", "addr": A, "size": 1000, "stream": 0, "frames": STACK},
             {"action": "alloc", "addr": A + 1024, "size": 512, "stream": 0, "frames": STACK},
             {"action": "free_requested", "addr": A + 1024, "size": 512, "stream": 0},
             {"action": "oom", "addr": 5, "size": 1 << 40, "stream": 0}]
    return {"segments": [{"device": 0, "address": A, "total_size": 2 * MIB, "stream": 0,
                          "segment_type": "small", "allocated_size": 1024, "active_size": 1536,
                          "blocks": blocks}],
            "device_traces": [trace], "version": 1}


class Code:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    values = {"middle.4": middle(), "expandable.4": expandable(), "private.4": private(),
              "old.4": old(), "bare_list.4": two_devices()["segments"],
              "no_history.4": snapshot(two_devices()["segments"], [[], [], []]),
              "code.4": {"segments": [Code()]}}
    values.update({f"two_devices.{protocol}": two_devices() for protocol in range(2, 6)})
    for name, value in values.items():
        stem, protocol = name.split(".")
        stem = name.replace(".", "_") if stem == "two_devices" else stem
        with open(f"{folder}/{stem}.pickle", "wb") as file:
            pickle.dump(value, file, int(protocol))


main()
