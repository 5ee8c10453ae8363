"""What the study is made of: settings, methods, seeds and budgets, as frozen values.

The settings are those of the paper and, at side 10, β = 0.6, which it left out.  Training goes by
the clock in the full study, and by steps in the quick one, which so gives the same numbers again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcsis.targets.physics import Ising


@dataclass(frozen=True)
class Setting:
    """A periodic Ising lattice.  ``num_calls`` are the inference steps that the paper gives it."""

    side: int
    beta: float
    num_calls: int
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.side}×{self.side}, β = {self.beta}"

    def make_target(self) -> Ising:
        return Ising(side=self.side, beta=self.beta)


@dataclass(frozen=True)
class Method:
    """``name`` is that of files, ``title`` that of tables.  ``quick_steps`` are its training steps
    in the quick study; None for a method that is not trained."""

    name: str
    title: str
    quick_steps: int | None = None

    @property
    def trained(self) -> bool:
        return self.quick_steps is not None


@dataclass(frozen=True)
class Task:
    """One cell: a method on a setting with a seed, and what it may spend on training."""

    setting: Setting
    method: Method
    seed: int
    num_draws: int
    num_chain_steps: int
    training_seconds: float | None = None
    training_steps: int | None = None

    @property
    def name(self) -> str:
        s = self.setting
        return f"ising-{s.side}x{s.side}-beta-{s.beta}-{self.method.name}-seed-{self.seed}"

    @property
    def label(self) -> str:
        return f"{self.method.title}, {self.setting.name}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """``training_seconds`` is the most a training may take, by side; None for steps instead."""

    name: str
    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    num_draws: int
    training_seconds: dict[int, float] | None = None
    num_chain_steps: int = 10_000

    def tasks(self) -> list[Task]:
        """Every cell, those that take longest first."""
        found = [
            self.task(setting, method, seed)
            for setting in self.settings
            for method in self.methods
            for seed in setting.seeds
        ]
        return sorted(found, key=expected_seconds, reverse=True)

    def task(self, setting: Setting, method: Method, seed: int) -> Task:
        seconds = None if self.training_seconds is None else self.training_seconds[setting.side]
        steps = method.quick_steps if seconds is None else None
        budget = (seconds, steps) if method.trained else (None, None)
        return Task(setting, method, seed, self.num_draws, self.num_chain_steps, *budget)


METHODS = (
    Method("self-normalized", "TCSIS, self-normalized", quick_steps=40),
    Method("paper", "TCSIS, self-normalized, paper's estimator", quick_steps=40),
    Method("unbiased", "TCSIS, unbiased", quick_steps=20),
    Method("autoregressive", "autoregressive", quick_steps=200),
    Method("leaps", "LEAPS", quick_steps=100),
    Method("gwg", "GWG"),
    Method("glauber", "Glauber"),
    Method("exact", "exact"),
)
SMALL = tuple(Setting(4, beta, 24, (0, 1, 2)) for beta in (0.28, 0.4407, 0.6))
LARGE = tuple(Setting(10, beta, 64, (0, 1)) for beta in (0.28, 0.4407, 0.6))
FULL = Plan(
    "full", (*SMALL, *LARGE), METHODS, num_draws=10_000, training_seconds={4: 45.0, 10: 120.0}
)
QUICK = Plan(
    "quick", tuple(Setting(4, beta, 24, (0,)) for beta in (0.28, 0.4407)), METHODS, num_draws=1_000
)


# -- what it is going to take -------------------------------------------------------------------

DRAWING = {
    "self-normalized": (15.0, 180.0), "paper": (15.0, 180.0), "unbiased": (15.0, 240.0),
    "autoregressive": (0.5, 1.0), "leaps": (8.0, 175.0),
    "gwg": (1.0, 16.0), "glauber": (1.0, 2.0), "exact": (0.1, 0.5),
}  # fmt: skip
"""Seconds that 10,000 draws take on one slow core, at side 4 and at side 10."""
JUDGING = 3.0
QUICK_TRAINING = 4.0


def expected_seconds(task: Task) -> float:
    """About what a cell takes, training, draws and judgement."""
    training = task.training_seconds or (QUICK_TRAINING if task.training_steps else 0.0)
    drawing = DRAWING[task.method.name][task.setting.side > 4] * task.num_draws / 10_000
    return training + drawing + JUDGING


def expected_total(tasks: list[Task], workers: int) -> float:
    """Seconds for all of them, shared out."""
    return sum(map(expected_seconds, tasks)) / workers
