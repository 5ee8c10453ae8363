"""Chains recorded within a budget of seconds, and what one step of them costs.

A run is recorded at every step first.  Once the record is full it ends if it has ``ENOUGH``
autocorrelation times, and else every second entry is dropped and the rest is recorded half as
often, so that slow chains are watched for as long as the budget lasts.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tcsis.app.bench.autocorrelation import BURN_IN, integrated_time, judge
from tcsis.app.bench.plan import Result, Task, Truth
from tcsis.app.bench.targets import observe
from tcsis.basics.checks import make_generator
from tcsis.mcmc.chains import Chains
from tcsis.targets.base import counting
from tcsis.targets.pairwise import Pairwise

CAPACITY = 512
ENOUGH = 100.0
"""Autocorrelation times after which a run may end before its budget does."""
BATCHES, BATCH_SECONDS = 9, 0.04
"""Of steps that are timed."""


@dataclass(frozen=True)
class Recorded:
    """``values`` (observable, chain, record), one every ``thin`` steps."""

    values: np.ndarray
    thin: int


def record(chains: Chains, look: Callable[[Tensor], Tensor], seconds: float) -> Recorded:
    """Run chains until there is enough of them or ``seconds`` of this core are over."""
    rows: list[Tensor] = []
    thin, end = 1, time.process_time() + seconds
    while time.process_time() < end or len(rows) < 4:
        chains.advance(thin)
        rows.append(look(chains.x))
        if len(rows) == CAPACITY:
            if is_enough(stacked(rows)):
                break
            rows, thin = rows[1::2], 2 * thin
    return Recorded(stacked(rows), thin)


def stacked(rows: list[Tensor]) -> np.ndarray:
    return torch.stack(rows, -1).numpy()


def is_enough(values: np.ndarray) -> bool:
    kept = values[:, :, round(BURN_IN * values.shape[-1]) :]
    return all(kept.shape[-1] >= ENOUGH * integrated_time(series).tau for series in kept)


def price(chains: Chains, target: Pairwise) -> tuple[float, float]:
    """Seconds of one core and density calls for one step of one chain: the median of some batches,
    by the clock of the process, which stands still while others are served."""
    num, steps = len(chains.x), 1
    while timed(chains, steps) < BATCH_SECONDS:
        steps *= 2
    with counting(target) as cost:
        seconds = statistics.median(timed(chains, steps) for _ in range(BATCHES))
    return seconds / (steps * num), cost.densities / (BATCHES * steps * num)


def timed(chains: Chains, num_steps: int) -> float:
    began = time.process_time()
    chains.advance(num_steps)
    return time.process_time() - began


def measure(
    task: Task, target: Pairwise, start: Callable[[Tensor], Chains], num_chains: int
) -> Result:
    """Chains of ``start``, every second one from an ordered state and the others from noise."""
    truth = task.family.truth(target)
    chains = start(first_states(target, truth, num_chains, task.seed))
    chains.advance(1)  # which may compile
    found = record(
        chains, lambda x: observe(target, task.family.observables, truth, x), task.seconds
    )
    names = ("energy", *(name for name, _ in task.family.observables))
    judged = judge(
        dict(zip(names, found.values, strict=True)), found.thin, truth.energy, truth.energy_spread
    )
    seconds, densities = price(chains, target)
    return Result(
        seconds=seconds,
        densities=densities or None,
        draw=judged.draw,
        relative_error=judged.relative_error,
        refused=judged.refused,
        detail=f"τ of the {judged.slowest}",
        num_draws=int(found.values[0].size * found.thin),
        times=judged.times,
        r_hat=judged.r_hat if math.isfinite(judged.r_hat) else None,
        energy=judged.energy,
        energy_error=judged.energy_error,
        exact_energy=truth.energy,
    )


def first_states(target: Pairwise, truth: Truth, num_chains: int, seed: int) -> Tensor:
    """Noise, and an ordered state in every second row, (n, d)."""
    generator = make_generator(seed, "initial states")
    x = torch.randint(target.num_values, (num_chains, target.num_sites), generator=generator)
    rows = torch.arange(num_chains // 2) % len(truth.starts)
    x[1 : 2 * len(rows) : 2] = truth.starts[rows]
    return x
