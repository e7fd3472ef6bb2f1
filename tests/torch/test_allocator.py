#!/usr/bin/env python3
"""What users rely on in PyTorch's CUDA allocator, as a test suite for whatever stands in for it.

    tests/torch/test_allocator.py [--backend B] [--results FILE] [--jobs N] [NAME...]
    python3 -m unittest tests/torch/test_allocator.py        or pytest; the backend is then
                                                             that of PLEAT_TORCH_BACKEND

The same tests, unchanged, for PyTorch's own allocator (native, native-expandable) and for Pleat in
every mode (pleat-classic, pleat-torch_expandable, pleat-pleated). They say what holds for all.

Run as a program, every class has a process of its own, forked from this one before CUDA is used: a
crash costs one test, and the rest of its class goes on in a new process. How a process ends is the
result of `Class.end`. Results are lines of JSON: {"backend", "test", "status", "seconds",
"detail"}; a status is passed, failed, skipped or crashed. Exit status 0 when nothing failed.
"""

import argparse
import collections
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

MODULES = ("counters", "limits", "streams", "reports", "settings", "pools", "graphs", "programs")


def has_torch():
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def load_classes():
    """All test classes, in order, by name."""
    import importlib

    from cases import support

    found = collections.OrderedDict()
    for name in MODULES:
        module = importlib.import_module("cases." + name)
        for attribute, value in vars(module).items():
            if (isinstance(value, type) and issubclass(value, support.Case)
                    and value is not support.Case and value.__module__ == module.__name__):
                found[attribute] = value
    return found


def load_tests(loader, _standard, _pattern):
    """For unittest: everything but what takes the whole device."""
    suite = unittest.TestSuite()
    for case in load_classes().values():
        if not case.exclusive:
            suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


def export_for_pytest():
    globals().update({name: case for name, case in load_classes().items() if not case.exclusive})


class Recorder(unittest.TestResult):
    """Writes a line when a test begins and one when it ends, so that a crash can be placed."""

    def __init__(self, path):
        super().__init__()
        self.file = open(path, "a", encoding="utf-8")
        self.begin = 0.0
        self.outcome = None

    def line(self, **fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.perf_counter()
        self.outcome = ("passed", "")
        self.line(event="start", test=name_of(test))

    def stopTest(self, test):
        super().stopTest(test)
        self.line(event="end", test=name_of(test), status=self.outcome[0], detail=self.outcome[1],
                  seconds=round(time.perf_counter() - self.begin, 3))

    def note(self, test, status, detail):
        if isinstance(test, unittest.TestCase):
            if self.outcome[0] != "failed":
                self.outcome = (status, detail)
        else:  # setUpClass: an object that only has a name
            self.line(event="class", status=status, detail=detail)

    def addError(self, test, err):
        self.note(test, "failed", "".join(traceback.format_exception(*err))[-3000:])

    def addFailure(self, test, err):
        self.addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            text = "".join(traceback.format_exception(*err))[-2000:]
            self.note(test, "failed", f"{subtest.params}: {text}")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)


def name_of(test):
    return f"{type(test).__name__}.{test._testMethodName}"


def run_in_child(case, names, path):
    suite = unittest.TestSuite([case(name) for name in names])
    suite.run(Recorder(path))


class Worker:
    """The process of a class; started again after a crash for the tests that are left."""

    def __init__(self, case, names, options):
        self.case = case
        self.left = list(names)
        self.options = options
        self.results = []
        self.path = ""
        self.pid = 0
        self.started = 0.0
        self.running = None
        self.killed = False

    def start(self):
        handle, self.path = tempfile.mkstemp(prefix="pleat-torch-")
        os.close(handle)
        self.seen = 0
        self.running = None
        self.killed = False
        self.fresh = True
        self.progress = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            if self.options.log:
                log = os.open(self.options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                os.dup2(log, 1)
                os.dup2(log, 2)
            try:
                run_in_child(self.case, self.left, self.path)
            except BaseException:
                traceback.print_exc()
                sys.exit(9)
            sys.exit(0)

    def result(self, test, status, detail="", seconds=0.0):
        self.results.append({"backend": self.options.backend, "test": test, "status": status,
                             "seconds": seconds, "detail": detail})

    def read(self):
        """Take in what the process has written since."""
        with open(self.path, encoding="utf-8") as file:
            lines = file.readlines()
        for text in lines[self.seen:]:
            if not text.endswith("\n"):
                break
            self.seen += 1
            self.progress = time.monotonic()
            line = json.loads(text)
            if line["event"] == "start":
                self.running = line["test"]
            elif line["event"] == "end":
                self.running = None
                self.left.remove(line["test"].split(".")[1])
                self.result(line["test"], line["status"], line["detail"], line["seconds"])
            else:
                for name in self.left:
                    self.result(f"{self.case.__name__}.{name}", line["status"], line["detail"])
                self.left = []

    def poll(self):
        """True when the class is done."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        self.read()
        if not done:
            if time.monotonic() - self.progress > self.options.timeout and not self.killed:
                os.kill(self.pid, signal.SIGKILL)
                self.killed = True
            return False
        os.remove(self.path)
        code = os.waitstatus_to_exitcode(status)
        reason = f"stopped after {self.options.timeout:.0f} s without progress" if self.killed \
            else f"exit status {code}"
        if self.running:
            self.result(self.running, "crashed", reason)
            self.left.remove(self.running.split(".")[1])
        elif self.left:
            self.result(f"{self.case.__name__}.{self.left.pop(0)}", "crashed", "did not begin: "
                        + reason)
        else:
            self.result(f"{self.case.__name__}.end", "passed" if code == 0 else "crashed",
                        "" if code == 0 else reason)
        if self.left:
            self.start()
            return False
        return True


def choose(classes, options):
    """(class, names of its tests) that are wanted."""
    chosen = []
    for name, case in classes.items():
        if case.exclusive != options.exclusive:
            continue
        tests = unittest.defaultTestLoader.getTestCaseNames(case)
        if options.names:
            tests = [t for t in tests if any(w in f"{name}.{t}" for w in options.names)]
        if tests:
            chosen.append((case, tests))
    return chosen


def run_isolated(chosen, options):
    waiting = [Worker(case, tests, options) for case, tests in chosen]
    running, done = [], []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            running.append(waiting.pop(0))
            running[-1].start()
        for worker in list(running):
            if worker.poll():
                running.remove(worker)
                done.append(worker)
                show(worker.results)
        time.sleep(0.02)
    return [result for worker in done for result in worker.results]


def run_here(chosen, options):
    """All in this process: for a debugger."""
    handle, path = tempfile.mkstemp(prefix="pleat-torch-")
    os.close(handle)
    recorder = Recorder(path)
    for case, tests in chosen:
        unittest.TestSuite([case(name) for name in tests]).run(recorder)
    results = []
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["event"] == "end":
                results.append({"backend": options.backend, "test": line["test"],
                                "status": line["status"], "seconds": line["seconds"],
                                "detail": line["detail"]})
            elif line["event"] == "class":
                results.append({"backend": options.backend, "test": "class", "seconds": 0.0,
                                "status": line["status"], "detail": line["detail"]})
    os.remove(path)
    show(results)
    return results


def show(results):
    last = ""
    for result in results:
        print(f"{result['status']:<8} {result['seconds']:6.2f} s  {result['test']}", flush=True)
        if result["status"] in ("failed", "crashed") and result["detail"] != last:
            last = result["detail"]
            print("    " + last.strip().replace("\n", "\n    "), flush=True)


def forkable():
    """A forked process can use CUDA only if nobody here has; a simulated GPU takes no harm."""
    import ctypes

    from cases import support

    if support.SIMULATED:
        return True

    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    count = ctypes.c_int()
    return driver.cuDeviceGetCount(ctypes.byref(count)) == 3  # CUDA_ERROR_NOT_INITIALIZED


def parse_arguments(backends):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of Class.test; all without")
    parser.add_argument("--backend", choices=backends, default="native")
    parser.add_argument("--results", default="", help="file for the results, lines of JSON")
    parser.add_argument("--log", default="", help="file for what the tests print")
    parser.add_argument("--jobs", type=int, default=4, help="classes at a time")
    parser.add_argument("--timeout", type=float, default=150.0,
                        help="seconds without progress until a process is stopped")
    parser.add_argument("--exclusive", action="store_true",
                        help="only the tests that take the whole device")
    parser.add_argument("--no-isolation", action="store_true", help="all in this process")
    parser.add_argument("--list", action="store_true", help="names of the tests, and no more")
    return parser.parse_args()


def start_anew(wanted):
    """This program again, with the environment that the backend needs when torch is imported."""
    environment = dict(os.environ)
    for name, value in wanted.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    os.execve(sys.executable, [sys.executable, os.path.abspath(__file__)] + sys.argv[1:],
              environment)


def main():
    if not has_torch():
        print("test_allocator.py: no PyTorch; skipped")
        return 77
    from cases import support

    options = parse_arguments(support.BACKENDS)
    wanted = support.environment(options.backend)
    if not options.list and any(os.environ.get(name) != value for name, value in wanted.items()):
        start_anew(wanted)
    classes = load_classes()
    chosen = choose(classes, options)
    if options.list:
        for case, tests in chosen:
            print("\n".join(f"{case.__name__}.{test}" for test in tests))
        return 0
    begin = time.monotonic()
    isolated = not options.no_isolation
    if isolated and not forkable():
        sys.exit("test_allocator.py: error: an import has initialised CUDA; use --no-isolation")
    results = (run_isolated if isolated else run_here)(chosen, options)
    if options.results:
        with open(options.results, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    counts = collections.Counter(result["status"] for result in results)
    print(f"{options.backend}: {counts['passed']} passed, {counts['failed']} failed, "
          f"{counts['crashed']} crashed, {counts['skipped']} skipped in "
          f"{time.monotonic() - begin:.1f} s")
    return 1 if counts["failed"] or counts["crashed"] or not results else 0


if __name__ == "__main__":
    sys.exit(main())
elif "pytest" in sys.modules:
    export_for_pytest()
