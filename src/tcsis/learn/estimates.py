"""Estimates that training compares models with, all of one form: x_t, t, x_0 -> estimate, x_0.

They close over the functions of ``tcsis.identity``, some of them with what the model knows so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature

import torch
from torch import Tensor

from tcsis import identity
from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.marginal import MarginalModel, learned
from tcsis.noise import UniformNoise
from tcsis.targets.base import Target

Estimate = Callable[[Tensor, Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""x_t (b, d), t (b, d) and the x_0 (b, d) it came from -> an estimate, and an x_0 to put back."""

GUIDE_NOISE = 0.05
"""Share of noise in the laws that walkers start from."""
BUFFER_RUNGS = 4
"""Rungs for walkers that start at states of the target: there is little left to climb."""


def warm(target: Target, noise: UniformNoise, num_sweeps: int = 1) -> Estimate:
    """The denoiser from posterior sweeps that start at x_0, which moves on."""

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        return identity.warm(target, noise, x_t, t, x_0, num_sweeps=num_sweeps, generator=generator)

    return estimate


def from_noise(
    function: Callable[..., Tensor], target: Target, noise: UniformNoise, **settings: int
) -> Estimate:
    """An estimator that needs x_t alone."""
    signature(function).bind(target, noise, None, None, generator=None, **settings)

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        return function(target, noise, x_t, t, generator=generator, **settings), x_0

    return estimate


def guided(model: MarginalModel, target: Target, num_chains: int, num_rungs: int) -> Estimate:
    """``joint_guided`` from what the second head takes for the denoiser, with a little of noise so
    that nothing is impossible."""
    noise = model.noise
    floor = math.log(GUIDE_NOISE / target.num_values)

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            log_d = learned(model, x_t, t).double() + math.log1p(-GUIDE_NOISE)
        log_start = torch.logaddexp(log_d, torch.full_like(log_d, floor))
        joint = identity.joint_guided(
            target, noise, x_t, t, log_start,
            num_chains=num_chains, num_rungs=num_rungs, generator=generator,
        )  # fmt: skip
        return joint, x_0

    return estimate


def from_buffer(
    target: Target, noise: UniformNoise, buffer: Callable[[], Tensor], crowd: Crowd, num_chains: int
) -> Estimate:
    """``joint_from_population`` from the other states of the buffer and their relabellings.  The
    log Z is that of the crowd; what it is off by is the same for all states."""

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        joint = identity.joint_from_population(
            target, noise, x_t, t, crowd.in_all_forms(buffer()), float(crowd.log_z), x_0,
            num_chains=num_chains, num_rungs=BUFFER_RUNGS, generator=generator,
        )  # fmt: skip
        return joint, x_0

    return estimate


def by_noise(noise: UniformNoise, clear: Estimate, noisy: Estimate) -> Estimate:
    """One estimate where ᾱ > 1/2, another elsewhere."""

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        is_clear = noise.alpha(x_t, t).expand(x_t.shape).mean(1) > 0.5
        rows = [part.nonzero().squeeze(1) for part in (is_clear, ~is_clear)]
        answers = [
            own(x_t[part], t[part], x_0[part], generator)
            for own, part in zip((clear, noisy), rows, strict=True)
            if len(part)
        ]
        back = torch.cat(rows).argsort()
        hat, x_0 = (torch.cat(parts)[back] for parts in zip(*answers, strict=True))
        return hat, x_0

    return estimate


def as_score(noise: UniformNoise, estimate: Estimate) -> Estimate:
    """The log-score that belongs to an estimated denoiser."""

    def converted(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        log_d, x_0 = estimate(x_t, t, x_0, generator)
        # without noise this is 0/0; the score is that of the target by then
        t = t.clamp_min(1e-4)
        return noise.log_score_from_denoiser(log_d, x_t, t), x_0

    return converted
