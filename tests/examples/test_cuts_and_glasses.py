"""Cuts and glasses, on instances small enough for a test."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("dwave.samplers")

SCRIPT = Path(__file__).parents[2] / "examples" / "cuts_and_glasses.py"


@pytest.fixture(scope="module")
def example() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.mark.slow
@pytest.mark.statistical
def test_energies_and_ground_states(example: SimpleNamespace) -> None:
    """Means of exact draws within 5 standard errors, a false alarm in 1e-6."""
    for row in example.falling(10, (1.0,), 300):
        mean, error, _, _ = row.found["exact draws"]
        assert abs(mean - row.exact) < 5 * error
    for name, ours, _, _, theirs, _ in example.ground_states(12):
        assert ours == theirs, name


@pytest.mark.slow
@pytest.mark.statistical
def test_ground_states_are_drawn_equally_often(example: SimpleNamespace) -> None:
    """The chance of a false alarm is 1e-4 a sampler; annealing is the negative control."""
    glass = example.fairness(6, "open", 6, 4_000, steps=200)
    assert glass.number == 32
    assert glass.chance("exact draws") > 1e-4
    assert glass.chance("learned, by weight") > 1e-4
    assert glass.chance("annealing, 100 sweeps") < 1e-4


@pytest.mark.slow
def test_the_best_cut_is_that_of_another_solver(example: SimpleNamespace, tmp_path: Path) -> None:
    cut = example.cuts(tmp_path / "torus.gset", 20, 5)
    assert cut.exact == cut.theirs
    assert all(best <= cut.exact for runs in cut.found.values() for best, _ in runs)
