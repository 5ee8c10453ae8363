"""Metropolis: a random site, a random other value."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.mcmc.kernel import State, decide, random_sites, set_site
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
        sites = random_sites(x, generator)
        shift = torch.randint(1, v, sites.shape, device=x.device, generator=generator)
        values = (x.gather(-1, sites[..., None]).squeeze(-1) + shift) % v
        ratio = target.log_ratios_at(x, sites).gather(-1, values[..., None]).squeeze(-1)
        accepted = decide(ratio.clamp_max(0), generator)
        chosen = torch.where(accepted[..., None], set_site(x, sites, values), x)
        return State(chosen), accepted.float()
