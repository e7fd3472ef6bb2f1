"""Shared by all cases: the backend under test, the clean state between tests, the books.

A test says what holds for every allocator that stands in for PyTorch's: where classic and expandable
segments may differ (segments, addresses, how much is reserved) it says only what is common to both.
"""

import ctypes
import gc
import os
import time
import unittest

import torch

BACKEND_VARIABLE = "PLEAT_TORCH_BACKEND"
BACKENDS = ("native", "native-expandable", "pleat-classic", "pleat-torch_expandable",
            "pleat-pleated")
CONF = "PYTORCH_CUDA_ALLOC_CONF"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ARRAYS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
          "active_bytes", "inactive_split_bytes", "requested_bytes")
PLAIN = ("oversize_allocations", "oversize_segments")
SCALARS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
           "num_device_free", "max_split_size")
KINDS = ("all", "large_pool", "small_pool")
METERS = ("current", "peak", "allocated", "freed")
ALL_KEYS = sorted([f"{a}.{k}.{m}" for a in ARRAYS for k in KINDS for m in METERS]
                  + [f"{p}.{m}" for p in PLAIN for m in METERS] + list(SCALARS))

# Set where fake_cudart.c stands in for the GPU: its memory is the process's own, and of all kernels
# it runs only those that fill bytes and those that wait.
SIMULATED = bool(os.environ.get("PLEAT_FAKE_GPU"))
needs_gpu = unittest.skipIf(SIMULATED, "needs kernels, which a simulated GPU does not run")

_installed = []


def environment(backend):
    """Variables that must be set before torch is imported; None: must not be."""
    return {CONF: "expandable_segments:True" if backend == "native-expandable" else None,
            "PYTORCH_ALLOC_CONF": None, "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1", BACKEND_VARIABLE: backend}


def install_backend():
    """Put the backend named by the environment in place, once a process, before CUDA starts."""
    backend = os.environ.get(BACKEND_VARIABLE, "native")
    if _installed or backend.startswith("native"):
        return
    import pleat_torch

    pleat_torch.install(mode=backend.split("-", 1)[1])
    _installed.append(backend)


def stats():
    return torch.cuda.memory_stats()


def stat(key):
    return torch.cuda.memory_stats()[key]


def now(name):
    """Current value of an array statistic over all pools."""
    return stat(name + ".all.current")


def tensor(size, fill=None):
    """So many bytes on the GPU, on the current stream."""
    made = torch.empty(size, dtype=torch.uint8, device="cuda")
    return made if fill is None else made.fill_(fill)


def is_filled(data, value):
    """Is every byte of that value?"""
    if SIMULATED:
        held = ctypes.string_at(data.data_ptr(), data.numel())
        return held.count(value) == len(held)
    return is_uniform(data, value)


def is_uniform(data, value):
    """The same for numbers of any kind; on a simulated GPU nothing has been computed."""
    if SIMULATED:
        return True
    least, most = torch.aminmax(data)  # no temporary of the same size
    return least.item() == value == most.item()


def segments():
    """Segments of the current device."""
    device = torch.cuda.current_device()
    return [s for s in torch.cuda.memory_snapshot() if s["device"] == device]


def blocks(of=None):
    return [b for s in (segments() if of is None else of) for b in s["blocks"]]


def segment_of(address, of=None):
    for segment in segments() if of is None else of:
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return segment
    return None


def set_limit(extra):
    """Let the process take no more than so many bytes beside what it holds; returns the limit."""
    total = torch.cuda.get_device_properties(0).total_memory
    fraction = (now("reserved_bytes") + extra) / total
    torch.cuda.set_per_process_memory_fraction(fraction)
    return int(fraction * total)


def history(**options):
    """Begin an empty history of events."""
    chosen = dict(enabled="all", context=None, stacks="python", clear_history=True)
    chosen.update(options)
    torch.cuda.memory._record_memory_history(**chosen)


def events():
    return torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]


def apply_settings(text):
    torch._C._accelerator_setAllocatorSettings(text)


def sleep(seconds):
    """Keep the current stream busy for about so long; the clock runs at most at 2 GHz."""
    torch.cuda._sleep(int(seconds * 2.0e9))


def conclusive(scenario, attempts=(0.2, 1.0, 4.0)):
    """Run scenario(seconds), which returns an event that must still be pending when its checks were
    made, and a function with these checks' verdict. Tried again with longer kernels when the GPU
    was too fast, so that a busy host cannot turn a test red or let it pass unseen."""
    for seconds in attempts:
        event, verdict = scenario(seconds)
        in_time = not event.query()
        torch.cuda.synchronize()
        if in_time:
            return verdict()
        del verdict
    raise unittest.SkipTest("the host was too slow to look while a kernel ran")


class Case(unittest.TestCase):
    """Every test begins with an idle GPU, an empty cache, no limit, no history, and leaves so."""

    starts_cuda = True
    exclusive = False  # takes the whole device: run only when asked for, and alone

    @classmethod
    def setUpClass(cls):
        if not torch.backends.cuda.is_built() or not torch.cuda.is_available():
            if os.environ.get("PLEAT_REQUIRE_GPU"):
                raise RuntimeError("PLEAT_REQUIRE_GPU is set, and there is no CUDA device")
            raise unittest.SkipTest("no CUDA device")
        install_backend()
        if cls.starts_cuda:
            torch.cuda.init()
            torch.empty(1, device="cuda")

    def setUp(self):
        if self.starts_cuda:
            self.settle()
            torch.cuda.reset_peak_memory_stats()

    def tearDown(self):
        if not torch.cuda.is_initialized():
            return
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.settle()

    @staticmethod
    def settle():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def check_books(self):
        """Statistics and snapshot describe the same memory, and each is consistent in itself."""
        snapshot = segments()
        seen = stats()
        for name in ARRAYS:
            for meter in METERS[:1]:
                parts = sum(seen[f"{name}.{kind}.{meter}"] for kind in KINDS[1:])
                self.assertEqual(seen[f"{name}.all.{meter}"], parts, name)
            for kind in KINDS:
                self.assertGreaterEqual(seen[f"{name}.{kind}.current"], 0, name)
                self.assertGreaterEqual(seen[f"{name}.{kind}.peak"],
                                        seen[f"{name}.{kind}.current"], name)
        allocated, active, requested, reserved = 0, 0, 0, 0
        end = 0
        for segment in snapshot:
            self.assertGreaterEqual(segment["address"], end, "segments overlap or are not sorted")
            end = segment["address"] + segment["total_size"]
            self.check_segment(segment)
            reserved += segment["total_size"]
            allocated += segment["allocated_size"]
            active += segment["active_size"]
            requested += segment["requested_size"]
        self.assertEqual(seen["reserved_bytes.all.current"], reserved)
        self.assertEqual(seen["allocated_bytes.all.current"], allocated)
        self.assertEqual(seen["active_bytes.all.current"], active)
        self.assertEqual(seen["requested_bytes.all.current"], requested)
        self.assertLessEqual(allocated, active)
        self.assertLessEqual(active, reserved)
        self.assertLessEqual(requested, active)
        counts = [block["state"] for block in blocks(snapshot)]
        self.assertEqual(seen["allocation.all.current"], counts.count("active_allocated"))
        self.assertEqual(seen["active.all.current"],
                         counts.count("active_allocated") + counts.count("active_pending_free"))

    def check_segment(self, segment):
        address = segment["address"]
        sums = {"active_allocated": 0, "active_pending_free": 0, "inactive": 0}
        requested = 0
        for block in segment["blocks"]:
            self.assertEqual(block["address"], address, "blocks of a segment have a gap")
            self.assertGreater(block["size"], 0)
            address += block["size"]
            sums[block["state"]] += block["size"]
            if block["state"] != "inactive":
                requested += block["requested_size"]
                self.assertLessEqual(block["requested_size"], block["size"])
        self.assertEqual(address, segment["address"] + segment["total_size"])
        self.assertEqual(segment["allocated_size"], sums["active_allocated"])
        self.assertEqual(segment["active_size"],
                         sums["active_allocated"] + sums["active_pending_free"])
        self.assertEqual(segment["requested_size"], requested)

    def assert_current(self, wanted, name="allocated_bytes"):
        """A statistic has that value, after giving pending frees a moment."""
        for _ in range(50):
            if now(name) == wanted:
                return
            torch.cuda.synchronize()
            torch.empty(1, device="cuda")  # a malloc looks at what has become free
            time.sleep(0.01)
        self.assertEqual(now(name), wanted, name)
