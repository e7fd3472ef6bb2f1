#!/usr/bin/env python3
"""The plug-in of level one in PyTorch itself, over the simulated driver: check_level1.py PLUGIN DRIVER

PyTorch calls the hooks of a plug-in without a GPU as well, but for those that want CUDA to be started;
malloc and free are called as PyTorch would call them. Status 77: no PyTorch that can do this.
"""

import ctypes
import os
import sys

os.environ.pop("PLEAT_ALLOC_CONF", None)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "compat", "torch"))
try:
    import torch
except ImportError:
    print("no PyTorch here")
    sys.exit(77)
if not hasattr(torch._C, "_cuda_customAllocator") or torch.cuda.is_initialized():
    print("this PyTorch is built without CUDA")
    sys.exit(77)

from pleat_torch import level1  # noqa: E402

PLUGIN, DRIVER = sys.argv[1:]
BYTES = 3 << 20
POOL = (0x123456789ABC, 0xDEF012345678)


def refuses(error, part, function, *arguments):
    try:
        function(*arguments)
    except error as e:
        assert part in str(e), str(e)
    else:
        raise AssertionError(f"no {error.__name__} with '{part}'")


refuses(RuntimeError, "nothing is installed", level1.memory_stats, 0)
refuses(ValueError, "did you mean 'max_split_size_mb'?", level1.make, PLUGIN, "max_split_sise_mb:3")
level1.install(PLUGIN, "max_split_size_mb:40", DRIVER)
assert torch.cuda.memory.get_allocator_backend() == "pluggable"
refuses(RuntimeError, "in use already", level1.install, PLUGIN, "", DRIVER)

plugin = ctypes.CDLL(PLUGIN)
malloc, free = plugin.pleat_torch_malloc, plugin.pleat_torch_free
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
free.restype = None
free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

# Counters and reports.
plain = malloc(BYTES, 0, None)
stats = level1.memory_stats(0)
assert len(stats) == 122 and list(stats) == sorted(stats)
assert stats["max_split_size"] == 40 << 20
assert level1.memory_allocated(0) == BYTES == level1.max_memory_allocated(0)
assert level1.memory_reserved(0) == 20 << 20 == level1.max_memory_reserved(0)
assert "device ID 0" in level1.memory_summary(0) and len(level1.memory_summary(0, True)) > 1000
free(plain, BYTES, 0, None)
level1.reset_peak_memory_stats(0)
level1.reset_accumulated_memory_stats(0)
assert level1.max_memory_allocated(0) == 0
assert level1.memory_stats(0)["allocated_bytes.all.freed"] == 0

# Private pools: PyTorch hands over its pair and its filter.
torch._C._cuda_beginAllocateCurrentThreadToPool(0, POOL)
inside = malloc(BYTES, 0, None)
torch._C._cuda_endAllocateToPool(0, POOL)
outside = malloc(BYTES, 0, None)
assert outside == plain and inside != plain
assert level1.memory_reserved(0) == 40 << 20
free(inside, BYTES, 0, None)
free(outside, BYTES, 0, None)
torch._C._cuda_emptyCache()
assert level1.memory_reserved(0) == 20 << 20, "the pool is in use"
torch._C._cuda_releasePool(0, POOL)
torch._C._cuda_emptyCache()
assert level1.memory_reserved(0) == 0

# The limit.
assert level1.get_per_process_memory_fraction(0) == 1.0
torch._C._cuda_setMemoryFraction(0.5, 0)
assert level1.get_per_process_memory_fraction(0) == 0.5
assert malloc(3 << 30, 0, None) is None
assert level1.memory_stats(0)["num_ooms"] == 1

print(f"level one works in PyTorch {torch.__version__}")
