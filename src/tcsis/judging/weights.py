"""What path weights say: bounds from both sides, missing modes, and whether to trust the ESS.

    E_sampler[log w] <= log Z <= E_noise[log w]              (ELBO and EUBO)

The lower bound runs from noise to draws, the upper one from draws of the target to noise.  The ESS
and log Z of the draws know only the states that were drawn: a sampler that misses half of the
modes looks perfect to them, with log Z low by log 2.  Reference draws run forward meet the missing
half, with weights far above anything the sampler has shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from arviz_stats.base import array_stats
from torch import Tensor

from tcsis.draws import Draws
from tcsis.noise import UniformNoise
from tcsis.reverse.calls import Answer, Calls, Denoiser
from tcsis.reverse.loop import check_sizes, class_law, class_log_ratio, end_density
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Generator, Step
from tcsis.targets.base import Target

MAX_PARETO_K = 0.7
MISSING = 0.05
"""Share of reference draws beyond the sampler's reach from which on modes are called missing."""
MOST_MODES = 16

FAR = 5.0
"""In log w: a state off by more than this factor, e^5 = 150, is one the sampler has wrong."""

FEWEST = 25
"""Weights from which a tail can be told."""

BOUNDED = 10.0
"""Times the mean: weights below need no tail to be told, where they are many."""

OFTEN, MOSTLY_MET = 5, 0.1
"""How often a level of weights is met that is no surprise, and the share of Σ w² that others may
hold."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class UpperBound:
    """``log_weight`` (n,) of reference draws; their mean is the EUBO, an upper bound of log Z.
    ``num_network_calls`` is None where a model does not count them."""

    log_weight: Tensor
    num_network_calls: int | None = None

    @property
    def value(self) -> float:
        return float(self.log_weight.mean())

    @property
    def error(self) -> float:
        return float(self.log_weight.std()) / math.sqrt(len(self.log_weight))


def eubo(
    target: Target,
    denoiser: Denoiser,
    noise: UniformNoise,
    schedule: Schedule,
    step: Step,
    reference_x: Tensor,
    *,
    seed: int = 0,
    generator: Generator = None,
) -> UpperBound:
    """The upper bound from draws of the target, (n, d), run forward through the same chain."""
    x_0 = target.check(reference_x.to(target.device))
    check_sizes(target, noise, schedule, len(x_0), None)
    generator = generator or torch.Generator(target.device).manual_seed(seed)
    calls = Calls(denoiser, noise.num_values)
    times = schedule.times.to(target.device)
    with torch.no_grad():
        log_weight = end_density(target, x_0) + target.num_sites * math.log(noise.num_values)
        x, log_ratio = blur_class(target, noise, schedule, x_0, generator)
        log_weight = log_weight + log_ratio
        answer: Answer | None = None
        for s, t in pairwise(times.flip(0)[:, None]):  # (1, d) each
            move = step.forward(calls, noise, x, answer, t, s, generator)
            x, log_weight, answer = move.x, log_weight + move.log_ratio, move.answer
    return UpperBound(log_weight, calls.count)


def blur_class(
    target: Target, noise: UniformNoise, schedule: Schedule, x_0: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """The last class from 0 back to its time, and the log ratio of drawing it exactly."""
    if schedule.last is None:
        return x_0, torch.zeros(len(x_0), dtype=torch.float64, device=x_0.device)
    t = schedule.times[-1].to(x_0.device)
    x_t = noise.draw(x_0, t.expand(x_0.shape), generator=generator)
    log_p = class_law(target, noise, x_t, t, schedule.last)
    return x_t, class_log_ratio(noise, log_p, x_t, x_0, t, schedule.last)


class Weigher(Protocol):
    """A trained model of any method: draws with weights, and weights of states that are given."""

    @property
    def target(self) -> Target: ...

    def sample(self, n: int, *, seed: int = 0) -> Draws: ...

    def weigh(self, x: Tensor, *, seed: int = 0) -> Tensor:
        """log weights (n,) of states (n, d), each of a path to it."""


def upper_bound(model: Weigher, reference_x: Tensor, *, seed: int = 0) -> UpperBound:
    """The upper bound from draws of the target, (n, d), and a trained model of any method."""
    return UpperBound(check_weigher(model).weigh(reference_x, seed=seed).double())


def check_weigher(model: Weigher) -> Weigher:
    if not callable(getattr(model, "weigh", None)):
        raise ValueError(
            f"model is a {type(model).__name__}, which cannot weigh states that are given: "
            "expected a model as tcsis.train gives it"
        )
    return model


# -- both tails ----------------------------------------------------------------------------------


def leak(log_weight: Tensor) -> float:
    """The share of draws where the target has next to nothing, from their log weights (n,):

        #{i : w_i < e^-5·Ẑ}/n,    Ẑ = Σ_i w_i/n.

    The sampler gives these states more than 150 times their probability.  Forbidden states, of
    log w = -inf, are among them.  The ESS hardly knows of them: a leak of ε costs it a factor 1-ε.
    """
    log_weight = log_weight.double().flatten()
    if not bool((log_weight > -math.inf).any()):
        return 1.0
    log_z = log_weight.logsumexp(0) - math.log(len(log_weight))
    return float((log_weight < log_z - FAR).double().mean())


def forbidden(log_weight: Tensor) -> float:
    """The share of draws of probability zero, log w = -inf, from their log weights (n,)."""
    return float((log_weight == -math.inf).double().mean())


def missed(log_weight: Tensor, log_z: float) -> float:
    """The share of reference states that the sampler would hardly draw, from their log weights (n,)
    under it and log Ẑ:

        #{i : w_i > e^5·Ẑ}/n,    x_i from the target: a buffer, chains, exact draws.

    The sampler gives these states less than 1/150 of their probability.
    """
    return float((log_weight.double().flatten() > log_z + FAR).double().mean())


# -- verdicts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bracket:
    """ELBO <= log Z <= EUBO, the share of the target that the draws ``cover``, and a sentence."""

    elbo: float
    log_z: float
    eubo: float
    coverage: float
    collapsed: bool
    why: str


def bracket(draws: Draws, upper: UpperBound) -> Bracket:
    """Do the draws cover what the reference covers?

    Coverage is the share of reference weights within what the draws have shown.  Where it falls
    short, log Z of the draws is low by -log(coverage): log 2 for one of two equal modes.
    """
    log_weight = weights_of(draws)
    log_z = draws.log_z
    assert log_z is not None and draws.elbo is not None
    coverage = float((upper.log_weight <= log_weight.max() + 1.0).double().mean())
    collapsed = 1 - coverage > MISSING
    gap = upper.value - draws.elbo
    if collapsed:
        why = (
            f"the draws reach {coverage:.0%} of the reference, {name_modes(coverage)}; "
            "their ESS and log Z hold for that part only"
        )
    elif draws.elbo > upper.value + 4 * gap_error(log_weight, upper):
        why = "ELBO is above EUBO, which cannot be: the reference is not from this target"
    else:
        why = f"no mode is missing; log Z lies in a bracket of {gap:.3g}"
    return Bracket(draws.elbo, log_z, upper.value, coverage, collapsed, why)


def gap_error(log_weight: Tensor, upper: UpperBound) -> float:
    """Standard error of EUBO - ELBO."""
    return math.hypot(float(log_weight.std()) / math.sqrt(len(log_weight)), upper.error)


def name_modes(coverage: float) -> str:
    """The gap -log(coverage) in words, as one of m equal modes where it is near log m."""
    if coverage == 0:
        return "so all of the target is missing"
    gap = -math.log(coverage)
    m = round(1 / coverage)
    if 2 <= m <= MOST_MODES and abs(gap - math.log(m)) < 0.1:
        return f"about 1 of {m} equal modes (log Z low by about log {m} = {math.log(m):.2f})"
    return f"so modes are missing (log Z low by about {gap:.2f})"


@dataclass(frozen=True)
class Trust:
    """Pareto's k of the weights: the tail has finite moments below order 1/k."""

    ess: float
    pareto_k: float
    trusted: bool
    why: str


def trust(draws: Draws) -> Trust:
    """Is the ESS a number, or luck?  Above k = min(1 - 1/log10(n), 0.7) the few largest weights
    decide, and the next run may meet larger ones (Vehtari et al. 2024)."""
    log_weight = weights_of(draws)
    n, ess = len(log_weight), draws.ess
    assert ess is not None
    if not bool(log_weight.isfinite().any()):
        return Trust(ess, math.inf, False, "no draw has any weight")
    k = pareto_k(log_weight)
    limit = min(1 - 1 / math.log10(n), MAX_PARETO_K) if n > 10 else 0.0
    # a tail fitted to bounded weights has a shape, but no weight that could matter
    largest = math.exp(float(log_weight.max() - log_weight.logsumexp(0)) + math.log(n))
    if n >= FEWEST and largest < most_times_mean(n):
        why = f"ESS {ess:.3f} is reliable: no weight is more than {largest:.2g} times the mean"
        return Trust(ess, k, True, why)
    if k <= limit:
        return Trust(ess, k, True, f"ESS {ess:.3f} is reliable (Pareto k {k:.2f})")
    why = f"ESS {ess:.3f} means nothing: Pareto k is {k:.2f}, above {limit:.2f} for {n:,} draws"
    return Trust(ess, k, False, why)


def most_times_mean(n: int) -> float:
    """What the largest of n weights may be, over their mean, for its tail not to matter: then the
    largest holds a share of Σ w² below 4 %, or 1/3 of it where n is small."""
    return max(math.e, min(BOUNDED, math.sqrt(n) / 5))


def pareto_k(log_weight: Tensor) -> float:
    """The shape of the upper tail of the weights, infinite where there are too few to have one.

    Weights on levels, as those of few states have, need no tail where the levels that hold nearly
    all of Σ w² have been met several times each: then it is -inf.  Where not, what was met once or
    twice has company that was not met, and the tail is fitted to levels that are spread out.
    """
    ranked = log_weight[log_weight.isfinite()].sort(descending=True).values
    n = len(ranked)
    if not n or float(ranked[0] - ranked[-1]) < ROUNDING:
        return -math.inf
    if n < FEWEST:
        return math.inf
    cutoff = math.floor(min(n / 5, 3 * math.sqrt(n)))  # the tail of Vehtari et al.
    levels, counts = torch.unique_consecutive((ranked / ROUNDING).round(), return_counts=True)
    quartile = ranked[cutoff - 1 - cutoff // 4]  # the fit divides by its height above the cutoff
    tied = float(quartile - ranked[cutoff]) < ROUNDING
    if tied or int((counts.cumsum(0) <= cutoff).sum()) < cutoff / 2:
        held = counts * (2 * ROUNDING * (levels - levels[0])).exp()  # Σ w² of a level
        if float(held[counts < OFTEN].sum() / held.sum()) < MOSTLY_MET:
            return -math.inf
        ranked = spread_out(levels * ROUNDING, counts)
    # it takes log likelihoods, of which the log weights are the negative
    _, k = array_stats.psislw(-ranked.cpu().numpy())
    return float(k)


def spread_out(levels: Tensor, counts: Tensor) -> Tensor:
    """Falling levels (m,) with each of their ``counts`` evenly over half of the way to the next
    levels, up and down, (n,): a fit cannot have ties."""
    middle = (levels[1:] + levels[:-1]) / 2
    top, bottom = torch.cat([levels[:1], middle]), torch.cat([middle, levels[-1:]])
    place = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    share = (place + 0.5).to(levels) / counts.repeat_interleave(counts)
    return torch.lerp(top.repeat_interleave(counts), bottom.repeat_interleave(counts), share)


def weights_of(draws: Draws) -> Tensor:
    """The log weights, (n,) float64, or an error where there are none."""
    if draws.log_weight is None:
        raise ValueError("draws carry no log_weight: expected draws of a reverse process")
    return draws.log_weight.double().flatten()
