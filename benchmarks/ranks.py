"""Seconds a step on one rank and on two, one thread each.

    torchrun --nproc-per-node 2 benchmarks/ranks.py [STEPS]

Every rank count goes through the same run of two shards.  Beside wall time stands the time of the
processor that rank 0 needed, which tells what a step would take on cores that are free.
"""

from __future__ import annotations

import sys
import time

import torch

from tcsis.basics.ranks import ALONE, Ranks, all_ranks
from tcsis.learn import presets
from tcsis.learn.training import Run
from tcsis.targets import Ising

CASES = {"any-time": Ising(16, 0.4407), "self-normalized": Ising(10, 0.4407)}
QUICK = {"num_rungs": 1, "steps_per_rung": 1}
"""Annealing is no part of a step."""


def seconds_a_step(method: str, ranks: Ranks, num_steps: int) -> tuple[float, float]:
    """Of the wall and of the processor."""
    target = CASES[method]
    config = presets.fast(target, method).changed(shards=2, num_evaluations=0, buffer=QUICK)
    run = Run(target, config, seed=0, ranks=ranks)
    steps = run.steps()
    for _ in range(4):  # compiles, and makes first plans
        next(steps)
    ranks.meet()
    wall, own = time.perf_counter(), time.process_time()
    for _ in range(num_steps):
        next(steps)
    return (time.perf_counter() - wall) / num_steps, (time.process_time() - own) / num_steps


def main(num_steps: int) -> None:
    torch.set_num_threads(1)
    with all_ranks() as ranks, ranks.watching():
        for method in CASES:
            for several in (ALONE, ranks) if ranks.leads else (ranks,):
                if several is ranks:
                    ranks.meet()
                wall, own = seconds_a_step(method, several, num_steps)
                if ranks.leads:
                    said = f"{method}, {CASES[method]}, {several.size} ranks: {wall:.3f} s a step"
                    print(f"{said}, {own:.3f} s of the processor", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
