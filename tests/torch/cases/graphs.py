"""CUDA graphs: captures take memory from pools of their own and keep it while they live."""

import gc
import importlib.util
import threading
import unittest

import torch
from torch import nn

from .support import (MIB, Case, apply_settings, is_filled, is_uniform, needs_gpu, now, segment_of,
                      segments, set_limit, tensor)

COUNT = 6 << 20  # floats of a captured tensor: 24 MiB


def capture(function, **options):
    """A graph of the function and what it returned."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = function()
    return graph, result


def pool_bytes(pool_id):
    return sum(s["total_size"] for s in segments() if s["segment_pool_id"] == tuple(pool_id))


class GraphTest(Case):
    def setUp(self):
        super().setUp()
        self.source = torch.ones(COUNT, device="cuda")
        torch.cuda.synchronize()

    def tearDown(self):
        self.source = None
        super().tearDown()

    def work(self):
        """Three temporaries and a result."""
        first = self.source * 2
        second = first + 1
        third = second * second
        return third - first

    def expected(self, value):
        return (2 * value + 1) ** 2 - 2 * value

    def check_result(self, result, value):
        self.assertTrue(is_uniform(result, self.expected(value)))

    def test_replay_computes_anew(self):
        graph, result = capture(self.work)
        for value in (1.0, 2.0, 5.0):
            self.source.fill_(value)
            graph.replay()
            torch.cuda.synchronize()
            self.check_result(result, value)
        self.check_books()

    def test_memory_is_of_the_graphs_pool(self):
        graph, result = capture(self.work)
        pool_id = graph.pool()
        self.assertIsInstance(pool_id, tuple)
        self.assertNotEqual(tuple(pool_id), (0, 0))
        self.assertEqual(segment_of(result.data_ptr())["segment_pool_id"], tuple(pool_id))
        outside = tensor(24 * MIB)
        self.assertEqual(segment_of(outside.data_ptr())["segment_pool_id"], (0, 0))

    def test_what_a_graph_freed_stays_its_own(self):
        """Temporaries of a capture are free, yet not for anybody outside: replays write there."""
        graph, result = capture(self.work)
        outside = [tensor(24 * MIB, i) for i in range(8)]
        self.source.fill_(3.0)
        graph.replay()
        torch.cuda.synchronize()
        for i, data in enumerate(outside):
            self.assertTrue(is_filled(data, i))
        self.check_result(result, 3.0)
        held = pool_bytes(graph.pool())
        torch.cuda.empty_cache()
        self.assertEqual(pool_bytes(graph.pool()), held)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 3.0)

    def test_results_live_on_without_their_graph(self):
        graph, result = capture(self.work)
        graph.replay()
        torch.cuda.synchronize()
        del graph
        gc.collect()
        torch.cuda.empty_cache()
        outside = [tensor(24 * MIB, i) for i in range(5)]
        self.check_result(result, 1.0)
        del outside

    def test_deleting_a_graph_returns_its_memory(self):
        reserved = now("reserved_bytes")
        graph, result = capture(self.work)
        graph.replay()
        torch.cuda.synchronize()
        self.assertGreaterEqual(now("reserved_bytes"), reserved + COUNT * 4)
        del graph, result
        gc.collect()
        torch.cuda.empty_cache()
        self.assertEqual(now("reserved_bytes"), reserved)
        self.check_books()

    def test_reset_returns_its_memory(self):
        graph, result = capture(self.work)
        pool_id = graph.pool()
        self.assertGreaterEqual(pool_bytes(pool_id), COUNT * 4)
        graph.replay()
        torch.cuda.synchronize()
        del result
        graph.reset()
        torch.cuda.empty_cache()
        self.assertEqual(pool_bytes(pool_id), 0)

    def test_capturing_again_and_again_leaks_nothing(self):
        sizes = []
        for number in range(8):
            graph, result = capture(self.work)
            self.source.fill_(float(number))
            graph.replay()
            torch.cuda.synchronize()
            self.check_result(result, float(number))
            del graph, result
            gc.collect()
            torch.cuda.empty_cache()
            sizes.append((now("reserved_bytes"), now("allocated_bytes")))
        self.assertEqual(len(set(sizes)), 1, sizes)

    def test_graphs_can_share_a_pool(self):
        pool = torch.cuda.graph_pool_handle()
        first, result_one = capture(self.work, pool=pool)
        one = pool_bytes(pool)
        second, result_two = capture(self.work, pool=pool)
        self.assertEqual(tuple(first.pool()), tuple(second.pool()))
        self.assertLess(pool_bytes(pool), 2 * one)
        for value in (2.0, 4.0):
            self.source.fill_(value)
            first.replay()
            torch.cuda.synchronize()
            self.check_result(result_one, value)
            second.replay()
            torch.cuda.synchronize()
            self.check_result(result_two, value)
        self.check_books()

    def test_a_shared_pool_lives_as_long_as_one_graph(self):
        first, result = capture(self.work)
        second, other = capture(self.work, pool=first.pool())
        pool_id = first.pool()
        del first, result
        gc.collect()
        torch.cuda.empty_cache()
        self.assertGreater(pool_bytes(pool_id), 0)
        second.replay()
        torch.cuda.synchronize()
        self.check_result(other, 1.0)

    def test_pool_of_a_user_for_a_graph(self):
        pool = torch.cuda.MemPool()
        graph, result = capture(self.work, pool=pool.id)
        self.assertEqual(segment_of(result.data_ptr())["segment_pool_id"], pool.id)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 1.0)
        del graph, result

    def test_capture_by_hand(self):
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            graph.capture_begin()
            self.assertTrue(torch.cuda.is_current_stream_capturing())
            result = self.work()
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(side)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 1.0)

    @needs_gpu
    def test_streams_of_a_capture(self):
        """Memory passed to a forked stream and freed inside the capture is not reused there."""
        side = torch.cuda.Stream()

        def fork():
            main = torch.cuda.current_stream()
            data = self.source * 3
            side.wait_stream(main)
            with torch.cuda.stream(side):
                other = data + 1
            data.record_stream(side)
            del data
            noise = [torch.zeros(COUNT, device="cuda") for _ in range(3)]
            main.wait_stream(side)
            other.record_stream(main)
            return other + noise[0] + noise[1] + noise[2]

        graph, result = capture(fork)
        for value in (1.0, 2.0):
            self.source.fill_(value)
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(is_uniform(result, 3 * value + 1))
        del graph, result
        gc.collect()
        tensor(24 * MIB)
        torch.cuda.empty_cache()
        self.assert_current(now("allocated_bytes"), "active_bytes")
        self.check_books()

    def test_an_exception_ends_the_capture(self):
        with self.assertRaises(KeyError):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                self.work()
                raise KeyError("whatever")
        outside = tensor(24 * MIB, 4)
        self.assertEqual(segment_of(outside.data_ptr())["segment_pool_id"], (0, 0))
        graph, result = capture(self.work)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 1.0)
        self.check_books()

    def test_cache_may_be_emptied_in_a_capture(self):
        def work():
            result = self.work()
            torch.cuda.empty_cache()
            return result

        graph, result = capture(work)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 1.0)

    def test_other_threads_allocate_meanwhile(self):
        seen = []

        def other():
            with torch.cuda.stream(torch.cuda.Stream()):
                seen.append(torch.empty(30 * MIB, dtype=torch.uint8, device="cuda"))
                seen.append(torch.empty(1000, dtype=torch.uint8, device="cuda"))

        def work():
            first = self.work()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return first + 1

        graph, result = capture(work, capture_error_mode="thread_local")
        for data in seen:
            self.assertEqual(segment_of(data.data_ptr())["segment_pool_id"], (0, 0))
            data.fill_(9)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(is_uniform(result, self.expected(1.0) + 1))
        for data in seen:
            self.assertTrue(is_filled(data, 9))

    def test_several_shapes_in_one_pool(self):
        pool = torch.cuda.graph_pool_handle()
        graphs = {}
        for size in (1 << 16, 1 << 20, 3 << 20, 5 << 20):
            source = torch.zeros(size, device="cuda")

            def work(source=source):
                first = source + 1
                return (first * first).sum(dtype=torch.float64) + first.sum(dtype=torch.float64)

            graphs[size] = capture(work, pool=pool) + (source,)
        for value in (1.0, 3.0):
            for size in (5 << 20, 1 << 16, 3 << 20, 1 << 20, 1 << 16):
                graph, result, source = graphs[size]
                source.fill_(value)
                graph.replay()
                torch.cuda.synchronize()
                self.assertTrue(is_uniform(result, size * ((value + 1) ** 2 + value + 1)))
        self.check_books()

    @needs_gpu
    def test_random_numbers_differ_between_replays(self):
        graph, result = capture(lambda: torch.rand(1 << 20, device="cuda"))
        graph.replay()
        first = result.clone()
        graph.replay()
        torch.cuda.synchronize()
        self.assertFalse(torch.equal(first, result))

    def test_graph_under_a_limit(self):
        limit = set_limit(400 * MIB)
        graph, result = capture(self.work)
        outside = tensor(100 * MIB, 1)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(1 << 30)
        graph.replay()
        torch.cuda.synchronize()
        self.check_result(result, 1.0)
        self.assertTrue(is_filled(outside, 1))
        self.assertLessEqual(now("reserved_bytes"), limit)

    @needs_gpu
    def test_reuse_of_recorded_memory_can_be_asked_for(self):
        snapshot = torch.cuda.memory._snapshot()["allocator_settings"]
        kind = f"expandable_segments:{snapshot['expandable_segments']}"
        apply_settings(kind + ",graph_capture_record_stream_reuse:True")
        try:
            self.test_streams_of_a_capture()
        finally:
            apply_settings(kind + ",graph_capture_record_stream_reuse:False")


@needs_gpu
class GraphedTrainingTest(Case):
    @staticmethod
    def make(seed=3):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()

    def test_graphed_callables_train_as_others(self):
        plain, graphed = self.make(), self.make()
        sample = torch.randn(64, 512, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(graphed, (sample,))
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (plain, graphed)]
        for number in range(4):
            torch.manual_seed(number)
            data = torch.randn(64, 512, device="cuda")
            losses = []
            for model, optimizer in zip((plain, graphed), optimizers):
                optimizer.zero_grad(set_to_none=True)
                given = data.clone().requires_grad_(True)
                loss = model(given).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertAlmostEqual(losses[0], losses[1], places=5)
        self.check_books()

    def test_whole_step_as_a_graph(self):
        losses = []
        for is_graph in (False, True):
            model = self.make()
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
            data = torch.randn(64, 512, device="cuda", generator=torch.Generator("cuda")
                               .manual_seed(5))

            def step(model=model, optimizer=optimizer, data=data):
                optimizer.zero_grad(set_to_none=True)
                loss = model(data).square().mean()
                loss.backward()
                optimizer.step()
                return loss

            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            if is_graph:
                optimizer.zero_grad(set_to_none=True)
                graph, loss = capture(step)
            seen = []
            for _ in range(5):
                if is_graph:
                    graph.replay()
                else:
                    loss = step()
                seen.append(loss.item())
            losses.append(seen)
        for one, two in zip(*losses):
            self.assertAlmostEqual(one, two, places=5)
        self.check_books()


@needs_gpu
class CompileTest(Case):
    """torch.compile with graphs: the allocator's checkpoints of a pool."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if importlib.util.find_spec("triton") is None:
            raise unittest.SkipTest("no triton")

    def compiled(self, function):
        return torch.compile(function, mode="reduce-overhead")

    def test_compiled_inference(self):
        def function(x):
            return torch.nn.functional.gelu(x @ x.T).sum(dim=1) * 2

        fast = self.compiled(function)
        with torch.no_grad():
            for size in (256, 256, 256, 512, 512, 512, 256):
                x = torch.randn(size, 256, device="cuda")
                torch.compiler.cudagraph_mark_step_begin()
                torch.testing.assert_close(fast(x).clone(), function(x), rtol=1e-3, atol=1e-3)
        self.assertLessEqual(now("allocated_bytes"), now("reserved_bytes"))

    def test_compiled_training(self):
        plain, model = GraphedTrainingTest.make(), GraphedTrainingTest.make()
        fast = self.compiled(model)
        for number in range(5):
            torch.manual_seed(number)
            data = torch.randn(64, 512, device="cuda")
            torch.compiler.cudagraph_mark_step_begin()
            loss = fast(data).square().mean()
            loss.backward()
            other = plain(data).square().mean()
            other.backward()
            self.assertAlmostEqual(loss.item(), other.item(), places=4)
            for one, two in zip(model.parameters(), plain.parameters()):
                torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-4)
            model.zero_grad(set_to_none=True)
            plain.zero_grad(set_to_none=True)
        self.assertLessEqual(now("allocated_bytes"), now("reserved_bytes"))
