"""What the benchmark is made of, as frozen values: families of targets, methods, and budgets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, Protocol

from torch import Tensor

from tcsis.basics.frozen import Frozen
from tcsis.targets.pairwise import Pairwise

OVERHEAD, EARLY = 6.0, 0.7
"""Seconds beside a budget, and the share of it that chains are expected to use."""


class Result(Frozen):
    """``seconds`` of one core and ``densities`` are those of one draw as it comes: a step of one
    chain, a replica, a draw of a trained model; None where densities are not counted.  ``draw`` is
    how many of them make one effectively independent draw, at least that many where ``refused``
    says why no more is known.  ``times`` are the autocorrelation times of the run."""

    seconds: float
    densities: float | None
    draw: float
    relative_error: float | None
    refused: str | None
    detail: str
    num_draws: int
    times: float | None = None
    r_hat: float | None = None
    ess: float | None = None
    energy: float
    energy_error: float | None
    exact_energy: float | None
    log_z_gap: float | None = None
    log_z_error: float | None = None
    training_seconds: float = 0.0
    training_densities: float = 0.0

    @property
    def cost(self) -> float:
        """Seconds of one core for an effectively independent draw; a bound where refused."""
        return self.seconds * self.draw

    @property
    def density_cost(self) -> float | None:
        return None if self.densities is None else self.densities * self.draw


@dataclass(frozen=True)
class Truth:
    """What is known exactly: log Z and E[-log p̄], None where it is not, ``starts`` (m, d), ordered
    states in which every second chain begins, and exact ``draws`` (n, d).  ``energy_spread`` is the
    standard deviation of -log p̄, where that is known, else 0."""

    log_z: float | None
    energy: float | None
    starts: Tensor
    draws: Tensor | None
    energy_spread: float = 0.0


Observable = Callable[[Tensor, Truth], Tensor]
"""A number for each state, (n, d) int64 -> (n,)."""


@dataclass(frozen=True)
class Ladder:
    """Scales of p̄ for what climbs to the target: tempering has ``dense``·side·log(1/lowest) steps
    from ``lowest`` to 1, each the same factor, and annealing ``rungs``·side even ones from 0."""

    lowest: float
    dense: float
    rungs: int

    def scales(self, side: int) -> tuple[float, ...]:
        num = max(2, math.ceil(self.dense * side * math.log(1 / self.lowest)))
        return (*(self.lowest ** (1 - i / num) for i in range(num)), 1.0)


@dataclass(frozen=True)
class Family:
    """Targets of one kind by their side.  The energy is observed of all, ``observables`` besides;
    ``ferromagnet`` says whether cluster moves apply, ``patience`` how many times longer a training
    is than those of others."""

    name: str
    title: str
    sides: tuple[int, ...]
    make: Callable[[int], Pairwise]
    truth: Callable[[Pairwise], Truth]
    observables: tuple[tuple[str, Observable], ...]
    ladder: Ladder
    ferromagnet: bool
    patience: float = 1.0


class Way(Protocol):
    """How a method is run.  ``modules`` are those whose code decides what it gives."""

    @property
    def modules(self) -> tuple[str, ...]: ...

    def run(self, task: Task, target: Pairwise) -> Result: ...

    def describe(self, task: Task) -> dict[str, Any]:
        """The settings, as plain data; part of what a cell is known by."""


def everywhere(family: Family, side: int) -> bool:
    return True


@dataclass(frozen=True)
class Method:
    """``name`` is that of files, ``title`` that of tables.  ``learned`` ones have the budget of a
    training, others that of chains.  ``needs`` names the library of a method of others."""

    name: str
    title: str
    way: Way
    learned: bool = False
    needs: str | None = None
    serves: Callable[[Family, int], bool] = everywhere

    @property
    def installed(self) -> bool:
        return self.needs is None or find_spec(self.needs.partition(".")[0]) is not None


@dataclass(frozen=True)
class Task:
    """One cell: a method on a target, and the seconds it may spend."""

    family: Family
    side: int
    method: Method
    seconds: float
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.family.name}-{self.side}-{self.method.name}"

    @property
    def label(self) -> str:
        return f"{self.family.title}, side {self.side}, {self.method.title}"

    @property
    def modules(self) -> tuple[str, ...]:
        return self.method.way.modules

    @property
    def expected_seconds(self) -> float:
        """About what it takes: chains often end before their budget, and draws of a trained model
        and exact answers take a while."""
        if self.method.learned:
            return self.seconds + OVERHEAD * (1 + self.side / 8)
        return EARLY * self.seconds + OVERHEAD / 4


@dataclass(frozen=True)
class Plan:
    """``chains`` are the most seconds of one that is not trained, ``training`` those of a training,
    by side.  ``guarded`` are the names of the cells that the guard runs again."""

    name: str
    families: tuple[Family, ...]
    methods: tuple[Method, ...]
    chains: float
    training: dict[int, float]
    guarded: tuple[str, ...]

    def tasks(self) -> list[Task]:
        """Every cell, those that take longest first."""
        found = [
            Task(family, side, method, self.seconds(family, side, method))
            for family in self.families
            for side in family.sides
            for method in self.methods
            if method.serves(family, side)
        ]
        return sorted(found, key=attrgetter("expected_seconds"), reverse=True)

    def seconds(self, family: Family, side: int, method: Method) -> float:
        return family.patience * self.training[side] if method.learned else self.chains
