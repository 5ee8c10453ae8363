"""Seconds: what a piece of work costs, and what a budget of them went to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tcsis.basics.ranks import ALONE, Ranks

T = TypeVar("T")

GROWTH = 4


class BudgetError(ValueError):
    """A time budget that pays for no result; ``needed`` seconds might."""

    def __init__(self, budget: float, reason: str, needed: float):
        super().__init__(budget, reason, needed)
        self.budget, self.reason, self.needed = budget, reason, needed

    def __str__(self) -> str:
        return (
            f"time_budget is {self.budget:.3g} s and {self.reason}: expected at least about "
            f"{about(self.needed)} s"
        )


def about(seconds: float) -> str:
    """Two digits of a number."""
    return f"{float(f'{seconds:.2g}'):g}"


@dataclass
class Budget:
    """``limit`` seconds from now on, and what they went to: every ``lap`` adds the time since the
    one before to what it is called, and what the ``meter`` of evaluations has counted since.  Of
    several ranks all have the seconds of rank 0, and the evaluations of all; they meet at laps."""

    limit: float = math.inf
    spent: dict[str, float] = field(default_factory=dict)
    evaluated: dict[str, float] = field(default_factory=dict)
    meter: Callable[[], float] = lambda: 0.0
    last: float = field(default_factory=lambda: time.perf_counter())
    read: float = 0.0
    ranks: Ranks = ALONE

    def lap(self, what: str) -> None:
        now, counted = time.perf_counter(), self.meter()
        mine = now - self.last if self.ranks.leads else 0.0
        seconds, densities = self.ranks.summed(mine, counted - self.read)
        self.spent[what] = self.spent.get(what, 0.0) + seconds
        self.evaluated[what] = self.evaluated.get(what, 0.0) + densities
        self.last, self.read = now, counted

    @property
    def total(self) -> float:
        return sum(self.spent.values())

    @property
    def left(self) -> float:
        """Seconds of the limit, from this moment on."""
        return self.limit - self.total - (time.perf_counter() - self.last)

    def other_than(self, what: str) -> float:
        """Seconds that went to anything else."""
        return self.total - self.spent.get(what, 0.0)


def told_within(ranks: Ranks, find: Callable[[], T]) -> T:
    """What rank 0 finds within a budget; where that is refused, it is by all ranks."""

    def attempt() -> T | BudgetError:
        try:
            return find()
        except BudgetError as error:
            return error

    found = ranks.told(attempt)
    if isinstance(found, BudgetError):
        raise found
    return found


def account(spent: Mapping[str, float], notes: Mapping[str, str]) -> str:
    """2.1 s annealing, 6.5 s training (312 of 4,000 steps), ...: what took a tenth of a second or
    has a note, in order."""
    parts = [
        f"{seconds:.1f} s {what}{f' ({notes[what]})' if what in notes else ''}"
        for what, seconds in spent.items()
        if seconds >= 0.05 or what in notes
    ]
    return ", ".join(parts)


def seconds_each(run: Callable[[int], object], most: int, patience: float) -> float:
    """What one item costs in a large batch: ``run`` is tried with more and more of them, until that
    takes ``patience`` seconds or they are ``most``.  The first try, which may compile, does not
    count, and neither does one that takes less when repeated: many items may have code of their own
    to compile, and a busy machine stands still at times."""
    run(1)
    amount = 1
    while True:
        took = timed(run, amount)
        if took >= patience:
            took = min(took, timed(run, amount))
        if took >= patience or amount >= most:
            return took / amount
        amount = min(most, GROWTH * amount)


def timed(run: Callable[[int], object], amount: int) -> float:
    began = time.perf_counter()
    run(amount)
    return time.perf_counter() - began
