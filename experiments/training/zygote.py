#!/usr/bin/env python3
"""A process that has imported what the loops need, and forks a fresh one for every run.

    zygote.py [MODULE...]

Requests come on standard input, one a line of JSON: {"loop", "arguments", "log", "seconds"}. Each
is answered by a line {"status", "seconds", "killed"} once its process has ended. The first line on
standard output is {"ready", "can_fork", "import_s"}.

A forked process is as good as a fresh one only while CUDA has not been touched: the driver is asked
whether it was initialised after the imports, and if so can_fork is false and the caller starts
whole processes instead. The environment that chooses the allocator is this process's own, so there
is one such process for every allocator.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback

# Imported when there, so that a loop that needs them finds them loaded.
LIBRARIES = ("torch", "torch.nn.attention", "torch._decomp", "transformers.models.llama",
             "transformers.models.llama.modeling_llama", "peft", "torchvision.models.detection")
NOT_INITIALISED = 3  # CUDA_ERROR_NOT_INITIALIZED


def driver_is_untouched():
    """Has nobody in this process called cuInit?"""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    count = ctypes.c_int()
    return driver.cuDeviceGetCount(ctypes.byref(count)) == NOT_INITIALISED


def import_all(names):
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"zygote: {name}: {error}", file=sys.stderr, flush=True)


def run_child(request):
    """In the new process: run the loop as if it had been started by itself."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    began = time.perf_counter()
    import torch

    import common

    if torch.cuda._is_in_bad_fork():
        print("zygote: CUDA had been initialised before the fork", file=sys.stderr)
        return 3
    return common.run_loop(request["loop"], request["arguments"], began)


def wait(pid, seconds):
    """The status of a child, negative for a signal; kills it when its time is over."""
    deadline = time.monotonic() + seconds
    killed = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), killed
        if time.monotonic() > deadline and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.01)


def answer(line):
    print(json.dumps(line), flush=True)


def main():
    began = time.perf_counter()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import_all(LIBRARIES + tuple(sys.argv[1:]))
    gc.collect()
    gc.freeze()  # nothing of it is collected, so no page is copied for it
    answer({"ready": True, "can_fork": driver_is_untouched(),
            "import_s": time.perf_counter() - began})
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                status = run_child(request)
            except BaseException:
                traceback.print_exc()
                status = 4
            sys.exit(status)  # an orderly end, as users have it
        status, killed = wait(pid, request["seconds"])
        answer({"status": status, "killed": killed, "seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
