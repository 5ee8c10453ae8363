"""What the values of sites say to a network, and what its answers say of values.

Values that the target does not tell apart are read alike.  ``slope`` is that of a logit in the mean
of what is read, times the variance of that: how a first guess becomes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tcsis.targets.base import Target


@dataclass(frozen=True)
class Signs:
    """Two values that the target does not tell apart: spins ±1, and log-odds odd in them."""

    odd, equal, in_width, out_width, slope = True, False, 1, 1, 2.0

    def embed(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(d, b) -> (d, 1, b, 1)."""
        return (2 * x - 1).to(dtype)[:, None, :, None]

    def logits(self, answer: Tensor) -> Tensor:
        """(..., 1, 1) -> (..., 2)."""
        return pad(answer[..., 0], (1, 0))


@dataclass(frozen=True)
class Alike:
    """More values that the target does not tell apart: each reads where it stands itself."""

    num_values: int
    odd, equal, in_width, out_width = False, True, 1, 1

    @property
    def slope(self) -> float:
        return 1 - 1 / self.num_values

    def embed(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(d, b) -> (d, 1, b, v)."""
        values = torch.arange(self.num_values, device=x.device)
        return (x[:, None, :, None] == values).to(dtype) - 1 / self.num_values

    def logits(self, answer: Tensor) -> Tensor:
        """(..., v, 1) -> (..., v)."""
        return answer[..., 0]


@dataclass(frozen=True)
class Apart:
    """Values that differ: spins for two of them, else centred one-hot vectors."""

    num_values: int
    odd, equal, slope = False, False, 2.0

    @property
    def in_width(self) -> int:
        return 1 if self.num_values == 2 else self.num_values

    @property
    def out_width(self) -> int:
        return self.num_values - 1

    def embed(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(d, b) -> (d, c, b, 1)."""
        if self.num_values == 2:
            return (2 * x - 1).to(dtype)[:, None, :, None]
        z = one_hot(x, self.num_values).to(dtype) - 1 / self.num_values
        return z.transpose(1, 2)[..., None]

    def logits(self, answer: Tensor) -> Tensor:
        """(..., 1, v - 1) -> (..., v)."""
        return pad(answer[..., 0, :], (1, 0))


Values = Signs | Alike | Apart


def values_of(target: Target) -> Values:
    if not target.symmetries.value_permutation:
        return Apart(target.num_values)
    return Signs() if target.num_values == 2 else Alike(target.num_values)
