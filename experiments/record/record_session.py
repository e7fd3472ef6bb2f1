#!/usr/bin/env python3
"""Record a session of PyTorch's own CUDA caching allocator for `pleat verify`.

A seeded random program allocates, frees, marks streams and empties the cache; after every call all
statistics, the address and the allocator's own events are written down. Needs PyTorch 2.11 and a
GPU. The settings are those of PYTORCH_CUDA_ALLOC_CONF, which is set here before torch is imported.

    record_session.py OUT.oracle.gz --seed 7 [--settings S] [--limit-mib N] [--streams N] [--calls N]
                      [--sizes mixed|small|large|edge] [--busy]
"""
import argparse
import gzip
import os
import random
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--settings", default="")
    parser.add_argument("--limit-mib", type=int, default=0, help="0: no limit")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--calls", type=int, default=2500)
    parser.add_argument("--sizes", choices=("mixed", "small", "large", "edge"), default="mixed")
    parser.add_argument("--busy", action="store_true", help="keep stream 2 busy now and then")
    return parser.parse_args()


class Recorder:
    """Performs calls on PyTorch and writes each down with what it did."""

    def __init__(self, torch, out, streams, limit_bytes, settings):
        self.torch = torch
        self.out = out
        self.total = torch.cuda.get_device_properties(0).total_memory
        self.fraction = limit_bytes / self.total if limit_bytes else 0
        if limit_bytes:
            torch.cuda.set_per_process_memory_fraction(self.fraction)
            limit_bytes = int(self.fraction * self.total)
        made = sorted((torch.cuda.Stream() for _ in range(streams - 1)), key=lambda s: s.cuda_stream)
        self.streams = [torch.cuda.default_stream()] + made
        self.number = {s.cuda_stream: i for i, s in enumerate(self.streams)}
        self.keys = sorted(torch.cuda.memory_stats())
        self.last = torch.cuda.memory_stats()
        self.live = {}
        self.next_id = 0
        version = torch.__version__
        name = torch.cuda.get_device_name(0).replace("NVIDIA ", "")
        self.write("pleat-oracle 1")
        self.write(f"recorded torch {version} device {name}")
        self.write(f"settings {settings or '-'}")
        self.write(f"total_memory {self.total}")
        self.write(f"limit {limit_bytes}")
        self.write(f"fraction {self.fraction}")
        self.write(f"streams {streams}")
        self.write("keys " + " ".join(self.keys))
        self.write("base " + " ".join(str(self.last[k]) for k in self.keys))
        self.history()

    def write(self, line):
        self.out.write(line + "\n")

    def history(self):
        """Begin an empty history of the allocator's events."""
        self.torch.cuda.memory._record_memory_history(
            enabled="all", context=None, stacks="python", max_entries=100000, clear_history=True)

    def finish_call(self, line):
        """Write a call, its events and the statistics that it changed."""
        self.write(line)
        shown = {"segment_alloc", "segment_free", "segment_map", "segment_unmap", "free_completed"}
        snapshot = self.torch.cuda.memory._snapshot()
        for entry in snapshot["device_traces"][0]:
            if entry["action"] in shown:
                stream = self.number[entry["stream"]]
                self.write(f" {entry['action']} {entry['addr']:#x} {entry['size']} {stream}")
        self.history()
        now = self.torch.cuda.memory_stats()
        changed = " ".join(f"{i}={now[k]}" for i, k in enumerate(self.keys) if now[k] != self.last[k])
        self.write((" stats " + changed).rstrip())
        self.last = now

    def alloc(self, size, stream):
        try:
            with self.torch.cuda.stream(self.streams[stream]):
                tensor = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            self.finish_call(f"oom {size} {stream}")
            return
        self.live[self.next_id] = (tensor, stream)
        self.finish_call(f"alloc {self.next_id} {size} {stream} {tensor.data_ptr():#x}")
        self.next_id += 1

    def free(self, number):
        del self.live[number]
        self.finish_call(f"free {number}")

    def record(self, number, stream):
        self.live[number][0].record_stream(self.streams[stream])
        self.finish_call(f"record {number} {stream}")

    def empty(self):
        self.torch.cuda.empty_cache()
        self.finish_call("empty")

    def sync(self):
        self.torch.cuda.synchronize()
        self.finish_call("sync")

    def busy(self, stream):
        with self.torch.cuda.stream(self.streams[stream]):
            self.torch.cuda._sleep(3_000_000_000)
        self.finish_call(f"busy {stream}")

    def reset_peak(self):
        self.torch.cuda.reset_peak_memory_stats()
        self.finish_call("reset_peak")

    def reset_acc(self):
        self.torch.cuda.reset_accumulated_memory_stats()
        self.finish_call("reset_acc")

    def end(self):
        self.write("end")
        for segment in self.torch.cuda.memory._snapshot()["segments"]:
            kind = "expandable" if segment["is_expandable"] else "plain"
            self.write(f" segment {segment['address']:#x} {segment['total_size']} "
                       f"{self.number[segment['stream']]} {segment['segment_type']} {kind} "
                       f"allocated={segment['allocated_size']} active={segment['active_size']} "
                       f"requested={segment['requested_size']}")
            for block in segment["blocks"]:
                self.write(f"  block {block['address']:#x} {block['size']} "
                           f"requested={block['requested_size']} {block['state']}")


def draw_size(rng, kind):
    mib = 1 << 20
    if kind == "edge":
        base = rng.choice((512, 1024, mib, 2 * mib, 10 * mib, 20 * mib, 30 * mib, 64 * mib))
        return max(1, base + rng.choice((-512, -1, 0, 1, 512)))
    if kind == "small":
        return rng.choice((rng.randint(1, 4096), rng.randint(1, mib)))
    if kind == "large":
        return rng.randint(mib, 120 * mib)
    return rng.choice((rng.randint(1, 16384), rng.randint(1, mib), rng.randint(mib, 10 * mib),
                       rng.randint(10 * mib, 120 * mib)))


def run(recorder, rng, arguments):
    wanted = rng.randint(10, 60)
    busy_left = 0
    for _ in range(arguments.calls):
        drawn = rng.random()
        live = list(recorder.live)
        if busy_left > 0:
            busy_left -= 1
            if busy_left == 0:
                recorder.sync()
                continue
        if drawn < 0.004:
            recorder.empty()
        elif drawn < 0.006:
            recorder.reset_peak()
        elif drawn < 0.007:
            recorder.reset_acc()
        elif drawn < 0.012:
            recorder.sync()
            busy_left = 0
        elif arguments.busy and drawn < 0.02 and busy_left == 0:
            recorder.busy(2)
            busy_left = rng.randint(3, 12)
        elif live and arguments.streams > 1 and drawn < 0.12:
            stream = 2 if arguments.busy else rng.randrange(arguments.streams)
            recorder.record(rng.choice(live), stream)
        elif live and rng.random() < (0.5 if len(live) < wanted else 0.7):
            recorder.free(rng.choice(live))
        else:
            recorder.alloc(draw_size(rng, arguments.sizes), rng.randrange(arguments.streams))
        if rng.random() < 0.01:
            wanted = rng.randint(5, 80)
    if busy_left > 0:
        recorder.sync()


def main():
    arguments = parse_arguments()
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = arguments.settings
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    rng = random.Random(arguments.seed)
    with gzip.open(arguments.out, "wt") as out:
        recorder = Recorder(torch, out, arguments.streams, arguments.limit_mib << 20,
                            arguments.settings)
        run(recorder, rng, arguments)
        recorder.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
