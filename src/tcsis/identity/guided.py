"""Joint estimates from walkers with a good start: a law for every site, or a population.

The mean of p̂ is exact whatever the start; the closer that is to the posterior, the less p̂ varies.
Laws, such as a denoiser, do well where x_t says most of x_0.  In the noise the posterior has
as many valleys as the target, which no product of laws has: there a population does well.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.basics.checks import check_counts
from tcsis.identity.blocks import blocks, check_states
from tcsis.identity.paths import FromLaw, FromPopulation
from tcsis.identity.walkers import joint_along
from tcsis.noise import Time, UniformNoise, draw_categorical
from tcsis.targets.base import Target

LEAST_CHOICE = 4
"""Walkers are chosen among at least this many times as many states, in effect."""
COOLING, MOST_COOLINGS = 0.8, 40


@torch.no_grad()
def joint_guided(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    log_start: Tensor,
    *,
    num_chains: int,
    num_rungs: int,
    sweeps_per_rung: int = 1,
    generator: torch.Generator,
) -> Tensor:
    """log p̂(x_t, x_0^i = u), (b, d) -> (b, d, v) float64, as ``joint_annealed``, by walkers that
    start at the product of the laws ``log_start`` (b, d, v), which are positive and normalised."""
    check_counts(num_chains=num_chains, num_rungs=num_rungs, sweeps_per_rung=sweeps_per_rung)
    x_t, t = check_states(target, noise, x_t, t)
    parts = []
    for rows, own in blocks(x_t, num_chains * target.num_sites * target.num_values, generator):
        fields = noise.log_kernel(x_t[rows], t[rows]).to(target.dtype)[:, None]
        start = log_start[rows, None].to(fields)
        x_0 = draw_categorical(start.expand(-1, num_chains, -1, -1), generator=own)
        path = FromLaw(fields, start)
        parts.append(joint_along(target, x_t[rows], path, x_0, num_rungs, sweeps_per_rung, own))
    return torch.cat(parts)


@torch.no_grad()
def joint_from_population(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    population: Tensor,
    log_z: float,
    apart: Tensor,
    *,
    num_chains: int,
    num_rungs: int,
    sweeps_per_rung: int = 1,
    generator: torch.Generator,
) -> Tensor:
    """The same by walkers that are chosen from a ``population`` (m, d) by their k_t(x_t | x_0)^λ,
    with the largest λ <= 1 that leaves a choice:

        p̂_t = Z·(1/m) Σ_m k_t(x_t | x_m)^λ · (the mean weight of the way from λ to 1).

    If Z·(1/m) Σ_m f(x_m) has the mean Σ p̄·f for every f, as it has for an annealed population and
    its Z, so has p̂ the right mean where x_t has nothing to do with the population: of the states
    that it came from, ``apart`` (b, d), one is left out.
    """
    check_counts(num_chains=num_chains, num_rungs=num_rungs, sweeps_per_rung=sweeps_per_rung)
    x_t, t = check_states(target, noise, x_t, t)
    if len(population) < 2:
        raise ValueError(f"population has {len(population)} states: expected at least 2")
    hot, hot_apart = (
        one_hot(target.check(states), target.num_values).flatten(1).to(target.dtype)
        for states in (population, apart)
    )
    entries = max(num_chains * target.num_sites * target.num_values, len(population))
    parts = []
    for rows, own in blocks(x_t, entries, generator):
        fields = noise.log_kernel(x_t[rows], t[rows]).to(target.dtype)
        check_noisy(x_t[rows], fields)
        own_state = first(hot_apart[rows] @ hot.T == target.num_sites)
        log_k = (fields.flatten(1) @ hot.T).masked_fill(own_state, -torch.inf)  # (n, m)
        share = share_with_choice(log_k, LEAST_CHOICE * num_chains)
        log_w = share * log_k
        chosen = torch.multinomial(log_w.softmax(1), num_chains, replacement=True, generator=own)
        path = FromPopulation(fields[:, None], share)
        joint = joint_along(
            target, x_t[rows], path, population[chosen], num_rungs, sweeps_per_rung, own
        )
        log_taken = log_w.double().logsumexp(1) - (~own_state).sum(1).log()
        parts.append(joint + (log_z + log_taken)[:, None, None])
    return torch.cat(parts)


def first(found: Tensor) -> Tensor:
    """The first True of every row alone, (n, m) -> (n, m)."""
    return found & (found.cumsum(1) == 1)


def share_with_choice(log_k: Tensor, least: float) -> Tensor:
    """The largest λ = 1, 0.8, 0.64.. that leaves weights k^λ of an effective number of at least
    ``least`` (of half the states, if that is less), (n, m) -> (n, 1)."""
    least = min(least, log_k.shape[1] / 2)
    share = torch.ones_like(log_k[:, :1])
    for _ in range(MOST_COOLINGS):
        weight = (share * log_k).softmax(1)
        too_few = 1 / weight.square().sum(1, keepdim=True) < least
        if not bool(too_few.any()):
            break
        share = torch.where(too_few, COOLING * share, share)
    return share


def check_noisy(x_t: Tensor, fields: Tensor) -> None:
    """Refuse sites where x_0 = x_t is certain: no state of a population would be likely to fit."""
    certain = fields.isneginf().flatten(1).any(1)
    if bool(certain.any()):
        state = x_t[int(certain.nonzero()[0])].tolist()
        raise ValueError(f"t gives α = 1 at some site of x_t = {state}: expected noise everywhere")
