"""Draws as they come, against the same draws with their weights.

With g_i = w_i/Ẑ, of mean 1, weights shift the average of an observable f by

    D = Σ_i g_i·f_i/n - Σ_i f_i/n = f_w - f_0,
    error² = Σ_i [g_i·(f_i - f_w) - (f_i - f_0)]²/n²        (delta method, of the same draws),

so a bias of the draws as they come shows far below the noise of either average.  D is measured in
standard deviations of f under the target, from the weights.  It is certain where its chance, after
Bonferroni over all entries of all observables, is small; and it matters from ``SMALL_BIAS`` on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.judging import metrics, weights
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import (
    DOUBTFUL_CHANCE,
    LEVELS,
    SMALL_BIAS,
    Finding,
    grade_chance,
    percent,
)
from tcsis.judging.reference import States

LEAKY = 0.01
"""Share of draws that leak from which on draws are not to be used as they come."""

MOST_PAIRS = 512
"""Compared at a time, for the sake of memory."""

ROUNDING = 1e-6


def check_as_drawn(evidence: Evidence) -> Finding | None:
    """Leaks and shifted averages, where there are sound weights that differ."""
    log_weight = evidence.draws.log_weight
    if log_weight is None or not evidence.evaluation.uneven or not evidence.sound:
        return None
    found = [check_leak(log_weight), check_shifts(evidence)]
    said = [finding for finding in found if finding is not None]
    level = max((finding.level for finding in said), key=LEVELS.index)
    shown = [finding.why for finding in said if level == "trusted" or finding.level != "trusted"]
    return Finding(level, ", and ".join(shown))


def check_leak(log_weight: Tensor) -> Finding | None:
    """Those of the draws that leak and are not forbidden, which are counted elsewhere."""
    share = weights.leak(log_weight) - weights.forbidden(log_weight)
    if share <= 0:
        return None
    why = f"{percent(share)} of the draws leak to where the target has next to nothing"
    return Finding("failed" if share > LEAKY else "trusted", why)


# -- averages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shift:
    """The entry of an observable that weights shift most: from ``plain`` to ``weighted``, by
    ``bias`` standard deviations of one draw, which has this ``chance`` if there is no bias."""

    name: str
    entry: int
    plain: float
    weighted: float
    bias: float
    chance: float

    @property
    def why(self) -> str:
        if self.name == "modes":
            return (
                f"value {self.entry} leads in {self.plain:.0%} of the draws, "
                f"where it is {self.weighted:.0%} by weight"
            )
        far = f"by {self.bias:.2g}" if math.isfinite(self.bias) else "by many"
        return f"the {self.name} is off {far} standard deviations of one draw"


def check_shifts(evidence: Evidence) -> Finding:
    """The worst of the shifts that are certain; modes, if they matter, are named before others."""
    certain = [shift for shift in find_shifts(evidence) if shift.chance < DOUBTFUL_CHANCE]
    certain.sort(key=lambda shift: -shift.bias)
    if not certain:
        return Finding("trusted", "no average is off by more than chance")
    worst = certain[0]
    if worst.bias < SMALL_BIAS:
        off = f"off by at most {worst.bias:.1g} standard deviations of one draw"
        return Finding("trusted", f"averages are {off} (the {worst.name})")
    wrong = [shift for shift in certain if shift.bias >= SMALL_BIAS]
    named = next((shift for shift in wrong if shift.name == "modes"), worst)
    return Finding(grade_chance(worst.chance), named.why)


def find_shifts(evidence: Evidence) -> list[Shift]:
    """One for each observable, chances corrected for the number of all entries."""
    log_weight, states = weights.weights_of(evidence.draws).cpu(), evidence.states
    allowed = log_weight > -math.inf
    if not bool(allowed.all()):
        log_weight, states = log_weight[allowed], States(states.target, states.x[allowed])
    g = log_weight.softmax(0) * len(states)
    parts = [(name, *compare_means(f, g)) for name, f in observables(states, g / len(g))]
    count = sum(len(bias) for _, _, _, bias, _ in parts)
    return [worst_entry(*part, count=count) for part in parts]


def observables(states: States, p: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Names and values (n, m) of what is compared, for states of weights p (n,) that sum to one."""
    target, x, v = states.target, states.x, states.target.num_values
    marginals = metrics.site_marginals(x, v, p)
    yield "modes", metrics.leaders(x, v)
    if v == 2:
        yield "magnetisation", metrics.magnetisation(x)[:, None]
    yield "energy", states.energies[:, None].double()
    if target.lattice is not None and target.lattice.max_distance:
        ends = sorted({1, target.lattice.max_distance})  # those between are costly, and alike
        yield "correlation", metrics.correlation_terms(x, target.lattice, marginals, ends)
    elif target.pairs is not None and len(target.pairs):
        for pairs in target.pairs.cpu().split(MOST_PAIRS):
            yield "pair correlation", metrics.connected_terms(x, pairs, marginals)
    for value in range(1, v):
        yield f"share of value {value} at a site", (x == value).double()


def compare_means(f: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """f_0, f_w, |D| in standard deviations of one draw and its chance, (m,) each, from values f
    (n, m) and weights g (n,) of mean 1; see the head of this module."""
    n = len(f)
    plain, weighted = f.mean(0), g @ f / n
    from_weighted = f - weighted  # (n, m)
    deviation = (g @ from_weighted.square() / n).sqrt()
    error = (g[:, None] * from_weighted - (f - plain)).square().sum(0).sqrt() / n
    gap = (weighted - plain).abs()
    gap = torch.where(gap > ROUNDING * (deviation + ROUNDING), gap, 0.0)
    zero = gap == 0
    bias = torch.where(zero, 0.0, gap / deviation)
    chance = torch.where(zero, 1.0, torch.special.erfc(gap / error / math.sqrt(2)))
    return plain, weighted, bias, chance


def worst_entry(
    name: str, plain: Tensor, weighted: Tensor, bias: Tensor, chance: Tensor, *, count: int
) -> Shift:
    """The entry of the largest bias that is certain, or of the largest."""
    chance = (chance * count).clamp_max(1.0)
    certain = chance < DOUBTFUL_CHANCE
    entry = int(torch.where(certain, bias, 0.0).argmax() if bool(certain.any()) else bias.argmax())
    return Shift(
        name, entry, float(plain[entry]), float(weighted[entry]), float(bias[entry]),
        float(chance[entry]),
    )  # fmt: skip
