#!/usr/bin/env python3
"""Matrix products on ranges stitched from chunks, beside plain memory, in one process.

Loads the shared library by ctypes, maps shuffled chunks and second views of them through its public
calls, wraps the addresses as PyTorch tensors and multiplies bfloat16 matrices. The clock of a GPU falls as
it warms, so each repetition measures plain memory, the stitched one and plain memory again, and
compares within them. Prints median TFLOP/s, and median and range of the ratio.

    matmul.py LIBRARY [--size N] [--reps N] [--driver FILE]

Exit status: 0 good, 1 a result differs or a call failed, 77 no GPU or no PyTorch here (1 when
PLEAT_REQUIRE_GPU is set).
"""
import argparse
import ctypes
import os
import random
import statistics
import sys
import time

MIB = 1 << 20


def skip(why):
    must_run = "PLEAT_REQUIRE_GPU" in os.environ
    print(("failed: " if must_run else "skipped: ") + why, file=sys.stderr)
    sys.exit(1 if must_run else 77)


class Device:
    """The calls of pleat/vmm.h that are needed here."""

    def __init__(self, library, driver):
        self.lib = ctypes.CDLL(library)
        self.lib.pleat_last_error.restype = ctypes.c_char_p

        class Options(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("driver", ctypes.c_char_p),
                        ("handle_types", ctypes.c_uint32)]

        options = Options(ctypes.sizeof(Options), driver.encode() if driver else None, 0)
        self.vmm = ctypes.c_void_p()
        if self.lib.pleat_cuda_create(0, ctypes.byref(options), ctypes.byref(self.vmm)) != 0:
            skip(self.lib.pleat_last_error().decode())

    def call(self, name, *arguments):
        status = getattr(self.lib, "pleat_vmm_" + name)(self.vmm, *arguments)
        if status != 0:
            sys.exit(f"{name} failed: {self.lib.pleat_last_error().decode()}")

    def make(self, name, number):
        made = ctypes.c_uint64()
        self.call(name, ctypes.c_uint64(number), ctypes.byref(made))
        return made.value


class Stitched:
    """A range of chunks; view() maps all of them once more in another order."""

    def __init__(self, device, size, chunk):
        self.device, self.chunk = device, chunk
        self.count = (size + chunk - 1) // chunk
        self.chunks = [device.make("chunk_create", chunk) for _ in range(self.count)]
        self.views = []

    def view(self):
        u64 = ctypes.c_uint64
        address = self.device.make("address_reserve", self.count * self.chunk)
        random.shuffle(self.chunks)
        for i, chunk in enumerate(self.chunks):
            self.device.call("map", u64(address + i * self.chunk), u64(self.chunk), u64(chunk))
        self.device.call("set_access", u64(address), u64(self.count * self.chunk))
        self.views.append(address)
        return address

    def close(self):
        u64 = ctypes.c_uint64
        for address in self.views:
            self.device.call("unmap", u64(address), u64(self.count * self.chunk))
            self.device.call("address_free", u64(address), u64(self.count * self.chunk))
        for chunk in self.chunks:
            self.device.call("chunk_release", u64(chunk))


def tensor_at(torch, address, size):
    """A size by size bfloat16 tensor over memory that is not PyTorch's."""

    class Memory:
        __cuda_array_interface__ = {"shape": (size * size,), "typestr": "<i2",
                                    "data": (address, False), "version": 2, "strides": None}

    return torch.as_tensor(Memory(), device="cuda").view(torch.bfloat16).view(size, size)


def rate(torch, a, b, c):
    """TFLOP/s of a few products."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(4):
        torch.matmul(a, b, out=c)
    torch.cuda.synchronize()
    return 4 * 2 * a.shape[0] ** 3 / (time.perf_counter() - begin) / 1e12


def measure(torch, tensors, plain, reps):
    """Rates of the tensors, and their ratios to those of plain memory just before and after."""
    rates, ratios = [], []
    before = rate(torch, *plain)
    for _ in range(reps):
        rates.append(rate(torch, *tensors))
        after = rate(torch, *plain)
        ratios.append(2 * rates[-1] / (before + after))
        before = after
    return sorted(rates), sorted(ratios)


def warm(torch, tensors, seconds):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        rate(torch, *tensors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--driver")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        skip("no PyTorch")
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    random.seed(1)
    size = arguments.size
    nbytes = 2 * size * size
    device = Device(arguments.library, arguments.driver)
    torch.manual_seed(1)
    inputs = [torch.randn(size, size, device="cuda", dtype=torch.float32).bfloat16()
              for _ in range(2)]
    plain = [i.clone() for i in inputs] + [torch.empty_like(inputs[0])]
    other = [i.clone() for i in inputs] + [torch.empty_like(inputs[0])]
    warm(torch, plain, 3.0)
    want = plain[2].float().sum(dim=0)
    is_good = True

    def report(name, tensors):
        nonlocal is_good
        rates, ratios = measure(torch, tensors, plain, arguments.reps)
        same = bool(torch.equal(tensors[2].float().sum(dim=0), want))
        is_good = is_good and same
        print(f"matmul {name:22s} {statistics.median(rates):7.1f} TFLOP/s  "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} - {ratios[-1]:.3f})"
              f"{'' if same else '  RESULT DIFFERS'}", flush=True)

    report("other plain memory", other)
    for chunk in (64 * MIB, 20 * MIB, 2 * MIB):
        stitched = Stitched(device, 3 * nbytes, chunk)
        for name in (f"{chunk // MIB} MiB chunks", f"{chunk // MIB} MiB second view"):
            address = stitched.view()
            tensors = [tensor_at(torch, address + i * nbytes, size) for i in range(3)]
            for to, source in zip(tensors, inputs):
                to.copy_(source)
            report(name, tensors)
        torch.cuda.synchronize()
        del tensors
        stitched.close()
    report("other plain, again", other)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
