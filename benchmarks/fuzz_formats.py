"""Damaged files of every format: refused in one sentence or read, in bounded time and memory.

    OMP_NUM_THREADS=1 python benchmarks/fuzz_formats.py [NUMBER OF FILES [FIRST]]

Files are numbered, and a number is the seed of its file.  Problems of every format are among them,
packed or not, arrays of couplings, and draws to be judged.  Valid files are mutated: bytes flipped,
parts cut, doubled, moved or replaced by noise, numbers replaced by huge, negative and non-finite
ones, files truncated or of another format.  Children with a limit on their memory read them.
Writes ``docs/results/formats/fuzz.md``.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from tcsis import Draws, formats, load_draws
from tcsis.targets import Factors, Target
from tcsis.targets.spec import load_pairwise

PAGE = Path(__file__).parents[1] / "docs" / "results" / "formats" / "fuzz.md"
MEMORY = 2**31
"""Bytes that a child may have beside what it has after its imports."""
SECONDS = 60
"""After which a file counts as hung."""
PER_CHILD = 500
NUMBER = re.compile(rb"\d+(\.\d+)?")
STRANGE = (
    b"0", b"-1", b"1e308", b"-1e308", b"1e400", b"nan", b"inf", b"-inf", b"99999999999999999999",
    b"2147483648", b"4294967295", b"9223372036854775807", b"1048576", b"16777216", b"65536", b"255",
    b"256", b"1e9", b"0x10", b"1_000", "٣".encode(), b"", b"x", b"--1", b"1e", b"1.5",
)  # fmt: skip

# -- valid files ---------------------------------------------------------------------------------

BIF = b"""network asia { property author = nobody; }
variable smoking { type discrete [ 2 ] { yes, no }; }
variable cancer { type discrete [ 2 ] { present, absent }; }
variable xray { type discrete [ 3 ] { good, bad, none }; }
probability ( xray | cancer, smoking ) {
  (present, yes) 0.1, 0.2, 0.7; (absent, yes) 0.1, 0.8, 0.1; default 0.5, 0.25, 0.25; }
probability ( cancer | smoking ) { table 0.03, 0.01, 0.97, 0.99; }
probability ( smoking ) { table 0.3, 0.7; } // the end
"""
UAI = b"""MARKOV
4
2 3 2 2
3
2 0 1
3 1 2 3
1 3
6
 0.5 1.0 2.0 0.25 1 1
12
 1 2 3 4 5 6 0.1 0 0.3 1 1 1
2
 0.4 0.6
"""
CNF = b"c a formula\np cnf 5 4\n1 -2 0\n2 3 -4 0\n-1 5 0 4\n -5 0\n"
WCNF = b"c weights\np wcnf 4 4 10\n10 1 -2 0\n3 2 3 0\n1 -3 4 0\n10 -1 -4 0\n"
MODERN = b"c without p\nh 1 -2 0\n3.5 2 3 0\n1 -3 4 0\n"
GSET = b"5 6\n1 2 1\n2 3 -1\n3 4 1\n4 5 1\n5 1 -1\n1 3 2.5\n"
DIMACS = b"c pentagon\np edge 5 5\nn 2 3\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\n"
COO = b"# vartype=SPIN\n0 0 -1.0\n0 1 0.5\n1 2 2.25\n3 3 1\n"
QUBO = b"c a qubo\np qubo 0 4 2 3\n0 0 -1\n3 3 2\n0 1 1.5\n1 2 -2\n2 3 1\n"
FASTA = b">one\nAC-H\n>two\nACYH\n>three\nMCYK\n>four\nMW-K\n"
RNA = b">a\nGGAAUUCC..a\n>b\nGCAAUUGC..g\n>c\nGGAA--CC.cc\n"
DCA = b"J 0 1 0 0 0.5\nJ 0 1 1 1 0.25\nJ 1 2 0 1 -0.5\nh 0 0 0.1\nh 0 1 0.2\nh 1 0 0\nh 2 1 1\n"
LETTERS = b"J 0 1 A C 0.5\nJ 1 2 - U -0.25\nh 0 A 0.1\nh 1 C 0.2\nh 2 U 0\n"


@dataclass(frozen=True)
class Valid:
    """A file that is fine, its format, settings to read it with, and what its name ends in."""

    format: str
    content: bytes
    settings: dict[str, Any]
    extension: str = ""

    def read(self, path: Path) -> Target | Draws:
        if self.format == "couplings":
            return load_pairwise(path)
        if self.format == "draws":
            return load_draws(path, DRAWN)
        return formats.read(path, self.format, **self.settings)


DRAWN = Factors(
    [((0, 1), np.zeros((2, 3)))], [2, 3],
    site_names=["a", "b"], value_names=[["no", "yes"], ["low", "mid", "high"]],
)  # fmt: skip
"""What the files of draws are draws of."""


def valid_files() -> list[Valid]:
    texts = [
        ("bif", BIF, {}), ("uai", UAI, {}), ("cnf", CNF, {}), ("cnf", CNF, {"beta": 1.5}),
        ("wcnf", WCNF, {}), ("wcnf", MODERN, {"beta": 2.0}), ("gset", GSET, {"beta": 0.5}),
        ("gset", GSET, {"problem": "ising"}), ("dimacs", DIMACS, {"problem": "independent-set"}),
        ("dimacs", DIMACS, {"problem": "colouring", "num_values": 3}),
        ("dimacs", DIMACS, {"problem": "colouring", "num_values": 200, "beta": 1.0}),
        ("dimacs", DIMACS, {"problem": "max-cut", "beta": 1.0}), ("coo", COO, {}),
        ("qubo", QUBO, {"beta": 2.0}), ("fasta", FASTA, {}), ("fasta", RNA, {}),
        ("dca", DCA, {}), ("dca", LETTERS, {}),
    ]  # fmt: skip
    packed = [
        Valid("gset", gzip.compress(GSET, mtime=0), {}, ".gz"),
        Valid("bif", gzip.compress(BIF, mtime=0), {}, ".gz"),
    ]
    return [
        *(Valid(*text) for text in texts), *binary_files(), *packed, *coupling_files(),
        *draws_files(),
    ]  # fmt: skip


def archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def coupling_files() -> list[Valid]:
    spins = {"J": [[0.0, 0.5], [0.5, 0.0]], "h": [0.1, -0.2], "beta": 0.7}
    pairs = {
        "edges": [[0, 1], [1, 2]], "couplings": np.ones((2, 3, 3)).tolist(),
        "fields": np.zeros((3, 3)).tolist(), "constant": 1.5,
    }  # fmt: skip
    made = [
        *((json.dumps(one).encode(), ".json") for one in (spins, pairs)),
        *((archive(**one), ".npz") for one in (spins, pairs)),
    ]
    return [Valid("couplings", content, {}, extension) for content, extension in made]


def draws_files() -> list[Valid]:
    """The same three draws in everything that holds draws."""
    import dimod

    x = np.array([[0, 2], [1, 0], [1, 1]])
    array = io.BytesIO()
    np.save(array, x)
    samples = dimod.SampleSet.from_samples((x, ["a", "b"]), "DISCRETE", energy=[0.0, 1.0, 2.0])
    drawn = Draws(torch.from_numpy(x).to(torch.uint8), torch.zeros(3))
    made = [
        (b"a,b,chain,log_weight\nno,high,0,0.5\nyes,low,0,1\nyes,mid,0,-2\n", ".csv"),
        (b"0 2\n1 0\n1 1\n", ".txt"), (array.getvalue(), ".npy"),
        (archive(x=x, log_weight=np.zeros(3)), ".npz"), (b"[[0, 2], [1, 0], [1, 1]]", ".json"),
        (json.dumps(samples.to_serializable()).encode(), ".json"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.nc"
        drawn.to_netcdf(path, DRAWN)
        made.append((path.read_bytes(), ".nc"))
        drawn.to_inferencedata(DRAWN).to_netcdf(path, engine="h5netcdf")
        made.append((path.read_bytes(), ".nc"))
    return [Valid("draws", content, {}, extension) for content, extension in made]


def binary_files() -> list[Valid]:
    import dimod

    labelled = dimod.BQM({"a": 1.0, "b": -2.0}, {("a", "b"): 1.5, ("b", "c"): -0.5}, 0.7, "SPIN")
    numbered = dimod.BQM({0: 1.0, 1: 2.0}, {(0, 1): -1.0, (1, 2): 0.5}, 0.0, "BINARY")
    discrete = dimod.DQM()
    discrete.add_variable(3, label="u")
    discrete.add_variable(2, label="v")
    discrete.set_linear("u", [1, 2, 3])
    discrete.set_quadratic("u", "v", {(0, 1): 2.0, (2, 0): -1.0})
    made = [
        ("bqm", labelled.to_file()), ("bqm", numbered.to_file(version=1)),
        ("dqm", discrete.to_file()), ("dqm", discrete.to_file(compress=True)),
    ]  # fmt: skip
    found = []
    for name, file in made:
        with file:
            found.append(Valid(name, file.read(), {}))
    return found


# -- damage --------------------------------------------------------------------------------------


def damage(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One to four mutations."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(MUTATIONS)(data, others, rng)
    return bytes(data)


def span(data: bytearray, rng: random.Random) -> slice:
    start = rng.randrange(len(data) + 1)
    return slice(start, min(len(data), start + rng.choice((1, 2, 8, 40))))


def flip(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 3, 10))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    del data[span(data, rng)]


def double(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    part = data[span(data, rng)]
    at = rng.randrange(len(data) + 1)
    data[at:at] = bytes(part) * rng.choice((1, 2, 1_000))


def truncate(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def noise(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    data[span(data, rng)] = rng.randbytes(rng.choice((1, 8, 64)))


def renumber(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    found = list(NUMBER.finditer(data))
    if found:
        match = rng.choice(found)
        data[match.start() : match.end()] = rng.choice(STRANGE)


def lines(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    parts = data.split(b"\n")
    rng.shuffle(parts)
    data[:] = b"\n".join(parts)


def mix(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other)) :]


MUTATIONS = (flip, cut, double, truncate, noise, renumber, renumber, lines, mix)


# -- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a file: "read", "refused", or the exception that should not have been."""

    format: str
    kind: str
    seconds: float
    said: str = ""


def attempt(valid: Valid, content: bytes, folder: Path) -> Outcome:
    """Read a file, and ask a target for a density."""
    path = folder / f"file{valid.extension}"
    path.write_bytes(content)
    begin = time.process_time()
    try:
        found = valid.read(path)
        if isinstance(found, Target):
            check_target(found)
        else:
            DRAWN.check(found.flat.x)
        kind, said = "read", ""
    except ValueError as error:
        said = str(error)
        whole = "\n" not in said and "expected" in said
        kind = "refused" if whole else "refused badly"
    except TimeoutError:
        kind, said = "hung", ""
    except Exception as error:  # which is what is looked for
        kind, said = type(error).__name__, str(error)
    return Outcome(valid.format, kind, time.process_time() - begin, said[:300])


def check_target(target: Target) -> None:
    x = torch.zeros(1, target.num_sites, dtype=torch.long)
    assert target.log_density(x).shape == (1,)
    assert not bool(target.log_density(x).isnan().any())


def hang(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def run_child(first: int, count: int) -> None:
    """Files ``first`` to ``first + count``, an outcome a line."""
    torch.set_num_threads(1)
    seeds = valid_files()
    others = [one.content for one in seeds]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, hang)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            rng = random.Random(number)
            valid = seeds[number % len(seeds)]
            content = damage(valid.content, others, rng)
            signal.alarm(SECONDS)
            outcome = attempt(valid, content, Path(folder))
            signal.alarm(0)
            print(json.dumps({"number": number, **outcome.__dict__}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"peak": peak * 1024}), flush=True)


def main(total: int, start: int = 0) -> None:
    found: list[dict[str, Any]] = []
    peaks, died = [], []
    for first in range(start, start + total, PER_CHILD):
        count = min(PER_CHILD, start + total - first)
        command = [sys.executable, __file__, "--child", str(first), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found += [row for row in rows if "number" in row]
        peaks += [row["peak"] for row in rows if "peak" in row]
        if done.returncode:
            died.append((first + len(rows), done.returncode, done.stderr[-500:]))
        print(f"{len(found)} files, {len(died)} children died", file=sys.stderr)
    bad = [row for row in found if row["kind"] not in ("read", "refused")]
    for row in (*bad, *died):
        print(row, file=sys.stderr)
    write_page(found, peaks, len(died))


def write_page(found: list[dict[str, Any]], peaks: list[int], died: int) -> None:
    by_format = Counter((row["format"], row["kind"]) for row in found)
    names = sorted({row["format"] for row in found})
    table = ["| format | files | read | refused | anything else | longest, s |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name in names:
        rows = [row for row in found if row["format"] == name]
        read, refused = by_format[name, "read"], by_format[name, "refused"]
        longest = max(row["seconds"] for row in rows)
        other = len(rows) - read - refused
        table.append(f"| {name} | {len(rows)} | {read} | {refused} | {other} | {longest:.2f} |")
    seconds = np.array([row["seconds"] for row in found])
    said = Counter(re.sub(r"'[^']*'|\d+", "…", row["said"].split(": ", 1)[-1])
                   for row in found if row["kind"] == "refused")  # fmt: skip
    examples = [f"- {sentence} ({count})" for sentence, count in said.most_common(12)]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    other = sum(row["kind"] not in ("read", "refused") for row in found)
    PAGE.write_text(PAGE_TEXT.format(
        total=len(found), died=died, other=other,
        mean=1e3 * seconds.mean(), longest=seconds.max(), peak=max(peaks) / 2**20,
        table="\n".join(table), examples="\n".join(examples), memory=MEMORY // 2**30,
        kinds=len(said),
    ))  # fmt: skip


PAGE_TEXT = """# Damaged files

`python benchmarks/fuzz_formats.py`: {total:,} files, made from valid ones of every format by one to
four mutations: bits flipped, parts cut, doubled up to a thousand times or replaced by noise,
numbers replaced by huge, negative and non-finite ones, lines shuffled, files cut short or spliced
with those of another format. Each is read as a target, and the target asked for a density, by
processes that may take {memory} GB more than they start with.

| | |
|---|---|
| processes that died | {died} |
| files that were neither read nor refused by a `ValueError` of one sentence | {other} |
| mean time of a file | {mean:.1f} ms of CPU |
| longest | {longest:.2f} s of CPU |
| most memory beside that of the imports | {peak:.0f} MB |

{table}

A mutation that leaves a file valid, as in a comment, a weight or a name, is read. {kinds} different
sentences refuse the others; the most frequent ones, with what differs from file to file left out:

{examples}
"""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main(*(int(word) for word in sys.argv[1:3] or ["10000"]))
