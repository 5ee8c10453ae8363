"""The paper's process, all sites at one time: how good draws are by step and number of calls.

    python benchmarks/parallel.py [WORDS]    writes docs/results/parallel/parallel.md

Every cell is one training run, or the exact denoiser at side 4, and draws for every step and number
of calls.  Finished cells are kept in ``cells.jsonl`` and not run again.  With words, such as
"unbiased" or "seed 1", only the cells that have all of them are run.  "speed" measures draws a
second with both cores instead, on a machine that should be idle.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tcsis
from tcsis import reverse, schedules
from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.learn.learned import Learned
from tcsis.learn.sampling import second_order
from tcsis.noise import UniformNoise
from tcsis.reverse.steps import Step, tweedie
from tcsis.targets import Ising

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "parallel"
CELLS, SPEED = FOLDER / "cells.jsonl", FOLDER / "speed.json"
NUM_TIMED = 2_048
CRITICAL = 0.4407
STEPS: dict[str, tuple[Callable[[Ising], Step], float]] = {
    "Tweedie": (lambda target: tweedie, 1.0),
    "second order": (second_order, 1.15),
}
"""Steps, and the calls that each takes of a state on average."""


@dataclass(frozen=True)
class Setting:
    side: int
    beta: float
    method: str
    seed: int
    calls: tuple[int, ...]
    num_draws: int

    @property
    def key(self) -> str:
        return f"side {self.side}, β = {self.beta} / {self.method} / seed {self.seed}"

    @property
    def target(self) -> Ising:
        return Ising(side=self.side, beta=self.beta)


LEARNED = ("self-normalized", "unbiased")
SETTINGS = [
    *[Setting(10, CRITICAL, m, seed, (24, 64, 128), 2_000) for seed in range(3) for m in LEARNED],
    *[
        setting
        for beta in (0.28, CRITICAL, 0.6)
        for setting in (
            Setting(4, beta, "exact", 0, (24,), 200_000),
            *[Setting(4, beta, m, seed, (24,), 20_000) for m in LEARNED for seed in range(3)],
        )
    ],
]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = sys.argv[1:]
    if "speed" in words:
        rows = [speed(method, *ways) for method in LEARNED for ways in ((1, 1), (2, 1), (1, 2))]
        SPEED.write_text(json.dumps(rows, indent=1) + "\n")
        words = ["nothing"]
    for setting in SETTINGS:
        wanted = all(word in setting.key for word in words)
        if wanted and not any(cell["setting"] == setting.key for cell in kept()):
            line = json.dumps(run(setting), ensure_ascii=False)
            print(line, flush=True)
            with CELLS.open("a") as file:
                file.write(line + "\n")
    (FOLDER / "parallel.md").write_text(page(kept()))


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


# -- one cell -------------------------------------------------------------------------------------


def run(setting: Setting) -> dict[str, Any]:
    """Train, or take the exact denoiser, and draw in every way."""
    target, began = setting.target, time.process_time()
    if setting.method == "exact":
        draw = exact_sampler(target, setting.num_draws, 100 + setting.seed)
    else:
        model = tcsis.train(target, setting.method, seed=setting.seed, progress=False)

        def draw(step: str, calls: int) -> Draws:
            make, per_step = STEPS[step]
            grid = schedules.uniform_grid(model.sampler.noise, max(1, round(calls / per_step)))
            schedule = schedules.parallel(target.num_sites, grid)
            return model.sample(
                setting.num_draws, seed=100 + setting.seed, schedule=schedule, step=make(target)
            )

    seconds = time.process_time() - began
    rows = [measure(target, draw, step, calls) for step in STEPS for calls in setting.calls]
    return {"setting": setting.key, "train_seconds": round(seconds, 1), "rows": rows}


def measure(
    target: Ising, draw: Callable[[str, int], Draws], step: str, calls: int
) -> dict[str, Any]:
    began = time.process_time()
    draws = draw(step, calls)
    seconds = time.process_time() - began
    row, n = tcsis.evaluate(draws, target, weighted=False)["correlation"], len(draws.x)
    return {
        "step": step, "calls": draws.num_network_calls / n, "ess": draws.ess,
        "variance": float(draws.log_weight.var()),
        "log_z_error": draws.log_z - tcsis.exact.solve(target).log_z,
        "error": row.error, "floor": row.floor, "draws_per_second": round(n / seconds, 1),
    }  # fmt: skip


# -- the exact denoiser ---------------------------------------------------------------------------


def exact_sampler(target: Ising, n: int, seed: int) -> Callable[[str, int], Draws]:
    noise = UniformNoise(2)
    denoiser = exact_denoiser(target, noise)

    def draw(step: str, calls: int) -> Draws:
        make, per_step = STEPS[step]
        grid = schedules.uniform_grid(noise, round(calls / per_step))
        schedule = schedules.parallel(target.num_sites, grid)
        return reverse.sample(
            target, denoiser, noise, schedule, make(target), n, seed=seed, batch_size=2_000
        )

    return draw


def exact_denoiser(target: Ising, noise: UniformNoise) -> reverse.Denoiser:
    """The denoiser of spins that all share their time, from a table of p_t for every time: in one
    pass a site, (p ⊗ k_t) has all states, and ratios of neighbours are the score."""
    p, d = Enumeration(target).p, target.num_sites
    place = 2 ** torch.arange(d - 1, -1, -1)

    @cache
    def log_marginals(t: float) -> Tensor:
        alpha = float(noise.schedule.alpha(torch.tensor(t, dtype=torch.float64)))
        kernel = torch.full((2, 2), (1 - alpha) / 2, dtype=torch.float64)
        kernel += alpha * torch.eye(2, dtype=torch.float64)
        p_t = p.reshape([2] * d)
        for _ in range(d):
            p_t = torch.tensordot(p_t, kernel, ([0], [0]))  # the next site comes first
        return p_t.flatten().log()

    def denoiser(x: Tensor, t: Tensor) -> Tensor:
        log_p, index = log_marginals(float(t[0, 0])), x @ place
        if float(t[0, 0]) == 1:  # pure noise says nothing, and the spins of this target are even
            return torch.full((*x.shape, 2), -math.log(2), dtype=torch.float64)
        there = log_p[index[:, None] + (1 - 2 * x) * place] - log_p[index][:, None]
        score = torch.zeros(*x.shape, 2, dtype=torch.float64).scatter(
            -1, (1 - x)[..., None], there[..., None]
        )
        return noise.denoiser_from_log_score(score, x, t)

    return denoiser


# -- speed ----------------------------------------------------------------------------------------


def speed(method: str, processes: int, threads: int) -> dict[str, Any]:
    """Draws a second at side 10 of an untrained network, which takes the time of a trained one, by
    so many processes at once with so many threads each."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(threads)  # before torch and numba are loaded in a new process
    context = get_context("spawn")
    ready, found = context.Barrier(processes), context.SimpleQueue()
    workers = [
        context.Process(target=time_draws, args=(method, ready, found)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    rows = [found.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {
        "method": method, "processes": processes, "threads": threads, "calls": rows[0][1],
        "per_second": sum(NUM_TIMED / seconds for seconds, _ in rows),
    }  # fmt: skip


def time_draws(method: str, ready: Barrier, found: SimpleQueue[tuple[float, float]]) -> None:
    """Put the seconds that draws take, and the calls of each, once all processes are ready."""
    target = Ising(10, CRITICAL)
    config = tcsis.presets.fast(target, method)
    model = Learned(target, config, config.new_model(target, seed=0))
    model.sample(NUM_TIMED // 4)
    ready.wait()
    begin = time.perf_counter()
    draws = model.sample(NUM_TIMED)
    found.put((time.perf_counter() - begin, draws.num_network_calls / NUM_TIMED))


# -- the page -------------------------------------------------------------------------------------


def page(cells: list[dict[str, Any]]) -> str:
    head = (
        "# All sites at one time\n\nWritten by `python benchmarks/parallel.py`; draws a second and "
        "training are of one core, in seconds of the processor.  Error is the mean error of "
        "the correlations as drawn, beside the floor that perfect draws of this number have.  "
        "`exact` is the exact denoiser, the limit of what a network can do with a step; with "
        "200,000 draws, for a few heavy weights decide: at β = 0.6, second order, eight runs of "
        "20,000 have an ESS of 0.86 to 0.93.\n\n"
        "| setting | training s | step | calls | ESS | var log w | log Z error | error | floor "
        "| draws/s |\n|---|---|---|---|---|---|---|---|---|---|\n"
    )
    order = {setting.key: place for place, setting in enumerate(SETTINGS)}
    cells = sorted(cells, key=lambda cell: order[cell["setting"]])
    lines = [line(cell, row) for cell in cells for row in cell["rows"]]
    splits = [split(cell) for cell in cells if len(cell["rows"]) > 2]
    return head + "".join(lines) + speed_part() + (SPLIT + "".join(splits) if splits else "")


def speed_part() -> str:
    if not SPEED.exists():
        return ""
    rows = [
        f"| {row['method']} | {row['processes']} | {row['threads']} | {row['calls']:.0f} "
        f"| {row['per_second']:.0f} |\n"
        for row in json.loads(SPEED.read_text())
    ]
    return (
        "\n## Draws a second\n\n`python benchmarks/parallel.py speed`, side 10, second order, "
        "by the clock: one core, two cores with a process each, and two threads of one process.\n\n"
        "| method | processes | threads of each | calls | draws/s |\n|---|---|---|---|---|\n"
    ) + "".join(rows)


def line(cell: dict[str, Any], row: dict[str, Any]) -> str:
    return (
        f"| {cell['setting']} | {cell['train_seconds']:.0f} | {row['step']} | {row['calls']:.0f} "
        f"| {row['ess']:.3f} | {row['variance']:.3f} | {row['log_z_error']:+.3f} "
        f"| {row['error']:.4f} | {row['floor']:.4f} | {row['draws_per_second']:.0f} |\n"
    )


SPLIT = """
## What the variance comes from

The steps' part of the variance of log w falls with the number of calls K, as 1/K for Tweedie and as
1/K² for the second order; what is left at K → ∞ is the network's.  A straight line through the two
largest K gives both.

| setting | step | network's part | steps' part at 64 calls |
|---|---|---|---|
"""


def split(cell: dict[str, Any]) -> str:
    lines = []
    for step, power in (("Tweedie", 1), ("second order", 2)):
        *_, few, many = [row for row in cell["rows"] if row["step"] == step]
        a, b = (row["calls"] ** -power for row in (few, many))
        slope = (few["variance"] - many["variance"]) / (a - b)
        left = many["variance"] - slope * b
        lines.append(f"| {cell['setting']} | {step} | {left:.3f} | {slope * a:.3f} |\n")
    return "".join(lines)


if __name__ == "__main__":
    main()
