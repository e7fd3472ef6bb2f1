"""What all loops share: arguments, determinism, the measured steps and the record of a run.

A loop is a module with

    NAME       its name
    SIZES      {"full": {...}, "tiny": {...}}; tiny runs on a CPU in seconds
    WARM_UP    steps that are run and recorded, but not timed
    prepare(run)  builds the model, returns step(i) -> loss, a number or a tensor of one element
    finish()   if there is one: called after the last step and the statistics

and everything random in it comes from the run's generators, so that losses depend on the seed and
the number of steps alone. A record is one dictionary, written as one line of JSON.
"""

import argparse
import gc
import importlib
import json
import os
import random
import statistics
import sys
import time
import traceback
import warnings

import allocators

LOOPS = ("gpt_varlen", "lora_ckpt", "detection", "generate_kv", "graph_step")
SEVERAL_GPUS = ("fsdp2",)
TIMED_AT_LEAST = 4  # steps, whatever the time allows


def parser(name):
    result = argparse.ArgumentParser(prog=name, description=f"The training loop {name}.")
    result.add_argument("--allocator", choices=allocators.ALL, default="native-classic")
    result.add_argument("--conf", default="", help="more of PYTORCH_CUDA_ALLOC_CONF")
    result.add_argument("--size", choices=("full", "tiny"), default="full")
    result.add_argument("--steps", type=int, default=0, help="number of steps, warm-up included")
    result.add_argument("--seconds", type=float, default=6.0,
                        help="without --steps: stop when steps have taken so long")
    result.add_argument("--max-steps", type=int, default=400, help="bound of --seconds")
    result.add_argument("--seed", type=int, default=1)
    result.add_argument("--limit-gib", type=float, default=0.0,
                        help="memory that the process may take from the device; 0: all")
    result.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    result.add_argument("--output", default="", help="file of the record; default: standard output")
    return result


class Run:
    """Where a loop runs, its sizes and its sources of randomness."""

    def __init__(self, torch, arguments, sizes):
        self.device = choose_device(torch, arguments.device)
        self.sizes = sizes
        self.seed = arguments.seed
        self.rng = random.Random(arguments.seed)
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(arguments.seed)
        torch.manual_seed(arguments.seed)  # of all devices

    @property
    def is_cuda(self):
        return self.device.type == "cuda"


def choose_device(torch, wanted):
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def make_deterministic(torch):
    """Only algorithms that give the same bits twice; an operator that has none is an error. (To warn
    only is not enough: flash attention then takes its faster backward pass, which has none.)"""
    torch.use_deterministic_algorithms(True)
    # Filling fresh memory would hide reads of it, and costs time that users do not pay.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def deterministic_attention():
    """Attention kernels that have a deterministic backward pass in every length used here."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])


def hexadecimal(loss):
    return float(loss).hex()


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(share * len(ordered)) - 1))]


def measure(torch, run, arguments, step, record):
    """Run the steps. Python's collector works between them only: what it frees, and so what the
    allocator sees, does not depend on which modules happen to be loaded."""
    record["losses"], record["step_seconds"], used = [], [], []
    gc.collect()
    gc.freeze()
    gc.disable()
    begin = time.perf_counter()
    count = 0
    while True:
        if run.is_cuda:
            torch.cuda.synchronize(run.device)
        start = time.perf_counter()
        loss = hexadecimal(step(count))
        if run.is_cuda:
            torch.cuda.synchronize(run.device)
        record["step_seconds"].append(time.perf_counter() - start)
        record["losses"].append(loss)
        count += 1
        gc.collect()
        if run.is_cuda:
            free, total = torch.cuda.mem_get_info(run.device)
            used.append(total - free)
            record["device_used_peak"] = max(used)
        if arguments.steps:
            if count >= arguments.steps:
                break
        elif count >= arguments.max_steps:
            break
        elif (time.perf_counter() - begin >= arguments.seconds
              and count >= record["warm_up"] + TIMED_AT_LEAST):
            break
    gc.enable()


def finish(record, warm_up):
    """The derived numbers of a record."""
    times = record["step_seconds"][warm_up:] or record["step_seconds"]
    if times:
        record["step_median_s"] = statistics.median(times)
        record["step_p90_s"] = percentile(times, 0.9)
        record["steps_sum_s"] = sum(times)
    stats = record["stats"]
    record["peak_reserved"] = stats.get("reserved_bytes.all.peak")
    record["peak_allocated"] = stats.get("allocated_bytes.all.peak")
    record["num_alloc_retries"] = stats.get("num_alloc_retries")
    record["steps"] = len(record["losses"])


def execute(name, arguments, began):
    """One run of a loop; its record, also when the loop fails."""
    import_begin = time.perf_counter()
    import torch

    loop = importlib.import_module(name)
    imported = time.perf_counter()
    record = {"loop": name, "allocator": arguments.allocator, "conf": arguments.conf,
              "size": arguments.size, "seed": arguments.seed, "warm_up": loop.WARM_UP,
              "limit_gib": arguments.limit_gib, "rank": int(os.environ.get("RANK", "0")),
              "torch": torch.__version__, "error": "", "losses": [], "step_seconds": [],
              "stats": {}, "import_s": imported - import_begin}
    run = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            allocators.install(arguments.allocator)
            record["install_s"] = time.perf_counter() - imported
            make_deterministic(torch)
            run = Run(torch, arguments, loop.SIZES[arguments.size])
            if run.is_cuda:
                torch.cuda.set_device(run.device)
                record["gpu"] = torch.cuda.get_device_name(run.device)
                if arguments.limit_gib:
                    limit = arguments.limit_gib * 2**30
                    total = torch.cuda.get_device_properties(run.device).total_memory
                    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
            build_begin = time.perf_counter()
            step = loop.prepare(run)
            if run.is_cuda:
                torch.cuda.synchronize(run.device)
            record["build_s"] = time.perf_counter() - build_begin
            measure(torch, run, arguments, step, record)
        except Exception as error:  # the record says what happened, the runner goes on
            traceback.print_exc()
            record["error"] = f"{type(error).__name__}: {error}"[:2000]
    record["device"] = str(run.device) if run else ""
    try:
        record["stats"] = allocators.statistics(arguments.allocator, run.device) if run else {}
    except Exception as error:
        traceback.print_exc()
        record["error"] = record["error"] or f"statistics: {type(error).__name__}: {error}"[:2000]
    if hasattr(loop, "finish") and not record["error"]:
        loop.finish()
    words = ("does not have a deterministic", "nondeterministic", "non-deterministic")
    record["nondeterministic"] = sorted({str(w.message).split(".")[0][:200] for w in caught
                                         if any(word in str(w.message) for word in words)})
    finish(record, loop.WARM_UP)
    record["total_s"] = time.perf_counter() - began
    return record


def write(record, path):
    line = json.dumps(record)
    if not path:
        print(line, flush=True)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(line + "\n")


def run_loop(name, words, began):
    """Parse, execute, write; exit status 0 when the loop came through."""
    arguments = parser(name).parse_args(words)
    record = execute(name, arguments, began)
    path = arguments.output
    if path and record["rank"]:
        path = f"{path}.{record['rank']}"
    if path or not record["rank"]:
        write(record, path)
    return 1 if record["error"] else 0


def main(name):
    """A loop as a program. Starts itself anew when the environment of the allocator is not set."""
    arguments = parser(name).parse_args()
    wanted = allocators.environment(arguments.allocator, arguments.conf)
    if not allocators.is_set(wanted):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
        os.execve(sys.executable, [sys.executable, script] + sys.argv[1:],
                  allocators.merged(wanted))
    sys.exit(run_loop(name, sys.argv[1:], time.perf_counter()))
