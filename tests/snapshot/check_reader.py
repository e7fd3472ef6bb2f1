#!/usr/bin/env python3
"""Reads pickles with Python's own pickle and with the project's reader, and compares everything:
check_reader.py DUMP_PICKLE FOLDER. Random values of every kind, in protocols 2 to 5, come on top."""
import glob
import pickle
import pickletools
import random
import subprocess
import sys
import tempfile


def string(data):
    return '"' + "".join(chr(b) if 0x20 <= b <= 0x7e and b not in b'"\\' else f"\\{b:02x}"
                         for b in data) + '"'


def real(value):
    """As C's %a prints it."""
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return str(value)
    text = value.hex().replace("0x1.0000000000000p", "0x1p")
    head, _, exponent = text.partition("p")
    head = head.rstrip("0").rstrip(".") if "." in head else head
    return "0x0p+0" if value == 0 and text[0] != "-" else f"{head}p{exponent}"


def dump(value, depth=0):
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value) if -2**63 <= value < 2**64 else "huge"
    if isinstance(value, float):
        return "real " + real(value)
    if isinstance(value, str):
        return string(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return "b" + string(value)
    if depth > 12:
        return "..."
    if isinstance(value, dict):
        items = (f"{dump(k, depth + 1)}: {dump(v, depth + 1)}" for k, v in value.items())
        return "{" + ", ".join(items) + "}"
    items = ", ".join(dump(v, depth + 1) for v in value)
    return f"[{items}]" if isinstance(value, list) else f"({items})"


def key(rng):
    return rng.choice([None, True, rng.randrange(-300, 300), rng.choice("abc") * rng.randrange(4),
                       (1, "t"), b"k", 2**70])


def make(rng, seen, depth):
    """A random value, sometimes one that was made before."""
    if seen and rng.random() < 0.15:
        return rng.choice(seen)
    kind = rng.randrange(12 if depth < 6 else 8)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind in (1, 2):
        bits = rng.randrange(1, 80)
        return rng.choice([-1, 1]) * rng.getrandbits(bits) + rng.choice([-1, 0, 1])
    if kind == 3:
        return rng.choice([0.0, -0.5, 1e300, 1 / 3, float("inf"), rng.random()])
    if kind in (4, 5):
        return rng.choice(["", "frames", "é\u20ac\U0001f600", "\ud800", "x" * 300,
                           "q" * rng.randrange(70000)])
    if kind in (6, 7):
        return bytes(rng.randrange(256) for _ in range(rng.choice([0, 3, 300])))
    count = rng.choice([0, 1, 2, 3, 4, 5, 20])
    values = [make(rng, seen, depth + 1) for _ in range(count)]
    if kind == 8:
        result = tuple(values)
    elif kind == 9:
        result = {key(rng): v for v in values}
    else:
        result = values
    seen.append(result)
    return result


def circle():
    inner = [1]
    outer = {"a": inner, "b": (inner, 2)}
    inner.append(outer)
    return outer


def long_list():
    return [{"i": i, "t": (i % 7, str(i % 13))} for i in range(20000)]


def compare(program, path):
    """True if the values were read; false if they were refused, as they should be."""
    with open(path, "rb") as file:
        data = file.read()
    run = subprocess.run([program, path], capture_output=True, text=True)
    if any(opcode.name in ("GLOBAL", "STACK_GLOBAL") for opcode, _, _ in pickletools.genops(data)):
        # Bytes of protocol 2 are a call of codecs.encode.
        if run.returncode != 1 or "GLOBAL names or calls code" not in run.stderr:
            sys.exit(f"{path}: not refused: {run.stderr}")
        return False
    if run.returncode != 0:
        sys.exit(f"{path}: {run.stderr}")
    want, got = dump(pickle.loads(data)), run.stdout
    if got.rstrip("\n") != want:
        place = next(i for i, (a, b) in enumerate(zip(got + "$", want + "$")) if a != b)
        sys.exit(f"{path}: differs at character {place}: expected {want[place:place + 60]!r}, "
                 f"got {got[place:place + 60]!r}")
    return True


def main():
    program, folder = sys.argv[1:]
    paths = sorted(glob.glob(f"{folder}/*.pickle"))
    for path in paths:
        compare(program, path)
    rng = random.Random(1)
    values = [circle(), long_list()] + [make(rng, [], 0) for _ in range(60)]
    count, refused = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number, value in enumerate(values):
            for protocol in range(2, 6):
                path = f"{folder}/{number}.{protocol}.pickle"
                with open(path, "wb") as file:
                    pickle.dump(value, file, protocol)
                is_read = compare(program, path)
                count, refused = count + is_read, refused + (not is_read)
    print(f"{len(paths)} files and {count} random pickles read as by Python, {refused} refused")


main()
