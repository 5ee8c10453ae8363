"""Reverse steps t → s, and what each adds to the path weight.

A step draws x_s from x_t with p_θ and adds to log w the logarithm of what the noise process gives
this piece of path over what the sampler gives it, log k_{s→t}(x_t | x_s) - log p_θ(x_s | x_t).
Every step has two directions:

    reverse(calls, noise, at_t, s, generator) -> Move to x_s              as the sampler goes
    forward(calls, noise, x_s, at_s, t, s, generator) -> Move to x_t      as the noise goes

``at_t`` is the denoiser's answer at x_t and t, which it names.  What a step has asked about the
states it ends at it hands on, and the next step has that for its start.  In reverse, whatever is
random in an answer depends on the past of the path alone, and so E[w] = Z.  A forward run comes
from what is the future then: there every answer is asked anew, and ``at_s`` is None at first.

Tokens are (b, d), times (b, d) or, if all states share them, (1, d); s <= t at every site, and a
site with s = t stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tcsis.noise import UniformNoise, draw_categorical, log_add, log_normalise, log_sum
from tcsis.reverse.calls import Answer, Calls
from tcsis.reverse.calls import Denoiser as Denoiser  # whoever takes a step has one

Generator = torch.Generator | None
Law = Callable[[UniformNoise, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Move:
    """Where a step ends, ``x`` (b, d), its ``log_ratio`` (b,), the same function of the path in
    both directions, and the ``answer`` there, if it was asked for."""

    x: Tensor
    log_ratio: Tensor
    answer: Answer | None = None


class Step(Protocol):
    def reverse(
        self, calls: Calls, noise: UniformNoise, at_t: Answer, s: Tensor, generator: Generator
    ) -> Move: ...

    def forward(
        self, calls: Calls, noise: UniformNoise, x_s: Tensor, at_s: Answer | None,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Move: ...  # fmt: skip


# -- one call, all sites independent -------------------------------------------------------------


@dataclass(frozen=True)
class Factorised:
    """Each site from its own law p_θ(x_s^i = v | x_t), given by ``law`` as (b, d, v)."""

    law: Law

    def reverse(
        self, calls: Calls, noise: UniformNoise, at_t: Answer, s: Tensor, generator: Generator
    ) -> Move:
        log_p = self.law(noise, at_t.log_d, at_t.x, at_t.t, s)
        x_s = draw_categorical(log_p, generator=generator)
        return Move(x_s, noise.log_prob(at_t.x, x_s, at_t.t, s) - at(log_p, x_s))

    def forward(
        self, calls: Calls, noise: UniformNoise, x_s: Tensor, at_s: Answer | None,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Move:  # fmt: skip
        x_t = noise.draw(x_s, t, s, generator=generator)
        at_t = calls.ask(x_t, t)
        log_p = self.law(noise, at_t.log_d, x_t, t, s)
        return Move(x_t, noise.log_prob(x_t, x_s, t, s) - at(log_p, x_s), at_t)


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
