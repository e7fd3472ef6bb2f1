"""Pleat as the CUDA memory allocator of PyTorch.

    import pleat_torch
    pleat_torch.install()

before the first use of ``torch.cuda``. Everything else stays as it is: ``torch.cuda.memory_stats``,
snapshots, ``MemPool``, CUDA graphs, sharing between processes and so on ask the new allocator.
"""

import importlib.util
import warnings
from typing import Dict, NamedTuple, Optional, Union

import torch

if importlib.util.find_spec("pleat_torch._C") is not None:
    from . import _C
else:  # not installed by pip: level1.py needs no extension
    _C = None  # type: ignore[assignment]

__all__ = ["Option", "check", "conf", "install", "is_installed", "mode", "set_options", "stats"]

if _C is not None and torch.__version__.split("+")[0].rsplit(".", 1)[0] != _C.torch_version.rsplit(".", 1)[0]:
    raise ImportError(
        f"pleat_torch was built for PyTorch {_C.torch_version}, this is {torch.__version__}; install it "
        "anew: pip install --no-build-isolation --force-reinstall ./compat/torch"
    )

_installed_with: Optional[tuple] = None


class Option(NamedTuple):
    """One option of the configuration."""

    key: str  #: as in the text of a configuration
    value: str
    source: str  #: where the value came from: "default", "PLEAT_ALLOC_CONF", "run-time text", ...
    is_default: bool
    in_effect: bool  #: False: read and kept, but nothing acts on it
    help: str


def _warn() -> None:
    for text in _C.take_warnings():
        warnings.warn(f"pleat_torch: {text}", stacklevel=3)


def install(mode: Optional[str] = "pleated", conf: Optional[str] = None) -> None:
    """Make Pleat the allocator of PyTorch in this process.

    Args:
        mode: ``"pleated"``, ``"classic"`` (decides as PyTorch does by default), ``"torch_expandable"``
            (as PyTorch with ``expandable_segments:True``), or None: as the configuration says.
        conf: a configuration as in ``PLEAT_ALLOC_CONF``, read strictly. None: that variable; if it
            does not exist PyTorch's own variables, read as PyTorch does.

    Raises:
        RuntimeError: CUDA is initialised already, another allocator than the native one is in
            place, or Pleat was installed before with other arguments.
        ValueError: the mode or the configuration is wrong; the message says where.
    """
    global _installed_with
    if _installed_with is not None:
        if _installed_with != (mode, conf):
            raise RuntimeError(
                f"pleat_torch.install{_installed_with} was called before; it cannot be changed to "
                f"install{(mode, conf)}. Options can: pleat_torch.set_options"
            )
        return
    if _C is None:
        raise RuntimeError(
            "the backend of pleat_torch is not built; build and install it with "
            "pip install --no-build-isolation ./compat/torch"
        )
    _C.install(mode, conf)
    _installed_with = (mode, conf)
    _warn()


def is_installed() -> bool:
    """Is Pleat the allocator of this process?"""
    return _C is not None and _C.is_installed()


def _require() -> None:
    if _installed_with is None:
        raise RuntimeError("pleat_torch.install() was not called")


def mode() -> str:
    """The mode in force: "classic", "torch_expandable" or "pleated"."""
    _require()
    return _C.mode()


def conf() -> Dict[str, Option]:
    """Every option in force, by key, and where its value came from."""
    _require()
    return {row[0]: Option(*row) for row in _C.conf()}


def set_options(text: str) -> None:
    """Change options at run time; those that the text does not name stay.

    The text is read strictly, and a refused one changes nothing. PyTorch's own call,
    ``torch._C._accelerator_setAllocatorSettings``, works too: with PyTorch's reading, which resets
    what it does not name.

    Raises:
        ValueError: says in which column the text goes wrong, and what would be right.
    """
    _require()
    _C.set_options(text)
    _warn()


def _index(device: Union[int, str, "torch.device", None]) -> int:
    if device is None:
        return torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    if isinstance(device, int):
        return device
    found = torch.device(device)
    if found.type != "cuda":
        raise ValueError(f"expected a CUDA device, got {found}")
    return found.index if found.index is not None else torch.cuda.current_device()


def stats(device: Union[int, str, "torch.device", None] = None) -> Dict[str, int]:
    """Counters of a device: those of ``torch.cuda.memory_stats`` and Pleat's own, ``pleat.…``."""
    _require()
    index = _index(device)
    result: Dict[str, int] = {}
    if torch.cuda.is_initialized():
        result.update(torch.cuda.memory_stats(index))
    result.update(_C.stats(index))
    return result


def check(device: Union[int, str, "torch.device", None] = None) -> None:
    """Verify every invariant of a device's allocator; for tests.

    Raises:
        RuntimeError: one does not hold; the message names it.
    """
    _require()
    _C.check(_index(device))
