"""Estimates of log p̄_t(x_t), unnormalised: p̄_t(x) = E_{x_0 ~ k_t(· | x)}[p̄(x_0)] (Prop. 1).

The exponential of each estimate has exactly the right mean.  Results are (b,) in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.identity.blocks import MAX_ENTRIES, check_allowed, log_density, log_mean, one_shot
from tcsis.noise import Time, UniformNoise
from tcsis.targets.base import Target


def log_marginal(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """log of the mean of p̄(x_0) over draws x_0 ~ k_t(· | x_t), (b, d) -> (b,)."""

    def evaluate(x_t: Tensor, log_kernel: Tensor, x_0: Tensor) -> Tensor:
        log_weight = log_density(target, x_0)
        check_allowed(x_t, log_weight)
        return log_mean(log_weight, 1)

    return one_shot(
        target, noise, x_t, t, evaluate,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip
