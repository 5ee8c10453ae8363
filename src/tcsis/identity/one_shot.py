"""Estimates of the denoiser P(x_0^i = u | x_t) from independent draws x_0 ~ k_t(· | x_t).

Each function takes states x_t (b, d) and times t, (b,) or (b, d), and returns log-probabilities
(b, d, v), normalised over the values.  Costs are in densities a state, k = ``num_samples``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.identity.blocks import (
    MAX_ENTRIES,
    blocks,
    check_allowed,
    check_states,
    log_density,
    one_shot,
)
from tcsis.identity.marginal import log_marginal
from tcsis.noise import Time, UniformNoise
from tcsis.targets.base import Target


def naive(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """The denoiser that belongs to ``naive_log_score``; a score too small for any denoiser gives
    probability zero.  Pure noise, α = 0, has no such denoiser: use another estimator there."""
    score = naive_log_score(
        target, noise, x_t, t,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip
    x_t, t = check_states(target, noise, x_t, t)
    return noise.denoiser_from_log_score(score.double(), x_t, t.double()).to(target.dtype)


@torch.no_grad()
def naive_log_score(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """Eq. (5): log p̂_t(y) - log p̂_t(x_t) with fresh draws for x_t and for each neighbour y,
    (b, d) -> (b, d, v).  Costs k·(d·(V-1) + 1)."""
    x_t, t = check_states(target, noise, x_t, t)
    d, v = target.num_sites, target.num_values
    site, shift = torch.arange(d, device=x_t.device), torch.arange(1, v, device=x_t.device)
    log_score = torch.zeros(*x_t.shape, v, dtype=target.dtype, device=x_t.device)
    for rows, own in blocks(x_t, d * d * v, generator):
        values = (x_t[rows, :, None] + shift) % v  # (n, d, v-1): all but the present value
        states = x_t[rows, None, None].repeat(1, d, v - 1, 1)
        states[:, site, :, site] = values.transpose(0, 1)
        states = torch.cat([x_t[rows, None], states.flatten(1, 2)], 1)  # (n, 1 + d·(v-1), d)
        times = t[rows, None].expand(-1, states.shape[1], -1)
        log_p = log_marginal(
            target, noise, states.flatten(0, 1), times.flatten(0, 1),
            num_samples=num_samples, generator=own, max_entries=max_entries,
        ).reshape(states.shape[:2])  # fmt: skip
        there = (log_p[:, 1:] - log_p[:, :1]).reshape(values.shape).to(target.dtype)
        log_score[rows] = log_score[rows].scatter(-1, values, there)
    return log_score


def shared(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """App. A.2: P(u) ∝ Σ_n p̄(x_0ⁿ)·[x_0^{n,i} = u], the weighted frequency of the values; one
    that was never drawn has probability zero.  Costs k."""

    def evaluate(x_t: Tensor, log_kernel: Tensor, x_0: Tensor) -> Tensor:
        log_weight = log_density(target, x_0)
        check_allowed(x_t, log_weight)
        log_weight = log_weight.log_softmax(1).to(target.dtype)[..., None, None]
        drawn = x_0[..., None] == torch.arange(target.num_values, device=x_0.device)
        return torch.where(drawn, log_weight, -torch.inf).logsumexp(1).log_softmax(-1)

    return one_shot(
        target, noise, x_t, t, evaluate,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip


def marginalised(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """Site i summed out exactly: P(u) ∝ k_t(x_t^i | u)·Σ_n p̄(x_0ⁿ with site i set to u).

    Exact as t → 0.  Costs k densities and k ``log_ratios``.
    """

    def evaluate(x_t: Tensor, log_kernel: Tensor, x_0: Tensor) -> Tensor:
        log_sums = neighbour_log_densities(target, x_t, x_0).logsumexp(1)
        log_weight = log_kernel + log_sums.to(log_kernel)
        check_allowed(x_t, log_weight.amax(-1).amin(-1, keepdim=True))
        return log_weight.log_softmax(-1)

    return one_shot(
        target, noise, x_t, t, evaluate,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip


def neighbour_log_densities(target: Target, x_t: Tensor, x_0: Tensor) -> Tensor:
    """log p̄(x_0 with site i set to u) less a number for each state, (n, k, d) -> (n, k, d, v).

    A forbidden draw may have allowed neighbours, which its ratios, all +inf, cannot tell apart:
    these are evaluated one by one.
    """
    here, ratios = log_density(target, x_0), target.log_ratios(x_0)
    draws = here.isneginf().nonzero()
    entry, site, value = ratios[draws[:, 0], draws[:, 1]].isposinf().nonzero(as_tuple=True)
    row, draw = draws[entry].T
    there = here.new_empty(len(entry))
    for part in torch.arange(len(entry), device=x_0.device).split(MAX_ENTRIES // x_0.shape[-1] + 1):
        states = x_0[row[part], draw[part]]
        states[torch.arange(len(part), device=x_0.device), site[part]] = value[part]
        there[part] = log_density(target, states)
    largest = here.amax(1).scatter_reduce(0, row, there, "amax")
    check_allowed(x_t, largest[:, None])
    log_p = (here - largest[:, None]).to(ratios.dtype)[..., None, None] + ratios
    log_p[row, draw, site, value] = (there - largest[row]).to(ratios.dtype)
    return log_p
