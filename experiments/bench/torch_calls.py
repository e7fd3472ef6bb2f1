#!/usr/bin/env python3
"""What a request costs the host inside PyTorch: tensors made and dropped, under each allocator.

    experiments/bench/torch_calls.py [--pleat FOLDER] [--rounds 5] [--pairs 20000]

Needs PyTorch and a GPU. Each allocator has a process of its own, which waits between its turns;
the turns go round, so that all see the same machine. Prints nanoseconds a pair of allocation and
free, the median of the rounds and the ratio to PyTorch's default in the same round (least to most).
Kinds: one size again and again; 64 sizes from 512 B to 64 MiB, of which 32 are alive at a time.
"""
import argparse
import os
import statistics
import subprocess
import sys

ALLOCATORS = ("native-classic", "native-expandable", "pleat-classic", "pleat-torch_expandable",
              "pleat-pleated")
KINDS = ("512", "3145728", "67108864", "mixed")


def worker(allocator, pairs):
    import random
    import time

    if allocator == "native-expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    if allocator.startswith("pleat-"):
        import pleat_torch

        pleat_torch.install(mode=allocator[len("pleat-"):])
    device = torch.device("cuda", 0)
    chosen = random.Random(5)
    sizes = [int(512 * 2 ** chosen.uniform(0, 17)) for _ in range(64)]

    def one_size(size):
        for _ in range(pairs):
            torch.empty(size, dtype=torch.uint8, device=device)

    def mixed():
        alive = [None] * 32
        for i in range(pairs):
            alive[i % 32] = None
            alive[i % 32] = torch.empty(sizes[i * 29 % 64], dtype=torch.uint8, device=device)

    def run(kind):
        return mixed() if kind == "mixed" else one_size(int(kind))

    for kind in KINDS:
        run(kind)
    print("ready", flush=True)
    for line in sys.stdin:
        kind = line.strip()
        begin = time.perf_counter_ns()
        run(kind)
        print((time.perf_counter_ns() - begin) / pairs, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pleat", help="folder that pleat_torch is imported from")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.pairs)
        return
    environment = dict(os.environ)
    if arguments.pleat:
        environment["PYTHONPATH"] = arguments.pleat + ":" + environment.get("PYTHONPATH", "")
    processes = {}
    for name in ALLOCATORS:
        processes[name] = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", name, "--pairs",
             str(arguments.pairs)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
    for name, process in processes.items():
        if process.stdout.readline().strip() != "ready":
            sys.exit(f"torch_calls: {name} did not start")
    times = {}
    for _ in range(arguments.rounds):
        for kind in KINDS:
            for name, process in processes.items():
                process.stdin.write(kind + "\n")
                process.stdin.flush()
                times.setdefault((kind, name), []).append(float(process.stdout.readline()))
    print(f"{'size':>10}  {'allocator':24}{'ns a pair':>10}  ratio to native-classic")
    for kind in KINDS:
        base = times[kind, "native-classic"]
        for name in ALLOCATORS:
            own = times[kind, name]
            ratios = sorted(a / b for a, b in zip(own, base))
            print(f"{kind:>10}  {name:24}{statistics.median(own):10.0f}  "
                  f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})")
    for process in processes.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
