"""Reverse steps t → s, and what each adds to the path weight.

A step draws x_s from x_t with p_θ and adds to log w the logarithm of what the noise process gives
this piece of path over what the sampler gives it, log k_{s→t}(x_t | x_s) - log p_θ(x_s | x_t).
Every step has two directions:

    reverse(denoiser, noise, x_t, t, s, generator) -> x_s, log_ratio      as the sampler goes
    forward(denoiser, noise, x_s, t, s, generator) -> x_t, log_ratio      as the noise goes

``log_ratio`` (b,) is the same function of the path in both.  Tokens are (b, d), times (b, d) or, if
all states share them, (1, d); s <= t at every site, and a site with s = t stays.  A denoiser gives
log P(x_0^i = v | x_t), (b, d, v).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tcsis.noise import UniformNoise, draw_categorical, log_add, log_normalise, log_sum

Denoiser = Callable[[Tensor, Tensor], Tensor]
Generator = torch.Generator | None
Law = Callable[[UniformNoise, Tensor, Tensor, Tensor, Tensor], Tensor]


class Step(Protocol):
    def reverse(
        self, denoiser: Denoiser, noise: UniformNoise, x_t: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    def forward(
        self, denoiser: Denoiser, noise: UniformNoise, x_s: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip


# -- one call, all sites independent -------------------------------------------------------------


@dataclass(frozen=True)
class Factorised:
    """Each site from its own law p_θ(x_s^i = v | x_t), given by ``law`` as (b, d, v)."""

    law: Law

    def reverse(
        self, denoiser: Denoiser, noise: UniformNoise, x_t: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        log_p = self.law(noise, denoiser(x_t, t), x_t, t, s)
        x_s = draw_categorical(log_p, generator=generator)
        return x_s, noise.log_prob(x_t, x_s, t, s) - at(log_p, x_s)

    def forward(
        self, denoiser: Denoiser, noise: UniformNoise, x_s: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x_t = noise.draw(x_s, t, s, generator=generator)
        log_p = self.law(noise, denoiser(x_t, t), x_t, t, s)
        return x_t, noise.log_prob(x_t, x_s, t, s) - at(log_p, x_s)


def tweedie_law(noise: UniformNoise, log_d: Tensor, x_t: Tensor, t: Tensor, s: Tensor) -> Tensor:
    """The bridge p(x_s | x_t, x_0) averaged over the denoiser D, (b, d, v):

    k_{s→t}(x_t|v)·[α_s·D[v]/k_t(x_t|v) + (1-α_s)/V·Σ_u D[u]/k_t(x_t|u)].

    With an exact denoiser this is the exact law of each site alone.
    """
    cavity = log_d - noise.log_kernel(x_t, t)
    log_p = noise.log_kernel(x_t, t, s) + through_kernel(noise, cavity, noise.alpha(x_t, s))
    return stay_where_still(log_normalise(log_p), x_t, t, s)


def euler_law(noise: UniformNoise, log_d: Tensor, x_t: Tensor, t: Tensor, s: Tensor) -> Tensor:
    """τ-leaping: the score of time t serves for the whole step, (b, d, v).

    k_{s→t}(x_t|v)·score_t[v], normalised over v.  For small steps the jump probabilities are rate
    times length; normalising keeps them probabilities for large ones, where others have to clip.
    """
    cavity = log_d - noise.log_kernel(x_t, t)
    log_score = through_kernel(noise, cavity, noise.alpha(x_t, t))
    log_p = noise.log_kernel(x_t, t, s) + log_score
    return stay_where_still(log_normalise(log_p), x_t, t, s)


def through_kernel(noise: UniformNoise, log_c: Tensor, alpha: Tensor) -> Tensor:
    """log Σ_u k(v|u)·c[u] for the kernel with this α, (b, d, v): O(V), as k is α·1 + (1-α)/V."""
    alpha = alpha[..., None]
    background = torch.log1p(-alpha) - math.log(noise.num_values)
    return log_add(alpha.log() + log_c, background + log_sum(log_c)[..., None])


def stay_where_still(log_p: Tensor, x_t: Tensor, t: Tensor, s: Tensor) -> Tensor:
    """The law with all weight on x_t where s = t, also where α = 0 or 1 leaves 0/0 there."""
    here = x_t[..., None] == torch.arange(log_p.shape[-1], device=x_t.device)
    still = torch.where(here, 0.0, -torch.inf).to(log_p.dtype)
    return torch.where((s == t)[..., None], still, log_p)


def at(log_p: Tensor, x: Tensor) -> Tensor:
    """Σ_i log p[i, x_i], (b, d, v) and (b, d) -> (b,)."""
    return log_p.gather(-1, x[..., None]).sum((-1, -2))


euler = Factorised(euler_law)
tweedie = Factorised(tweedie_law)


# -- between steps -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refreshed:
    """``step``, then ``num_moves`` heat-bath moves at the times s, each of one random noisy site.

    With an exact denoiser a move is reversible for p_s and takes x_s closer to it.  With any
    denoiser it is a kernel M from x to y, run as M from y to x in the noise direction, and
    log M(y→x) - log M(x→y) enters the weight, so E[w] = Z stays exact.
    """

    step: Step
    num_moves: int

    def reverse(
        self, denoiser: Denoiser, noise: UniformNoise, x_t: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x, log_ratio = self.step.reverse(denoiser, noise, x_t, t, s, generator)
        for _ in range(self.num_moves):
            y, log_there, log_back = heat_bath(denoiser, noise, x, s, generator)
            x, log_ratio = y, log_ratio + log_back - log_there
        return x, log_ratio

    def forward(
        self, denoiser: Denoiser, noise: UniformNoise, x_s: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        moves = torch.zeros(len(x_s), dtype=torch.float64, device=x_s.device)
        for _ in range(self.num_moves):
            y, log_there, log_back = heat_bath(denoiser, noise, x_s, s, generator)
            x_s, moves = y, moves + log_there - log_back
        x_t, log_ratio = self.step.forward(denoiser, noise, x_s, t, s, generator)
        return x_t, log_ratio + moves


def heat_bath(
    denoiser: Denoiser, noise: UniformNoise, x: Tensor, s: Tensor, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """y, log M(x→y) and log M(y→x) for a redraw of one site with 0 < s < 1; states without one
    stay.  The choice of the site has the same probability in both directions and is left out."""
    noisy = ((s > 0) & (s < 1)).expand(x.shape)
    some = noisy.any(-1)
    weights = torch.where(some[:, None], noisy.double(), 1.0)
    site = torch.multinomial(weights, 1, generator=generator)  # (b, 1)

    def law(x: Tensor) -> Tensor:
        cavity = denoiser(x, s) - noise.log_kernel(x, s)
        log_score = log_normalise(through_kernel(noise, cavity, noise.alpha(x, s)))
        return log_score.take_along_dim(site[..., None], 1).squeeze(1)  # (b, v)

    there = law(x)
    value = draw_categorical(there, generator=generator)[:, None]
    y = torch.where(some[:, None], x.scatter(1, site, value), x)
    log_there = there.gather(1, value).squeeze(1)
    log_back = law(y).gather(1, x.gather(1, site)).squeeze(1)
    return y, log_there.where(some, 0.0), log_back.where(some, 0.0)
