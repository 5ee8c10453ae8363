"""Heat bath (Glauber, Gibbs): a site forgets its value and draws it anew given all others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.mcmc.kernel import State, random_sites, set_site
from tcsis.noise import draw_categorical
from tcsis.targets.base import MAX_CHUNK_TOKENS, Target

MOST_VALUES = 16


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


@dataclass(frozen=True)
class PairGibbs:
    """One step: ⌈d/2⌉ times a random pair of sites, every chain its own, forgets its values and
    draws both anew given all others, from V² states.

    It crosses where no single site can move: a number of sites that are on, a parity, permutations.
    With more than ``MOST_VALUES`` values the pair is exchanged or left.
    """

    def init(self, target: Target, x: Tensor) -> State:
        return State(x)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        x = state.x
        if target.num_sites > 1:
            for _ in range((target.num_sites + 1) // 2):
                x = draw_pair(target, x, generator)
        return State(x), torch.ones(x.shape[:-1], device=x.device)


def draw_pair(target: Target, x: Tensor, generator: torch.Generator | None) -> Tensor:
    """A random pair of sites of every chain drawn given all others, (..., d) -> (..., d)."""
    keys = torch.rand(x.shape, device=x.device, generator=generator)
    sites = keys.topk(2, -1).indices  # (..., 2)
    if target.num_values <= MOST_VALUES:
        values = torch.arange(target.num_values, device=x.device)
        new = torch.cartesian_prod(values, values).expand(*x.shape[:-1], -1, -1)
    else:
        old = x.gather(-1, sites)
        new = torch.stack([old, old.flip(-1)], -2)
    parts = [
        target.log_density(placed(x, sites, some))
        for some in new.split(max(1, MAX_CHUNK_TOKENS // x.numel()), -2)
    ]
    log_p = torch.cat(parts).movedim(0, -1)  # (..., states)
    # where all are forbidden any will do, as in every walk outside the support
    log_p = log_p.where(~log_p.isneginf().all(-1, keepdim=True), 0.0)
    chosen = draw_categorical(log_p, generator=generator)[..., None, None]
    return x.scatter(-1, sites, new.gather(-2, chosen.expand(*sites.shape[:-1], 1, 2)).squeeze(-2))


def placed(x: Tensor, sites: Tensor, new: Tensor) -> Tensor:
    """x with a pair of sites at each of k pairs of values, (..., d), (..., 2) and (..., k, 2) ->
    (k, ..., d): a scale a chain fits so."""
    new = new.movedim(-2, 0)
    return x.expand(len(new), *x.shape).scatter(-1, sites.expand_as(new), new)


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
