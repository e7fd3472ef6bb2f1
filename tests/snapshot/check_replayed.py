#!/usr/bin/env python3
"""Compares what `pleat snapshot` made of a memory snapshot of PyTorch with that snapshot:
check_replayed.py ORIGINAL NEW [same-layout]

The program is the same: requests with sizes, streams, times, stacks and metadata, in order. Every
dictionary has the keys of PyTorch's, in its order, with values of its types. With `same-layout`,
segments and blocks are the same as well, but for their addresses and order."""
import collections
import pickle
import sys

SEGMENT = ("device address total_size allocated_size active_size requested_size stream segment_type "
           "segment_pool_id is_expandable frames blocks").split()
BLOCK = "address size requested_size state frames".split()
ENTRY = "action addr size stream time_us compile_context user_metadata".split()
TYPES = {"segment_type": str, "segment_pool_id": tuple, "is_expandable": bool, "frames": list,
         "blocks": list, "state": str, "action": str, "compile_context": str, "user_metadata": str}


def need(is_good, what):
    if not is_good:
        sys.exit(f"{sys.argv[2]}: {what}")


def shape(item, keys):
    need(list(item) == keys, f"keys {list(item)} instead of {keys}")
    for key, value in item.items():
        need(type(value) is TYPES.get(key, int), f"{key} is {value!r}")
    for frame in item.get("frames", []):
        need(list(frame) == ["name", "filename", "line"], f"frame {frame}")


def check_segment(segment):
    shape(segment, SEGMENT)
    need(segment["segment_type"] in ("small", "large"), segment["segment_type"])
    address = segment["address"]
    sums = collections.Counter()
    for block in segment["blocks"]:
        shape(block, BLOCK)
        need(block["address"] == address, f"a gap at {address:#x}")
        address += block["size"]
        state = block["state"]
        need(state in ("active_allocated", "active_pending_free", "inactive"), state)
        sums["total_size"] += block["size"]
        sums["allocated_size"] += block["size"] if state == "active_allocated" else 0
        sums["active_size"] += block["size"] if state != "inactive" else 0
        sums["requested_size"] += block["requested_size"] if state != "inactive" else 0
    for key in ("total_size", "allocated_size", "active_size", "requested_size"):
        need(segment[key] == sums[key], f"{key} {segment[key]}, blocks have {sums[key]}")


def calls(data):
    return [[(e["action"], e["size"], e["stream"], e["time_us"], e["user_metadata"],
              e["compile_context"], e.get("frames", []))
             for e in trace if e["action"] in ("alloc", "free_requested", "oom")]
            for trace in data["device_traces"]]


def layout(data):
    return sorted(repr((s["device"], s["total_size"], s["allocated_size"], s["active_size"],
                        s["requested_size"], s["stream"], s["segment_type"], s["segment_pool_id"],
                        s["is_expandable"],
                        [(b["size"], b["state"], b["frames"],
                          b["state"] != "inactive" and b["requested_size"])
                         for b in s["blocks"]])) for s in data["segments"])


def walk_back(data, device):
    """From the end to the beginning of a history, as viewers go: each entry undoes something that is
    there, and every block lies inside a segment."""
    segments = {s["address"]: s["address"] + s["total_size"]
                for s in data["segments"] if s["device"] == device}
    blocks = {b["address"]: (b["requested_size"], b["state"])
              for s in data["segments"] if s["device"] == device
              for b in s["blocks"] if b["state"] != "inactive"}

    def segment_of(address, size):
        begin = max((a for a in segments if a <= address), default=None)
        return begin if begin is not None and address + size <= segments[begin] else None

    def take(address, size):
        begin = segment_of(address, size)
        need(begin is not None, f"no segment around {address:#x}, {size} bytes")
        end = segments.pop(begin)
        if begin < address:
            segments[begin] = address
        if address + size < end:
            segments[address + size] = end

    def give(address, size):
        end = segments.pop(address + size, address + size)  # of the neighbour behind
        before = next((a for a, e in segments.items() if e == address), address)
        segments[before] = end

    for e in reversed(data["device_traces"][device]):
        address, size = e.get("addr"), e["size"]
        if e["action"] in ("segment_alloc", "segment_map"):
            take(address, size)
        elif e["action"] in ("segment_free", "segment_unmap"):
            give(address, size)
        elif e["action"] == "free_completed":
            need(address not in blocks, f"{address:#x} is free and in use")
            need(segment_of(address, size) is not None, f"{address:#x} is in no segment")
            blocks[address] = size, "active_pending_free"
        elif e["action"] == "free_requested":
            need(blocks.get(address) == (size, "active_pending_free"), f"{address:#x} does not wait")
            blocks[address] = size, "active_allocated"
        elif e["action"] == "alloc":
            need(blocks.pop(address, None) == (size, "active_allocated"), f"{address:#x} not in use")
    return segments, blocks


original = pickle.load(open(sys.argv[1], "rb"))
new = pickle.load(open(sys.argv[2], "rb"))
need(list(new) == list(original), f"keys {list(new)}")
need([type(v) for v in new.values()] == [type(v) for v in original.values()], "types of the lists")
need(list(new["allocator_settings"]) == list(original["allocator_settings"]), "settings")
for key, value in original["allocator_settings"].items():
    need(type(new["allocator_settings"][key]) is type(value), f"type of {key}")
    if isinstance(value, dict):
        need(list(new["allocator_settings"][key]) == list(value), f"keys of {key}")
need(new["external_annotations"] == original["external_annotations"], "annotations")
addresses = [(s["device"], s["address"]) for s in new["segments"]]
need(addresses == sorted(addresses), "segments are not in order")
for segment in new["segments"]:
    check_segment(segment)
need(len(new["device_traces"]) == len(original["device_traces"]), "devices")
for trace in new["device_traces"]:
    for e in trace:
        keys = [k if e["action"] != "oom" or k != "addr" else "device_free" for k in ENTRY]
        shape(e, keys + (["frames"] if "frames" in e else []))
for got, want in zip(calls(new), calls(original)):
    got = got[len(got) - len(want):]  # what was there before the history stands in front
    need(len(got) == len(want), f"{len(got)} calls instead of {len(want)}")
    for i, (a, b) in enumerate(zip(got, want)):
        need(a == b, f"call {i}: {a} instead of {b}")
for device in range(len(new["device_traces"])):
    walk_back(new, device)
if "same-layout" in sys.argv:
    need(layout(new) == layout(original), "segments or blocks differ")
print(f"{sys.argv[2]}: {len(new['segments'])} segments are right")
