"""Metropolis: a random site, a random other value.

``Metropolis`` asks for the ratios of one site, cheap where the structure of the target is known;
``WholeMetropolis`` for the density of the proposed state, one evaluation a step whatever V is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.mcmc.kernel import State, accept, decide, random_sites, set_site
from tcsis.targets.base import Target


@dataclass(frozen=True)
class Metropolis:
    """One proposed change a step.  The proposal is symmetric, so p̄(y)/p̄(x) decides."""

    def init(self, target: Target, x: Tensor) -> State:
        return State(x)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        x, v = state.x, target.num_values
        sites, values = propose(x, v, generator)
        ratio = target.log_ratios_at(x, sites).gather(-1, values[..., None]).squeeze(-1)
        accepted = decide(ratio.clamp_max(0), generator)
        chosen = torch.where(accepted[..., None], set_site(x, sites, values), x)
        return State(chosen), accepted.float()


@dataclass(frozen=True)
class WholeMetropolis:
    """The same proposals, weighed by log p̄ of whole states."""

    def init(self, target: Target, x: Tensor) -> State:
        return State(x, target.log_density(x))

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        sites, values = propose(state.x, target.num_values, generator)
        proposed = self.init(target, set_site(state.x, sites, values))
        return accept(state, proposed, 0.0, 0.0, generator)


def propose(x: Tensor, v: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """A random site and a random other value of every chain, (..., d) -> (...) and (...)."""
    sites = random_sites(x, generator)
    shift = torch.randint(1, v, sites.shape, device=x.device, generator=generator)
    return sites, (x.gather(-1, sites[..., None]).squeeze(-1) + shift) % v
