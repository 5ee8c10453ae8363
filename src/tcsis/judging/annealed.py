"""A second opinion where there are no exact answers: a population annealed for the purpose.

Draws know only what they have met.  A population annealed from uniform noise, which no network and
no chain of the draws had a part in, meets every mode in proportion as long as many of its first
states have descendants, and has a log Z of its own.  Modes that the draws miss, or hold in wrong
shares, show in the comparison; a mode that both miss does not.

Replicas of one family are alike, so errors go by families f of sizes n_f:

    mean = Σ_i y_i/n,    error² = Σ_f (Σ_{i in f} (y_i - mean))²/n².
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tcsis import mcmc
from tcsis.judging import metrics
from tcsis.judging.chances import normal
from tcsis.mcmc.diagnostics import NUM_OVERLAPS, NUM_PROJECTIONS, overlaps, projections
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

SIZES = ((4_000, 50, 5), (500, 30, 1))
"""Replicas, rungs (more of a large target) and sweeps a rung: as many as ``MOST_SECONDS`` allow."""
MOST_SECONDS = 20.0
COMPILED_SECONDS, NUM_TIMED, NUM_TRIES = 1e-8, 256, 3
"""A site of a compiled sweep, and how many states of a black box are timed, how often."""
MIN_FAMILIES = 50.0
"""Effective families from which on a population speaks for the target."""
SMALL_GAP = 0.1
"""In standard deviations of one draw: annealing itself is not more exact than that."""
SEED = 20_250_917
MOST_SITES = 512
ROUNDING = 1e-9


@dataclass(frozen=True)
class Annealed:
    """States ``x`` (n, d), their ``family`` (n,), log Z and its standard error."""

    x: Tensor
    family: Tensor
    log_z: float
    log_z_error: float

    @property
    def num_families(self) -> float:
        """How many equal families would tell as much, 1/Σ_f (n_f/n)²."""
        return 1 / self.log_z_error**2

    @property
    def sound(self) -> bool:
        return self.num_families >= MIN_FAMILIES


@lru_cache(maxsize=4)  # one target is judged again and again
def anneal(target: Target) -> Annealed | None:
    """A population for comparison, always the same one; None where even a small one would cost too
    much, or where uniform states are all forbidden."""
    seconds, d = seconds_per_site(target), target.num_sites
    for replicas, rungs, steps in SIZES:
        rungs = max(rungs, round(3 * math.sqrt(d)))
        if replicas * rungs * steps * d * seconds <= MOST_SECONDS:
            return population(target, replicas, rungs, steps)
    return None


def population(target: Target, replicas: int, rungs: int, steps: int) -> Annealed | None:
    try:
        found = mcmc.population_annealing(
            target, num_replicas=replicas, num_rungs=rungs, steps_per_rung=steps, seed=SEED
        )
    except ValueError:  # no state of the first population is allowed
        return None
    return Annealed(found.x[:, 0].long(), found.family, found.log_z, found.log_z_error)


def seconds_per_site(target: Target) -> float:
    """What it takes to move one site of one state: tried, where sweeps are not compiled."""
    if isinstance(target.free, Pairwise):
        return COMPILED_SECONDS
    x = torch.zeros(NUM_TIMED, target.num_sites, dtype=torch.long, device=target.device)
    taken = []
    for _ in range(NUM_TRIES):  # the first may compile or load, and others may be disturbed
        begin = time.process_time()
        target.log_ratios_at(x, x[:, 0])
        taken.append(time.process_time() - begin)
    return min(taken) / NUM_TIMED


# -- draws beside it ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disagreement:
    """The observable that agrees least: ``bias`` in standard deviations of one draw, ``chance``
    after Bonferroni."""

    name: str
    draws: float
    annealed: float
    bias: float
    chance: float


def compare(
    x: Tensor, p: Tensor, num_effective: float, annealed: Annealed, target: Target
) -> Disagreement:
    """States x (n, d) of weights p (n,) that sum to one, worth ``num_effective`` independent ones,
    beside a population."""
    near = torch.cat([some(x, NUM_OVERLAPS), some(annealed.x, NUM_OVERLAPS)])
    sites = some_sites(target)
    mine, theirs = (observe(target, states, near, sites) for states in (x, annealed.x))
    mean, deviation, error = moments(mine, p, num_effective)
    other, other_deviation, other_error = family_moments(theirs, annealed.family)
    gap = (mean - other).abs()
    gap = torch.where(gap > ROUNDING * (1 + mean.abs()), gap, 0.0)
    z = torch.where(gap == 0, 0.0, gap / torch.hypot(error, other_error))
    chance = (normal(z) * len(z)).clamp_max(1.0)
    bias = torch.where(gap == 0, 0.0, gap / deviation.maximum(other_deviation))
    k = int(torch.where(bias >= SMALL_GAP, chance, 1.0).argmin())
    return Disagreement(
        name_of(k, target, sites), float(mean[k]), float(other[k]), float(bias[k]),
        float(chance[k]),
    )  # fmt: skip


def observe(target: Target, x: Tensor, near: Tensor, sites: Tensor) -> Tensor:
    """What tells modes apart, (n, d) -> (n, m): energy, which value leads, overlaps with the states
    ``near`` and their squares, random projections, and the ``sites``, pairs (site, value)."""
    v = target.num_values
    overlap = 2 * overlaps(x, near) - 1
    return torch.cat(
        [
            target.energy(x.to(target.device)).double().cpu()[:, None],
            metrics.leaders(x, v),
            overlap,
            overlap.square(),
            projections(x, v),
            (x[:, sites[:, 0]] == sites[:, 1]).double(),
        ],
        1,
    )


def name_of(k: int, target: Target, sites: Tensor) -> str:
    """The name of an entry of ``observe``."""
    v, num_overlaps = target.num_values, 2 * NUM_OVERLAPS
    heads = [
        "energy",
        *(f"share of states where value {value} leads" for value in range(v)),
        *["overlap with a drawn state"] * num_overlaps,
        *["squared overlap with a drawn state"] * num_overlaps,
        *["sum over all sites with random signs"] * NUM_PROJECTIONS,
    ]
    if k < len(heads):
        return heads[k]
    site, value = sites[k - len(heads)].tolist()
    return f"share of value {value} at site {site}"


def some(x: Tensor, n: int) -> Tensor:
    """n states, evenly chosen."""
    return x[torch.linspace(0, len(x) - 1, n).long()]


def some_sites(target: Target) -> Tensor:
    """Pairs (site, value), all but the first value, at most ``MOST_SITES`` of them, (m, 2)."""
    values = torch.arange(1, target.num_values)
    pairs = torch.cartesian_prod(torch.arange(target.num_sites), values).reshape(-1, 2)
    return some(pairs, min(MOST_SITES, len(pairs)))


def moments(y: Tensor, p: Tensor, num_effective: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, deviation of one draw and standard error, (m,) each, of values y (n, m)."""
    mean = p @ y
    apart = (y - mean).square()
    deviation = (p @ apart).sqrt()
    by_weight = (p.square() @ apart).sqrt()
    return mean, deviation, by_weight.maximum(deviation / math.sqrt(num_effective))


def family_moments(y: Tensor, family: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a population; see the head of this module."""
    mean, n = y.mean(0), len(y)
    sums = torch.zeros(int(family.max()) + 1, y.shape[1], dtype=y.dtype)
    sums.index_add_(0, family, y - mean)
    return mean, y.std(0), sums.square().sum(0).sqrt() / n
