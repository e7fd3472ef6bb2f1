"""Memory limits and running out of memory."""

import re
import threading

import torch

from .support import (GIB, MIB, Case, is_filled, needs_gpu, now, segment_of, set_limit, stat, stats,
                      tensor)


class FractionTest(Case):
    def test_value_is_kept(self):
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 1.0)
        torch.cuda.set_per_process_memory_fraction(0.5)
        self.assertAlmostEqual(torch.cuda.get_per_process_memory_fraction(), 0.5, places=6)
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 1.0)

    def test_wrong_values_are_refused(self):
        with self.assertRaisesRegex(TypeError,
                                    "Invalid type for fraction argument, must be `float`"):
            torch.cuda.set_per_process_memory_fraction(1)
        for value in (1.5, -0.25):
            text = re.escape(f"Invalid fraction value: {value}. Allowed range: 0~1")
            with self.assertRaisesRegex(ValueError, text):
                torch.cuda.set_per_process_memory_fraction(value)
            with self.assertRaisesRegex(
                    RuntimeError, f"invalid fraction:{value}.*Please set within"):
                torch._C._cuda_setMemoryFraction(value, torch.cuda.current_device())
        self.assertEqual(torch.cuda.get_per_process_memory_fraction(), 1.0)

    def test_limit_is_kept(self):
        limit = set_limit(300 * MIB)
        held = []
        with self.assertRaises(torch.OutOfMemoryError):
            for _ in range(40):
                held.append(tensor(25 * MIB))
        self.assertLessEqual(stat("reserved_bytes.all.peak"), limit)
        self.assertGreaterEqual(len(held), 8)
        self.check_books()

    def test_nothing_fits_in_nothing(self):
        kept = tensor(4 * MIB, 9)
        torch.cuda.set_per_process_memory_fraction(0.0)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(512 * MIB)
        torch.cuda.set_per_process_memory_fraction(1.0)
        again = tensor(512 * MIB, 1)
        self.assertTrue(is_filled(kept, 9))
        del again

    def test_a_lower_limit_takes_nothing_away(self):
        held = [tensor(64 * MIB, i) for i in range(4)]
        reserved = now("reserved_bytes")
        torch.cuda.set_per_process_memory_fraction(0.0001)
        self.assertEqual(now("reserved_bytes"), reserved)
        torch.cuda.set_per_process_memory_fraction(1.0)
        for i, data in enumerate(held):
            self.assertTrue(is_filled(data, i))
        self.check_books()


class OutOfMemoryTest(Case):
    def test_class_of_the_error(self):
        self.assertTrue(issubclass(torch.OutOfMemoryError, RuntimeError))
        self.assertIs(torch.cuda.OutOfMemoryError, torch.OutOfMemoryError)
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(512 * MIB)

    def test_text_says_what_was_wanted_and_what_there_is(self):
        held = tensor(40 * MIB)
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            tensor(512 * MIB)
        text = str(caught.exception)
        size = r"\d+(\.\d\d)? (bytes|[KMG]iB)"
        self.assertRegex(text, rf"CUDA out of memory\. Tried to allocate 512\.00 MiB\. GPU "
                               rf"{torch.cuda.current_device()} has a total capacity of {size} of "
                               rf"which {size} is free\. ")
        self.assertRegex(text, rf"{size} allowed; ")
        self.assertRegex(text, rf"Of the allocated memory {size} is allocated by PyTorch, and "
                               rf"{size} is reserved by PyTorch but unallocated\.")
        self.assertIn("https://docs.pytorch.org", text)
        del held

    def test_numbers_of_the_text_are_the_statistics(self):
        held = tensor(300 * MIB)
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            tensor(2 * GIB)
        found = re.search(r"Of the allocated memory ([\d.]+) MiB is allocated",
                          str(caught.exception))
        self.assertIsNotNone(found, str(caught.exception))
        self.assertAlmostEqual(float(found[1]), now("allocated_bytes") / MIB, delta=0.01)
        del held

    def test_each_thread_reads_of_its_own_failure(self):
        set_limit(64 * MIB)
        wrong = []

        def fail(gib):
            for _ in range(100):
                try:
                    tensor(gib * GIB)
                except torch.OutOfMemoryError as error:
                    if f"Tried to allocate {gib}.00 GiB. " not in str(error):
                        wrong.append((gib, str(error)))

        threads = [threading.Thread(target=fail, args=(1000 + i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_failure_counts_and_changes_nothing_else(self):
        held = tensor(10 * MIB, 3)
        set_limit(64 * MIB)
        before = stats()
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(GIB)
        after = stats()
        self.assertEqual(after["num_ooms"], before["num_ooms"] + 1)
        self.assertGreater(after["num_alloc_retries"], before["num_alloc_retries"])
        for name in ("allocation", "allocated_bytes", "active_bytes", "requested_bytes"):
            key = f"{name}.all.current"
            self.assertEqual(after[key], before[key], key)
        self.assertTrue(is_filled(held, 3))
        self.check_books()

    def test_memory_can_be_had_again_after_a_failure(self):
        set_limit(300 * MIB)
        held = [tensor(80 * MIB, i) for i in range(3)]
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(200 * MIB)
        del held[0]
        again = tensor(80 * MIB, 7)
        self.assertTrue(is_filled(again, 7))
        self.assertTrue(is_filled(held[0], 1))
        self.assertTrue(is_filled(held[1], 2))

    def test_cached_memory_is_given_up_before_failing(self):
        limit = set_limit(420 * MIB)
        small = [tensor(40 * MIB) for _ in range(10)]
        small.clear()
        large = tensor(380 * MIB, 4)
        self.assertTrue(is_filled(large, 4))
        self.assertLessEqual(stat("reserved_bytes.all.peak"), limit)
        self.check_books()

    def test_absurd_sizes_are_refused_at_once(self):
        before = stats()
        with self.assertRaisesRegex(torch.OutOfMemoryError,
                                    "Tried to allocate more than 1EB memory"):
            torch.empty(1 << 60, dtype=torch.uint8, device="cuda")
        self.assertEqual(stats(), before)

    def test_raw_allocation_fails_alike(self):
        set_limit(64 * MIB)
        before = now("allocated_bytes")
        with self.assertRaises(torch.OutOfMemoryError):
            torch.cuda.caching_allocator_alloc(GIB)
        self.assertEqual(now("allocated_bytes"), before)

    def test_failure_in_another_thread(self):
        set_limit(200 * MIB)
        seen = []

        def work():
            try:
                seen.append(tensor(GIB))
            except torch.OutOfMemoryError as error:
                seen.append(type(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, [torch.OutOfMemoryError] * 4)
        self.assertTrue(is_filled(tensor(64 * MIB, 1), 1))
        self.check_books()

    @needs_gpu
    def test_failure_in_a_backward_pass(self):
        weight = torch.randn(1024, 1024, device="cuda", requires_grad=True)
        set_limit(160 * MIB)

        class Hungry(torch.autograd.Function):
            @staticmethod
            def forward(_, value):
                return value.clone()

            @staticmethod
            def backward(_, grad):
                tensor(GIB)
                return grad

        with self.assertRaises(torch.OutOfMemoryError):
            Hungry.apply(weight).sum().backward()
        weight.grad = None
        (weight * 2).sum().backward()
        self.assertTrue(bool((weight.grad == 2).all()))
        self.check_books()


class ExhaustionTest(Case):
    """Takes all memory of the device for moments."""

    exclusive = True

    def test_the_device_itself_runs_out(self):
        """Without a limit the driver is asked, and refuses."""
        kept = tensor(8 * MIB, 6)
        held = []
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            while True:
                held.append(tensor(2 * GIB))
        self.assertNotIn("allowed;", str(caught.exception))
        self.assertGreater(len(held), 2)
        free = torch.cuda.mem_get_info()[0]
        self.assertLess(free, 3 * GIB)
        held.clear()
        large = tensor(12 * GIB, 2)  # fits only if the pieces are given back
        self.assertTrue(is_filled(large, 2))
        self.assertTrue(is_filled(kept, 6))
        self.check_books()

    def test_memory_of_another_stream_is_given_up(self):
        side = torch.cuda.Stream()
        held = []
        with torch.cuda.stream(side):
            try:
                while True:
                    held.append(tensor(2 * GIB))
            except torch.OutOfMemoryError:
                count = len(held)
            held.clear()
        large = tensor((count - 3) * 2 * GIB)
        self.assertGreater(count, 4)
        del large
        self.check_books()


class ObserverTest(Case):
    """An observer of out-of-memory stays for the life of the process: one test."""

    def test_observer_is_told(self):
        seen = []
        torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
        limit = set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(777 * MIB)
        self.assertEqual(len(seen), 1)
        device, wanted, allowed, free = seen[0]
        self.assertEqual(device, torch.cuda.current_device())
        self.assertGreaterEqual(wanted, 777 * MIB)
        self.assertLess(wanted, 800 * MIB)
        self.assertAlmostEqual(allowed, limit, delta=MIB)
        self.assertGreater(free, 0)
        tensor(16 * MIB)
        self.assertEqual(len(seen), 1)

    def test_observer_may_look_at_the_allocator(self):
        seen = []

        def look(*_):
            snapshot = torch.cuda.memory._snapshot()
            seen.append((len(snapshot["segments"]), torch.cuda.memory_stats()["num_ooms"]))

        torch._C._cuda_attach_out_of_memory_observer(look)
        held = tensor(3 * MIB)
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(GIB)
        self.assertEqual(len(seen), 1)
        self.assertGreater(seen[0][0], 0)
        self.assertIsNotNone(segment_of(held.data_ptr()))
