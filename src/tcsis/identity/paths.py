"""Ways that lead walkers to the posterior p̄(x_0)·k_t(x_t | x_0), for s = 0..1:

    FromKernel       p̄^s·k_t                           from noise around x_t
    FromLaw          q^{1-s}·(p̄·k_t)^s                 from a product law q, such as what a model
                                                       takes for the denoiser
    FromPopulation   p̄·k_t^{λ + (1-λ)s}                from states of the target, chosen by k_t^λ

Sweeps follow p̄^power·exp(Σ_i fields[i, x_0^i]), and ``gain`` is what a walker's log-weight grows by
from the start to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tcsis.identity.blocks import log_density
from tcsis.targets.base import Target


class Path(Protocol):
    @property
    def fields(self) -> Tensor:
        """log k_t(x_t^i | u), (n, 1, d, v)."""

    def fields_at(self, s: float) -> Tensor:
        """(n, 1, d, v)."""

    def power_at(self, s: float) -> float: ...

    def gain(self, target: Target, x_0: Tensor) -> Tensor:
        """(n, k, d) -> (n, k) in float64."""


@dataclass(frozen=True)
class FromKernel:
    fields: Tensor

    def fields_at(self, s: float) -> Tensor:
        return self.fields

    def power_at(self, s: float) -> float:
        return s

    def gain(self, target: Target, x_0: Tensor) -> Tensor:
        return log_density(target, x_0)


@dataclass(frozen=True)
class FromLaw:
    """``log_start`` (n, 1, d, v)."""

    fields: Tensor
    log_start: Tensor

    def fields_at(self, s: float) -> Tensor:
        return torch.lerp(self.log_start, self.fields, s)

    def power_at(self, s: float) -> float:
        return s

    def gain(self, target: Target, x_0: Tensor) -> Tensor:
        return log_density(target, x_0) + total(self.fields - self.log_start, x_0)


@dataclass(frozen=True)
class FromPopulation:
    """``share`` (n, 1) is λ."""

    fields: Tensor
    share: Tensor

    def fields_at(self, s: float) -> Tensor:
        return torch.lerp(self.share, torch.ones_like(self.share), s)[..., None, None] * self.fields

    def power_at(self, s: float) -> float:
        return 1.0

    def gain(self, target: Target, x_0: Tensor) -> Tensor:
        return (1 - self.share) * total(self.fields, x_0)


def total(fields: Tensor, x_0: Tensor) -> Tensor:
    """Σ_i fields[i, x_0^i], (n, 1, d, v) and (n, k, d) -> (n, k) in float64."""
    wide = fields.expand(*x_0.shape, -1)
    return wide.gather(-1, x_0[..., None]).squeeze(-1).double().sum(-1)
