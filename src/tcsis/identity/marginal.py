"""Estimates of log p̄_t(x_t), unnormalised: p̄_t(x) = E_{x_0 ~ k_t(· | x)}[p̄(x_0)] (Prop. 1).

The exponential of each estimate has exactly the right mean.  Results are (b,) in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts
from tcsis.identity.blocks import (
    MAX_ENTRIES,
    blocks,
    check_allowed,
    lay_out,
    log_density,
    log_mean,
    one_shot,
)
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


def log_marginal_from(
    log_marginal_s: Callable[[Tensor, Tensor], Tensor],
    noise: UniformNoise,
    x_t: Tensor,
    s: Time,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
) -> Tensor:
    """The identity from an earlier time s ≤ t: p_t(x) = E_{x_s ~ k_{s→t}(· | x)}[p_s(x_s)].

    ``log_marginal_s(x_s, s)`` gives log p̄_s, (n, d) and (n,) or (n, d) -> (n,); if it is itself
    an estimate whose exponential has the right mean, so is the result, (b, d) -> (b,).
    """
    check_counts(num_samples=num_samples)
    s, t = lay_out("s", s, x_t), lay_out("t", t, x_t)
    parts = []
    for rows, own in blocks(x_t, num_samples * x_t.shape[1] * noise.num_values, generator):
        repeated = x_t[rows, None].expand(-1, num_samples, -1)  # (n, k, d)
        x_s = noise.draw(repeated, t[rows, None], s[rows, None], generator=own)
        time = s[rows].repeat_interleave(num_samples, 0)  # (n·k, 1 or d)
        time = time.squeeze(1) if time.shape[1] == 1 else time
        log_p = log_marginal_s(x_s.flatten(0, 1), time).double().reshape(x_s.shape[:2])
        check_allowed(x_t[rows], log_p)
        parts.append(log_mean(log_p, 1))
    return torch.cat(parts)
