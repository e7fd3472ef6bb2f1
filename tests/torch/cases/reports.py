"""Snapshots, the history of events, and what is made of them."""

import io
import os
import pickle
import pickletools
import tempfile
import time
import warnings

import torch
from torch.cuda import _memory_viz

from .support import (KIB, MIB, Case, blocks, events, history, now, segment_of, segments, set_limit,
                      stats, tensor)

SEGMENT_KEYS = {"device": int, "address": int, "total_size": int, "allocated_size": int,
                "active_size": int, "requested_size": int, "stream": int, "segment_type": str,
                "segment_pool_id": tuple, "is_expandable": bool, "frames": list, "blocks": list}
BLOCK_KEYS = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
SETTINGS_KEYS = {"PYTORCH_CUDA_ALLOC_CONF": str, "max_split_size": int,
                 "garbage_collection_threshold": float, "expandable_segments": bool,
                 "pinned_num_register_threads": int, "release_lock_on_cudamalloc": bool,
                 "pinned_use_cuda_host_register": bool,
                 "graph_capture_record_stream_reuse": bool, "roundup_power2_divisions": dict}
EVENT_KEYS = ["action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata"]
OBTAINED = ("segment_alloc", "segment_map")
RETURNED = ("segment_free", "segment_unmap")

# What the web viewer can read: containers, scalars and references, no objects.
VIEWER_OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
    "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINUNICODE", "SHORT_BINUNICODE",
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "NONE", "NEWTRUE", "NEWFALSE"}


def types_of(entry):
    return {key: type(value) for key, value in entry.items()}


class SnapshotTest(Case):
    def test_shape_of_the_whole(self):
        held = tensor(3 * MIB)
        snapshot = torch.cuda.memory._snapshot()
        self.assertEqual(list(snapshot), ["segments", "device_traces", "allocator_settings",
                                          "external_annotations"])
        self.assertEqual(len(snapshot["device_traces"]), torch.cuda.device_count())
        self.assertEqual(snapshot["external_annotations"], [])
        settings = snapshot["allocator_settings"]
        self.assertEqual(types_of(settings), SETTINGS_KEYS)
        self.assertEqual(list(settings["roundup_power2_divisions"]),
                         [str(1 << i) for i in range(16)])
        del held

    def test_shape_of_segments_and_blocks(self):
        held = [tensor(3 * MIB), tensor(1000)]
        found = segments()
        self.assertGreaterEqual(len(found), 2)
        for segment in found:
            self.assertEqual(types_of(segment), SEGMENT_KEYS)
            self.assertEqual(list(segment), list(SEGMENT_KEYS))
            self.assertIn(segment["segment_type"], ("small", "large"))
            self.assertEqual(segment["segment_pool_id"], (0, 0))
            for block in segment["blocks"]:
                self.assertEqual(types_of(block), BLOCK_KEYS)
                self.assertIn(block["state"],
                              ("active_allocated", "active_pending_free", "inactive"))
        del held

    def test_blocks_are_the_tensors(self):
        held = [tensor(size) for size in (1000, 70000, 2 * MIB, 5 * MIB + 3, 30 * MIB)]
        found = {b["address"]: b for b in blocks() if b["state"] == "active_allocated"}
        for data in held:
            block = found[data.data_ptr()]
            self.assertEqual(block["requested_size"], data.numel())
            self.assertGreaterEqual(block["size"], data.numel())
        self.check_books()
        kinds = [segment_of(data.data_ptr())["segment_type"] for data in held]
        self.assertEqual(kinds, ["small", "small", "large", "large", "large"])

    def test_freed_blocks_are_inactive(self):
        held = [tensor(3 * MIB) for _ in range(4)]
        address = held[1].data_ptr()
        del held[1]
        block = next(b for b in blocks()
                     if b["address"] <= address < b["address"] + b["size"])
        self.assertEqual(block["state"], "inactive")
        self.assertEqual(block["frames"], [])
        self.check_books()

    def test_short_function_returns_the_segments(self):
        held = tensor(3 * MIB)
        self.assertEqual(torch.cuda.memory_snapshot(), torch.cuda.memory._snapshot()["segments"])
        self.assertEqual(torch.cuda.memory_snapshot(include_traces=False),
                         torch.cuda.memory_snapshot())
        self.assertEqual(torch.cuda.memory_snapshot((987654, 0)), [])
        with self.assertRaisesRegex(RuntimeError, "Expected tuple of size 2 or 3"):
            torch._C._cuda_memorySnapshot((1, 2, 3, 4))
        del held

    def test_an_empty_allocator_has_no_segments(self):
        self.settle()
        if now("allocated_bytes") == 0:
            self.assertEqual(segments(), [])
        self.check_books()


class ViewerTest(Case):
    def make(self):
        """A snapshot with some of everything."""
        history(context="all")
        kept = [tensor(size) for size in (1000, 3 * MIB, 25 * MIB)]
        tensor(40 * MIB)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            kept.append(tensor(5 * MIB))
        set_limit(64 * MIB)
        try:
            tensor(1 << 30)
        except torch.OutOfMemoryError:
            pass
        torch.cuda.empty_cache()
        return kept

    def test_file_holds_the_snapshot(self):
        kept = self.make()
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            data = file.read()
        os.remove(path)
        os.rmdir(folder)
        read = pickle.loads(data)
        self.assertEqual(read["segments"], torch.cuda.memory._snapshot()["segments"])
        used = {opcode.name for opcode, _, _ in pickletools.genops(io.BytesIO(data))}
        self.assertEqual(used - VIEWER_OPCODES, set())
        del kept

    def test_tools_read_it(self):
        kept = self.make()
        snapshot = torch.cuda.memory._snapshot()
        text = _memory_viz.segsum(snapshot)
        self.assertIn(f"segments: {len(snapshot['segments'])}", text)
        self.assertIn("total_reserved", text)
        self.assertIn("OutOfMemoryError", _memory_viz.trace(snapshot))
        for page in (_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot),
                     _memory_viz.trace_plot(snapshot, plot_segments=True)):
            self.assertIn("snapshot.pickle", page)
            self.assertIn("base64", page)
        del kept


class HistoryTest(Case):
    def actions(self):
        return [entry["action"] for entry in events()]

    def test_nothing_is_kept_unless_asked(self):
        held = tensor(3 * MIB)
        del held
        self.assertEqual(events(), [])

    def test_life_of_a_tensor(self):
        history()
        begin = time.time() * 1e6
        held = tensor(30 * MIB)
        address = held.data_ptr()
        del held
        torch.cuda.empty_cache()
        seen = [e for e in events() if e["action"] != "snapshot"]
        self.assertIn(seen[0]["action"], OBTAINED)
        own = [e for e in seen if e["action"] not in OBTAINED + RETURNED]
        self.assertEqual([e["action"] for e in own], ["alloc", "free_requested", "free_completed"])
        for entry in own:
            self.assertEqual(entry["addr"], address)
            self.assertEqual(entry["size"], 30 * MIB)
            self.assertEqual(entry["stream"], torch.cuda.current_stream().cuda_stream)
        got = sum(e["size"] for e in seen if e["action"] in OBTAINED)
        back = sum(e["size"] for e in seen if e["action"] in RETURNED)
        self.assertGreaterEqual(got, 30 * MIB)
        self.assertEqual(got, back)
        times = [e["time_us"] for e in seen]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], begin - 2e6)
        self.assertLess(times[-1], time.time() * 1e6 + 2e6)

    def test_shape_of_an_entry(self):
        history()
        held = tensor(1000)
        entry = next(e for e in events() if e["action"] == "alloc")
        self.assertEqual(list(entry), EVENT_KEYS)
        self.assertEqual(entry["size"], 1000)
        self.assertEqual(entry["compile_context"], "N/A")
        self.assertEqual(entry["user_metadata"], "")
        history(context="all")
        again = tensor(1000)
        entry = next(e for e in events() if e["action"] == "alloc")
        self.assertEqual(list(entry), EVENT_KEYS + ["frames"])
        self.assertEqual(set(entry["frames"][0]), {"name", "filename", "line"})
        del held, again

    def test_events_add_up_to_the_statistics(self):
        history()
        base = stats()
        held = [tensor(size * KIB) for size in (1, 7, 300, 1500, 30000, 9000)]
        del held[::2]
        live = 0
        for entry in events():
            if entry["action"] == "alloc":
                live += entry["size"]
            elif entry["action"] == "free_completed":
                live -= entry["size"]
        self.assertEqual(live, now("requested_bytes") - base["requested_bytes.all.current"])
        reserved = sum(e["size"] * ((e["action"] in OBTAINED) - (e["action"] in RETURNED))
                       for e in events())
        self.assertEqual(reserved, now("reserved_bytes") - base["reserved_bytes.all.current"])

    def test_out_of_memory_is_an_event(self):
        history()
        set_limit(64 * MIB)
        with self.assertRaises(torch.OutOfMemoryError):
            tensor(300 * MIB)
        entry = next(e for e in events() if e["action"] == "oom")
        self.assertNotIn("addr", entry)
        self.assertEqual(entry["size"], 300 * MIB)
        self.assertGreater(entry["device_free"], 0)

    def test_snapshot_is_an_event_of_the_next(self):
        history()
        held = tensor(3 * MIB)
        self.assertNotIn("snapshot", self.actions())
        entry = events()[-1]
        self.assertEqual(entry["action"], "snapshot")
        self.assertEqual(entry["size"], now("active_bytes"))
        del held

    def test_old_events_give_way(self):
        history(max_entries=10)
        for number in range(30):
            tensor(1000 + number)
        seen = events()
        self.assertEqual(len(seen), 10)
        own = [e for e in seen if e["action"] not in OBTAINED + RETURNED]
        self.assertEqual([(e["action"], e["size"]) for e in own[-3:]],
                         [(action, 1029) for action in ("alloc", "free_requested",
                                                        "free_completed")])
        times = [e["time_us"] for e in seen]
        self.assertEqual(times, sorted(times))

    def test_events_can_be_left_out(self):
        history(skip_actions=["free_requested", "segment_alloc", "segment_map"])
        held = tensor(30 * MIB)
        del held
        self.assertEqual(self.actions(), ["alloc", "free_completed"])
        with self.assertRaisesRegex(RuntimeError, "Unknown TraceEntry action: everything"):
            history(skip_actions=["everything"])

    def test_history_can_be_cleared_and_stopped(self):
        history()
        held = tensor(3 * MIB)
        self.assertNotEqual(events(), [])
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python",
                                                 clear_history=True)
        self.assertEqual(events(), [])
        again = tensor(3 * MIB)
        torch.cuda.memory._record_memory_history(enabled=None)
        self.assertEqual(events(), [])
        last = tensor(3 * MIB)
        self.assertEqual(events(), [])
        del held, again, last

    def test_state_alone_keeps_frames_but_no_history(self):
        history(enabled="state", context="state")
        held = [tensor(3 * MIB) for _ in range(3)]
        self.assertLessEqual(len(events()), 1)
        mine = [b for b in blocks() if b["address"] == held[1].data_ptr()]
        self.assertTrue(any(frame["filename"].endswith("support.py") or
                            frame["filename"].endswith("reports.py")
                            for frame in mine[0]["frames"]))
        del held

    def test_frames_name_the_caller(self):
        history(context="all")
        held = tensor(3 * MIB)
        del held
        seen = events()
        for action in ("alloc", "free_requested"):
            frames = next(e for e in seen if e["action"] == action)["frames"]
            names = [frame["name"] for frame in frames]
            self.assertIn("test_frames_name_the_caller", names, action)
            frame = frames[names.index("test_frames_name_the_caller")]
            self.assertTrue(frame["filename"].endswith("reports.py"))
            self.assertGreater(frame["line"], 1)

    def test_levels_of_context(self):
        for context, has_frames in ((None, False), ("alloc", True), ("all", True)):
            history(context=context)
            held = tensor(3 * MIB)
            entry = next(e for e in events() if e["action"] == "alloc")
            self.assertEqual(bool(entry.get("frames")), has_frames, context)
            block = next(b for b in blocks() if b["address"] == held.data_ptr())
            self.assertEqual(bool(block["frames"]), context is not None, context)
            del held

    def test_native_frames_can_be_had_too(self):
        history(context="all", stacks="all")
        held = tensor(3 * MIB)
        entry = next(e for e in events() if e["action"] == "alloc")
        names = [frame["name"] for frame in entry["frames"]]
        self.assertIn("test_native_frames_can_be_had_too", names)
        self.assertTrue(any("::" in name or "at::" in name for name in names), names[:5])
        del held

    def test_wrong_words_are_refused(self):
        record = torch.cuda.memory._record_memory_history
        with self.assertRaisesRegex(RuntimeError, "expected state to be 'state', 'all', or None"):
            record(enabled="some")
        with self.assertRaisesRegex(RuntimeError, "expected context to be"):
            record(context="some")
        with self.assertRaisesRegex(RuntimeError, "expected stacks to be 'python', or 'all'"):
            record(stacks="some")

    def test_old_signature_still_works(self):
        record = torch.cuda.memory._record_memory_history
        record(True, trace_alloc_max_entries=100, trace_alloc_record_context=True)
        held = tensor(3 * MIB)
        self.assertIn("alloc", self.actions())
        record(False)
        self.assertEqual(events(), [])
        del held

    def test_metadata_of_the_user(self):
        history()
        torch.cuda.memory._set_memory_metadata("second layer")
        self.assertEqual(torch.cuda.memory._get_memory_metadata(), "second layer")
        held = tensor(3 * MIB)
        torch.cuda.memory._set_memory_metadata("")
        again = tensor(3 * MIB)
        seen = [e["user_metadata"] for e in events() if e["action"] == "alloc"]
        self.assertEqual(seen, ["second layer", ""])
        del held, again

    def test_scopes_are_annotations(self):
        history(global_record_annotations=True)
        with torch.profiler.record_function("my scope"):
            held = tensor(3 * MIB)
        found = [a for a in torch.cuda.memory._snapshot()["external_annotations"]
                 if a["name"] == "my scope"]
        self.assertEqual([a["stage"] for a in found], ["START", "END"])
        for annotation in found:
            self.assertEqual(set(annotation), {"stage", "name", "device", "time_us"})
        del held

    def test_recording_needs_no_restart(self):
        """On and off many times, with allocations between, warns of nothing and keeps the books."""
        held = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for number in range(6):
                history(context="all" if number % 2 else None)
                held.append(tensor(number * 700000 + 1))
                if number % 3 == 2:
                    torch.cuda.memory._record_memory_history(enabled=None)
                    held.pop(0)
        self.check_books()
