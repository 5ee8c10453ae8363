"""What a budget went to, and what a piece of work costs."""

import math
import time

import pytest

from tcsis.basics.clock import Budget, BudgetError, about, account, seconds_each


def test_laps_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([2.0, 5.0, 6.0, 6.5, 7.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    budget = Budget(10.0, last=0.0)
    for what in ("annealing", "training", "annealing"):
        budget.lap(what)
    assert budget.spent == {"annealing": 3.0, "training": 3.0}
    assert budget.other_than("training") == 3.0
    assert budget.left == 3.5  # half a second has gone since the last lap
    assert Budget().limit == math.inf


def test_an_account_reads_well() -> None:
    spent = {"set-up": 0.01, "annealing": 2.13, "training": 0.02}
    notes = {"training": "3 of 4,000 steps"}
    assert account(spent, notes) == "2.1 s annealing, 0.0 s training (3 of 4,000 steps)"
    assert [about(x) for x in (631.4, 0.0213, 26)] == ["630", "0.021", "26"]
    error = BudgetError(10, "a step takes 3 s", 631.4)
    assert str(error) == "time_budget is 10 s and a step takes 3 s: expected at least about 630 s"
    assert error.needed == 631.4


def test_trials_grow_until_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of 1 s and 0.01 s an item: one item alone would seem a hundred times as costly."""
    clock, tried = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def run(n: int) -> None:
        tried.append(n)
        clock[0] += 1 + 0.01 * n

    assert seconds_each(run, 10_000, patience=20.0) == pytest.approx(0.01, rel=0.05)
    assert tried == [1, 1, 4, 16, 64, 256, 1_024, 4_096, 4_096]
    assert seconds_each(run, 5, patience=20.0) == pytest.approx(1.05 / 5)


def test_a_try_that_was_held_up_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen items at once are compiled first, which takes 3 s and is no part of their cost."""
    clock, compiled = [0.0], [False]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def run(n: int) -> None:
        clock[0] += 0.001 * n
        if n >= 16 and not compiled[0]:
            clock[0], compiled[0] = clock[0] + 3.0, True

    assert seconds_each(run, 10_000, patience=0.05) == pytest.approx(0.001)
