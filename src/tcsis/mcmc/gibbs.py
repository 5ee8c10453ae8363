"""Heat bath (Glauber, Gibbs): a site forgets its value and draws it anew given all others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.mcmc.kernel import State, random_sites, set_site
from tcsis.noise import draw_categorical
from tcsis.targets.base import Target


@dataclass(frozen=True)
class RandomScanGibbs:
    """Glauber dynamics: one random site a step, every chain its own."""

    def init(self, target: Target, x: Tensor) -> State:
        return State(x)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        sites = random_sites(state.x, generator)
        values = draw_categorical(target.log_ratios_at(state.x, sites), generator=generator)
        return State(set_site(state.x, sites, values)), torch.ones(sites.shape, device=sites.device)

    def log_transition(self, target: Target, x: Tensor) -> Tensor:
        """log probability that one step sets site i to v ≠ x_i, (..., d) -> (..., d, v)."""
        moves = target.log_ratios(x).log_softmax(-1) - math.log(target.num_sites)
        return moves.scatter(-1, x[..., None], -torch.inf)


@dataclass(frozen=True)
class SweepGibbs:
    """One sweep a step: the colour classes in turn, all sites of a class at once.

    Sites of one colour do not interact, so each draws from its conditional whatever the others of
    its class do; without a colouring every site is a class of its own.  Leaves p invariant, but a
    sweep in fixed order is not reversible.
    """

    def init(self, target: Target, x: Tensor) -> State:
        return State(x)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        x = state.x
        for sites in colour_classes(target):
            values = draw_categorical(ratios_of_class(target, x, sites), generator=generator)
            x = x.index_copy(-1, sites, values)
        return State(x), torch.ones(x.shape[:-1], device=x.device)

    def log_transition(self, target: Target, x: Tensor, y: Tensor) -> Tensor:
        """log probability that one sweep leads from x to y, (..., d) -> (...): while a class is
        drawn, the classes before it stand at y already and the ones after it still at x."""
        total = torch.zeros(x.shape[:-1], dtype=target.dtype, device=x.device)
        for sites in colour_classes(target):
            conditionals = ratios_of_class(target, x, sites).log_softmax(-1)
            x = x.index_copy(-1, sites, y[..., sites])
            total += conditionals.gather(-1, y[..., sites, None]).sum((-2, -1))
        return total


def colour_classes(target: Target) -> list[Tensor]:
    """The sites of each colour, a list of (k,)."""
    if target.colouring is None:
        return list(torch.arange(target.num_sites, device=target.device).split(1))
    colouring = target.colouring.to(target.device)
    return [(colouring == colour).nonzero().squeeze(-1) for colour in colouring.unique()]


def ratios_of_class(target: Target, x: Tensor, sites: Tensor) -> Tensor:
    """``log_ratios`` of the given sites, (..., d) -> (..., k, v)."""
    if len(sites) == 1:
        return target.log_ratios_at(x, sites.expand(x.shape[:-1]))[..., None, :]
    return target.log_ratios(x)[..., sites, :]
