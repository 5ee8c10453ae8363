"""Draws of a glass that is too wide for the transfer matrix, against exact answers."""

import pytest

from tcsis import exact
from tcsis.judging.evaluation import evaluate_states, states_of
from tcsis.judging.reference import Reference
from tcsis.targets import SpinGlass


@pytest.mark.statistical
def test_a_wide_glass_is_judged_by_exact_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Perfect draws are trusted, and those of a target 5 % colder are not; a row is off by four
    floors by chance once in a thousand."""
    target = SpinGlass(22, 1.0, seed=1, boundary="open")
    colder = SpinGlass(22, 1.05, seed=1, boundary="open")
    monkeypatch.setattr("tcsis.judging.reference.NUM_REFERENCE", 1000)  # in seconds
    reference = Reference(target)
    good, off = (
        evaluate_states(
            states_of(exact.draw(law, 1000, seed=1), target), None, reference, weighted=False
        )
        for law in (target, colder)
    )
    assert good.method == "kac-ward"
    assert good["energy"].error < 4 * good["energy"].floor
    assert good["energy histogram"].error < 2 * good["energy histogram"].floor
    assert off["energy"].error > 4 * off["energy"].floor


def test_too_cold_for_exact_answers_is_none() -> None:
    reference = Reference(SpinGlass(32, 30.0, boundary="open"))
    assert reference.truth is None
    assert reference.states is None
