"""What pleat_torch does before CUDA starts: options, where they come from, and errors.

Needs neither a GPU nor a driver; every case runs in a process of its own.
"""

import os
import subprocess
import sys

# (name, environment, program); the program prints "good" at its end.
CASES = [
    ("nothing is installed by the import", {}, """
import pleat_torch
assert not pleat_torch.is_installed()
fails(RuntimeError, "install() was not called", pleat_torch.mode)
fails(RuntimeError, "install() was not called", pleat_torch.set_options, "expandable_segments:True")
"""),
    ("numbers in errors", {}, """
import pleat_torch
pleat_torch.install()
fails(ValueError, "no device 1000", pleat_torch.stats, 1000)
fails(RuntimeError, "invalid fraction:2.5. Please", torch._C._cuda_setMemoryFraction, 2.5, 0)
"""),
    ("wrong modes and texts change nothing", {}, """
import pleat_torch
fails(ValueError, "'fast'; modes are classic, torch_expandable and pleated", pleat_torch.install, "fast")
fails(ValueError, "column 1: unknown key 'expandable_segment'; did you mean 'expandable_segments'",
      pleat_torch.install, "classic", "expandable_segment:True")
fails(ValueError, "backend:cudaMallocAsync cannot be combined", pleat_torch.install, "classic",
      "backend:cudaMallocAsync")
assert not pleat_torch.is_installed()
pleat_torch.install("classic")
assert pleat_torch.is_installed() and pleat_torch.mode() == "classic"
"""),
    ("twice the same is fine, something else is not", {}, """
import pleat_torch
pleat_torch.install("pleated")
pleat_torch.install("pleated")
fails(RuntimeError, "was called before", pleat_torch.install, "classic")
assert pleat_torch.mode() == "pleated"
"""),
    ("a text of its own", {"PLEAT_ALLOC_CONF": "max_split_size_mb:64,pleated_slack:0.5",
                           "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}, """
import pleat_torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pleat_torch.install("classic")
assert any("PLEAT_ALLOC_CONF is used" in str(w.message) for w in caught), [str(w.message) for w in caught]
conf = pleat_torch.conf()
assert conf["max_split_size_mb"].value == str(64 << 20)
assert conf["max_split_size_mb"].source == "PLEAT_ALLOC_CONF"
assert conf["pleated_slack"].value == "0.5"
assert conf["expandable_segments"].value == "False"
settings = torch._C._cuda_memorySnapshot(None)["allocator_settings"]
assert settings["max_split_size"] == 64 << 20, settings
"""),
    ("a wrong text of its own", {"PLEAT_ALLOC_CONF": "max_split_size_mb=64"}, """
import pleat_torch
fails(ValueError, "PLEAT_ALLOC_CONF, column 18", pleat_torch.install)
assert not pleat_torch.is_installed()
"""),
    ("PyTorch's variables, read as PyTorch does",
     {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb,40,garbage_collection_threshold:0.5x,"}, """
import pleat_torch
pleat_torch.install("pleated")
conf = pleat_torch.conf()
assert conf["max_split_size_mb"].value == str(40 << 20)
assert conf["max_split_size_mb"].source == "PYTORCH_CUDA_ALLOC_CONF"
assert conf["garbage_collection_threshold"].value == "0.5"
assert conf["expandable_segments"].value == "True" and pleat_torch.mode() == "pleated"
text = torch._C._cuda_memorySnapshot(None)["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"]
assert text == "max_split_size_mb,40,garbage_collection_threshold:0.5x,expandable_segments:True", text
"""),
    ("a wrong text of PyTorch's", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:1"}, """
import pleat_torch
fails(ValueError, "max_split_size_mb too small, must be >= 20", pleat_torch.install)
"""),
    ("the mode as the text says", {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, """
import pleat_torch
pleat_torch.install(mode=None)
assert pleat_torch.mode() == "pleated"
pleat_torch.set_options("expandable_policy:torch")
assert pleat_torch.mode() == "torch_expandable"
"""),
    ("the mode of the call goes before the text",
     {"PLEAT_ALLOC_CONF": "expandable_segments:True,expandable_policy:torch"}, """
import pleat_torch
pleat_torch.install("classic")
assert pleat_torch.mode() == "classic"
"""),
    ("PyTorch's own run-time call is followed", {}, """
import pleat_torch
pleat_torch.install("pleated", conf="max_split_size_mb:64,pleated_slack:0.25,pinned_num_register_threads:4")
torch._C._accelerator_setAllocatorSettings("garbage_collection_threshold:0.5")
conf = pleat_torch.conf()
assert conf["garbage_collection_threshold"].value == "0.5"
assert conf["garbage_collection_threshold"].source == "run-time text"
assert conf["max_split_size_mb"].value == "-1"      # PyTorch resets what it does not name
assert conf["pleated_slack"].value == "0.25"        # of which it knows nothing
assert conf["pinned_num_register_threads"].value == "4"
assert pleat_torch.mode() == "pleated"
torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
assert pleat_torch.mode() == "classic"
torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
assert pleat_torch.mode() == "pleated"
fails(ValueError, "divisions has to be power of 2", torch._C._accelerator_setAllocatorSettings,
      "garbage_collection_threshold:0.7,roundup_power2_divisions:3")
assert pleat_torch.conf()["garbage_collection_threshold"].value == "0.7"
"""),
    ("options of ours keep what they do not name, and reach PyTorch's", {}, """
import pleat_torch
pleat_torch.install("classic", conf="max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:8]")
pleat_torch.set_options("garbage_collection_threshold:0.75")
before = pleat_torch.conf()
fails(ValueError, "options: column", pleat_torch.set_options, "garbage_collection_threshold:0.5,max_split_size_mb:1")
assert pleat_torch.conf() == before
settings = torch._C._cuda_memorySnapshot(None)["allocator_settings"]
assert settings["max_split_size"] == 64 << 20 and settings["garbage_collection_threshold"] == 0.75
assert settings["roundup_power2_divisions"]["512"] == 2 and settings["roundup_power2_divisions"]["1024"] == 8
assert not settings["expandable_segments"]
"""),
    ("another backend is not replaced", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, """
import pleat_torch
fails(RuntimeError, "PyTorch uses the allocator 'cudaMallocAsync'", pleat_torch.install)
"""),
    ("before CUDA starts", {}, """
import pleat_torch
pleat_torch.install()
assert torch.cuda.get_allocator_backend() == "native"
assert torch.cuda.memory_stats() == {}
torch.cuda.empty_cache()
assert pleat_torch.stats()["pleat.mappings"] == 0
fails(RuntimeError, "did you call init?", torch._C._cuda_memoryStats, 0)
fails(ValueError, "no device 99", pleat_torch.stats, 99)
fails(ValueError, "expected a CUDA device", pleat_torch.stats, "cpu")
pleat_torch.check()
"""),
]

PRELUDE = """
import torch
def fails(kind, text, function, *arguments):
    try:
        result = function(*arguments)
    except kind as error:
        assert text in str(error), f"'{text}' is not in '{error}'"
        return
    raise AssertionError(f"{function} gave {result} instead of {kind.__name__}")
"""
VARIABLES = ("PLEAT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def main():
    base = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    failed = 0
    for name, variables, program in CASES:
        done = subprocess.run([sys.executable, "-c", PRELUDE + program + "\nprint('good')"],
                              env={**base, **variables}, capture_output=True, text=True)
        if done.returncode != 0 or not done.stdout.endswith("good\n"):
            print(f"{name}: {done.stdout}{done.stderr}", file=sys.stderr)
            failed += 1
    print(f"check_options: {len(CASES) - failed} of {len(CASES)} cases are good")
    return failed != 0


sys.exit(main())
