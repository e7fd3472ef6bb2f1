"""Private pools of users: MemPool, use_mem_pool, own allocators."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

import torch

from .support import (MIB, Case, blocks, history, events, is_filled, now, segment_of, segments,
                      set_limit, stats, tensor)


def pool_segments(pool):
    return pool.snapshot(include_traces=False)


def pool_id_at(address):
    return segment_of(address)["segment_pool_id"]


class PoolTest(Case):
    def test_identity_and_count(self):
        first, second = torch.cuda.MemPool(), torch.cuda.MemPool()
        self.assertIsInstance(first.id, tuple)
        self.assertEqual(len(first.id), 2)
        self.assertNotEqual(first.id, second.id)
        self.assertNotEqual(first.id, (0, 0))
        self.assertEqual(first.use_count(), 1)
        with torch.cuda.use_mem_pool(first):
            self.assertEqual(first.use_count(), 2)
        self.assertEqual(first.use_count(), 1)

    def test_memory_comes_from_the_pool_inside_only(self):
        pool = torch.cuda.MemPool()
        before = tensor(24 * MIB)
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
            small = tensor(1000)
        after = tensor(24 * MIB)
        self.assertEqual(pool_id_at(inside.data_ptr()), pool.id)
        self.assertEqual(pool_id_at(small.data_ptr()), pool.id)
        self.assertEqual(pool_id_at(before.data_ptr()), (0, 0))
        self.assertEqual(pool_id_at(after.data_ptr()), (0, 0))
        self.check_books()
        del inside, small

    def test_freed_pool_memory_is_not_for_others(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        del inside
        outside = [tensor(24 * MIB) for _ in range(3)]
        for data in outside:
            self.assertEqual(pool_id_at(data.data_ptr()), (0, 0))

    def test_free_memory_outside_is_not_for_the_pool(self):
        outside = tensor(24 * MIB)
        del outside
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        self.assertEqual(pool_id_at(inside.data_ptr()), pool.id)
        del inside

    def test_pool_reuses_its_own(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        del inside
        before = stats()
        for _ in range(5):
            with torch.cuda.use_mem_pool(pool):
                inside = tensor(24 * MIB)
            del inside
        after = stats()
        for key in ("num_device_alloc", "reserved_bytes.all.current"):
            self.assertEqual(after[key], before[key], key)

    def test_snapshot_of_a_pool_is_of_it_alone(self):
        pool = torch.cuda.MemPool()
        outside = tensor(24 * MIB)
        self.assertEqual(pool.snapshot(), [])
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(40 * MIB)
        found = pool_segments(pool)
        self.assertEqual({s["segment_pool_id"] for s in found}, {pool.id})
        self.assertIsNotNone(segment_of(inside.data_ptr(), found))
        self.assertIsNone(segment_of(outside.data_ptr(), found))
        self.assertEqual(found, [s for s in segments() if s["segment_pool_id"] == pool.id])
        self.assertEqual(pool.snapshot(), found)
        del inside

    def test_deleting_a_pool_returns_its_memory(self):
        reserved = now("reserved_bytes")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = [tensor(24 * MIB), tensor(1000)]
        self.assertGreater(now("reserved_bytes"), reserved)
        inside.clear()
        del pool
        self.assertEqual(now("reserved_bytes"), reserved)
        self.check_books()

    def test_memory_of_a_live_pool_stays(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        del inside
        held = sum(s["total_size"] for s in pool_segments(pool))
        self.assertGreaterEqual(held, 24 * MIB)
        torch.cuda.empty_cache()
        self.assertEqual(sum(s["total_size"] for s in pool_segments(pool)), held)

    def test_tensors_outlive_their_pool(self):
        reserved = now("reserved_bytes")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB, 8)
        del pool
        others = [tensor(24 * MIB, 1) for _ in range(3)]
        self.assertTrue(is_filled(inside, 8))
        self.check_books()
        del inside, others
        torch.cuda.empty_cache()
        self.assertEqual(now("reserved_bytes"), reserved)

    def test_pools_nest(self):
        outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(outer):
            first = tensor(24 * MIB)
            with torch.cuda.use_mem_pool(inner):
                second = tensor(24 * MIB)
            third = tensor(24 * MIB)
        found = [pool_id_at(data.data_ptr()) for data in (first, second, third)]
        self.assertEqual(found, [outer.id, inner.id, outer.id])
        del first, second, third

    def test_pool_is_the_threads_own(self):
        pool = torch.cuda.MemPool()
        seen = []

        def work():
            seen.append(tensor(24 * MIB))

        with torch.cuda.use_mem_pool(pool):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            inside = tensor(24 * MIB)
        self.assertEqual(pool_id_at(seen[0].data_ptr()), (0, 0))
        self.assertEqual(pool_id_at(inside.data_ptr()), pool.id)
        del inside

    def test_side_streams_in_a_pool(self):
        pool = torch.cuda.MemPool()
        side = torch.cuda.Stream()
        with torch.cuda.use_mem_pool(pool), torch.cuda.stream(side):
            inside = tensor(24 * MIB, 4)
        segment = segment_of(inside.data_ptr())
        self.assertEqual((segment["segment_pool_id"], segment["stream"]),
                         (pool.id, side.cuda_stream))
        side.synchronize()
        self.assertTrue(is_filled(inside, 4))
        del inside

    def test_an_exception_leaves_the_pool(self):
        pool = torch.cuda.MemPool()
        with self.assertRaises(KeyError):
            with torch.cuda.use_mem_pool(pool):
                raise KeyError("whatever")
        outside = tensor(24 * MIB)
        self.assertEqual(pool_id_at(outside.data_ptr()), (0, 0))
        self.assertEqual(pool.use_count(), 1)

    def test_running_out_inside_a_pool(self):
        pool = torch.cuda.MemPool()
        set_limit(96 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            with torch.cuda.use_mem_pool(pool):
                tensor(1 << 30)
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB, 2)
        self.assertTrue(is_filled(inside, 2))
        self.check_books()
        del inside

    def test_free_memory_of_pools_is_named_when_out(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(40 * MIB)
        del inside
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            tensor(1 << 30)
        self.assertRegex(str(caught.exception),
                         r"with 40\.00 MiB allocated in private pools \(e\.g\., CUDA Graphs\)")

    def test_statistics_include_pools(self):
        before = stats()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        after = stats()
        key = "requested_bytes.large_pool.current"
        self.assertEqual(after[key], before[key] + 24 * MIB)
        self.check_books()
        del inside

    def test_events_of_a_pool_are_recorded(self):
        pool = torch.cuda.MemPool()
        history()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        address = inside.data_ptr()
        del inside
        seen = [e["action"] for e in events() if e.get("addr") == address]
        self.assertEqual(seen[-3:], ["alloc", "free_requested", "free_completed"])

    def test_blocks_are_not_split_when_asked(self):
        pool = torch.cuda.MemPool(no_split=True)
        with torch.cuda.use_mem_pool(pool):
            inside = [tensor(size) for size in (3 * MIB, 24 * MIB + 1, 5000)]
        states = [b["state"] for b in blocks(pool_segments(pool))]
        self.assertEqual(states, ["active_allocated"] * 3)
        self.check_books()
        inside.clear()

    def test_streams_are_waited_for_in_pools(self):
        pool = torch.cuda.MemPool()
        side = torch.cuda.Stream()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB, 9)
        copy = torch.zeros_like(inside)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            copy.copy_(inside)
        inside.record_stream(side)
        del inside
        with torch.cuda.use_mem_pool(pool):
            others = [tensor(24 * MIB, i) for i in range(2)]
        torch.cuda.synchronize()
        self.assertTrue(is_filled(copy, 9))
        for i, other in enumerate(others):
            self.assertTrue(is_filled(other, i))
        others.clear()
        del other
        self.check_books()


class PoolMisuseTest(Case):
    """Mistakes leave counts behind, so they have a process of their own."""

    def test_a_pool_cannot_be_entered_twice(self):
        pool = torch.cuda.MemPool()
        with self.assertRaisesRegex(RuntimeError, "already recording to mempool_id"):
            with torch.cuda.use_mem_pool(pool):
                with torch.cuda.use_mem_pool(pool):
                    pass
        outside = tensor(24 * MIB, 1)
        self.assertEqual(pool_id_at(outside.data_ptr()), (0, 0))

    def test_a_pool_that_was_not_entered_cannot_be_left(self):
        pool = torch.cuda.MemPool()
        with self.assertRaisesRegex(RuntimeError, "not currently recording to mempool_id"):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool.id)
        self.assertTrue(is_filled(tensor(4 * MIB, 1), 1))


class OwnAllocatorTest(Case):
    """A pool whose segments come from a user's library."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler:
            raise unittest.SkipTest("no C compiler")
        cls.folder = tempfile.mkdtemp()
        cls.path = os.path.join(cls.folder, "libown_allocator.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_allocator.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", cls.path, source, "-ldl"],
                       check=True)
        cls.plugin = torch.cuda.memory.CUDAPluggableAllocator(cls.path, "own_alloc", "own_free")
        cls.library = ctypes.CDLL(cls.path)
        for name in ("own_alloc_count", "own_free_count", "own_live_bytes", "own_smallest"):
            getattr(cls.library, name).restype = ctypes.c_size_t
        cls.library.own_set_limit.argtypes = [ctypes.c_size_t]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)
        super().tearDownClass()

    def test_segments_come_from_the_users_library(self):
        made = self.library.own_alloc_count()
        pool = torch.cuda.MemPool(self.plugin.allocator())
        reserved = now("reserved_bytes")
        with torch.cuda.use_mem_pool(pool):
            inside = [tensor(24 * MIB, 1), tensor(1000, 2), tensor(900, 3)]
        self.assertGreaterEqual(self.library.own_alloc_count(), made + 2)
        self.assertGreaterEqual(self.library.own_smallest(), 2 * MIB)
        self.assertEqual(now("reserved_bytes") - reserved, self.library.own_live_bytes())
        self.assertEqual({s["is_expandable"] for s in pool_segments(pool)}, {False})
        for value, data in enumerate(inside):
            self.assertTrue(is_filled(data, value + 1))
        self.check_books()
        inside.clear()
        del data, pool
        torch.cuda.empty_cache()
        self.assertEqual(self.library.own_live_bytes(), 0)
        self.assertEqual(self.library.own_alloc_count(), self.library.own_free_count())
        self.assertEqual(now("reserved_bytes"), reserved)

    def test_pool_caches_what_the_library_gave(self):
        pool = torch.cuda.MemPool(self.plugin.allocator())
        with torch.cuda.use_mem_pool(pool):
            tensor(24 * MIB)
            made = self.library.own_alloc_count()
            for _ in range(10):
                tensor(24 * MIB)
        self.assertEqual(self.library.own_alloc_count(), made)

    def test_a_library_without_memory_is_out_of_memory(self):
        self.library.own_set_limit(64 * MIB)
        pool = torch.cuda.MemPool(self.plugin.allocator())
        try:
            with torch.cuda.use_mem_pool(pool):
                with self.assertRaises(torch.OutOfMemoryError):
                    tensor(200 * MIB)
                inside = tensor(24 * MIB, 5)
        finally:
            self.library.own_set_limit(0)
        self.assertTrue(is_filled(inside, 5))
        del inside

    def test_pool_helps_out_when_memory_is_short(self):
        pool = torch.cuda.MemPool(self.plugin.allocator(), use_on_oom=True)
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(200 * MIB)
        del inside
        set_limit(32 * MIB)
        outside = tensor(150 * MIB, 6)
        self.assertEqual(pool_id_at(outside.data_ptr()), pool.id)
        self.assertTrue(is_filled(outside, 6))
        self.check_books()
        del outside
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(400 * MIB)

    def test_a_pool_does_not_help_unless_asked(self):
        pool = torch.cuda.MemPool(self.plugin.allocator())
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(200 * MIB)
        del inside
        set_limit(32 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(150 * MIB)

    def test_allocator_in_use_cannot_be_swapped(self):
        with self.assertRaisesRegex(RuntimeError, "Can't swap an already initialized allocator"):
            torch.cuda.memory.change_current_allocator(self.plugin)
        self.assertTrue(is_filled(tensor(4 * MIB, 1), 1))
