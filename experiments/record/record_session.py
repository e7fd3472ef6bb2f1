#!/usr/bin/env python3
"""Record a session of PyTorch's own CUDA caching allocator for `pleat verify`.

A seeded random program allocates, frees, marks streams and empties the cache; with --pools it also
makes private pools, redirects requests to them and deletes them. After every call all statistics,
the address and the allocator's own events are written down. Needs PyTorch 2.11 and a GPU. The
settings are those of PYTORCH_CUDA_ALLOC_CONF, which is set here before torch is imported.

    record_session.py OUT.oracle.gz --seed 7 [--settings S] [--limit-mib N] [--streams N] [--calls N]
                      [--sizes mixed|small|large|edge] [--busy] [--pools] [--filter thread|all|both]
                      [--once] [--nested] [--snapshots] [--options] [--record-all]

--pools needs --streams 3 or more, of which stream 2 is the only one that is recorded, unless
--record-all is given; that and --busy exclude each other. --once deletes every pool after one use;
--nested opens two redirections at times.
"""
import argparse
import bisect
import gzip
import os
import random
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--settings", default="")
    parser.add_argument("--limit-mib", type=int, default=0, help="0: no limit")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--calls", type=int, default=2500)
    parser.add_argument("--sizes", choices=("mixed", "small", "large", "edge"), default="mixed")
    parser.add_argument("--busy", action="store_true", help="keep stream 2 busy now and then")
    parser.add_argument("--pools", action="store_true", help="private pools")
    parser.add_argument("--filter", choices=("thread", "all", "both"), default="both",
                        help="which redirections --pools opens")
    parser.add_argument("--once", action="store_true", help="each pool is used once and deleted")
    parser.add_argument("--nested", action="store_true", help="two redirections at a time, too")
    parser.add_argument("--snapshots", action="store_true", help="snapshots now and then")
    parser.add_argument("--options", action="store_true", help="change options at run time")
    parser.add_argument("--record-all", action="store_true",
                        help="record any stream, not stream 2 alone")
    arguments = parser.parse_args()
    if (arguments.pools or arguments.busy) and arguments.streams < 3:
        parser.error("--pools and --busy use stream 2: give --streams 3 or more")
    if arguments.record_all and arguments.busy:
        parser.error("--record-all and --busy exclude each other")
    return arguments


class Orders:
    """What the lines ` deferred`, ` stale` and ` freeable` say, derived from the events.

    PyTorch keeps frees that are put off, and pools that may give memory back, in hash tables, whose
    order it does not log. Frees that a call resolves complete at once, or become events of the
    streams that were recorded, which complete in the order of their queues; so with one stream the
    order in which they complete, whenever that is, is an order of the table, and with several it is
    one queue by queue. A free that should have become an event but completed before others did that
    come first, or without its event, was stale.
    """

    def __init__(self):
        self.redirections = []  # open ones, oldest first
        self.used = {}  # id -> {stream: was it recorded while a redirection was open?}
        self.streams = {}  # id -> its own stream
        self.pools = {}  # id -> private pool that its block belongs to, 0 for none
        self.deferred = []  # ids, in the order of their free
        self.waiting = []  # ids of frees that became events, in their order
        self.addresses = {}  # address -> id of a block that is freed, but not complete
        self.lists = {}  # id -> the list of its ` deferred` line, as long as that lacks it
        self.uses = {}  # pool -> uses
        self.segments = []  # (address, bytes, pool) before the call, by address
        self.busy = False  # stream 2

    def allocated(self, number, stream, address, segments):
        self.used[number] = {}
        self.streams[number] = stream
        self.pools[number] = self.pool_of(segments, address)

    def recorded(self, number, stream):
        if stream != self.streams[number]:
            used = self.used[number]
            used[stream] = used.get(stream, False) or bool(self.redirections)

    def freed(self, number, address):
        used = self.used[number]
        if not used:
            return
        (self.deferred if self.redirections else self.waiting).append(number)
        self.addresses[address] = number

    @staticmethod
    def pool_of(segments, address):
        index = bisect.bisect_right(segments, (address, float("inf"), 0)) - 1
        if index >= 0 and address < segments[index][0] + segments[index][1]:
            return segments[index][2]
        return 0

    def resolves(self, kind, pool):
        if self.redirections:
            return False
        return kind in ("alloc", "oom", "empty") or (kind == "pool_delete" and
                                                     self.uses[pool] == 0)

    def asked(self, number):
        """The streams that a free waits for by events, as far as they were recorded outside."""
        return {stream for stream, is_captured in self.used[number].items() if not is_captured}

    def is_stale(self, number, completed, early, is_poll, pool):
        """Did a free that should have become an event complete without it? early are those that
        complete before all events of this call, or have events in front of them in every queue;
        pool is the one that the call deletes, or None. Queues are visited in the order of a hash
        table, so a free behind another one in all queues of that is the last of the two."""
        if number not in completed:
            return False
        asked = self.asked(number)
        if any(other in early and (other in self.deferred or set(self.used[other]) <= asked)
               for other in completed[completed.index(number) + 1:]):
            return True
        if pool is not None:
            return self.pools[number] != pool
        return is_poll and self.busy

    def lines(self, kind, pool, entries, has_waited):
        """The lines of a call, whose events are known: pairs of a word and a list of numbers, which
        may still grow until the end of the session."""
        completed = [self.addresses[e["addr"]] for e in entries
                     if e["action"] == "free_completed" and e["addr"] in self.addresses]
        result = []
        stale = []
        if self.deferred and self.resolves(kind, pool):
            asks = [n for n in self.deferred if not all(self.used[n].values())]
            early = set(self.deferred).difference(asks).union(self.waiting)
            deleted = pool if kind == "pool_delete" else None
            stale = [n for n in asks
                     if self.is_stale(n, completed, early, not has_waited, deleted)]
            order = []
            result.append(("deferred", order))
            for number in self.deferred:
                self.lists[number] = order
            self.waiting += [n for n in asks if n not in stale]
            self.deferred = []
        for number in completed:
            if number in self.lists:
                self.lists.pop(number).append(number)
            if number in self.waiting:
                self.waiting.remove(number)
        self.addresses = {a: n for a, n in self.addresses.items() if n not in completed}
        if has_waited or any(e["action"] == "segment_free" for e in entries):
            self.busy = False  # a wait ends the work of the stream, a device free all work
        if stale:
            result.append(("stale", sorted(stale, key=result[0][1].index)))
        freeable = self.freeable(entries)
        if len(freeable) > 1:
            result.append(("freeable", freeable))
        return result

    def freeable(self, entries):
        """Pools without uses, in the order in which they gave memory back."""
        order = []
        for entry in entries:
            if entry["action"] in ("segment_free", "segment_unmap"):
                pool = self.pool_of(self.segments, entry["addr"])
                if pool != 0 and self.uses[pool] == 0 and pool not in order:
                    order.append(pool)
        return order

    def incomplete(self, order):
        """Frees of a list that never completed: they have no order that anything depends on."""
        return [number for number, found in self.lists.items() if found is order]


class Recorder:
    """Performs calls on PyTorch and writes each down with what it did."""

    def __init__(self, torch, path, streams, limit_bytes, settings):
        self.torch = torch
        self.path = path
        self.lines = []  # and pairs of a word and its numbers, which later calls may complete
        self.total = torch.cuda.get_device_properties(0).total_memory
        self.fraction = limit_bytes / self.total if limit_bytes else 0
        if limit_bytes:
            torch.cuda.set_per_process_memory_fraction(self.fraction)
            limit_bytes = int(self.fraction * self.total)
        made = sorted((torch.cuda.Stream() for _ in range(streams - 1)), key=lambda s: s.cuda_stream)
        self.streams = [torch.cuda.default_stream()] + made
        self.number = {s.cuda_stream: i for i, s in enumerate(self.streams)}
        self.keys = sorted(torch.cuda.memory_stats())
        self.last = torch.cuda.memory_stats()
        self.live = {}
        self.next_id = 0
        self.mempools = {}
        self.orders = Orders()
        self.failed = False  # a check of PyTorch did, which ends the session
        version = torch.__version__
        name = torch.cuda.get_device_name(0).replace("NVIDIA ", "")
        self.lines.append("pleat-oracle 1")
        self.lines.append(f"recorded torch {version} device {name}")
        self.lines.append(f"settings {settings or '-'}")
        self.lines.append(f"total_memory {self.total}")
        self.lines.append(f"limit {limit_bytes}")
        self.lines.append(f"fraction {self.fraction}")
        self.lines.append(f"streams {streams}")
        self.lines.append("keys " + " ".join(self.keys))
        self.lines.append("base " + " ".join(str(self.last[k]) for k in self.keys))
        self.history()

    def save(self, more=()):
        """Write the session so far, and more lines."""
        with gzip.open(self.path, "wt") as out:
            for line in [*self.lines, *more]:
                if isinstance(line, tuple):
                    word, numbers = line
                    numbers = numbers + self.orders.incomplete(numbers)
                    line = f" {word} " + " ".join(str(n) for n in numbers)
                out.write(line + "\n")

    def history(self):
        """Begin an empty history of the allocator's events."""
        self.torch.cuda.memory._record_memory_history(
            enabled="all", context=None, stacks="python", max_entries=100000, clear_history=True)

    def finish_call(self, line, pool=None, error=None, allocated=None):
        """Write a call, its orders and events, and the statistics that it changed."""
        shown = {"segment_alloc", "segment_free", "segment_map", "segment_unmap", "free_completed"}
        snapshot = self.torch.cuda.memory._snapshot()
        entries = [e for e in snapshot["device_traces"][0] if e["action"] in shown]
        segments = sorted((s["address"], s["total_size"], s["segment_pool_id"][1])
                          for s in snapshot["segments"])
        now = self.torch.cuda.memory_stats()
        waits = "num_sync_all_streams"
        self.lines.append(line)
        self.lines += self.orders.lines(line.split()[0], pool, entries, now[waits] != self.last[waits])
        if allocated is not None:
            self.orders.allocated(*allocated, segments)
        self.orders.segments = segments
        if error is None and pool is not None and self.has_lost(pool, segments):
            error = "PyTorch ended a pool with memory in use"
            self.failed = True
        for entry in entries:
            stream = self.number[entry["stream"]]
            self.lines.append(f" {entry['action']} {entry['addr']:#x} {entry['size']} {stream}")
        self.history()
        if error is not None:
            self.lines.append(f" error {error}")
            return
        if line == "snapshot":
            self.write_segments(snapshot)
        changed = " ".join(f"{i}={now[k]}" for i, k in enumerate(self.keys) if now[k] != self.last[k])
        self.lines.append((" stats " + changed).rstrip())
        self.last = now

    def has_lost(self, pool, segments):
        """Is memory of a pool in use and in none of the segments?"""
        return any(self.orders.pools[number] == pool and
                   self.orders.pool_of(segments, tensor.data_ptr()) != pool
                   for number, (tensor, _) in self.live.items())

    def checked(self, line, call, pool=None):
        """Make a call that may fail in a check of PyTorch, which ends the session."""
        try:
            call()
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            self.failed = True
            self.finish_call(line, pool, error=text.split(" at ")[0].strip())
            return
        self.finish_call(line, pool)

    def alloc(self, size, stream):
        try:
            with self.torch.cuda.stream(self.streams[stream]):
                tensor = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            self.finish_call(f"oom {size} {stream}")
            return
        self.live[self.next_id] = (tensor, stream)
        address = tensor.data_ptr()
        self.finish_call(f"alloc {self.next_id} {size} {stream} {address:#x}",
                         allocated=(self.next_id, stream, address))
        self.next_id += 1

    def free(self, number):
        self.orders.freed(number, self.live[number][0].data_ptr())
        del self.live[number]
        self.finish_call(f"free {number}")

    def record(self, number, stream):
        self.live[number][0].record_stream(self.streams[stream])
        self.orders.recorded(number, stream)
        self.finish_call(f"record {number} {stream}")

    def empty(self):
        self.checked("empty", self.torch.cuda.empty_cache)

    def sync(self):
        self.torch.cuda.synchronize()
        self.orders.busy = False
        self.finish_call("sync")

    def busy(self, stream):
        with self.torch.cuda.stream(self.streams[stream]):
            self.torch.cuda._sleep(3_000_000_000)
        self.orders.busy = True
        self.finish_call(f"busy {stream}")

    def pool_create(self, no_split, use_on_oom):
        made = self.torch.cuda.MemPool(no_split=no_split, use_on_oom=use_on_oom)
        pool = made.id[1]
        self.mempools[pool] = made
        self.orders.uses[pool] = 1
        words = " no_split" * no_split + " use_on_oom" * use_on_oom
        self.finish_call(f"pool_create {pool}{words}")
        return pool

    def pool_begin(self, pool, kind):
        begin = (self.torch._C._cuda_beginAllocateToPool if kind == "all" else
                 self.torch._C._cuda_beginAllocateCurrentThreadToPool)
        begin(0, (0, pool))
        self.orders.uses[pool] += 1
        self.orders.redirections.append(pool)
        self.finish_call(f"pool_begin {pool} {kind}")

    def pool_end(self, pool):
        self.torch._C._cuda_endAllocateToPool(0, (0, pool))
        self.orders.redirections.remove(pool)
        self.finish_call(f"pool_end {pool}")

    def pool_release(self, pool):
        self.torch._C._cuda_releasePool(0, (0, pool))
        self.orders.uses[pool] -= 1
        self.finish_call(f"pool_release {pool}")

    def pool_delete(self, pool):
        """A check that fails in here ends the process; the session so far is on disk by then."""
        self.save([f"pool_delete {pool}", " error a check in the destructor of MemPool", "end"])
        self.orders.uses[pool] -= 1
        del self.mempools[pool]
        self.finish_call(f"pool_delete {pool}", pool)

    def set(self, settings):
        self.torch._C._accelerator_setAllocatorSettings(settings)
        self.finish_call(f"set {settings}")

    def snapshot(self):
        self.finish_call("snapshot")

    def reset_peak(self):
        self.torch.cuda.reset_peak_memory_stats()
        self.finish_call("reset_peak")

    def reset_acc(self):
        self.torch.cuda.reset_accumulated_memory_stats()
        self.finish_call("reset_acc")

    def write_segments(self, snapshot):
        for segment in snapshot["segments"]:
            kind = "expandable" if segment["is_expandable"] else "plain"
            pool = segment["segment_pool_id"][1]
            self.lines.append(
                f" segment {segment['address']:#x} {segment['total_size']} "
                f"{self.number[segment['stream']]} {segment['segment_type']} {kind} "
                f"allocated={segment['allocated_size']} active={segment['active_size']} "
                f"requested={segment['requested_size']}" + f" pool={pool}" * (pool != 0))
            for block in segment["blocks"]:
                self.lines.append(f"  block {block['address']:#x} {block['size']} "
                                 f"requested={block['requested_size']} {block['state']}")

    def end(self):
        self.lines.append("end")
        if not self.failed:
            self.write_segments(self.torch.cuda.memory._snapshot())
        self.save()


def draw_size(rng, kind):
    mib = 1 << 20
    if kind == "edge":
        base = rng.choice((512, 1024, mib, 2 * mib, 10 * mib, 20 * mib, 30 * mib, 64 * mib))
        return max(1, base + rng.choice((-512, -1, 0, 1, 512)))
    if kind == "small":
        return rng.choice((rng.randint(1, 4096), rng.randint(1, mib)))
    if kind == "large":
        return rng.randint(mib, 120 * mib)
    return rng.choice((rng.randint(1, 16384), rng.randint(1, mib), rng.randint(mib, 10 * mib),
                       rng.randint(10 * mib, 120 * mib)))


class Program:
    """The seeded program."""

    def __init__(self, recorder, rng, arguments):
        self.recorder = recorder
        self.rng = rng
        self.arguments = arguments
        self.wanted = rng.randint(10, 60)
        self.busy_left = 0
        self.open = []  # [pool, calls until it ends], oldest first
        self.pools = []  # not deleted
        self.late = []  # pools whose last use is released later than the redirection ended

    def pool_step(self):
        """Something about pools, or False."""
        rng, recorder, arguments = self.rng, self.recorder, self.arguments
        for entry in self.open:
            entry[1] -= 1
        ended = [entry for entry in self.open if entry[1] <= 0]
        if ended:
            self.close(rng.choice(ended))
        elif self.late and rng.random() < 0.1:
            recorder.pool_release(self.late.pop(rng.randrange(len(self.late))))
        elif len(self.open) < (2 if arguments.nested else 1) and rng.random() < (
                0.05 if not self.open else 0.1):
            self.redirect()
        elif not self.open and self.pools and rng.random() < 0.008:
            recorder.pool_delete(self.pools.pop(rng.randrange(len(self.pools))))
        else:
            return False
        return True

    def redirect(self):
        rng, arguments = self.rng, self.arguments
        if arguments.once or not self.pools or (len(self.pools) < 5 and rng.random() < 0.2):
            self.pools.append(self.recorder.pool_create(rng.random() < 0.25, rng.random() < 0.3))
        pool = self.pools[-1] if arguments.once else rng.choice(self.pools)
        if pool not in [entry[0] for entry in self.open]:
            kind = arguments.filter if arguments.filter != "both" else rng.choice(("thread", "all"))
            self.recorder.pool_begin(pool, kind)
            self.open.append([pool, rng.randint(1, 60 if arguments.once else 25)])

    def close(self, entry):
        pool = entry[0]
        self.recorder.pool_end(pool)
        self.open.remove(entry)
        if self.rng.random() < 0.15:
            self.late.append(pool)
        else:
            self.recorder.pool_release(pool)
        if self.arguments.once and not self.open:
            self.pools.remove(pool)
            self.recorder.pool_delete(pool)

    def rare_step(self, drawn):
        """A call that is not about one tensor, or False."""
        recorder, rng, arguments = self.recorder, self.rng, self.arguments
        if drawn < (0.012 if arguments.pools else 0.004):
            recorder.empty()
        elif drawn < 0.014:
            recorder.reset_peak()
        elif drawn < 0.015:
            recorder.reset_acc()
        elif drawn < 0.02:
            recorder.sync()
            self.busy_left = 0
        elif arguments.busy and drawn < 0.028 and self.busy_left == 0:
            recorder.busy(2)
            self.busy_left = rng.randint(3, 12)
        elif arguments.snapshots and 0.03 < drawn < 0.05:
            recorder.snapshot()
        elif arguments.options and 0.05 < drawn < 0.058:
            recorder.set(draw_settings(rng))
        else:
            return False
        return True

    def step(self):
        recorder, rng, arguments = self.recorder, self.rng, self.arguments
        if self.busy_left > 0:
            self.busy_left -= 1
            if self.busy_left == 0:
                recorder.sync()
                return
        if arguments.pools and self.pool_step():
            return
        drawn = rng.random()
        live = list(recorder.live)
        if self.rare_step(drawn):
            return
        if live and arguments.streams > 1 and 0.06 < drawn < 0.2:
            only = arguments.busy or (arguments.pools and not arguments.record_all)
            recorder.record(rng.choice(live), 2 if only else rng.randrange(arguments.streams))
        elif live and rng.random() < (0.5 if len(live) < self.wanted else 0.7):
            recorder.free(rng.choice(live))
        else:
            recorder.alloc(draw_size(rng, arguments.sizes), rng.randrange(arguments.streams))
        if rng.random() < 0.01:
            self.wanted = rng.randint(5, 80)

    def run(self):
        for _ in range(self.arguments.calls):
            self.step()
            if self.recorder.failed:
                return
        if self.busy_left > 0:
            self.recorder.sync()
        while self.open and not self.recorder.failed:
            self.close(self.open[-1])


def draw_settings(rng):
    """No split limit: PyTorch may then free a part of a segment that was split before."""
    return ",".join(rng.sample(("expandable_segments:" + rng.choice(("True", "False")),
                                f"large_segment_size_mb:{rng.choice((20, 24, 32))}",
                                f"roundup_power2_divisions:{rng.choice((1, 2, 4, 8))}"),
                               rng.randint(1, 3)))


def main():
    arguments = parse_arguments()
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = arguments.settings
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    rng = random.Random(arguments.seed)
    recorder = Recorder(torch, arguments.out, arguments.streams, arguments.limit_mib << 20,
                        arguments.settings)
    Program(recorder, rng, arguments).run()
    recorder.end()
    sys.stdout.flush()
    os._exit(0)  # pools that are left must not be deleted in the order of a shutdown


if __name__ == "__main__":
    main()
