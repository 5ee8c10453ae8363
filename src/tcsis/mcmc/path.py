"""Path-auxiliary sampler: a walk of several locally balanced moves, accepted or refused as a whole.

From x the walk goes z_0 = x, z_1, ..., z_n = y, each move drawn by the weights at the state it
leaves.  The way back takes the same states in reverse, so q(path) = Π q(z_l | z_{l-1}) stands
against Π q(z_{l-1} | z_l).  With exact differences most of it cancels, and long walks are accepted.
The number of moves is drawn evenly from 1 to the most allowed, so that no parity is preserved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts
from tcsis.mcmc.balanced import (
    Balance,
    Difference,
    draw_active,
    exact_difference,
    informed_state,
    log_moves,
    square_root,
)
from tcsis.mcmc.kernel import State, accept
from tcsis.noise import draw_categorical
from tcsis.targets.base import Target


@dataclass(frozen=True)
class PathAuxiliary:
    """Walks of up to ``length`` moves; the chain does not stop at the states between."""

    length: int = 5
    difference: Difference = exact_difference
    balance: Balance = square_root

    def __post_init__(self) -> None:
        check_counts(length=self.length)

    def init(self, target: Target, x: Tensor) -> State:
        return informed_state(target, x, self.difference)

    def step(
        self, target: Target, state: State, generator: torch.Generator | None
    ) -> tuple[State, Tensor]:
        here, forward, backward = state, torch.zeros(()), torch.zeros(())
        for active in draw_active(state.x, self.length, generator).split(1, dim=-1):
            moves = log_moves(here, self.balance).flatten(-2)
            move = draw_categorical(moves, generator=generator)[..., None]
            sites, values = move // target.num_values, move % target.num_values
            old = here.x.gather(-1, sites)
            there = self.init(target, here.x.scatter(-1, sites, torch.where(active, values, old)))
            way_back = log_moves(there, self.balance).flatten(-2)
            back = sites * target.num_values + old
            forward = forward + torch.where(active, moves.gather(-1, move), 0.0).squeeze(-1)
            backward = backward + torch.where(active, way_back.gather(-1, back), 0.0).squeeze(-1)
            here = there
        return accept(state, here, forward, backward, generator)
