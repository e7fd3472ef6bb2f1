#!/usr/bin/env python3
"""CuPy over Pleat. Needs a GPU; checks its results.

Library: the first argument, or libpleat.so where the linker finds it.
"""

import ctypes
import sys

import cupy
import numpy

pleat = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libpleat.so")
pleat.pleat_last_error.restype = ctypes.c_char_p
pleat.pleat_cupy_set_stream.argtypes = [ctypes.c_void_p]
pleat.pleat_cupy_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]


def address(name):
    return ctypes.cast(getattr(pleat, name), ctypes.c_void_p).value


functions = cupy.cuda.CFunctionAllocator(
    0, address("pleat_cupy_malloc"), address("pleat_cupy_free"), pleat)


def allocate(size):
    """CuPy tells an allocator no stream, and takes a null pointer for memory."""
    pleat.pleat_cupy_set_stream(cupy.cuda.get_current_stream().ptr)
    memory = functions.malloc(size)
    if size > 0 and memory.ptr == 0:
        raise MemoryError(pleat.pleat_last_error().decode())
    return memory


def main():
    cupy.cuda.set_allocator(allocate)
    x = cupy.arange(1 << 20, dtype=cupy.float64)
    numpy.testing.assert_allclose(float((x * 2 + 1).sum()), float((1 << 20) ** 2))

    side = cupy.cuda.Stream(non_blocking=True)
    for _ in range(20):
        y = cupy.full(1 << 22, 3, dtype=cupy.float32)  # on the default stream
        side.wait_event(cupy.cuda.get_current_stream().record())
        with side:
            total = y.sum()  # on the other
        # The memory of y goes back to the default stream's cache: it must outlast the sum.
        if pleat.pleat_cupy_record_stream(y.data.mem.ptr, y.device.id, side.ptr) != 0:
            raise RuntimeError(pleat.pleat_last_error().decode())
        del y
        cupy.full(1 << 22, 5, dtype=cupy.float32)
        side.synchronize()
        assert float(total) == 3.0 * (1 << 22), float(total)

    try:
        cupy.empty(1 << 50, dtype=cupy.uint8)
        raise AssertionError("a petabyte was handed out")
    except MemoryError as error:
        print("as it should be:", error)
    print("results are right")


if __name__ == "__main__":
    main()
