"""What training asks of a target: the ratios of all neighbours of a state, or densities alone.

A target whose structure is known gives the ratios of a state for about one density; a black box has
to be evaluated at d·(V - 1) neighbours.  Where an evaluation is costly, that is too much, and it is
not needed.  The cross-entropy C compares q(x_k | x_<k) with a law of x_k given all other sites,

    p̂_k(v) = p(x_k = v | all other sites)        by ratios,
    p̂_k(v) = [v = x_k]                           by the state itself,

and E_p[p̂_k(v) | x_<k] = p(x_k = v | x_<k) holds for both: they have the same mean C, but for a
constant, and the same mean slope.  The second, the likelihood of the states, costs no density.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

import torch
from torch import Tensor

from tcsis.basics.frozen import Named
from tcsis.reverse.schedules import last_sites
from tcsis.targets.base import Target
from tcsis.targets.remembered import Remembered

MOST_DENSITIES, FEWEST = 2**15, 8
"""Evaluations of a black box that the conditionals of a batch may cost, and the fewest states that
are asked for them."""
NUM_REMEMBERED = 2**16
"""States whose densities are remembered."""


class Asks(ABC):
    """What a method learns of a target, and at which price."""

    @abstractmethod
    def asked(self, target: Target) -> Target:
        """The target as training asks it."""

    @abstractmethod
    def last(self, target: Target) -> Tensor | None:
        """Sites (k,) that are drawn from the target itself, given all others."""

    @abstractmethod
    def num_compared(self, target: Target, n: int) -> int:
        """Of n states, how many are asked for the laws of all their sites."""

    @abstractmethod
    def laws(self, target: Target, x: Tensor, sites: Tensor) -> Tensor:
        """log p̂(x_i = v) of some sites (n,), (b, d) -> (b, n, v), which p averages to its own."""


class Ratios(Asks):
    """The law of every site given all others; one density and d·(V - 1) of its neighbours a state
    where nothing is known of the target."""

    def asked(self, target: Target) -> Target:
        return target

    def last(self, target: Target) -> Tensor | None:
        return last_sites(target)

    def num_compared(self, target: Target, n: int) -> int:
        return min(n, max(FEWEST, int(MOST_DENSITIES / target.ratios_cost)))

    def laws(self, target: Target, x: Tensor, sites: Tensor) -> Tensor:
        return target.log_ratios(x)[:, sites].log_softmax(-1)


class Densities(Asks):
    """Nothing but log p̄ of whole states, and of none twice that is remembered: every site is drawn
    by the model, for a last one would cost V densities a draw."""

    def asked(self, target: Target) -> Target:
        return Remembered(target, NUM_REMEMBERED)

    def last(self, target: Target) -> Tensor | None:
        return None

    def num_compared(self, target: Target, n: int) -> int:
        return n

    def laws(self, target: Target, x: Tensor, sites: Tensor) -> Tensor:
        here = x[:, sites, None] == torch.arange(target.num_values, device=x.device)
        return torch.zeros(here.shape, dtype=torch.float64, device=x.device).masked_fill(
            ~here, -torch.inf
        )


RATIOS, DENSITIES = Ratios(), Densities()

AsksNamed = Annotated[Asks, Named({"ratios": RATIOS, "densities": DENSITIES})]
