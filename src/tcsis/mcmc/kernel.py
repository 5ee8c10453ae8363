"""What every chain shares: its state, and the one step in which a proposal is accepted or not.

A kernel is a frozen value with two functions:

    init(target, x) -> State                         what the kernel keeps of a batch of states
    step(target, state, generator) -> State, share   one transition for every chain of the batch

``share`` (...) is the share of proposed changes that were accepted.  Tokens are (..., d); all the
chains of a batch move independently, with random choices of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tcsis.targets.base import Target


@dataclass(frozen=True)
class State:
    """Chains at rest: ``x`` (..., d) and, for the kernels that weigh whole states, log p̄(x) (...)
    and the (estimated) ``log_ratios`` at x (..., d, v), so that neither is computed twice."""

    x: Tensor
    log_density: Tensor | None = None
    ratios: Tensor | None = None


@runtime_checkable
class Kernel(Protocol):
    def init(self, target: Target, x: Tensor) -> State: ...

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]: ...


@dataclass(frozen=True)
class InTurn:
    """Several kernels, a step of each in turn."""

    kernels: tuple[Kernel, ...]

    def init(self, target: Target, x: Tensor) -> State:
        return State(x)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        shares = []
        for kernel in self.kernels:
            state, share = kernel.step(target, kernel.init(target, state.x), generator)
            shares.append(share)
        return State(state.x), torch.stack(shares).mean(0)


def log_acceptance(
    here: Tensor, there: Tensor, log_forward: Tensor | float, log_backward: Tensor | float
) -> Tensor:
    """log min(1, p̄(y)·q(x|y) / (p̄(x)·q(y|x))) from the log densities of x and y and the log
    proposal probabilities there and back.  Outside the support every proposal is taken.
    """
    ratio = there - here + log_backward - log_forward
    return ratio.clamp_max(0).where(~here.isneginf(), 0.0)


def decide(log_probability: Tensor, generator: torch.Generator | None) -> Tensor:
    """True with the given log probability, independently for every entry."""
    u = torch.empty_like(log_probability).exponential_(generator=generator)
    return -u <= log_probability


def accept(
    state: State,
    proposed: State,
    log_forward: Tensor | float,
    log_backward: Tensor | float,
    generator: torch.Generator | None,
) -> tuple[State, Tensor]:
    """The Metropolis–Hastings choice between ``state`` and ``proposed``, chain by chain."""
    assert state.log_density is not None and proposed.log_density is not None
    accepted = decide(
        log_acceptance(state.log_density, proposed.log_density, log_forward, log_backward),
        generator,
    )

    x = torch.where(accepted[..., None], proposed.x, state.x)
    log_density = torch.where(accepted, proposed.log_density, state.log_density)
    ratios = None
    if proposed.ratios is not None and state.ratios is not None:
        ratios = torch.where(accepted[..., None, None], proposed.ratios, state.ratios)
    return State(x, log_density, ratios), accepted.float()


def random_sites(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """A site for every chain, each its own, (..., d) -> (...)."""
    return torch.randint(x.shape[-1], x.shape[:-1], device=x.device, generator=generator)


def set_site(x: Tensor, sites: Tensor, values: Tensor) -> Tensor:
    """x with one site of every chain set anew, (..., d), (...), (...) -> (..., d)."""
    return x.scatter(-1, sites[..., None], values[..., None])
