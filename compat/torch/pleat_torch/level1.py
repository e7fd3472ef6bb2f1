"""Pleat in place of PyTorch's CUDA allocator, through torch.cuda.memory.CUDAPluggableAllocator.

    import pleat_torch.level1
    pleat_torch.level1.install()

before the first use of CUDA. That is PyTorch's public interface for allocators of others, and has its
limits: PyTorch raises no exception when memory runs out (the text comes on standard error), and most
functions that report on memory raise "does not yet support". Their likes here read Pleat's counters.
"""

import ctypes
import json
import os

_library = None

# PyTorch's setter, our function.
_HOOKS = (
    ("set_init_fn", "pleat_torch_init"),
    ("set_reset_fn", "pleat_torch_reset"),
    ("set_memory_fraction_fn", "pleat_torch_memory_fraction"),
    ("set_base_alloc_fn", "pleat_torch_base_alloc"),
    ("set_record_stream_fn", "pleat_torch_record_stream"),
    ("set_begin_allocate_to_pool", "pleat_torch_begin_allocate_to_pool"),
    ("set_end_allocate_to_pool_fn", "pleat_torch_end_allocate_to_pool"),
    ("set_release_pool", "pleat_torch_release_pool"),
)


def library_path():
    """Where the plug-in lies: PLEAT_TORCH_LIBRARY, beside this module, or where the linker finds it."""
    given = os.environ.get("PLEAT_TORCH_LIBRARY")
    if given:
        return given
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libpleat_torch.so")
    return beside if os.path.exists(beside) else "libpleat_torch.so"


def _open(path):
    library = ctypes.CDLL(path)
    library.pleat_torch_last_error.restype = ctypes.c_char_p
    library.pleat_torch_configure.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.pleat_torch_stats_json.restype = ctypes.c_size_t
    library.pleat_torch_stats_json.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    library.pleat_torch_summary.restype = ctypes.c_size_t
    library.pleat_torch_summary.argtypes = [
        ctypes.c_int, ctypes.c_bool, ctypes.c_char_p, ctypes.c_size_t]
    library.pleat_torch_fraction.restype = ctypes.c_double
    library.pleat_torch_fraction.argtypes = [ctypes.c_int]
    return library


def _address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def make(path=None, conf=None, driver=None):
    """The torch.cuda.memory.CUDAPluggableAllocator with every hook set, not yet in use.

    path: file of the plug-in. conf: configuration text, instead of the environment's. driver: file of
    the CUDA driver. Raises ValueError if the configuration is refused.
    """
    global _library
    import torch

    path = path or library_path()
    library = _open(path)
    if library.pleat_torch_configure(conf.encode() if conf is not None else None,
                                     driver.encode() if driver is not None else None) != 0:
        raise ValueError(library.pleat_torch_last_error().decode(errors="replace"))
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "pleat_torch_malloc", "pleat_torch_free")
    for setter, function in _HOOKS:
        set_hook = getattr(allocator.allocator(), setter, None)
        if set_hook is not None:  # other versions of PyTorch have other hooks
            set_hook(_address(library, function))
    _library = library
    return allocator


def install(path=None, conf=None, driver=None):
    """Use Pleat for all CUDA memory of PyTorch; before the first use of CUDA. Arguments as of make.

    Raises RuntimeError, and changes nothing, if CUDA or another plug-in is in use already.
    """
    import torch

    if torch.cuda.is_initialized() or torch.cuda.memory.get_allocator_backend() == "pluggable":
        raise RuntimeError("pleat_torch.level1: CUDA or a plug-in is in use already; install at the "
                           "start, before the first tensor on a GPU")
    allocator = make(path, conf, driver)
    torch.cuda.memory.change_current_allocator(allocator)
    return allocator


def _text(write, *arguments):
    if _library is None:
        raise RuntimeError("pleat_torch.level1: nothing is installed")
    function = getattr(_library, write)
    size = 1 << 15
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = function(*arguments, buffer, size)
        if length < size:
            return buffer.value.decode()
        size = length + 1


def _index(device):
    if device is None:
        import torch

        return torch.cuda.current_device() if torch.cuda.is_available() else 0
    return device if isinstance(device, int) else (device.index or 0)


def memory_stats(device=None):
    """As torch.cuda.memory_stats: a dictionary with PyTorch's names in their order."""
    return json.loads(_text("pleat_torch_stats_json", _index(device)))


def memory_summary(device=None, abbreviated=False):
    """As torch.cuda.memory_summary."""
    return _text("pleat_torch_summary", _index(device), bool(abbreviated))


def memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None):
    if _library is not None:
        _library.pleat_torch_reset_peak_stats(_index(device))


def reset_accumulated_memory_stats(device=None):
    if _library is not None:
        _library.pleat_torch_reset_accumulated_stats(_index(device))


def get_per_process_memory_fraction(device=None):
    return _library.pleat_torch_fraction(_index(device)) if _library is not None else 1.0
