"""How likely is a deviation like this one, if nothing is wrong?

Sums of independent terms of mean zero with variance σ² in all, each at most b, exceed t with

    P(Σ ≥ t) ≤ exp(-σ²/b²·h(b·t/σ²)),    h(u) = (1 + u)·log(1 + u) - u       (Bennett),

which is about the normal tail where σ ≫ b and about a Poisson tail where events are rare, so that
two events where a hundredth was expected are no alarm among a thousand sites.
"""

from __future__ import annotations

import math

import torch
from scipy.stats import t as student
from torch import Tensor


def bennett(total: Tensor, variance: Tensor, bound: Tensor) -> Tensor:
    """Two-sided chance of sums this large, of the same shape, float64; 1 where nothing varies and
    nothing deviates."""
    scale = variance / bound.square()
    u = total.abs() * bound / variance
    exponent = scale * ((1 + u) * torch.log1p(u) - u)
    chance = (2 * torch.exp(-exponent)).clamp_max(1.0)
    still = variance == 0
    return torch.where(still, torch.where(total == 0, 1.0, 0.0), chance)


def normal(z: Tensor) -> Tensor:
    """Two-sided chance of so many standard errors."""
    return torch.special.erfc(z.abs() / math.sqrt(2))


def students(z: Tensor, degrees: int) -> Tensor:
    """The same where the standard error comes from ``degrees`` + 1 values."""
    return torch.from_numpy(2 * student.sf(z.abs().numpy(), degrees))
