"""How a training run keeps to its time budget: what each part may take, and when to refuse.

Recognition and annealing come first and are cut to their shares; an evaluation looks at fewer
draws where they are costly, and time for the last one is kept; the rest goes to steps.  A budget
that pays for next to no training is refused with what it would take, as soon as that is known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tcsis.basics.clock import GROWTH, Budget, BudgetError, about, account
from tcsis.learn.buffers import Buffer, Source

RECOGNISED, ANNEALED, EVALUATED, ALL_EVALUATED = 0.1, 0.5, 0.05, 0.2
"""Shares of a budget that go at most to probing a black box, to filling the buffer, to an
evaluation, and to all of them."""
FEWEST_EVALUATED = 100
"""Draws that an evaluation looks at, however costly they are."""
FEWEST_STEPS, NUM_TIMED = 20, 5
"""Steps without which nothing is learned, and those that tell what a step takes."""
FEW = 0.1
"""A share of the steps of a config that is warned about."""


def new_budget(time_budget: float | None) -> Budget:
    """Of so many seconds from now on, or of no end."""
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget is {time_budget}: expected seconds above 0")
    return Budget(math.inf if time_budget is None else time_budget)


def fit_source(buffer: Buffer, budget: Budget, times: int = 1) -> Source:
    """The source of a buffer, or a smaller one that fills so many of them, one after the other,
    within their share of the budget."""
    if budget.limit == math.inf:
        return buffer.source
    seconds = ANNEALED * budget.left / times
    check_begun(budget, 0.0)
    smaller, needed = buffer.within(seconds)
    if needed > seconds:
        raise BudgetError(
            budget.limit,
            f"annealing as few as {times * smaller.size} states, to train with, takes about "
            f"{about(times * needed)} s",
            budget.limit - budget.left + times * needed / ANNEALED,
        )
    return smaller


def fit_evaluation(most: int, look: Callable[[int], object], budget: Budget) -> tuple[int, float]:
    """How many draws an evaluation looks at, and the seconds that it takes: as many as were tried
    within its share of the budget."""
    if budget.limit == math.inf:
        return most, 0.0
    n, seconds = min(most, FEWEST_EVALUATED), EVALUATED * budget.limit
    look(n)  # compiles what is compiled
    while True:
        began = time.perf_counter()
        look(n)
        took = time.perf_counter() - began
        if n == most or GROWTH * took > seconds:
            return n, took
        n = min(most, GROWTH * n)


def check_begun(budget: Budget, reserve: float) -> None:
    """Refuse a budget that is used up before the first step, but for what is kept back."""
    used, parts = budget.limit - budget.left, account(budget.spent, {})
    if used + reserve >= budget.limit:
        raise BudgetError(
            budget.limit,
            f"what comes before the first step took {about(used)} s, compiling included, which is "
            f"done once{f' ({parts})' if parts else ''}",
            2 * (used + reserve),
        )


def check_pace(budget: Budget, made: int, step: int, num_steps: int, reserve: float) -> None:
    """Refuse a budget that does not pay for a few steps, ``made`` of them since the run was started
    or resumed; the first may have to compile, and some do more than others."""
    fewest, over = min(FEWEST_STEPS, num_steps), budget.total + reserve >= budget.limit
    if step >= fewest or made < 2:
        return
    took = budget.spent["training"]
    needed = budget.total + reserve + (fewest - step) * took / step
    if over or (made >= NUM_TIMED and needed > budget.limit):
        raise BudgetError(
            budget.limit,
            f"a step of training takes {about(took / step)} s, after "
            f"{about(budget.other_than('training'))} s for what comes before",
            2 * needed,
        )
