"""Builds pleat_torch against the PyTorch that is installed.

    pip install --no-build-isolation ./compat/torch

The C sources of Pleat are compiled into the extension: nothing else of Pleat has to be installed.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import setuptools
from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TORCH_VERSION = "2.11"

try:
    import torch
    from torch.utils import cpp_extension
except ImportError as error:
    sys.exit(
        "pleat_torch is built against the PyTorch that it will run with, and that cannot be "
        f"imported here ({error}).\nInstall PyTorch {TORCH_VERSION} first; then, so that pip does "
        "not build in an environment of its own:\n\n"
        "    pip install --no-build-isolation ./compat/torch\n"
    )


def check_torch():
    """Refuse a PyTorch that this package cannot serve."""
    if not re.match(re.escape(TORCH_VERSION) + r"\.", torch.__version__):
        sys.exit(
            f"pleat_torch is for PyTorch {TORCH_VERSION}; this is {torch.__version__}, whose interface "
            "of allocators may differ."
        )
    if torch.version.cuda is None:
        sys.exit(
            f"pleat_torch needs a PyTorch that was built for CUDA; this is {torch.__version__}."
        )


def check_setuptools():
    """Refuse a setuptools that cannot make a wheel, before it says so in words of its own."""
    if find_spec("setuptools.command.bdist_wheel") is None and find_spec("wheel") is None:
        sys.exit(
            f"pleat_torch needs setuptools 70.1 or newer, or the package wheel; this is setuptools "
            f'{setuptools.__version__} alone.\n\n    pip install "setuptools>=70.1,<82"\n'
        )


def pleat_version():
    """The version of Pleat, written once in its lowest header."""
    text = (ROOT / "vmm/include/pleat/base.h").read_text()
    return re.search(r'PLEAT_VERSION_STRING "([^"]+)"', text).group(1)


def cuda_include_dirs():
    """Where the headers of the CUDA runtime are: a toolkit's, or those that came with PyTorch."""
    dirs = []
    if cpp_extension.CUDA_HOME is not None:
        dirs.append(Path(cpp_extension.CUDA_HOME) / "include")
    packages = Path(torch.__file__).resolve().parent.parent / "nvidia"
    dirs += [packages / "cu13/include", packages / "cuda_runtime/include"]
    found = [str(path) for path in dirs if (path / "cuda_runtime_api.h").is_file()]
    if not found:
        looked = ", ".join(str(path) for path in dirs)
        sys.exit(
            f"pleat_torch needs cuda_runtime_api.h, which is in none of {looked}.\nSet CUDA_HOME to "
            "a CUDA toolkit, or install the package nvidia-cuda-runtime."
        )
    return found[:1]


def shared_cxx_libraries():
    """Full paths of the C++ libraries in use here: PyTorch's, whose streams and exceptions we share."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        mapped = [fields[5] for fields in (line.rstrip("\n").split(None, 5) for line in maps) if len(fields) == 6]
    found = []
    for name in ("libstdc++.so.6", "libgcc_s.so.1"):
        paths = [path for path in mapped if os.path.basename(path).startswith(name)]
        if paths and os.path.isfile(paths[0]):
            found.append(paths[0])
    return found


def check_linked(module):
    """Refuse a module with a C++ library of its own: mixed with PyTorch's it crashes, say where a
    number is written into a message."""

    def read(*options):
        command = ["readelf", "--wide", *options, str(module)]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}
        ).stdout

    is_shared = re.search(r"\(NEEDED\).*\[libstdc\+\+\.so\.6\]", read("--dynamic")) is not None
    symbols = [line.split() for line in read("--symbols").splitlines()]
    # Members of std::ostream that the headers leave to the library.
    own = [row[7] for row in symbols if len(row) >= 8 and row[6] != "UND" and row[7].startswith("_ZNSo9_M_insert")]
    if own or not is_shared:
        Path(module).unlink()
        sys.exit(
            f"pleat_torch: the linker put a copy of libstdc++ into {Path(module).name}"
            + (f" ({own[0]})" if own else "")
            + ", which must use the shared libstdc++.so.6 that PyTorch uses.\nLook for "
            "-static-libstdc++ in LDFLAGS, CXXFLAGS and the compiler's own settings, and for a "
            "libstdc++.so in what `c++ -print-search-dirs` lists."
        )


INCLUDE_DIRS = [
    str(ROOT / name)
    for name in (
        "vmm/include",
        "core/include",
        "compat/include",
        "",
        "vmm",
        "core",
        "compat",
        "compat/torch",
    )
]


def library_sources(folder):
    """The sources that the folder's CMakeLists.txt gives to the library."""
    text = (folder / "CMakeLists.txt").read_text()
    listed = re.search(r"target_sources\(\s*pleat_internal\s+PRIVATE([^)]*)\)", text).group(1)
    return [folder / name for name in listed.split()]


def c_sources():
    """The C sources of the library, and those of the backend."""
    folders = (ROOT / "vmm", ROOT / "core", ROOT / "compat")
    library = [source for folder in folders for source in library_sources(folder)]
    return library + sorted((HERE / "src").glob("*.c"))


def plugin_sources():
    """The C sources of level one beside the library's."""
    return sorted(HERE.glob("plugin*.c"))


def compile_c(source, folder):
    """Compile one C source; returns its object."""
    target = folder / (str(source.relative_to(ROOT).with_suffix("")).replace(os.sep, "_") + ".o")
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-std=c17", "-O2", "-g1", "-fPIC", "-D_GNU_SOURCE", "-DPLEAT_CHECKS=1", "-pthread"]
    command = compiler + flags + [f"-I{path}" for path in INCLUDE_DIRS]
    subprocess.run(command + ["-c", str(source), "-o", str(target)], check=True)
    return str(target)


# All names stay inside, so that what else is in the process does not matter, but those of objects
# that c10's headers define in every library, and of which a process has one: say the configuration,
# a local of an inline function. Functions, their locals and guards, types, their names and tables.
SHARED_NAMES = ("N", "NK", "ZN", "ZNK", "GVN", "GVZN", "GVZNK", "TIN", "TSN", "TVN")


class BuildBackend(cpp_extension.BuildExtension):
    """Compiles the C sources first: PyTorch's own build knows C++ only."""

    def build_extensions(self):
        folder = Path(self.build_temp).resolve() / "pleat"
        folder.mkdir(parents=True, exist_ok=True)
        jobs = int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))
        with ThreadPoolExecutor(jobs) as pool:
            objects = list(pool.map(lambda source: compile_c(source, folder), c_sources()))
            plugin = list(pool.map(lambda source: compile_c(source, folder), plugin_sources()))
        script = folder / "names.map"
        shown = ["PyInit__C"] + [f"_Z{kind}3c10*" for kind in SHARED_NAMES]
        script.write_text("{ global: " + "; ".join(shown) + "; local: *; };\n")
        # These go before what the compiler adds by itself, which may be a static library.
        for extension in self.extensions:
            extension.extra_objects = objects + shared_cxx_libraries()
            extension.extra_link_args = [f"-Wl,--version-script={script}", "-pthread", "-ldl", "-lm"]
        super().build_extensions()
        for extension in self.extensions:
            check_linked(self.get_ext_fullpath(extension.name))
        self.link_plugin(plugin + objects)

    def link_plugin(self, objects):
        """Link level one, which needs nothing but the C library, beside level1.py."""
        package = Path(self.get_ext_fullpath("pleat_torch._C")).parent
        package.mkdir(parents=True, exist_ok=True)
        command = os.environ.get("CC", "cc").split() + ["-shared", "-pthread"] + objects
        names = f"-Wl,--version-script={HERE / 'plugin.map'},-soname,libpleat_torch.so,-z,defs"
        target = package / "libpleat_torch.so"
        subprocess.run(command + [names, "-o", str(target), "-ldl", "-lm"], check=True)


check_torch()
check_setuptools()
setup(
    name="pleat_torch",
    version=pleat_version(),
    description="Pleat as the CUDA memory allocator of PyTorch",
    packages=["pleat_torch"],
    package_data={"pleat_torch": ["py.typed", "_C.pyi"]},
    python_requires=">=3.10",
    ext_modules=[
        cpp_extension.CppExtension(
            name="pleat_torch._C",
            sources=[str(path.relative_to(HERE)) for path in sorted((HERE / "src").glob("*.cpp"))],
            include_dirs=INCLUDE_DIRS + [str(HERE / "src")] + cuda_include_dirs(),
            libraries=["c10_cuda"],
            extra_compile_args={"cxx": ["-O2", "-g1", "-Wall"]},
        )
    ],
    cmdclass={"build_ext": BuildBackend},
    zip_safe=False,
)
