"""Draws of factor models, judged by exact answers that elimination gives."""

import numpy as np
import pytest
import torch

import tcsis
from tcsis import exact
from tcsis.draws import Draws
from tcsis.targets import Factors, SpinGlass


def ring(d: int = 60) -> Factors:
    """Three neighbours a factor, two or three values a site, one in eight entries forbidden."""
    rng = np.random.default_rng(4)
    counts = rng.integers(2, 4, d)
    factors = []
    for i in range(d):
        scope = np.array([i, (i + 1) % d, (i + 2) % d])
        table = rng.normal(size=counts[scope])
        table[rng.random(table.shape) < 0.12] = -np.inf
        factors.append((scope, table))
    return Factors(factors, counts)


@pytest.mark.statistical
def test_perfect_draws_and_those_of_another_temperature() -> None:
    """Fixed seeds; perfect draws are called doubtful once in hundreds of them."""
    target = ring()
    perfect = exact.draw(target, 10_000, seed=0)
    assert tcsis.judge(perfect, target).level == "trusted"
    evaluation = tcsis.evaluate(perfect, target)
    assert evaluation.method == "elimination"
    for name in ("energy", "site marginals", "pair correlations", "energy histogram"):
        row = evaluation[name]
        assert row.error < 2 * row.floor, name
    warm = Draws(exact.draw(target.scaled(0.9), 10_000, seed=0).x)
    assert tcsis.judge(warm, target).level == "failed"


def test_wide_lattices_are_compared_by_their_pairs() -> None:
    target = SpinGlass(15, 0.4, boundary="open")
    draws = exact.draw(target, 2_000, seed=0)
    evaluation = tcsis.evaluate(draws, target)
    assert evaluation["pair correlations"].error < 2 * evaluation["pair correlations"].floor
    for name in ("correlation", "magnetisation"):  # of exact draws, for there is no formula
        assert evaluation[name].error < 3 * evaluation[name].floor


def test_nothing_that_takes_minutes_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ring(20)
    assert exact.affordable(target)
    monkeypatch.setattr("tcsis.exact.elimination.QUICK_WORK", 2**6)
    assert not exact.affordable(target)
    assert exact.solvable(target)
    evaluation = tcsis.evaluate(torch.zeros(10, 20, dtype=torch.long), ring(20))
    assert evaluation.method is None
