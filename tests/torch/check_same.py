"""Compares pleat_torch with PyTorch's own allocator, call by call.

Two processes run the same random session, one with each allocator: all statistics of
torch.cuda.memory_stats after every call, and the segments and blocks now and then, must be equal.
Addresses are compared by their place in the segment. Runs on the simulated GPU (on_fake_gpu) or on a
real one.

    check_same.py MODE [SEED] [CALLS]

Status 77: PyTorch or pleat_torch is not there.
"""

import importlib.util
import json
import random
import re
import subprocess
import sys

MB = 1 << 20
SIZES = [1, 512, 513, 1 << 10, 100_000, MB - 512, MB, MB + 1, 3 * MB, 10 * MB - 1, 10 * MB, 20 * MB,
         33 * MB + 7]
# Before the first call. A lower max_split_size_mb at run time makes PyTorch free blocks in the middle of a
# segment, so later texts only lift it.
STARTS = [
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:40,roundup_power2_divisions:4",
    "large_segment_size_mb:32,max_split_size_mb:64,garbage_collection_threshold:0.7",
]
SETTINGS = [
    "garbage_collection_threshold:0.8",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "large_segment_size_mb:32",
    "large_segment_size_mb:20",
    "garbage_collection_threshold:0.6,max_split_size_mb:1",
]


def session(seed, calls, mode):
    """The calls, as tuples of a name and arguments."""
    choose = random.Random(seed)
    live, streams, pools = [], [0], []
    next_name = 0
    yield "settings", choose.choice(STARTS)
    for _ in range(calls):
        what = choose.random()
        if what < 0.50 or not live:
            size = choose.choice(SIZES)
            if choose.random() < 0.5:
                size = max(1, int(size * choose.random() * 1.5))
            pool = choose.choice(pools) if pools and choose.random() < 0.3 else None
            yield "alloc", next_name, size, choose.choice(streams), pool
            live.append(next_name)
            next_name += 1
        elif what < 0.86:
            yield "free", live.pop(choose.randrange(len(live)))
        elif what < 0.90:
            yield "record", choose.choice(live), choose.choice(streams)
        elif what < 0.92:
            yield ("empty",)
        elif what < 0.94:
            yield "limit", choose.choice([200, 400, 800, None])
        elif what < 0.95 and len(streams) < 3:
            streams.append(len(streams))
            yield ("stream",)
        elif what < 0.96 and mode == "classic":
            if len(pools) < 2:
                pools.append(len(pools))
                yield ("pool",)
        elif what < 0.97:
            yield "settings", choose.choice(SETTINGS)
        elif what < 0.98:
            yield choose.choice([("reset_peak",), ("reset_sums",)])
        else:
            yield ("snapshot",)


class Player:
    """Plays a session on the allocator of this process."""

    def __init__(self, torch):
        self.torch = torch
        self.live = {}
        self.streams = [torch.cuda.default_stream()]
        self.pools = []

    def alloc(self, name, size, stream, pool):
        torch = self.torch
        with torch.cuda.stream(self.streams[stream]):
            try:
                if pool is None:
                    self.live[name] = torch.empty(size, dtype=torch.uint8, device="cuda")
                else:
                    with torch.cuda.use_mem_pool(self.pools[pool]):
                        self.live[name] = torch.empty(size, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError as error:
                # What the device has free, and who uses it, is another matter in each process.
                return re.sub(r"of which .*? is free\. (.* memory in use\. )?", "", str(error))
        return "served"

    def free(self, name):
        self.live.pop(name, None)
        self.torch.cuda.synchronize()  # so that waiting frees are over for both

    def record(self, name, stream):
        if name in self.live:
            self.live[name].record_stream(self.streams[stream])

    def empty(self):
        self.torch.cuda.empty_cache()

    def limit(self, megabytes):
        total = self.torch.cuda.get_device_properties(0).total_memory
        fraction = 1.0 if megabytes is None else megabytes * MB / total
        self.torch.cuda.set_per_process_memory_fraction(fraction)
        return self.torch.cuda.get_per_process_memory_fraction()

    def stream(self):
        self.streams.append(self.torch.cuda.Stream())

    def pool(self):
        self.pools.append(self.torch.cuda.MemPool())

    def settings(self, text):
        try:
            self.torch._C._accelerator_setAllocatorSettings(text)
        except ValueError as error:  # what stands before the error stays applied
            return str(error)
        return "set"

    def reset_peak(self):
        self.torch.cuda.reset_peak_memory_stats()

    def reset_sums(self):
        self.torch.cuda.reset_accumulated_memory_stats()

    def snapshot(self):
        """Segments without their addresses, in an order that does not depend on them."""
        streams = {stream.cuda_stream: i for i, stream in enumerate(self.streams)}
        keys = ("total_size", "allocated_size", "active_size", "requested_size", "segment_type",
                "segment_pool_id", "is_expandable")
        segments = [
            [str(segment[key]) for key in keys] + [streams[segment["stream"]]] + [
                (block["address"] - segment["address"], block["size"], block["state"],
                 block["requested_size"] if block["state"] != "inactive" else None)
                for block in segment["blocks"]]
            for segment in self.torch.cuda.memory_snapshot()
        ]
        return sorted(segments, key=repr)


def play(mode, seed, calls, is_native):
    """Print what comes of each call, a line each."""
    import torch

    if is_native:
        if mode == "torch_expandable":
            torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    else:
        import pleat_torch

        pleat_torch.install(mode)
    torch.cuda.init()
    player = Player(torch)
    for call in session(seed, calls, mode):
        result = getattr(player, call[0])(*call[1:])
        print(json.dumps([call, result, torch.cuda.memory_stats()]))
    if not is_native:
        pleat_torch.check()


def lines_of(mode, seed, calls, allocator):
    command = [sys.executable, __file__, mode, str(seed), str(calls), allocator]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{allocator}, seed {seed}: {done.stderr}")
    return done.stdout.splitlines()


def compare(mode, seed, calls):
    native = lines_of(mode, seed, calls, "native")
    ours = lines_of(mode, seed, calls, "pleat")
    for index, (expected_line, line) in enumerate(zip(native, ours)):
        if expected_line == line:
            continue
        call, expected, expected_stats = json.loads(expected_line)
        _, result, stats = json.loads(line)
        wrong = {key: (expected_stats[key], stats.get(key)) for key in expected_stats
                 if stats.get(key) != expected_stats[key]}
        sys.exit(f"mode {mode}, seed {seed}, call {index} {call}: PyTorch gave {expected}, Pleat "
                 f"{result}; statistics that differ: {wrong}")
    if len(native) != len(ours):
        sys.exit(f"mode {mode}, seed {seed}: {len(native)} calls of PyTorch, {len(ours)} of Pleat")
    print(f"mode {mode}, seed {seed}: {len(ours)} calls are the same")


def main():
    for name in ("torch", "pleat_torch"):
        if importlib.util.find_spec(name) is None:
            print(f"check_same: skipped, there is no {name}")
            sys.exit(77)
    mode = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    calls = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    if len(sys.argv) > 4:
        play(mode, seed, calls, sys.argv[4] == "native")
    else:
        compare(mode, seed, calls)


main()
