"""Draws of a glass that is too wide for the transfer matrix, against exact answers."""

import pytest

import tcsis
from tcsis import exact
from tcsis.judging.reference import Reference
from tcsis.targets import SpinGlass


@pytest.mark.statistical
def test_a_glass_of_side_sixteen_is_judged_by_exact_answers() -> None:
    """Perfect draws are trusted, and those of a target 5 % colder are not; a row is off by four
    floors by chance once in a thousand."""
    target = SpinGlass(16, 1.0, seed=1, boundary="open")
    good = exact.draw(target, 2000, seed=1)
    evaluation = tcsis.evaluate(good, target)
    assert evaluation.method == "kac-ward"
    assert evaluation["energy"].error < 4 * evaluation["energy"].floor
    assert evaluation["energy histogram"].error < 2 * evaluation["energy histogram"].floor
    colder = exact.draw(SpinGlass(16, 1.05, seed=1, boundary="open"), 2000, seed=1)
    off = tcsis.evaluate(colder.x, target)["energy"]
    assert off.error > 6 * off.floor


def test_too_cold_for_exact_answers_is_none() -> None:
    reference = Reference(SpinGlass(16, 30.0, boundary="open"))
    assert reference.truth is None
    assert reference.states is None
