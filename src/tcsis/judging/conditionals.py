"""Does every site do what the other sites make it do?

For draws of p, whatever p, and any function f of the other sites,

    E[([x_i = v] - p(x_i = v | x_{-i}))·f(x_{-i})] = 0,

and p(x_i = v | x_{-i}) needs no more than ratios of p̄.  So draws can be refuted at any size,
without exact answers and with or without weights: by each site (f = 1), by pairs of sites (whether
x_i = x_j as often as the rest makes it), by the order parameter, and by log p(x_i | x_{-i}) itself,
which is the score of the pseudo-likelihood in β and so sees a wrong temperature best.  It is a
local test: what it cannot see is how much weight each of several far modes has.

The other sites held fixed, each term is an event of known probability, so sums have a known
variance, and Bennett's bound holds; neighbouring states of chains are compared in batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tcsis.basics.checks import make_generator
from tcsis.judging.chances import bennett, students
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import (
    DOUBTFUL_CHANCE,
    SMALL_BIAS,
    Finding,
    grade_chance,
    milder,
)
from tcsis.targets.names import Names

MOST_TOKENS = 2**22
"""Of the states whose ratios are looked at, times V."""
CHEAP_DENSITIES = 2**19
"""Evaluations of a black box that the test may cost, seconds at most where they are cheap."""
MOST_DENSITIES, FEWEST_DENSITIES = 2**17, 2**14
"""Of one whose evaluations are costly: as many as the draws, within these."""
MOST_PAIRS = 256
"""Of those that interact, and as many again of any."""
MIN_BATCHES = 32
LEAST_LOG = -20.0
ROUNDING = 1e-6
PLACES = 2**22
"""Entries of a table (n, pairs) at a time."""


@dataclass(frozen=True)
class Deviation:
    """The ``mean`` of terms that should be zero, its size in standard deviations of one draw
    (``bias``), and its chance.  ``why`` says what it means."""

    bias: float
    chance: float
    why: str
    mean: float = 0.0


def check_conditionals(evidence: Evidence) -> Finding | None:
    """The worst deviation, after Bonferroni over all that were looked at."""
    residuals = residuals_of(evidence)
    if residuals is None:
        return None
    worst = worst_deviation(residuals)
    if worst.chance >= DOUBTFUL_CHANCE:
        return Finding("trusted", "each site does what the others make it do")
    level = grade_chance(worst.chance)
    if worst.bias < SMALL_BIAS:
        level = "trusted" if evidence.repairable else milder(level, "doubtful")
    if level == "trusted":
        off = f"off by at most {worst.bias:.1g} standard deviations of one draw"
        return Finding(level, f"what sites do given the others is {off}")
    return Finding(level, worst.why)


@dataclass(frozen=True)
class Residuals:
    """For states x (n, d): log p(x_i = v | x_{-i}) as ``log_p`` (n, d, v), ``weight`` (n,) of mean
    one, the batch of each state if they are chains (n,), pairs of sites (m, 2) to look at, how many
    times each state counts where they are not independent, ``copies``, and names of sites."""

    x: Tensor
    log_p: Tensor
    weight: Tensor
    batch: Tensor | None
    pairs: Tensor
    copies: float = 1.0
    names: Names = field(default_factory=Names)


def residuals_of(evidence: Evidence) -> Residuals | None:
    """Of as many states as are worth their cost, evenly chosen; forbidden ones have no ratios."""
    states, target = evidence.states, evidence.reference.target
    d, v = target.num_sites, target.num_values
    log_weight = evidence.draws.log_weight
    log_a = torch.zeros(len(states), dtype=torch.float64)
    if evidence.weighted and log_weight is not None:
        log_a = log_weight.double().flatten().cpu()
    useful = (states.energies.isfinite() & log_a.isfinite()).nonzero().flatten()
    most = MOST_TOKENS // (d * v)
    if target.opaque:
        paid = min(MOST_DENSITIES, max(FEWEST_DENSITIES, evidence.draws.num_density_calls))
        budget = paid if target.costly else CHEAP_DENSITIES
        most = min(most, int(budget / target.ratios_cost))
    if len(useful) < 2 or most < 2 or v == 1:
        return None
    rows = useful[torch.linspace(0, len(useful) - 1, min(most, len(useful))).long()]
    x = states.x[rows]
    with torch.no_grad():
        ratios = target.log_ratios(x.to(target.device)).double().cpu()
    return Residuals(
        x, ratios.log_softmax(-1), log_a[rows].softmax(0) * len(rows),
        batches(evidence.draws.x.shape, rows), some_pairs(target.pairs, d), copies_of(evidence),
        target.names,
    )  # fmt: skip


def copies_of(evidence: Evidence) -> float:
    """Of draws chosen by weight, which are the same ones again and again."""
    n, worth = len(evidence.states), evidence.draws.worth
    return 1.0 if worth is None else max(1.0, n / worth)


def batches(shape: torch.Size, rows: Tensor) -> Tensor | None:
    """Parts of chains, at least ``MIN_BATCHES`` in all where they are long enough."""
    if len(shape) != 3:
        return None
    num_chains, num_draws = shape[0], shape[1]
    parts = min(num_draws, math.ceil(MIN_BATCHES / num_chains))
    chain, time = rows // num_draws, rows % num_draws
    return (chain * parts + time * parts // num_draws).unique(return_inverse=True)[1]


def some_pairs(interacting: Tensor | None, d: int) -> Tensor:
    """Pairs that interact, and any others, (m, 2)."""
    generator = make_generator(0, "pairs")
    found = torch.randint(d, (MOST_PAIRS, 2), generator=generator)
    pairs = found[found[:, 0] != found[:, 1]]
    if interacting is not None and len(interacting):
        order = torch.randperm(len(interacting), generator=generator)[:MOST_PAIRS]
        pairs = torch.cat([interacting.cpu()[order], pairs])
    return pairs


# -- what should be zero --------------------------------------------------------------------------


def worst_deviation(residuals: Residuals) -> Deviation:
    found = [
        *site_deviations(residuals),
        *pair_deviations(residuals),
        *summed_deviations(residuals),
    ]
    certain = [part for part in found if part.chance < DOUBTFUL_CHANCE]
    if certain:
        return max(certain, key=lambda part: (part.chance < 1e-6, part.bias))
    return min(found, key=lambda part: part.chance)


def num_looked_at(residuals: Residuals) -> int:
    """Deviations in all, for Bonferroni."""
    _, d, v = residuals.log_p.shape
    return d * (v - 1) + len(residuals.pairs) + 2


def site_deviations(residuals: Residuals) -> list[Deviation]:
    """[x_i = v] - p(x_i = v | x_{-i}) of every site and every value but the first."""
    found = []
    for value in range(1, residuals.log_p.shape[-1]):
        there = (residuals.x == value).double()
        p = residuals.log_p[..., value].exp()
        chance, bias = tested(residuals, there, p)
        i = worst_entry(chance, bias)
        shares = [float(residuals.weight @ y[:, i]) / len(there) for y in (there, p)]
        found.append(
            Deviation(
                float(bias[i]), float(chance[i]),
                f"{residuals.names.tell(i, value)} in {shares[0]:.1%} of the draws, where the "
                f"other sites make it {shares[1]:.1%}",
            )
        )  # fmt: skip
    return found


def pair_deviations(residuals: Residuals) -> list[Deviation]:
    """[x_i = x_j] - p(x_i = x_j | x_{-i}) of some pairs."""
    x, log_p, found = residuals.x, residuals.log_p, []
    for pairs in residuals.pairs.split(max(1, PLACES // len(x))):
        i, j = pairs.T
        same = (x[:, i] == x[:, j]).double()
        p = log_p[:, i].gather(-1, x[:, j, None]).squeeze(-1).exp()
        chance, bias = tested(residuals, same, p)
        k = worst_entry(chance, bias)
        shares = [float(residuals.weight @ y[:, k]) / len(x) for y in (same, p)]
        found.append(
            Deviation(
                float(bias[k]), float(chance[k]),
                f"sites {residuals.names.show(int(i[k]))} and {residuals.names.show(int(j[k]))} "
                f"agree in {shares[0]:.1%} of the draws, where the other sites make it "
                f"{shares[1]:.1%}",
            )
        )  # fmt: skip
    return found


def summed_deviations(residuals: Residuals) -> list[Deviation]:
    """Σ_i of the residuals times log p(x_i | x_{-i}), and times the shares of the values."""
    x, log_p, v = residuals.x, residuals.log_p, residuals.log_p.shape[-1]
    here = torch.nn.functional.one_hot(x, v).double()
    others = (here.sum(1, keepdim=True) - here) / x.shape[1]
    follows = summed(residuals, here, log_p.clamp_min(LEAST_LOG))
    order = summed(residuals, here, others)
    way = "closely, as at a lower" if follows.mean > 0 else "loosely, as at a higher"
    return [
        replace(follows, why=f"the sites follow each other too {way} temperature, {follows.why}"),
        replace(order, why=f"sites side with the others as they should not, {order.why}"),
    ]


def summed(residuals: Residuals, here: Tensor, f: Tensor) -> Deviation:
    """Σ_i Σ_v ([x_i = v] - p(x_i = v | x_{-i}))·f_i(v) of every state, f (n, d, v).

    Its variance is at least that of its sites one by one, which is known, however rarely they move;
    a site may contribute as much as f differs from its mean.
    """
    a, p = residuals.weight, residuals.log_p.exp()
    from_mean = f - (p * f).sum(-1, keepdim=True)
    y = (here * from_mean).sum((1, 2))
    known = (p * from_mean.square()).sum((1, 2))
    total = a @ y
    variance = (a.square() @ known).maximum((a * y).square().sum())
    bound = a.max() * torch.where(p > 0, from_mean, 0.0).abs().max().maximum(y.abs().max())
    if float(total.abs()) <= ROUNDING * len(y):
        return Deviation(0.0, 1.0, "by nothing")
    chance = bennett(total, variance * residuals.copies, bound * residuals.copies)
    if residuals.batch is not None:
        chance = chance.maximum(by_batches(residuals.batch, (a * y)[:, None])[0])
    mean, deviation = float(total) / len(y), (a @ known).maximum(a @ y.square()) / len(y)
    bias = abs(mean) / float(deviation.sqrt())
    certain = min(1.0, float(chance) * num_looked_at(residuals))
    return Deviation(bias, certain, f"by {bias:.2g} standard deviations of one draw", mean)


def tested(residuals: Residuals, there: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Chances, after Bonferroni, and biases of events ``there`` (n, m) of conditional probability
    p (n, m)."""
    a = residuals.weight[:, None]
    terms = a * (there - p)
    total = terms.sum(0)
    total = torch.where(total.abs() > ROUNDING * len(p), total, 0.0)
    spread = p * (1 - p)
    variance = (a.square() * spread).sum(0).maximum(terms.square().sum(0))
    bound = a.max().expand_as(variance)
    chance = bennett(total, variance * residuals.copies, bound * residuals.copies)
    if residuals.batch is not None:
        chance = chance.maximum(by_batches(residuals.batch, terms))
    deviation = ((a * spread).mean(0)).maximum(terms.square().mean(0)).sqrt()
    bias = torch.where(total == 0, 0.0, total.abs() / len(p) / deviation)
    return (chance * num_looked_at(residuals)).clamp_max(1.0), bias


def by_batches(batch: Tensor, terms: Tensor) -> Tensor:
    """The chance of sums of terms (n, m) by Student's t over batches of chains, (m,)."""
    num = int(batch.max()) + 1
    if num < 2:
        return torch.ones(terms.shape[1], dtype=torch.float64)
    sums = torch.zeros(num, terms.shape[1], dtype=torch.float64).index_add_(0, batch, terms)
    error = sums.std(0) * math.sqrt(num)
    total = sums.sum(0)
    z = torch.where(total == 0, 0.0, total / error)
    return students(z, num - 1)


def worst_entry(chance: Tensor, bias: Tensor) -> int:
    """The largest bias that is certain, or else the smallest chance."""
    certain = chance < DOUBTFUL_CHANCE
    if bool(certain.any()):
        return int(torch.where(certain, bias, -1.0).argmax())
    return int(chance.argmin())
