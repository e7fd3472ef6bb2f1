"""Settings that are changed while the program runs."""

import threading
import warnings

import torch

from .support import (MIB, Case, apply_settings, is_filled, now, set_limit, stat, stats, tensor)


def settings():
    return torch.cuda.memory._snapshot()["allocator_settings"]


class SettingsTest(Case):
    def setUp(self):
        super().setUp()
        self.expandable = settings()["expandable_segments"]

    def tearDown(self):
        # Any text resets the options that are about sizes; this one stays as it was.
        apply_settings(f"expandable_segments:{self.expandable}")
        super().tearDown()

    def test_values_show_in_the_snapshot(self):
        apply_settings("max_split_size_mb:40,garbage_collection_threshold:0.5,"
                       "roundup_power2_divisions:[1:2,4:4,>:8]")
        seen = settings()
        self.assertEqual(seen["max_split_size"], 40 * MIB)
        self.assertEqual(seen["garbage_collection_threshold"], 0.5)
        table = seen["roundup_power2_divisions"]
        self.assertEqual((table["1"], table["2"], table["4"], table["8"]), (2, 0, 4, 8))
        self.assertEqual(table["32768"], 8)
        self.assertIn("max_split_size_mb:40", seen["PYTORCH_CUDA_ALLOC_CONF"])
        self.assertEqual(stat("max_split_size"), -1)

    def test_every_text_starts_from_the_defaults(self):
        apply_settings("max_split_size_mb:40")
        apply_settings("garbage_collection_threshold:0.5")
        self.assertEqual(settings()["max_split_size"], -1)

    def test_sizes_are_rounded_up(self):
        apply_settings("roundup_power2_divisions:4")
        for size, wanted in ((1200, 1536), (2048, 2048), (2049, 2560), (700000, 786432)):
            before = now("allocated_bytes")
            held = tensor(size)
            self.assertEqual(now("allocated_bytes") - before, wanted, size)
            del held
        before = stats()
        held = tensor(3 * MIB + 1)
        after = stats()
        key = "allocated_bytes.all.current"
        self.assertGreaterEqual(after[key] - before[key], 3 * MIB + MIB // 2)
        key = "requested_bytes.all.current"
        self.assertEqual(after[key] - before[key], 3 * MIB + 1)
        del held

    def test_wrong_texts_are_refused_with_a_reason(self):
        cases = (
            ("nonsense:1", ValueError, "Unrecognized key 'nonsense'"),
            ("max_split_size_mb:5", ValueError, "max_split_size_mb too small, must be >= 20"),
            ("max_split_size_mb:much", ValueError, "stoull"),
            ("garbage_collection_threshold:1.5", ValueError, "set it in \\(0.0, 1.0\\)"),
            ("expandable_segments:yes", ValueError, "Expected 'True' or 'False' at index 2"),
            ("roundup_power2_divisions:3", ValueError, "divisions has to be power of 2"),
            ("large_segment_size_mb:10", ValueError, "must be > 10 MB"),
            ("max_split_size_mb:", RuntimeError, "Index out of bounds"),
        )
        held = tensor(5 * MIB, 3)
        for text, kind, reason in cases:
            with self.subTest(text=text), self.assertRaisesRegex(kind, reason):
                apply_settings(text)
        self.assertTrue(is_filled(held, 3))
        self.check_books()

    def test_old_name_warns_and_works(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.memory._set_allocator_settings("max_split_size_mb:50")
        self.assertIn(FutureWarning, [w.category for w in caught])
        self.assertEqual(settings()["max_split_size"], 50 * MIB)

    def test_kind_of_segments_can_change(self):
        kept = []
        for number, word in enumerate(("True", "False", "True")):
            apply_settings(f"expandable_segments:{word}")
            self.assertEqual(settings()["expandable_segments"], word == "True")
            kept.append(tensor(30 * MIB, number))
            kept.append(tensor(1000, number))
            tensor(50 * MIB)
        for number, data in enumerate(kept):
            self.assertTrue(is_filled(data, number // 2))
        self.check_books()
        kept.clear()
        del data
        torch.cuda.empty_cache()
        self.check_books()

    def test_collection_under_a_limit(self):
        apply_settings("garbage_collection_threshold:0.3")
        limit = set_limit(800 * MIB)
        kept = tensor(20 * MIB, 1)
        for size in (100, 130, 160, 190, 220, 250, 280):
            tensor(size * MIB, 0)
        self.assertTrue(is_filled(kept, 1))
        self.assertLessEqual(stat("reserved_bytes.all.peak"), limit)
        self.check_books()

    def test_large_blocks_can_be_kept_whole(self):
        apply_settings("max_split_size_mb:64")
        held = tensor(128 * MIB)
        count = stat("oversize_allocations.current")
        self.assertGreaterEqual(count, 1)
        del held
        self.assertEqual(stat("oversize_allocations.current"), count - 1)
        small = tensor(30 * MIB, 2)
        again = tensor(128 * MIB, 3)
        self.assertTrue(is_filled(small, 2))
        self.assertTrue(is_filled(again, 3))
        self.check_books()
        del small, again
        torch.cuda.empty_cache()

    def test_threads_while_the_device_allocates(self):
        apply_settings("expandable_segments:False,release_lock_on_cudamalloc:True")
        self.assertTrue(settings()["release_lock_on_cudamalloc"])
        wrong = []

        def work(number):
            for size in (21, 34, 47, 60):
                held = tensor(size * MIB + number, number)
                torch.cuda.empty_cache()
                if not is_filled(held, number):
                    wrong.append(number)
                del held

        try:
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            apply_settings("release_lock_on_cudamalloc:False")
        self.assertEqual(wrong, [])
        self.assertFalse(settings()["release_lock_on_cudamalloc"])
        self.check_books()

    def test_name_of_the_backend(self):
        name = torch.cuda.get_allocator_backend()
        self.assertIsInstance(name, str)
        self.assertNotEqual(name, "")
        self.assertNotEqual(name, "cudaMallocAsync")


class NoCachingTest(Case):
    """Every allocation is the driver's own, and is not counted."""

    def tearDown(self):
        torch.cuda.caching_allocator_enable(True)
        super().tearDown()

    def test_nothing_is_cached_or_counted(self):
        torch.cuda.caching_allocator_enable(False)
        before = stats()
        held = tensor(30 * MIB, 5)
        self.assertTrue(is_filled(held, 5))
        after = stats()
        for name in ("allocation", "allocated_bytes", "reserved_bytes", "active_bytes"):
            for meter in ("current", "allocated"):
                key = f"{name}.all.{meter}"
                self.assertEqual(after[key], before[key], key)
        del held

    def test_tensors_survive_the_switch(self):
        cached = tensor(30 * MIB, 1)
        torch.cuda.caching_allocator_enable(False)
        plain = tensor(30 * MIB, 2)
        torch.cuda.caching_allocator_enable(True)
        again = tensor(30 * MIB, 3)
        for value, data in enumerate((cached, plain, again)):
            self.assertTrue(is_filled(data, value + 1))
        self.check_books()
