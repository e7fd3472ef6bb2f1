#!/usr/bin/env python3
"""One table of the results of several backends.

    compare_results.py FILE.jsonl [FILE.jsonl...]

Counts for every backend, then every test that did not pass somewhere, with its status in each, then
the last line of each failure. Exit status 0 when nothing failed or crashed.
"""

import json
import sys

SHORT = {"passed": "ok", "failed": "FAIL", "crashed": "CRASH", "skipped": "skip"}


def read(paths):
    """{backend: {test: result}}; a file that is missing or broken is a backend without results."""
    found = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    result = json.loads(line)
                    found.setdefault(result["backend"], {})[result["test"]] = result
        except (OSError, ValueError, KeyError) as error:
            print(f"compare_results.py: {path}: {error}")
    return found


def reason(result):
    lines = result["detail"].strip().splitlines() or [""]
    return lines[-1][:200]


def main():
    results = read(sys.argv[1:])
    tests = sorted({test for by_test in results.values() for test in by_test})
    bad = 0
    print("\nreasons:")
    for backend, by_test in results.items():
        for test, result in by_test.items():
            if result["status"] in ("failed", "crashed"):
                bad += 1
                print(f"  {backend}: {test}: {reason(result)}")
    print()
    names = list(results)
    print(f"{'not passed everywhere':<64}" + "".join(f"{name:<24}" for name in names))
    for test in tests:
        states = [results[name].get(test, {}).get("status", "-") for name in names]
        if any(state != "passed" for state in states):
            print(f"{test:<64}" + "".join(f"{SHORT.get(state, state):<24}" for state in states))
    print()
    print(f"{'backend':<24}{'passed':>8}{'failed':>8}{'crashed':>9}{'skipped':>9}{'seconds':>9}")
    for name, by_test in results.items():
        states = [result["status"] for result in by_test.values()]
        seconds = sum(result["seconds"] for result in by_test.values())
        print(f"{name:<24}{states.count('passed'):>8}{states.count('failed'):>8}"
              f"{states.count('crashed'):>9}{states.count('skipped'):>9}{seconds:>9.1f}")
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
