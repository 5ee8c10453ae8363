"""What SDDS minimises: the reverse or the forward KL of whole paths.

Both go by paths that the model itself has drawn, in two parts.  ``signal`` reads whole paths once
and gives every step (t, path) one number; ``loss`` takes some of the steps, with the log q that
they have by now, so that memory does not grow with T.

    reverse KL, by the policy gradient:    ∇ = -E_q[ Σ_t A_t·∇ log q(x_{t-1} | x_t) ]
    forward KL, by importance sampling:    ∇ = -E_q[ w/Z·Σ_t ∇ log q(x_{t-1} | x_t) ]

A_t = R_t - V_t(x_t), where R_t is the reward to go and V_t a baseline, which changes no mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis.basics.frozen import Frozen
from tcsis.peers.sdds.chain import Paths

ALL_ALIKE = 1e-3
"""A deviation of the rewards below which they are called alike: where q is exact they are, but for
rounding, and nothing is to be learned from that."""


class Objective(Frozen, ABC):
    """How steps of the model's own paths become a loss."""

    kind: str

    @abstractmethod
    def signal(self, paths: Paths, known: Tensor) -> Tensor:
        """One number a step, (T, n).  ``known`` (T, n) is log p̄(x_t), for a baseline."""

    @abstractmethod
    def loss(self, log_q: Tensor, log_q_then: Tensor, signal: Tensor) -> Tensor:
        """Of some steps (b,): log q by now, log q when they were drawn, and their signal."""


class ReverseKL(Objective):
    """KL(q ‖ p) of paths, by PPO: steps count while q is within a share ``clip`` of what it was.

    The baseline is V_t = a_t + b_t·log p̄(x_t), fitted to the rewards by least squares.
    """

    kind: Literal["reverse-kl"] = "reverse-kl"
    clip: Annotated[float, Field(gt=0)] = 0.2

    def signal(self, paths: Paths, known: Tensor) -> Tensor:
        gap = without_line(paths.reward_to_go, known)
        return gap / gap.std().clamp_min(ALL_ALIKE)

    def loss(self, log_q: Tensor, log_q_then: Tensor, signal: Tensor) -> Tensor:
        ratio = (log_q - log_q_then).exp()
        cut = ratio.clamp(1 - self.clip, 1 + self.clip)
        return -torch.minimum(ratio * signal, cut * signal).mean()


class ForwardKL(Objective):
    """KL(p ‖ q) of paths, by self-normalised importance weights.

    The mean of q/q_then is 1 for every q: added to the loss it changes no mean, and takes the noise
    of the gradient away where all weights are alike.
    """

    kind: Literal["forward-kl"] = "forward-kl"

    def signal(self, paths: Paths, known: Tensor) -> Tensor:
        weights = paths.log_weight.softmax(0) * len(paths.log_density)
        return weights.expand_as(paths.log_q)

    def loss(self, log_q: Tensor, log_q_then: Tensor, signal: Tensor) -> Tensor:
        return ((log_q - log_q_then).exp() - signal * log_q).mean()


AnyObjective = Annotated[ReverseKL | ForwardKL, Field(discriminator="kind")]


def without_line(y: Tensor, x: Tensor) -> Tensor:
    """y less its line a + b·x of least squares, row by row, (T, n)."""
    x = x - x.mean(1, keepdim=True)
    y = y - y.mean(1, keepdim=True)
    slope = (x * y).sum(1, keepdim=True) / x.square().sum(1, keepdim=True).clamp_min(1e-12)
    return y - slope * x
