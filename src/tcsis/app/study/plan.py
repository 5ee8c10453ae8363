"""What a study is made of, as frozen values: settings, methods, seeds and budgets.

A method is a name with its ``Way``, the object that runs it.  Training goes by the clock in the
full study, and by steps in the quick one, which so gives the same numbers again.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from tcsis.draws import Draws
from tcsis.targets.base import Target
from tcsis.targets.physics import Ising

JUDGING, QUICK_TRAINING = 3.0, 4.0
"""Seconds that a cell is expected to take for them."""


@dataclass(frozen=True)
class Setting:
    """A periodic Ising lattice, with ``num_draws`` draws of every method.  ``num_calls`` are the
    inference steps that the paper gives it."""

    side: int
    beta: float
    num_calls: int
    num_draws: int
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.side}×{self.side}, β = {self.beta}"

    def make_target(self) -> Ising:
        return Ising(side=self.side, beta=self.beta)


@dataclass(frozen=True)
class Made:
    """What a run gave: its draws under the name of every reading, and what came before them."""

    readings: dict[str, Draws]
    training_seconds: float = 0.0
    training_densities: float = 0.0


class Way(Protocol):
    """How a method is run.  ``modules`` are those whose code, with all that they import, decides
    what it gives."""

    @property
    def modules(self) -> tuple[str, ...]: ...

    def run(self, task: Task, target: Target) -> Made:
        """Train where there is something to train, and draw."""

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        """The settings, as plain data; part of what a cell is known by."""


@dataclass(frozen=True)
class Method:
    """``name`` is that of files, ``title`` that of tables, ``group`` that of figures.

    ``quick_steps`` are its steps in the quick study, where the full one goes by the clock; None for
    what takes the same time in both.  ``readings`` are the draws that it makes, with the title of
    each.  ``drawing`` is about what 10,000 draws take at side 4, in seconds of one core, and
    ``sides`` are those that it is run at, all where it is None.
    """

    name: str
    title: str
    group: str
    way: Way
    quick_steps: int | None = None
    drawing: float = 1.0
    readings: tuple[tuple[str, str], ...] = (("", ""),)
    sides: tuple[int, ...] | None = None

    @property
    def timed(self) -> bool:
        return self.quick_steps is not None


@dataclass(frozen=True)
class Task:
    """One cell: a method on a setting with a seed, and what it may spend."""

    setting: Setting
    method: Method
    seed: int
    num_chain_steps: int
    seconds: float | None = None
    steps: int | None = None

    @property
    def name(self) -> str:
        s = self.setting
        return f"ising-{s.side}x{s.side}-beta-{s.beta}-{self.method.name}-seed-{self.seed}"

    @property
    def label(self) -> str:
        return f"{self.method.title}, {self.setting.name}, seed {self.seed}"

    @property
    def num_draws(self) -> int:
        return self.setting.num_draws

    @property
    def modules(self) -> tuple[str, ...]:
        return self.method.way.modules

    @property
    def expected_seconds(self) -> float:
        """About what it takes, training, draws and judgement; a draw as its sites and calls."""
        side, calls = self.setting.side, self.setting.num_calls
        work = self.num_draws / 10_000 * (side / 4) ** 2 * calls / 24
        training = self.seconds or (QUICK_TRAINING if self.steps else 0.0)
        return training + self.method.drawing * work + JUDGING


@dataclass(frozen=True)
class Plan:
    """``seconds`` is what every method that goes by the clock has, by side; None for steps."""

    name: str
    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    seconds: dict[int, float] | None = None
    num_chain_steps: int = 10_000

    def tasks(self) -> list[Task]:
        """Every cell, those that take longest first."""
        found = [
            self.task(setting, method, seed)
            for setting in self.settings
            for method in self.methods
            if method.sides is None or setting.side in method.sides
            for seed in setting.seeds
        ]
        return sorted(found, key=attrgetter("expected_seconds"), reverse=True)

    def task(self, setting: Setting, method: Method, seed: int) -> Task:
        seconds = None if self.seconds is None else self.seconds[setting.side]
        steps = method.quick_steps if seconds is None else None
        budget = (seconds, steps) if method.timed else (None, None)
        return Task(setting, method, seed, self.num_chain_steps, *budget)
