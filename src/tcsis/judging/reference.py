"""What draws of a target are compared with, each part worked out when it is first asked for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from tcsis import exact
from tcsis.judging import metrics
from tcsis.judging.annealed import Annealed, anneal
from tcsis.targets.base import Target

NUM_REFERENCE = 20_000
"""Exact draws from which the spread of an observable is taken, for its floor."""

REFERENCE_TOKENS, COUPLED_TOKENS = 2**22, 2**20
"""Of large states fewer draws do, down to a thousand: a draw of 64×64 spins takes 10 ms.  Where
they come by coupling from the past, 16×16 takes 1 ms and 32×32 6 ms."""

REFERENCE_SEED = 7_051_971
"""Of those draws, one that nobody is likely to have drawn what is to be judged with."""


@dataclass(frozen=True, eq=False)
class States:
    """States x (n, d) of a target, int64 on the CPU, with energies and averages over them."""

    target: Target
    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def energies(self) -> Tensor:
        """-log p̄, (n,), on the CPU."""
        return self.target.energy(self.x.to(self.target.device)).cpu()

    @cached_property
    def marginals(self) -> Tensor:
        """P(x_i = v), (d, v)."""
        return metrics.site_marginals(self.x, self.target.num_values)

    @cached_property
    def correlation_deviation(self) -> Tensor:
        """The standard deviation of what one state says about G(r), (max_distance + 1,)."""
        assert self.target.lattice is not None
        return metrics.deviation(
            metrics.correlation_terms(self.x, self.target.lattice, self.marginals)
        )


@dataclass(frozen=True, eq=False)
class Reference:
    """The exact answers for a target and independent exact draws of it, as far as there are any.
    One serves all methods that are judged side by side."""

    target: Target

    @cached_property
    def truth(self) -> exact.Exact | None:
        if not exact.affordable(self.target):
            return None
        with suppress(exact.TooColdError):
            return exact.solve(self.target)
        return None

    @property
    def method(self) -> str | None:
        """How answers, or draws where there is nothing else, are known."""
        if self.truth is not None:
            return self.truth.method
        return None if self.states is None else "draws, coupled from the past"

    @cached_property
    def states(self) -> States | None:
        """Up to ``NUM_REFERENCE`` exact draws, the same ones every time."""
        if not exact.quickly_drawable(self.target):
            return None
        tokens = COUPLED_TOKENS if exact.coupled(self.target) else REFERENCE_TOKENS
        n = min(NUM_REFERENCE, max(1000, tokens // self.target.num_sites))
        with suppress(exact.TooColdError):
            drawn = exact.draw(self.target, n, seed=REFERENCE_SEED)
            return States(self.target, drawn.x.long())
        return None

    @cached_property
    def annealed(self) -> Annealed | None:
        """A population for comparison, where there are no exact draws and it is cheap."""
        return anneal(self.target)
