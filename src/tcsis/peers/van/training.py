"""The loss of VAN: the free energy of the model, by REINFORCE with a baseline.

    R = log q(x) - β·log p̄(x),      ∇ E_q[R] = E_q[(R - R̄)·∇ log q(x)]

The mean of R is the relative entropy of q to p, less log Z: the least it can be is -log Z.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tcsis.peers.van.model import Law, VanConfig
from tcsis.targets.base import Target

FORBIDDEN = 10.0
"""How far below the least likely state of a batch a forbidden one counts."""


class VanLoss:
    """A surrogate whose gradient is that of E_q[R], over fresh draws of the model."""

    def __init__(
        self, model: Law, target: Target, config: VanConfig, generator: torch.Generator
    ) -> None:
        self.model, self.target, self.config, self.generator = model, target, config, generator

    def __call__(self, step: int, progress: float) -> Tensor:
        x, _ = self.model.draw(self.config.batch_size, self.generator)
        beta = 1 - math.exp(-self.config.annealing * progress)
        return reinforce(self.model.log_prob(x), beta * self.density(x))

    def density(self, x: Tensor) -> Tensor:
        """log p̄, with a finite penalty in place of -inf: no gradient leads away from that."""
        log_density = self.target.log_density(x)
        allowed = log_density.isfinite()
        if not bool(allowed.any()):
            raise ValueError(
                f"{self.target} forbids all {len(x)} states of a batch: VAN, which starts from "
                "uniform noise, expects a target that allows some of them"
            )
        return torch.where(allowed, log_density, log_density[allowed].min() - FORBIDDEN)


def reinforce(log_q: Tensor, log_density: Tensor) -> Tensor:
    """Its value is the mean reward, its gradient that of E_q[R], (b,) and (b,) -> ()."""
    reward = (log_q - log_density).detach()
    surrogate = ((reward - reward.mean()) * log_q).mean()
    return reward.mean() + surrogate - surrogate.detach()
