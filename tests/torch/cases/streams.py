"""Streams and threads: memory is not handed out while the GPU may still use it."""

import queue
import random
import threading
import time

import torch

from .support import (MIB, Case, blocks, conclusive, is_filled, needs_gpu, now, segment_of,
                      segments, sleep, stat, stats, tensor)


class RecordStreamTest(Case):
    SIZE = 24 * MIB

    def test_recorded_memory_is_not_overwritten(self):
        side = torch.cuda.Stream()

        def scenario(seconds):
            data = tensor(self.SIZE, 77)
            copy = torch.zeros_like(data)
            side.wait_stream(torch.cuda.current_stream())
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                sleep(seconds)
                copy.copy_(data)
                event = side.record_event()
            data.record_stream(side)
            del data
            others = [tensor(self.SIZE, i) for i in range(3)]

            def verdict():
                self.assertTrue(is_filled(copy, 77))
                for i, other in enumerate(others):
                    self.assertTrue(is_filled(other, i))

            return event, verdict

        conclusive(scenario)

    def test_waiting_memory_is_active_but_not_allocated(self):
        side = torch.cuda.Stream()

        def scenario(seconds):
            data = tensor(self.SIZE, 1)
            address = data.data_ptr()
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                sleep(seconds)
                event = side.record_event()
            data.record_stream(side)
            before = stats()
            del data
            after = stats()
            states = {b["state"] for b in blocks() if b["address"] == address}

            def verdict():
                def fall(name):
                    return before[f"{name}.all.current"] - after[f"{name}.all.current"]

                self.assertGreaterEqual(fall("allocated_bytes"), self.SIZE)
                self.assertEqual(fall("allocation"), 1)
                self.assertEqual(fall("active_bytes"), 0)
                self.assertEqual(fall("active"), 0)
                self.assertEqual(fall("requested_bytes"), 0)
                self.assertEqual(states, {"active_pending_free"})
                self.assert_current(now("allocated_bytes"), "active_bytes")

            return event, verdict

        conclusive(scenario)
        self.check_books()

    def test_own_stream_is_not_recorded(self):
        data = tensor(self.SIZE)
        active = now("active_bytes")
        data.record_stream(torch.cuda.current_stream())
        sleep(0.05)
        del data
        self.assertLessEqual(now("active_bytes"), active - self.SIZE)
        self.check_books()

    def test_several_streams_must_all_finish(self):
        sides = [torch.cuda.Stream() for _ in range(3)]

        def scenario(seconds):
            data = tensor(self.SIZE, 1)
            torch.cuda.synchronize()
            for number, side in enumerate(sides):
                with torch.cuda.stream(side):
                    sleep(seconds if number == 1 else 0.001)
                data.record_stream(side)
                data.record_stream(side)
            event = sides[1].record_event()
            sides[0].synchronize()
            sides[2].synchronize()
            active = now("active_bytes")
            del data
            torch.empty(1, device="cuda")
            held = now("active_bytes")

            def verdict():
                self.assertGreaterEqual(held, active - 512)
                self.assert_current(now("allocated_bytes"), "active_bytes")

            return event, verdict

        conclusive(scenario)

    def test_empty_cache_waits_for_streams(self):
        side = torch.cuda.Stream()
        data = tensor(self.SIZE, 1)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            sleep(0.1)
            event = side.record_event()
        data.record_stream(side)
        reserved = now("reserved_bytes")
        del data
        torch.cuda.empty_cache()
        self.assertTrue(event.query())
        self.assertLessEqual(now("reserved_bytes"), reserved - self.SIZE)
        self.assertEqual(now("active_bytes"), now("allocated_bytes"))

    def test_many_marks_at_random(self):
        rng = random.Random(5)
        streams = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(3)]
        wrong = torch.zeros(1, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        for number in range(250):
            home, guest = rng.choice(streams), rng.choice(streams)
            size = rng.choice((4096, 300000, 2 * MIB, 11 * MIB))
            value = rng.randrange(256)
            with torch.cuda.stream(home):
                data = tensor(size, value)
            guest.wait_stream(home)
            with torch.cuda.stream(guest):
                sleep(rng.choice((0.0, 0.0, 0.0005, 0.002)))
                bad = (data != value).sum()
                data.record_stream(guest)
            streams[0].wait_stream(guest)
            bad.record_stream(streams[0])
            wrong += bad
            del data, bad
            if number % 60 == 59:
                torch.cuda.empty_cache()
        torch.cuda.synchronize()
        self.assertEqual(wrong.item(), 0)
        self.check_books()


class SideStreamTest(Case):
    def test_memory_of_a_busy_stream_is_not_lent_to_another(self):
        side = torch.cuda.Stream()

        def scenario(seconds):
            with torch.cuda.stream(side):
                data = tensor(24 * MIB)
                result = tensor(24 * MIB)
                sleep(seconds)
                data.fill_(7)
                result.copy_(data)
                event = side.record_event()
                del data
            others = [tensor(24 * MIB, i) for i in range(3)]

            def verdict():
                self.assertTrue(is_filled(result, 7))
                for i, other in enumerate(others):
                    self.assertTrue(is_filled(other, i))

            return event, verdict

        conclusive(scenario)

    def test_a_stream_reuses_its_own_at_once(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            data = tensor(24 * MIB)
            before = stats()
            for value in range(10):
                sleep(0.002)
                data.fill_(value)
                del data
                data = tensor(24 * MIB)
            after = stats()
        for key in ("num_device_alloc", "reserved_bytes.all.current"):
            self.assertEqual(after[key], before[key], key)

    def test_snapshot_names_the_stream(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            data = tensor(24 * MIB)
        other = tensor(24 * MIB)
        self.assertEqual(segment_of(data.data_ptr())["stream"], side.cuda_stream)
        self.assertEqual(segment_of(other.data_ptr())["stream"],
                         torch.cuda.current_stream().cuda_stream)

    @needs_gpu
    def test_streams_of_others_can_be_used(self):
        side = torch.cuda.Stream()
        foreign = torch.cuda.ExternalStream(side.cuda_stream)
        with torch.cuda.stream(foreign):
            data = tensor(24 * MIB, 3)
        self.assertEqual(segment_of(data.data_ptr())["stream"], side.cuda_stream)
        data.record_stream(foreign)
        side.synchronize()
        self.assertTrue(is_filled(data, 3))

    def test_a_deleted_stream_leaves_its_memory_usable(self):
        kept = []
        for value in range(3):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                kept.append(tensor(4 * MIB, value))
            side.synchronize()
            del side
        for value, data in enumerate(kept):
            self.assertTrue(is_filled(data, value))
        kept.clear()
        torch.cuda.empty_cache()
        self.check_books()

    @needs_gpu
    def test_order_between_streams_is_kept(self):
        """A pipeline: produced on one stream, consumed on another, memory going round."""
        producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
        total = torch.zeros((), dtype=torch.float64, device="cuda")
        torch.cuda.synchronize()
        wanted = 0
        for number in range(60):
            with torch.cuda.stream(producer):
                data = torch.full((1 << 20,), float(number % 7), device="cuda")
            consumer.wait_stream(producer)
            with torch.cuda.stream(consumer):
                total += data.sum(dtype=torch.float64)
            data.record_stream(consumer)
            del data
            wanted += (number % 7) << 20
        torch.cuda.synchronize()
        self.assertEqual(total.item(), wanted)


class RawTest(Case):
    """caching_allocator_alloc and caching_allocator_delete."""

    def test_raw_memory_is_counted(self):
        before = stats()
        address = torch.cuda.caching_allocator_alloc(5 * MIB)
        self.assertNotEqual(address, 0)
        self.assertEqual(address % 512, 0)
        after = stats()
        self.assertEqual(after["requested_bytes.all.current"],
                         before["requested_bytes.all.current"] + 5 * MIB)
        self.assertIsNotNone(segment_of(address))
        torch.cuda.caching_allocator_delete(address)
        self.assertEqual(now("allocated_bytes"), before["allocated_bytes.all.current"])

    def test_stream_can_be_given(self):
        side = torch.cuda.Stream()
        for stream in (side, side.cuda_stream):
            address = torch.cuda.caching_allocator_alloc(24 * MIB, stream=stream)
            self.assertEqual(segment_of(address)["stream"], side.cuda_stream)
            torch.cuda.caching_allocator_delete(address)
        with self.assertRaisesRegex(TypeError, "Invalid type for stream argument"):
            torch.cuda.caching_allocator_alloc(4096, stream="fast")

    def test_nothing_is_a_null_pointer(self):
        before = stats()
        self.assertEqual(torch.cuda.caching_allocator_alloc(0), 0)
        torch.cuda.caching_allocator_delete(0)
        self.assertEqual(stats(), before)

    def test_wrong_pointers_are_refused(self):
        data = tensor(3 * MIB, 5)
        before = stats()
        for address in (data.data_ptr() + 512, 0xDEAD0000):
            with self.assertRaisesRegex(RuntimeError, "invalid device pointer"):
                torch.cuda.caching_allocator_delete(address)
        address = torch.cuda.caching_allocator_alloc(4096)
        torch.cuda.caching_allocator_delete(address)
        with self.assertRaisesRegex(RuntimeError, "invalid device pointer"):
            torch.cuda.caching_allocator_delete(address)
        self.assertEqual(now("allocated_bytes"), before["allocated_bytes.all.current"])
        self.assertTrue(is_filled(data, 5))


class ThreadsTest(Case):
    def run_threads(self, work, count=8):
        failures = []

        def guarded(number):
            try:
                work(number)
            except Exception as error:  # shown by the main thread
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        self.assertFalse(any(thread.is_alive() for thread in threads), "a thread hangs")
        if failures:
            raise failures[0]

    def test_threads_do_not_get_each_others_memory(self):
        base = now("allocated_bytes")

        def work(number):
            rng = random.Random(number)
            with torch.cuda.stream(torch.cuda.Stream()):
                held = []
                for turn in range(120):
                    size = rng.choice((700, 5000, 400000, 3 * MIB))
                    value = (number * 31 + turn) % 256
                    held.append((tensor(size, value), value))
                    if len(held) > 12:
                        data, value = held.pop(rng.randrange(len(held)))
                        if turn % 8 == 0:
                            self.assertTrue(is_filled(data, value))
                        del data
                for data, value in held:
                    self.assertTrue(is_filled(data, value))
                torch.cuda.current_stream().synchronize()

        self.run_threads(work)
        self.assertEqual(now("allocated_bytes"), base)
        self.check_books()

    def test_one_thread_frees_what_another_made(self):
        base = now("allocated_bytes")
        made = queue.Queue(maxsize=30)

        def work(number):
            if number % 2 == 0:
                for turn in range(150):
                    made.put(tensor(1000 * (turn % 50 + 1)))
                made.put(None)
                return
            while made.get() is not None:
                pass

        self.run_threads(work, count=4)
        self.assertEqual(now("allocated_bytes"), base)
        self.check_books()

    def test_cache_may_be_emptied_meanwhile(self):
        def work(number):
            for turn in range(40):
                if number == 0:
                    torch.cuda.empty_cache()
                    time.sleep(0.001)
                elif number == 1:
                    self.assertGreaterEqual(stat("reserved_bytes.all.current"), 0)
                    self.assertIsInstance(segments(), list)
                else:
                    data = tensor((turn % 5 + 1) * 3 * MIB, number)
                    self.assertTrue(is_filled(data, number))

        self.run_threads(work, count=6)
        self.check_books()

    def test_current_stream_is_the_threads_own(self):
        seen = {}

        def work(number):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                data = tensor(24 * MIB)
                seen[number] = (segment_of(data.data_ptr())["stream"], stream.cuda_stream)

        self.run_threads(work, count=3)
        for found, wanted in seen.values():
            self.assertEqual(found, wanted)
