"""What MDNS minimises: four ways to bring the paths of the model to those of the target.

    WDCE   E_p E_λ[ 1/λ·Σ_{i masked} -log s_θ(x)[i, x_i] ]     every site masked with chance λ
    CE     E_p[ -log q_θ(x | σ) ]                              the same, along the paths drawn
    RERF   E_q[ log q_θ(x | σ) - log p̄(x) ]                    relative entropy, by REINFORCE
    LV     Var( log p̄(x) - log q_θ(x | σ) )                    over the model's own paths

Means over p are those over the model's own paths by their self-normalised weights, softmax(log w);
these paths are kept for several steps.  All have the conditionals of p as their solution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis.basics.frozen import Frozen, Positive
from tcsis.peers.mdns.paths import Conditionals, Paths, draw, log_path
from tcsis.peers.van.training import reinforce
from tcsis.targets.base import Target

Loss = Callable[[int, float], Tensor]
"""Of the number of the step and of the inverse temperature."""


@dataclass
class Own:
    """The model's own paths, one site a step."""

    model: Conditionals
    target: Target
    generator: torch.Generator

    def paths(self, n: int) -> Paths:
        return draw(self.model, self.target, n, [1] * self.target.num_sites, self.generator)

    def allowed(self, n: int) -> Paths:
        """The same for objectives in which log p̄ itself stands."""
        paths = self.paths(n)
        if not bool(paths.log_density.isfinite().all()):
            raise ValueError(
                f"{self.target} has log density -inf at states drawn: RERF and LV expect a target "
                "without forbidden states; take the objective wdce"
            )
        return paths


class Replay:
    """Own paths, renewed every few steps, of which some are chosen in proportion to their weights:
    on average a mean under softmax(log w)."""

    def __init__(self, own: Own, num_draws: int, refresh_every: int) -> None:
        self.own, self.num_draws, self.refresh_every = own, num_draws, refresh_every
        self.paths: Paths | None = None

    def choose(self, n: int, step: int, beta: float) -> tuple[Tensor, Tensor]:
        """States and orders, (n, d) each."""
        if self.paths is None or step % self.refresh_every == 0:
            self.paths = self.own.paths(self.num_draws)
        weights = self.paths.log_weight(beta).softmax(0)
        if bool(weights.isnan().any()):
            raise ValueError(
                f"{self.own.target} forbids all {self.num_draws} states drawn: MDNS expects a "
                "target that allows some of the states it starts from; raise num_draws"
            )
        chosen = torch.multinomial(weights, n, replacement=True, generator=self.own.generator)
        return self.paths.x[chosen], self.paths.order[chosen]


class Objective(Frozen, ABC):
    """One of the four, with the settings that it reads."""

    kind: str

    @abstractmethod
    def new_loss(self, own: Own) -> Loss: ...


class DenoisingCrossEntropy(Objective):
    """Every ``refresh_every`` steps the model draws ``num_draws`` states; a batch takes
    ``batch_size`` of them, each with ``num_masks`` masks."""

    kind: Literal["wdce"] = "wdce"
    batch_size: Positive = 128
    num_masks: Positive = 2
    num_draws: Annotated[int, Field(ge=2)] = 1_024
    refresh_every: Positive = 20

    def new_loss(self, own: Own) -> Loss:
        replay = Replay(own, self.num_draws, self.refresh_every)

        def loss(step: int, beta: float) -> Tensor:
            x, _ = replay.choose(self.batch_size, step, beta)
            x = x.repeat(self.num_masks, 1)
            return denoising(own.model, x, random_masks(x, own.generator)).mean()

        return loss


class CrossEntropy(Objective):
    """The same paths as they were drawn, ``batch_size`` of them a step."""

    kind: Literal["ce"] = "ce"
    batch_size: Positive = 32
    num_draws: Annotated[int, Field(ge=2)] = 1_024
    refresh_every: Positive = 20

    def new_loss(self, own: Own) -> Loss:
        replay = Replay(own, self.num_draws, self.refresh_every)

        def loss(step: int, beta: float) -> Tensor:
            return -log_path(own.model, *replay.choose(self.batch_size, step, beta)).mean()

        return loss


class RelativeEntropy(Objective):
    """``batch_size`` fresh paths a step."""

    kind: Literal["rerf"] = "rerf"
    batch_size: Annotated[int, Field(ge=2)] = 64

    def new_loss(self, own: Own) -> Loss:
        def loss(step: int, beta: float) -> Tensor:
            paths = own.allowed(self.batch_size)
            log_q = log_path(own.model, paths.x, paths.order)
            return reinforce(log_q, beta * paths.log_density.to(log_q.dtype))

        return loss


class LogVariance(Objective):
    """``batch_size`` fresh paths a step."""

    kind: Literal["lv"] = "lv"
    batch_size: Annotated[int, Field(ge=2)] = 64

    def new_loss(self, own: Own) -> Loss:
        def loss(step: int, beta: float) -> Tensor:
            paths = own.allowed(self.batch_size)
            return (beta * paths.log_density - log_path(own.model, paths.x, paths.order)).var()

        return loss


AnyObjective = Annotated[
    DenoisingCrossEntropy | CrossEntropy | RelativeEntropy | LogVariance,
    Field(discriminator="kind"),
]


# -- the denoising loss ----------------------------------------------------------------------------


def random_masks(x: Tensor, generator: torch.Generator) -> Tensor:
    """Which sites are masked, (b, d): m of them, and m is any number from 1 to d alike.

    With λ uniform and every site masked with chance λ, m is uniform from 0 to d, and the mean of
    1/λ given m is (d+1)/m; where m = 0 there is no loss.  So λ need not be drawn, and 1/λ, by which
    the variance would be infinite, becomes d/m with m from 1 on.
    """
    b, d = x.shape
    m = torch.randint(1, d + 1, (b, 1), device=x.device, generator=generator)
    rank = torch.rand(b, d, device=x.device, generator=generator).argsort(1).argsort(1)
    return rank < m


def denoising(model: Conditionals, x: Tensor, masked: Tensor) -> Tensor:
    """d/m·Σ_{i masked} -log s_θ(x)[i, x_i], (b, d) and (b, d) -> (b,)."""
    log_s = model(x, ~masked).gather(-1, x[..., None]).squeeze(-1)
    return -x.shape[1] * torch.where(masked, log_s, 0.0).sum(1) / masked.sum(1)
