"""The allocators that a loop can run with: how each is chosen, and its statistics.

`native-*` are PyTorch's own; `pleat-*` replace its allocator as a whole (pleat_torch.install);
`plugin-*` are the pluggable allocator of the same modes (pleat_torch.level1.install), whose numbers
PyTorch cannot show. Nothing here imports torch before it must: one choice is made by the
environment at import.
"""

import os

CONF = "PYTORCH_CUDA_ALLOC_CONF"
COMPARED = ("native-classic", "native-expandable", "native-async", "pleat-classic",
            "pleat-torch_expandable", "pleat-pleated")
PLUGINS = ("plugin-classic", "plugin-torch_expandable", "plugin-pleated")
ALL = COMPARED + PLUGINS

# Exact modes: every number must be that of PyTorch's own allocator.
TWINS = {"pleat-classic": "native-classic", "pleat-torch_expandable": "native-expandable"}

_SETTINGS = {"native-expandable": "expandable_segments:True", "native-async": "backend:cudaMallocAsync"}

_PLUGIN_CONF = {"classic": "expandable_segments:False",
                "torch_expandable": "expandable_segments:True,expandable_policy:torch",
                "pleated": "expandable_segments:True,expandable_policy:pleated"}


def environment(allocator, extra_conf=""):
    """Variables that must be set before torch is imported; None: must not be set."""
    words = [word for word in (_SETTINGS.get(allocator, ""), extra_conf) if word]
    return {
        CONF: ",".join(words) or None,
        "PYTORCH_ALLOC_CONF": None,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        # Importing a library must not start CUDA: processes are forked from warmed ones.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "NCCL_NVLS_ENABLE": "0",
    }


def is_set(wanted):
    """Does the environment of this process agree with those variables?"""
    return all(os.environ.get(name) == value for name, value in wanted.items())


def merged(wanted):
    """This process's environment with those variables set or removed."""
    result = dict(os.environ)
    for name, value in wanted.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def install(allocator):
    """Put the allocator in place; before CUDA is initialised."""
    kind, mode = allocator.split("-", 1)
    if kind == "native":
        return
    import pleat_torch

    if kind == "pleat":
        pleat_torch.install(mode=mode)
    else:
        from pleat_torch import level1

        level1.install(conf=_PLUGIN_CONF[mode])


def statistics(allocator, device):
    """All numbers of the allocator under PyTorch's names; empty without a GPU."""
    if device.type != "cuda":
        return {}
    if allocator.startswith("plugin-"):
        from pleat_torch import level1

        return dict(level1.memory_stats(device.index or 0))
    import torch

    return dict(torch.cuda.memory_stats(device))
