"""How much longer training and the demo take beside two busy processes than alone, in one run.

    python benchmarks/busy.py             writes docs/results/busy/busy.md
    python benchmarks/busy.py training    the training rows alone, in a few minutes

Needs an otherwise idle machine.  Every row is a process of its own, first alone and then beside two
loops that do nothing but compute; the machine code is compiled before.  The demo is the command of
``make demo``, into a folder that is thrown away.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "busy" / "busy.md"
NUM_BUSY = 2
LOOP = "while True: pass"
TRAINING = """
import sys, tcsis
side, method, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
tcsis.train(tcsis.targets.Ising(side, 0.4407), method, steps=steps, progress=False)
"""
NUM_STEPS = 400
SETTINGS = ((4, "autoregressive"), (4, "self-normalized"), (10, "autoregressive"))
MOST_RATIO, MOST_SECONDS = 3.5, 150.0
"""What the demo may take: times as long beside two busy processes, and seconds alone."""
UNSET = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_WAIT_POLICY")
"""Settings of a user, without which this is to be measured."""


@dataclass(frozen=True)
class Took:
    """Seconds of the clock, and of the processors."""

    wall: float
    cpu: float


def main() -> None:
    training_only, load, lines = sys.argv[1:] == ["training"], os.getloadavg()[0], []
    for side, method in SETTINGS:
        command = [sys.executable, "-c", TRAINING, str(side), method]
        run([*command, "1"])  # compiles what is compiled
        name = f"{NUM_STEPS} steps, side {side}, {method}"
        lines.append(row(name, *both([*command, str(NUM_STEPS)])))
    if not training_only:
        run([*demo(), "--steps", "1", "--n", "100"])
        alone, beside = both(demo())
        lines.append(row("`make demo`", alone, beside))
        lines += ["", verdict(alone, beside)]
    text = page(lines, load)
    print(text)
    if not training_only:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)


def demo() -> list[str]:
    """The command of ``make demo``, with the interpreter that runs this."""
    printed = subprocess.run(
        ["make", "--dry-run", "--silent", "demo"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    line = next(part for part in printed.replace("\\\n", " ").splitlines() if "compare" in part)
    _, *arguments = shlex.split(line)
    out = arguments.index("--out") + 1
    arguments[out] = str(Path(tempfile.mkdtemp()) / "demo")
    return [sys.executable, "-m", "tcsis.app.cli", *arguments]


def both(command: list[str]) -> tuple[Took, Took]:
    """Alone, and beside busy processes."""
    alone = run(command)
    with busy():
        return alone, run(command)


@contextmanager
def busy() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(NUM_BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(command: list[str]) -> Took:
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def row(name: str, alone: Took, beside: Took) -> str:
    ratio = beside.wall / alone.wall
    return (
        f"| {name} | {alone.wall:.1f} s | {alone.cpu:.1f} s | {beside.wall:.1f} s | "
        f"{beside.cpu:.1f} s | {ratio:.2f} |"
    )


def verdict(alone: Took, beside: Took) -> str:
    ratio = beside.wall / alone.wall
    holds = ratio <= MOST_RATIO and alone.wall <= MOST_SECONDS
    return (
        f"Asked of the demo: at most {MOST_RATIO} times as long, and {MOST_SECONDS:.0f} s alone. "
        f"{'Both hold.' if holds else 'This does not hold.'}"
    )


def page(lines: list[str], load: float) -> str:
    head = f"""# Beside busy processes

`python benchmarks/busy.py`, {os.cpu_count()} cores, no thread settings of the user's, load of the
machine before: {load:.1f}. Each row once alone and once beside {NUM_BUSY} processes that do nothing
but compute. A process that computes with one thread and shares the cores fairly takes 1.5 to 2
times as long then.

| what | alone | processor time | beside {NUM_BUSY} busy ones | processor time | times as long |
|---|---|---|---|---|---|
"""
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
