"""Laws that are found again, and the number of draws from which training pays."""

import math

import numpy as np
import pytest

from tcsis.app.bench.fits import crossing, fit

SIDES = [8, 12, 16, 24, 32]


def test_a_power_is_found_again() -> None:
    law = fit(SIDES, [3e-6 * side**2.17 for side in SIDES], [0.03] * 5)
    assert law is not None
    assert not law.exponential
    assert law.slope == pytest.approx(2.17)
    assert law.cost(20) == pytest.approx(3e-6 * 20**2.17)
    assert str(law).startswith("L^(2.17 ± 0.")


def test_an_exponential_is_found_again() -> None:
    law = fit(SIDES, [3e-6 * math.exp(0.4 * side) for side in SIDES], [0.03] * 5)
    assert law is not None
    assert law.exponential
    assert law.slope == pytest.approx(0.4)
    assert str(law).startswith("exp((0.40 ± 0.")


@pytest.mark.statistical
def test_the_error_of_a_slope_is_its_scatter() -> None:
    """Of noise as large as is said, and of noise three times as large, which widens it."""
    generator = np.random.default_rng(0)
    for factor, low, high in ((1.0, 0.6, 1.2), (3.0, 0.6, 1.5)):
        found = []
        for _ in range(200):
            noise = np.exp(generator.normal(size=5) * factor * math.hypot(0.1, 0.2))
            law = fit(SIDES, np.array(SIDES) ** 2.0 * noise, [0.2] * 5)
            assert law is not None
            if not law.exponential:
                found.append(law)
        scatter = np.std([law.slope for law in found])
        assert low < scatter / np.mean([law.error for law in found]) < high


def test_two_points_are_no_law() -> None:
    assert fit([8, 12], [1.0, 2.0], [None, None]) is None


def test_crossing() -> None:
    draws = crossing(60.0, 1e-5, 7e-5)
    assert draws == pytest.approx(1e6)
    assert 60.0 + draws * 1e-5 == pytest.approx(draws * 7e-5)
    assert crossing(60.0, 1e-5, 1e-5) is None
    assert crossing(60.0, 1e-5, 1e-6) is None
