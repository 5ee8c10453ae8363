"""Discrete Langevin: every site at once, pulled along the gradient and held back by the step size.

    q(y|x) = Π_i softmax_v( log_ratios[i,v]/2 - [v ≠ x_i]/(2·step_size) )[y_i]

DMALA accepts or refuses the whole proposal and is exact; DULA takes every proposal and is exact
only as the step size goes to zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.mcmc.balanced import Difference, informed_state, taylor_difference
from tcsis.mcmc.kernel import State, accept
from tcsis.noise import draw_categorical
from tcsis.targets.base import Target


def log_site_proposals(state: State, step_size: float) -> Tensor:
    """log q of every value at every site, (..., d, v)."""
    assert state.ratios is not None
    # the clamp keeps infinite ratios, of forbidden states, from making the softmax undefined
    pull = (state.ratios / 2).clamp(-1e4, 1e4) - 1 / (2 * step_size)
    return pull.scatter(-1, state.x[..., None], 0.0).log_softmax(-1)


def log_proposal(state: State, y: Tensor, step_size: float) -> Tensor:
    """log q(y | x), (..., d) -> (...)."""
    return log_site_proposals(state, step_size).gather(-1, y[..., None]).squeeze(-1).sum(-1)


def check_step_size(step_size: float) -> None:
    if not isinstance(step_size, int | float) or not 0 < step_size < float("inf"):
        raise ValueError(f"step_size is {step_size!r}: expected a positive number")


@dataclass(frozen=True)
class DiscreteMALA:
    """DMALA: the Metropolis-adjusted form."""

    step_size: float = 0.2
    difference: Difference = taylor_difference

    def __post_init__(self) -> None:
        check_step_size(self.step_size)

    def init(self, target: Target, x: Tensor) -> State:
        return informed_state(target, x, self.difference)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        y = draw_categorical(log_site_proposals(state, self.step_size), generator=generator)
        proposed = self.init(target, y)
        return accept(
            state, proposed, log_proposal(state, y, self.step_size),
            log_proposal(proposed, state.x, self.step_size), generator,
        )  # fmt: skip


@dataclass(frozen=True)
class DiscreteULA:
    """DULA: unadjusted, so biased by its step size."""

    step_size: float = 0.1
    difference: Difference = taylor_difference

    def __post_init__(self) -> None:
        check_step_size(self.step_size)

    def init(self, target: Target, x: Tensor) -> State:
        return State(x, None, self.difference(target, x))

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        y = draw_categorical(log_site_proposals(state, self.step_size), generator=generator)
        return self.init(target, y), torch.ones(y.shape[:-1], device=y.device)
