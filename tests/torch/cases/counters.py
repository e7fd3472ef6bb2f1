"""Statistics: which there are, what moves them, how they are reset and shown."""

import random
import unittest
import warnings

import torch

from .support import (ALL_KEYS, ARRAYS, GIB, KIB, KINDS, METERS, MIB, Case, is_filled, now, stat,
                      stats, tensor)


class BeforeStartTest(Case):
    """Reports before CUDA has been used; this class must not start it itself."""

    starts_cuda = False

    def test_reports_are_empty_until_cuda_starts(self):
        if torch.cuda.is_initialized():
            raise unittest.SkipTest("CUDA is in use already in this process")
        self.assertEqual(torch.cuda.memory_stats(), {})
        self.assertEqual(torch.cuda.memory_stats_as_nested_dict(), {})
        self.assertEqual(torch.cuda.memory_allocated(), 0)
        self.assertEqual(torch.cuda.max_memory_reserved(), 0)
        torch.cuda.empty_cache()
        with self.assertRaises(KeyError):
            torch.cuda.memory_summary(0)
        self.assertFalse(torch.cuda.is_initialized())

    def test_starting_cuda_allocates_nothing(self):
        torch.cuda.init()
        self.assertEqual(sorted(torch.cuda.memory_stats()), ALL_KEYS)
        if torch.cuda.max_memory_allocated() == 0:
            self.assertEqual(torch.cuda.memory_reserved(), 0)
            self.assertEqual(torch.cuda.memory_snapshot(), [])


class CountersTest(Case):
    def test_keys_are_complete_and_sorted(self):
        seen = stats()
        self.assertEqual(len(ALL_KEYS), 122)
        self.assertEqual(list(seen), ALL_KEYS)
        for key, value in seen.items():
            self.assertIs(type(value), int, key)

    def test_nested_form_holds_the_same(self):
        nested = torch.cuda.memory_stats_as_nested_dict()
        flat = stats()
        for name in ARRAYS:
            self.assertEqual(list(nested[name]), ["all", "small_pool", "large_pool"])
            for kind in KINDS:
                for meter in METERS:
                    self.assertEqual(nested[name][kind][meter], flat[f"{name}.{kind}.{meter}"])
        self.assertEqual(nested["max_split_size"], flat["max_split_size"])

    def test_device_can_be_named_in_every_way(self):
        held = tensor(3 * MIB)
        index = torch.cuda.current_device()
        wanted = stats()
        for device in (index, torch.device("cuda", index), f"cuda:{index}", None):
            self.assertEqual(torch.cuda.memory_stats(device), wanted)
        with self.assertRaises((RuntimeError, AssertionError)):
            torch.cuda.memory_stats(torch.cuda.device_count() + 3)
        del held

    def test_allocation_and_free_move_the_numbers(self):
        before = stats()
        held = tensor(1000)
        during = stats()

        def rise(name, pool="all"):
            key = f"{name}.{pool}.current"
            return during[key] - before[key]

        self.assertEqual(rise("allocation"), 1)
        self.assertEqual(rise("active"), 1)
        self.assertEqual(rise("requested_bytes"), 1000)
        self.assertEqual(rise("allocated_bytes"), 1024)
        self.assertEqual(rise("active_bytes"), 1024)
        self.assertEqual(rise("allocated_bytes", "small_pool"), 1024)
        self.assertEqual(rise("allocated_bytes", "large_pool"), 0)
        del held
        after = stats()
        for name in ("allocation", "active", "requested_bytes", "allocated_bytes", "active_bytes"):
            key = f"{name}.all.current"
            self.assertEqual(after[key], before[key], key)
        self.assertEqual(after["allocation.all.freed"], before["allocation.all.freed"] + 1)
        self.assertEqual(after["allocation.all.allocated"],
                         before["allocation.all.allocated"] + 1)

    def test_small_sizes_are_rounded_to_512(self):
        for size in (1, 511, 512, 513, 1023, 1024, 70001, 700000, MIB - 1, MIB):
            before = now("allocated_bytes")
            held = tensor(size)
            self.assertEqual(now("allocated_bytes") - before, -(-size // 512) * 512, size)
            self.assertEqual(held.data_ptr() % 512, 0)
            del held

    def test_large_sizes_go_to_the_large_pool(self):
        for size in (MIB + 1, 3 * MIB, 10 * MIB - 512, 10 * MIB, 21 * MIB + 7, 100 * MIB):
            before = stats()
            held = tensor(size)
            after = stats()
            grown = (after["allocated_bytes.large_pool.current"]
                     - before["allocated_bytes.large_pool.current"])
            self.assertGreaterEqual(grown, size)
            self.assertLessEqual(grown, size + 2 * MIB)
            self.assertEqual(after["allocated_bytes.small_pool.current"],
                             before["allocated_bytes.small_pool.current"])
            del held

    def test_cache_serves_again_without_the_driver(self):
        for size in (4096, 5 * MIB, 64 * MIB):
            held = tensor(size)
            before = stats()
            for _ in range(20):
                del held
                held = tensor(size)
            after = stats()
            for key in ("num_device_alloc", "num_device_free", "reserved_bytes.all.current"):
                self.assertEqual(after[key], before[key], (size, key))
            del held

    def test_empty_cache_returns_what_is_free(self):
        kept = tensor(6 * MIB, 5)
        freed = [tensor(64 * MIB) for _ in range(4)]
        reserved = now("reserved_bytes")
        count = stat("num_device_free")
        freed.clear()
        self.assertEqual(now("reserved_bytes"), reserved)
        torch.cuda.empty_cache()
        self.assertLessEqual(now("reserved_bytes"), reserved - 4 * 64 * MIB)
        self.assertGreater(stat("num_device_free"), count)
        self.assertTrue(is_filled(kept, 5))
        self.check_books()

    def test_empty_cache_counts_its_synchronisation(self):
        count = stat("num_sync_all_streams")
        torch.cuda.empty_cache()
        torch.cuda.empty_cache()
        self.assertEqual(stat("num_sync_all_streams"), count + 2)

    def test_peaks_stay_until_reset(self):
        base = now("allocated_bytes")
        held = tensor(32 * MIB)
        top = now("allocated_bytes")
        del held
        self.assertEqual(stat("allocated_bytes.all.peak"), top)
        self.assertEqual(torch.cuda.max_memory_allocated(), top)
        self.assertGreaterEqual(torch.cuda.max_memory_reserved(), top)
        torch.cuda.reset_peak_memory_stats()
        seen = stats()
        for name in ARRAYS:
            for kind in KINDS:
                self.assertEqual(seen[f"{name}.{kind}.peak"], seen[f"{name}.{kind}.current"])
        self.assertEqual(seen["allocated_bytes.all.peak"], base)

    def test_accumulated_reset_keeps_the_current(self):
        held = tensor(3 * MIB)
        torch.cuda.empty_cache()
        current = now("allocated_bytes")
        torch.cuda.reset_accumulated_memory_stats()
        seen = stats()
        for name in ARRAYS:
            for kind in KINDS:
                self.assertEqual(seen[f"{name}.{kind}.allocated"], 0)
                self.assertEqual(seen[f"{name}.{kind}.freed"], 0)
        for key in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
                    "num_device_free"):
            self.assertEqual(seen[key], 0, key)
        self.assertEqual(seen["allocated_bytes.all.current"], current)
        del held
        self.assertEqual(stat("allocation.all.freed"), 1)

    def test_short_functions_read_the_same_numbers(self):
        held = tensor(5 * MIB)
        seen = stats()
        self.assertEqual(torch.cuda.memory_allocated(), seen["allocated_bytes.all.current"])
        self.assertEqual(torch.cuda.memory_reserved(), seen["reserved_bytes.all.current"])
        self.assertEqual(torch.cuda.max_memory_allocated(), seen["allocated_bytes.all.peak"])
        self.assertEqual(torch.cuda.max_memory_reserved(), seen["reserved_bytes.all.peak"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(torch.cuda.memory_cached(), seen["reserved_bytes.all.current"])
            self.assertEqual(torch.cuda.max_memory_cached(), seen["reserved_bytes.all.peak"])
            torch.cuda.reset_max_memory_allocated()
            torch.cuda.reset_max_memory_cached()
        self.assertEqual({w.category for w in caught}, {FutureWarning})
        del held

    def test_empty_tensors_cost_nothing(self):
        before = stats()
        held = [torch.empty(0, device="cuda"), torch.empty((3, 0, 5), device="cuda")]
        self.assertEqual([t.data_ptr() for t in held], [0, 0])
        self.assertEqual(stats(), before)

    def test_many_sizes_keep_the_books(self):
        rng = random.Random(11)
        held = []
        for number in range(1500):
            if held and (rng.random() < 0.48 or len(held) > 120):
                data, value = held.pop(rng.randrange(len(held)))
                if number % 10 == 0:
                    self.assertTrue(is_filled(data, value))
                del data
            else:
                size = rng.choice((rng.randint(1, 4 * KIB), rng.randint(1, MIB),
                                   rng.randint(MIB, 12 * MIB), rng.randint(10 * MIB, 40 * MIB)))
                value = rng.randrange(256)
                held.append((tensor(size, value), value))
            if number % 100 == 50:
                self.check_books()
            if number % 400 == 399:
                torch.cuda.empty_cache()
        for data, value in held:
            self.assertTrue(is_filled(data, value))

    def test_driver_sees_the_device(self):
        free, total = torch.cuda.mem_get_info()
        self.assertLess(0, free)
        self.assertLessEqual(free, total)
        self.assertGreater(total, GIB)
        self.assertIsInstance(torch.cuda.list_gpu_processes(), str)


class SummaryTest(Case):
    ROWS = ("Allocated memory", "Active memory", "Requested memory", "GPU reserved memory",
            "Non-releasable memory", "Allocations", "Active allocs", "GPU reserved segments",
            "Non-releasable allocs", "Oversize allocations", "Oversize GPU segments")

    def test_every_row_is_there(self):
        held = tensor(3 * MIB)
        text = torch.cuda.memory_summary()
        lines = text.splitlines()
        self.assertTrue(text.endswith("|\n"))
        self.assertEqual({len(line) for line in lines}, {77})
        names = [line[1:24].strip() for line in lines]
        for row in self.ROWS:
            self.assertIn(row, names)
        self.assertEqual(names.count("from large pool"), 9)
        self.assertEqual(names.count("from small pool"), 9)
        del held

    def test_short_form_leaves_the_pools_out(self):
        text = torch.cuda.memory_summary(abbreviated=True)
        self.assertNotIn("from large pool", text)
        for row in self.ROWS:
            self.assertIn(row, text)

    def test_numbers_are_the_statistics(self):
        held = tensor(300 * MIB)
        line = next(line for line in torch.cuda.memory_summary().splitlines()
                    if "| Allocated memory" in line)
        value, unit = line.split("|")[2].split()
        scale = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}[unit]
        self.assertEqual(int(value), now("allocated_bytes") // scale)
        del held


class AcceleratorTest(Case):
    """The device-neutral names reach the same allocator."""

    def test_statistics_are_those_of_cuda(self):
        held = tensor(7 * MIB)
        self.assertEqual(torch.accelerator.memory_stats(), torch.cuda.memory_stats())
        self.assertEqual(torch.accelerator.memory_allocated(), torch.cuda.memory_allocated())
        self.assertEqual(torch.accelerator.memory_reserved(), torch.cuda.memory_reserved())
        self.assertEqual(torch.accelerator.max_memory_allocated(),
                         torch.cuda.max_memory_allocated())
        self.assertEqual(torch.accelerator.max_memory_reserved(),
                         torch.cuda.max_memory_reserved())
        del held

    def test_resets_act(self):
        held = tensor(40 * MIB)
        del held
        torch.accelerator.reset_peak_memory_stats()
        self.assertEqual(stat("allocated_bytes.all.peak"), now("allocated_bytes"))
        torch.accelerator.reset_accumulated_memory_stats()
        self.assertEqual(stat("allocation.all.allocated"), 0)

    def test_empty_cache_acts(self):
        held = tensor(64 * MIB)
        del held
        reserved = now("reserved_bytes")
        torch.accelerator.empty_cache()
        self.assertLessEqual(now("reserved_bytes"), reserved - 64 * MIB)

    def test_memory_info_is_the_drivers(self):
        free, total = torch.accelerator.get_memory_info()
        self.assertEqual(total, torch.cuda.mem_get_info()[1])
        self.assertLessEqual(free, total)
