"""Heat bath (Glauber, Gibbs): a site forgets its value and draws it anew given all others."""

from __future__ import annotations

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
