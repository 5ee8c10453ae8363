"""Two populations beside each other: the observable that agrees least, and how little.

What tells modes apart is observed in both: energy, leading values, overlaps with states of either,
random projections, and single sites.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tcsis.judging import metrics
from tcsis.judging.chances import normal
from tcsis.mcmc.diagnostics import NUM_OVERLAPS, NUM_PROJECTIONS, overlaps, projections
from tcsis.targets.base import Target

SMALL_GAP = 0.1
"""In standard deviations of one draw: what draws are compared with is itself no more exact."""
MOST_SITES = 512
ROUNDING = 1e-9


class Population(Protocol):
    """States ``x`` (n, d), and averages over them with their errors."""

    @property
    def x(self) -> Tensor: ...

    def moments(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, deviation of one state and standard error, (m,) each, of values y (n, m)."""


@dataclass(frozen=True)
class Weighted:
    """States x (n, d) of weights p (n,) that sum to one, worth ``num_effective`` independent
    ones."""

    x: Tensor
    p: Tensor
    num_effective: float

    def moments(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.p @ y
        apart = (y - mean).square()
        deviation = (self.p @ apart).sqrt()
        by_weight = (self.p.square() @ apart).sqrt()
        return mean, deviation, by_weight.maximum(deviation / math.sqrt(self.num_effective))


@dataclass(frozen=True)
class Disagreement:
    """The observable that agrees least: ``bias`` in standard deviations of one draw, ``chance``
    after Bonferroni."""

    name: str
    draws: float
    other: float
    bias: float
    chance: float


def compare(draws: Population, beside: Population, target: Target) -> Disagreement:
    """Draws beside others that had no part in them."""
    mine, theirs = observe_both(target, draws.x, beside.x)
    mean, deviation, error = draws.moments(mine)
    other, other_deviation, other_error = beside.moments(theirs)
    gap = (mean - other).abs()
    gap = torch.where(gap > ROUNDING * (1 + mean.abs()), gap, 0.0)
    z = torch.where(gap == 0, 0.0, gap / torch.hypot(error, other_error))
    chance = (normal(z) * len(z)).clamp_max(1.0)
    bias = torch.where(gap == 0, 0.0, gap / deviation.maximum(other_deviation))
    k = int(torch.where(bias >= SMALL_GAP, chance, 1.0).argmin())
    return Disagreement(
        name_of(k, target), float(mean[k]), float(other[k]), float(bias[k]),
        float(chance[k]),
    )  # fmt: skip


def observe_both(target: Target, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same observables of states (n, d) and (k, d), (n, m) and (k, m)."""
    near = torch.cat([some(x, NUM_OVERLAPS), some(y, NUM_OVERLAPS)])
    sites = some_sites(target)
    return observe(target, x, near, sites), observe(target, y, near, sites)


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


def name_of(k: int, target: Target) -> str:
    """The name of an entry of ``observe_both``."""
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
    site, value = some_sites(target)[k - len(heads)].tolist()
    names = target.names
    return f"share of value {names.show_value(site, value)} at site {names.show(site)}"


def some(x: Tensor, n: int) -> Tensor:
    """n states, evenly chosen."""
    return x[torch.linspace(0, len(x) - 1, n).long()]


def some_sites(target: Target) -> Tensor:
    """Pairs (site, value), all but the first value, at most ``MOST_SITES`` of them, (m, 2)."""
    values = torch.arange(1, target.num_values)
    pairs = torch.cartesian_prod(torch.arange(target.num_sites), values).reshape(-1, 2)
    return some(pairs, min(MOST_SITES, len(pairs)))
