"""Whole uses: sharing between processes, pinned memory, life of tensors, training, other libraries."""

import gc
import os
import unittest

import torch
import torch.multiprocessing
from torch import nn

from .support import (MIB, Case, install_backend, is_filled, needs_gpu, now, stat, stats,
                      tensor)


def child_changes(requests, answers):
    """In another process: add one to what is sent, and say what was seen."""
    install_backend()
    while True:
        data = requests.get(timeout=60)
        if data is None:
            break
        answers.put((int(data.min()), int(data.max()), data.numel()))
        data.add_(1)
        torch.cuda.synchronize()
        answers.put("done")
        del data
    gc.collect()


@needs_gpu
class SharingTest(Case):
    """Tensors handed to a process of their own."""

    def start(self):
        context = torch.multiprocessing.get_context("spawn")
        requests, answers = context.Queue(), context.Queue()
        child = context.Process(target=child_changes, args=(requests, answers), daemon=True)
        child.start()
        return child, requests, answers

    def test_another_process_sees_and_changes_tensors(self):
        child, requests, answers = self.start()
        try:
            base = now("allocated_bytes")
            shared = [tensor(size, 10 + i) for i, size in enumerate((1000, 3 * MIB, 50 * MIB))]
            for number, data in enumerate(shared):
                torch.cuda.synchronize()
                requests.put(data)
                self.assertEqual(answers.get(timeout=90), (10 + number, 10 + number, data.numel()))
                self.assertEqual(answers.get(timeout=90), "done")
                self.assertTrue(is_filled(data, 11 + number))
            requests.put(None)
            child.join(timeout=60)
            self.assertEqual(child.exitcode, 0)
            self.check_books()
            shared.clear()
            del data
            gc.collect()
            torch.cuda.ipc_collect()
            self.assert_current(base)
        finally:
            if child.is_alive():
                child.terminate()

    def test_views_of_one_block_are_shared(self):
        child, requests, answers = self.start()
        try:
            whole = tensor(8 * MIB, 1)
            part = whole[3 * MIB:5 * MIB]
            torch.cuda.synchronize()
            requests.put(part)
            self.assertEqual(answers.get(timeout=90), (1, 1, 2 * MIB))
            self.assertEqual(answers.get(timeout=90), "done")
            self.assertTrue(is_filled(part, 2))
            self.assertTrue(is_filled(whole[:3 * MIB], 1))
            self.assertTrue(is_filled(whole[5 * MIB:], 1))
            requests.put(None)
            child.join(timeout=60)
            self.assertEqual(child.exitcode, 0)
        finally:
            if child.is_alive():
                child.terminate()


class PinnedTest(Case):
    """Pinned host memory has an allocator of its own, which stays what it was."""

    @needs_gpu
    def test_pinned_memory_is_not_counted_here(self):
        before = stats()
        pinned = torch.empty(32 * MIB, dtype=torch.uint8, pin_memory=True)
        self.assertTrue(pinned.is_pinned())
        self.assertEqual(stats(), before)
        seen = torch.cuda.host_memory_stats()
        self.assertGreaterEqual(seen["active_bytes.current"], 32 * MIB)
        del pinned

    @needs_gpu
    def test_transfers_on_streams(self):
        source = torch.arange(4 << 20, dtype=torch.int32).pin_memory()
        side = torch.cuda.Stream()
        results = []
        for number in range(6):
            with torch.cuda.stream(side):
                data = source.to("cuda", non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            data.record_stream(torch.cuda.current_stream())
            results.append((data + number).sum(dtype=torch.int64))
            del data
        base = (4 << 20) * ((4 << 20) - 1) // 2
        for number, total in enumerate(results):
            self.assertEqual(total.item(), base + number * (4 << 20))
        self.check_books()

    @needs_gpu
    def test_loader_with_pinned_batches(self):
        data = torch.utils.data.TensorDataset(torch.arange(4096).reshape(1024, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=64, pin_memory=True)
        total = 0
        for (batch,) in loader:
            self.assertTrue(batch.is_pinned())
            total += batch.to("cuda", non_blocking=True).sum().item()
        self.assertEqual(total, 4096 * 4095 // 2)


class LifetimeTest(Case):
    def test_views_keep_memory(self):
        base = now("allocated_bytes")
        whole = tensor(8 * MIB, 6)
        part = whole[5 * MIB:6 * MIB]
        del whole
        self.assertGreaterEqual(now("allocated_bytes"), base + 8 * MIB)
        self.assertTrue(is_filled(part, 6))
        del part
        self.assertEqual(now("allocated_bytes"), base)

    def test_storage_can_be_emptied_and_filled(self):
        base = now("allocated_bytes")
        data = tensor(40 * MIB, 1)
        data.untyped_storage().resize_(0)
        self.assertEqual(now("allocated_bytes"), base)
        data.untyped_storage().resize_(40 * MIB)
        data.fill_(2)
        self.assertTrue(is_filled(data, 2))
        self.assertGreaterEqual(now("allocated_bytes"), base + 40 * MIB)
        self.check_books()

    @needs_gpu
    def test_backward_gives_activations_back(self):
        model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).cuda()
        data = torch.randn(4096, 512, device="cuda")
        model(data).sum().backward()
        base = now("allocated_bytes")
        for _ in range(3):
            loss = model(data).sum()
            self.assertGreater(now("allocated_bytes"), base + 4 * 4096 * 512 * 4)
            loss.backward()
            del loss
            self.assertEqual(now("allocated_bytes"), base)
        self.check_books()

    def test_other_libraries_share_memory(self):
        base = now("allocated_bytes")
        data = tensor(8 * MIB, 3)
        again = torch.from_dlpack(data)
        self.assertEqual(again.data_ptr(), data.data_ptr())
        self.assertEqual(data.__cuda_array_interface__["data"][0], data.data_ptr())
        del data
        self.assertTrue(is_filled(again, 3))
        del again
        self.assertEqual(now("allocated_bytes"), base)

    def test_cupy_shares_memory(self):
        try:
            import cupy
        except ImportError as error:
            raise unittest.SkipTest("no cupy") from error
        data = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
        array = cupy.asarray(data)
        array *= 2
        cupy.cuda.Device().synchronize()
        self.assertEqual(data.sum(dtype=torch.float64).item(), (1 << 20) * ((1 << 20) - 1))
        del array
        self.check_books()

    @needs_gpu
    def test_copies_between_devices(self):
        data = torch.arange(1 << 20, device="cuda")
        back = data.cpu().cuda()
        self.assertTrue(torch.equal(back, data))
        if torch.cuda.device_count() > 1:
            other = data.to("cuda:1")
            self.assertTrue(torch.equal(other.to("cuda:0"), data))
            self.assertGreaterEqual(torch.cuda.memory_allocated(1), 8 << 20)
            free = torch.cuda.memory_stats(1)["allocation.all.freed"]
            del other
            self.assertEqual(torch.cuda.memory_stats(1)["allocation.all.freed"], free + 1)


@needs_gpu
class TrainingTest(Case):
    @staticmethod
    def losses(checkpointed=False):
        torch.manual_seed(7)
        model = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cuda")
        seen = []
        for number in range(12):
            length = 32 + (number * 37) % 200
            data = torch.randn(8, length, 256, device="cuda")
            with torch.autocast("cuda", torch.float16):
                if checkpointed:
                    out = torch.utils.checkpoint.checkpoint(model, data, use_reentrant=False)
                else:
                    out = model(data)
                loss = out.float().square().mean()
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append(loss.item())
        return seen

    def test_training_repeats(self):
        first, second = self.losses(), self.losses()
        for one, two in zip(first, second):
            self.assertAlmostEqual(one, two, places=3)
        self.assertLess(first[-1], first[0])
        self.check_books()

    def test_training_with_checkpoints(self):
        for one, two in zip(self.losses(), self.losses(checkpointed=True)):
            self.assertAlmostEqual(one, two, places=2)
        self.check_books()

    def test_training_leaves_nothing(self):
        self.losses()
        gc.collect()
        torch.cuda.synchronize()
        base = now("allocated_bytes")
        self.losses()
        gc.collect()
        torch.cuda.synchronize()
        self.assertEqual(now("allocated_bytes"), base)


class EndTest(Case):
    """The process ends with everything still alive; the runner looks at how it ended."""

    kept = []

    def test_a_program_may_end_with_work_under_way(self):
        side = torch.cuda.Stream()
        data = tensor(24 * MIB, 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = data + 1
        graph.replay()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = tensor(24 * MIB)
        torch.cuda.memory._record_memory_history(max_entries=100)
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
        data.record_stream(side)
        self.kept.extend((side, data, graph, result, pool, inside))
        self.assertGreater(stat("allocation.all.current"), 2)
        self.assertTrue(os.getpid() > 0)
