"""Without learning, given some sites."""

import pytest

import tcsis
from tcsis import exact
from tcsis.targets import Given, Ising


@pytest.mark.statistical
def test_joint_draws(given_target: Given) -> None:
    """E[w] = Z within 4.5 standard errors (7e-6); six targets."""
    sampler = tcsis.learning_free(given_target, num_rungs=20, num_steps=8)
    draws = sampler.sample(2_000, seed=0)
    assert draws.x.shape == (2_000, given_target.num_sites)
    assert not given_target.known.contradicted(draws.x).any()
    assert draws.log_z == pytest.approx(
        exact.solve(given_target).log_z, abs=4.5 * draws.log_z_error
    )


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["marginalised", "coloured", "walkers"])
def test_reverse_draws(estimator: str) -> None:
    """E[w] = Z within 4.5 standard errors (7e-6)."""
    target = Ising(3, 0.4, field=0.3).given({0: 1, 1: 0, 5: 1})
    draws = tcsis.learning_free(target, estimator).sample(1_000, seed=1)
    assert not target.known.contradicted(draws.x).any()
    assert draws.log_z == pytest.approx(exact.solve(target).log_z, abs=4.5 * draws.log_z_error)
