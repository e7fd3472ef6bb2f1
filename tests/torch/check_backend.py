"""pleat_torch under PyTorch itself: what its functions give, on the simulated GPU (on_fake_gpu).

    check_backend.py MODE [NAME...]

Kernels do nothing there: this is about memory, not about what lies in it. Status 77: pleat_torch or
the simulated GPU is not there. The suite test_allocator.py says the same for real GPUs, and more.
"""

import gc
import os
import subprocess
import sys
import threading
import traceback

try:
    import torch

    import pleat_torch
except ImportError as error:
    print(f"check_backend: skipped, {error}")
    sys.exit(77)

MODE = sys.argv[1]
MB = 1 << 20
GB = 1 << 30
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def take(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def stat(name, device=0):
    return torch.cuda.memory_stats(device)[name]


def fails(kind, text, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        assert text in str(error), f"'{text}' is not in '{error}'"
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


@test
def some_settings_hold_from_the_start_only():
    torch._C._accelerator_setAllocatorSettings(
        f"per_process_memory_fraction:0.01,max_split_size_mb:64,expandable_segments:{MODE != 'classic'}")
    assert stat("max_split_size", 1) == -1
    tensor = take(GB, "cuda:1")
    assert stat("max_split_size", 1) == -1
    assert torch.cuda.get_per_process_memory_fraction(1) == 1.0
    assert torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"] == 64 * MB
    torch._C._accelerator_setAllocatorSettings("per_process_memory_fraction:1.0")
    del tensor


@test
def nothing_is_taken_before_the_first_use():
    assert stat("reserved_bytes.all.current") == 0
    assert take(0).data_ptr() == 0 and stat("allocation.all.allocated") == 0


@test
def counters_follow():
    tensor = take(3 * MB + 5)
    assert stat("requested_bytes.all.current") == 3 * MB + 5
    assert torch.cuda.memory_allocated() == stat("allocated_bytes.large_pool.current") >= 3 * MB + 5
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    assert len(torch.accelerator.memory_stats()) == len(torch.cuda.memory_stats()) == 122
    del tensor
    assert torch.cuda.memory_allocated() == 0 < torch.cuda.memory_reserved()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == 0
    torch.cuda.reset_accumulated_memory_stats()
    assert stat("allocation.all.allocated") == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert pleat_torch.stats()["pleat.mappings"] == 0


@test
def out_of_memory_is_told():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: seen.append(facts))
    text = fails(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 40.00 GiB. GPU 0 has a "
                 "total capacity of 4.00 GiB of which 4.00 GiB is free. ", take, 40 * GB)
    assert "expandable_segments:True to avoid fragmentation.  See documentation" in text
    assert seen == [(0, 40 * GB, 4 * GB, 4 * GB)]
    fails(torch.OutOfMemoryError, "Tried to allocate more than 1EB memory.", take, 1 << 60)
    assert stat("num_ooms") == 1


@test
def threads_are_told_of_their_own_failures():
    wrong = []

    def fail(size):
        for _ in range(100):
            try:
                take(size * GB)
            except torch.OutOfMemoryError as error:
                if f"Tried to allocate {size}.00 GiB. " not in str(error):
                    wrong.append((size, str(error)))

    threads = [threading.Thread(target=fail, args=(1000 + i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


@test
def limits_hold():
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == 0.25
    fails(torch.OutOfMemoryError, " 1024.00 MiB allowed; ", take, 2 * GB)
    fails(RuntimeError, "invalid fraction:2", torch._C._cuda_setMemoryFraction, 2.0, 0)
    torch.cuda.set_per_process_memory_fraction(1.0)
    take(2 * GB)
    torch.cuda.empty_cache()


@test
def raw_memory():
    ptr = torch.cuda.caching_allocator_alloc(1000)
    fails(RuntimeError, "invalid device pointer: 0x", torch.cuda.caching_allocator_delete, ptr + 512)
    torch.cuda.caching_allocator_delete(ptr)
    fails(RuntimeError, f"invalid device pointer: {hex(ptr)}", torch.cuda.caching_allocator_delete, ptr)
    assert torch.cuda.caching_allocator_alloc(0) == 0
    torch.cuda.caching_allocator_delete(0)


@test
def history_is_kept():
    torch.cuda.memory._record_memory_history(stacks="python", clear_history=True)
    torch.cuda.memory._set_memory_metadata("mine")
    tensor, other = take(3 * MB), take(30 * MB)
    del other
    snapshot = torch.cuda.memory._snapshot()
    entries = [entry for entry in snapshot["device_traces"][0] if not entry["action"].startswith("segment")]
    assert [(entry["action"], entry["size"]) for entry in entries] == [
        ("alloc", 3 * MB), ("alloc", 30 * MB), ("free_requested", 30 * MB), ("free_completed", 30 * MB)]
    assert all(entry["user_metadata"] == "mine" and entry["compile_context"] == "N/A" for entry in entries)
    assert all(any(frame["name"] == "take" for frame in entry["frames"]) for entry in entries[:2])
    assert any(frame["name"] == "history_is_kept" for frame in entries[2]["frames"])
    blocks = {block["address"]: block for segment in snapshot["segments"] for block in segment["blocks"]}
    block = blocks[tensor.data_ptr()]
    assert block["state"] == "active_allocated" and block["requested_size"] == 3 * MB
    assert any(frame["name"] == "take" for frame in block["frames"])
    last = torch.cuda.memory._snapshot()["device_traces"][0][-1]
    assert last["action"] == "snapshot" and last["size"] == stat("active_bytes.all.current")
    assert torch._C._cuda_isHistoryEnabled()
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._set_memory_metadata("")
    assert not torch._C._cuda_isHistoryEnabled()
    assert torch.cuda.memory._snapshot()["device_traces"][0] == []


@test
def actions_can_be_left_out():
    torch.cuda.memory._record_memory_history(context=None, skip_actions=["alloc", "segment_alloc", "segment_map"])
    take(MB)
    actions = {entry["action"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]}
    assert actions - {"segment_unmap"} == {"free_requested", "free_completed"}, actions
    torch.cuda.memory._record_memory_history(None)
    fails(RuntimeError, "Unknown TraceEntry action: nothing", lambda: torch.cuda.memory._record_memory_history(
        skip_actions=["nothing"]))


@test
def the_profiler_sees_memory():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        take(5 * MB)
    seen = [event.device_memory_usage for event in profile.events() if event.device_memory_usage]
    assert seen == [5 * MB, -5 * MB], seen


@test
def streams_keep_memory():
    side = torch.cuda.Stream()
    tensor = take(4 * MB)
    tensor.record_stream(side)
    address = tensor.data_ptr()
    del tensor
    assert stat("active_bytes.all.current") == 4 * MB and stat("allocated_bytes.all.current") == 0
    assert take(4 * MB).data_ptr() == address      # the simulated work was over
    assert stat("active_bytes.all.current") == 0


@test
def streams_of_other_devices_keep_memory():
    there = torch.cuda.Stream(device="cuda:1")
    tensor = take(4 * MB)
    tensor.record_stream(there)
    del tensor
    assert stat("active_bytes.all.current") == 4 * MB
    take(4 * MB)
    assert stat("active_bytes.all.current") == 0


@test
def devices_are_apart():
    first, second = take(3 * MB, "cuda:0"), take(5 * MB, "cuda:1")
    assert torch.cuda.memory_allocated(0) == 3 * MB and torch.cuda.memory_allocated(1) == 5 * MB
    with torch.cuda.device(1):
        del first
    with torch.cuda.device(0):
        del second
    assert torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(1) == 0
    copied = take(MB, "cuda:0").to("cuda:1")
    assert copied.device.index == 1 and stat("allocated_bytes.all.current", 1) == MB


@test
def pools_are_apart():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = take(3 * MB)
    outside = take(3 * MB)
    segments = pool.snapshot()
    assert [segment["segment_pool_id"] for segment in segments] == [pool.id]
    addresses = [block["address"] for segment in segments for block in segment["blocks"]
                 if block["state"] == "active_allocated"]
    assert addresses == [inside.data_ptr()] and outside.data_ptr() not in addresses
    assert pool.use_count() == 1
    del inside
    torch.cuda.empty_cache()
    assert len(pool.snapshot()) == 1
    identity = pool.id
    del pool
    gc.collect()
    assert torch._C._cuda_memorySnapshot(identity)["segments"] == []


@test
def pools_that_are_not_split():
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        tensor = take(3 * MB)
    (segment,) = pool.snapshot()
    assert [block["size"] for block in segment["blocks"]] == [segment["total_size"]]
    del tensor


@test
def redirections_are_checked():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        fails(RuntimeError, "already recording to mempool_id", torch._C._cuda_beginAllocateCurrentThreadToPool,
              0, pool.id)
    fails(RuntimeError, "not currently recording to mempool_id", torch._C._cuda_endAllocateToPool, 0, pool.id)


@test
def graphs_keep_their_memory():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result, passing = take(7 * MB), take(100 * MB)
        address = passing.data_ptr()
        del passing
        assert take(100 * MB).data_ptr() == address     # reused inside the graph
    held = torch.cuda.memory_reserved()
    graph.replay()
    del result
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == held
    del graph
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


@test
def frees_wait_for_the_end_of_a_capture():
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    tensor = take(4 * MB)
    tensor.record_stream(side)
    with torch.cuda.graph(graph):
        take(MB)
        del tensor
        take(MB)
        assert stat("active_bytes.all.current") >= 4 * MB
    take(MB)
    assert stat("active_bytes.all.current") < 4 * MB    # what the graph itself holds


@test
def checkpoints_bring_blocks_back():
    identity = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=identity):
        first, second = take(7 * MB), take(7 * MB)
    addresses = {first.data_ptr(), second.data_ptr()}
    assert torch._C._cuda_checkPoolLiveAllocations(0, identity, addresses)
    assert not torch._C._cuda_checkPoolLiveAllocations(0, identity, set())
    state = torch._C._cuda_getCheckpointState(0, identity)
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, identity)
    third = take(7 * MB)
    torch._C._cuda_endAllocateToPool(0, identity)
    torch._C._cuda_releasePool(0, identity)
    assert not torch._C._cuda_checkPoolLiveAllocations(0, identity, addresses)
    storages = [tensor.untyped_storage()._cdata for tensor in (first, second, third)]
    torch._C._cuda_setCheckpointPoolState(0, state, storages, [])
    assert torch._C._cuda_checkPoolLiveAllocations(0, identity, addresses)
    del first, second, third        # tensors of a state that is gone free nothing
    assert torch._C._cuda_checkPoolLiveAllocations(0, identity, addresses)
    for address in addresses:
        torch.cuda.caching_allocator_delete(address)
    assert torch._C._cuda_checkPoolLiveAllocations(0, identity, set())


@test
def settings_at_run_time_are_followed():
    kinds = lambda: {segment["is_expandable"] for segment in torch.cuda.memory_snapshot()}
    torch.cuda.empty_cache()
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
    tensor = take(3 * MB)
    assert kinds() == {False} and pleat_torch.mode() == "classic"
    text = torch.cuda.memory._snapshot()["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"]
    assert text == "expandable_segments:False"
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    other = take(300 * MB)
    assert kinds() == {False, True}
    pleat_torch.set_options(f"expandable_segments:{MODE != 'classic'}")
    assert pleat_torch.mode() == MODE
    del tensor, other
    torch.cuda.empty_cache()


@test
def without_a_cache():
    torch.cuda.caching_allocator_enable(False)
    tensor = take(MB)
    torch.cuda.caching_allocator_enable(True)
    cached = take(MB)
    assert torch.cuda.memory_allocated() == MB
    del tensor
    assert torch.cuda.memory_allocated() == MB
    del cached


@test
def memory_goes_to_another_process():
    if MODE == "classic":
        return      # the simulated driver's handles of plain memory do not leave the process
    program = ("import sys, torch, pleat_torch, pickle\n"
               f"pleat_torch.install({MODE!r})\n"
               "function, arguments = pickle.loads(bytes.fromhex(sys.stdin.readline()))\n"
               "tensor = function(*arguments)\n"
               "print(tensor.numel(), tensor.device)\n"
               "del tensor\n")
    import pickle

    from torch.multiprocessing.reductions import reduce_tensor

    tensor = take(5 * MB)
    text = pickle.dumps(reduce_tensor(tensor)).hex()
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    out, errors = child.communicate(text + "\n", timeout=120)
    del tensor
    gc.collect()
    torch.cuda.ipc_collect()
    assert out == f"{5 * MB} cuda:0\n", out + errors


@test
def many_threads():
    def work(seed):
        try:
            import random

            choose = random.Random(seed)
            live = []
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(400):
                    if choose.random() < 0.6 or not live:
                        live.append(take(choose.choice([100, 5000, MB + 1, 12 * MB])))
                    else:
                        live.pop(choose.randrange(len(live)))
                    if choose.random() < 0.02:
                        torch.cuda.empty_cache()
        except BaseException:
            errors.append(traceback.format_exc())

    errors = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def settle():
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def main():
    pleat_torch.install(MODE)
    try:
        torch.cuda.init()
    except RuntimeError as error:
        print(f"check_backend: skipped, {error}")
        return 77
    if torch.cuda.get_device_properties(0).name != "fake":
        print("check_backend: skipped, this is a real GPU; test_allocator.py is for that")
        return 77
    chosen = [function for function in TESTS if not sys.argv[2:] or function.__name__ in sys.argv[2:]]
    failed = 0
    for function in chosen:
        settle()
        try:
            function()
            settle()
            assert stat("active_bytes.all.current") == 0, "blocks are left"
            pleat_torch.check()
        except Exception:
            failed += 1
            print(f"{function.__name__}: {traceback.format_exc()}", file=sys.stderr)
    print(f"check_backend: mode {MODE}, {len(chosen) - failed} of {len(chosen)} tests are good")
    sys.stdout.flush()
    os._exit(failed != 0) if failed else None
    return 0


sys.exit(main())
