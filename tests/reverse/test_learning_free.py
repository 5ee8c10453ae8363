"""Samplers without a network: right on small systems, weighted exactly, and clear when refused."""

import pytest
import torch
from scipy.stats import chi2

import tcsis
from tcsis import identity
from tcsis.judging.metrics import state_index
from tcsis.reverse.unlearned import carried_walkers, fresh, learning_free
from tcsis.targets import Ising, Potts, SpinGlass, Target, from_callable

SMALL = {"glass": SpinGlass((2, 3), 0.8, "gaussian", seed=2), "potts": Potts((2, 2), 3, 0.9)}


def black_box(target: Target) -> Target:
    return from_callable(target.log_density, target.num_sites, target.num_values)


def check_states(target: Target, x: torch.Tensor) -> None:
    """χ² of independent draws against every state's probability, at level 1e-5."""
    p = tcsis.exact.Enumeration(target).p * len(x)
    counts = torch.bincount(state_index(x, target.num_values), minlength=len(p)).double()
    large = p >= 5
    statistic = float(((counts - p) ** 2 / p)[large].sum())
    assert statistic < chi2.isf(1e-5, int(large.sum()))


@pytest.mark.statistical
@pytest.mark.parametrize("engine", ["compiled", "torch"])
@pytest.mark.parametrize("target", SMALL)
def test_joint_draws_follow_the_target(target: str, engine: str) -> None:
    """Long annealing, so the draws are right without their weights; 4 tests at level 1e-5."""
    system = SMALL[target] if engine == "compiled" else black_box(SMALL[target])
    n = 20_000 if engine == "compiled" else 600
    draws = learning_free(system, num_rungs=60, num_steps=6, num_sweeps=2).sample(n, seed=0)
    check_states(SMALL[target], draws.x)
    assert draws.log_z == pytest.approx(
        tcsis.exact.solve(SMALL[target]).log_z, abs=4.5 * draws.log_z_error
    )


@pytest.mark.statistical
def test_joint_weights_are_valid_after_poor_annealing() -> None:
    """Three rungs leave the draws wrong, with few noisy steps to mend them; their weights still
    give log Z and the energy within 4.5 standard errors (1 false alarm in 70,000)."""
    target = SpinGlass((3, 3), 1.5, seed=1)
    truth = tcsis.exact.solve(target)
    draws = learning_free(target, num_rungs=3, num_steps=2, num_sweeps=1).sample(20_000, seed=1)
    assert draws.log_z == pytest.approx(truth.log_z, abs=4.5 * draws.log_z_error)
    energy = -target.log_density(draws.x).double()
    weighted = float(draws.weights @ energy)
    error = float((draws.weights.square() @ (energy - weighted) ** 2).sqrt())
    assert weighted == pytest.approx(truth.mean_energy, abs=4.5 * error)


ESTIMATORS = {
    "walkers": carried_walkers(num_walkers=6, num_rungs=8, num_sweeps=1),
    "marginalised": fresh(identity.marginalised, num_samples=8),
    "coloured": fresh(identity.coloured, num_samples=8),
    "annealed": fresh(identity.annealed, num_chains=3, num_rungs=3),
}


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("target", SMALL)
def test_path_weights_are_exact_however_poor_the_estimate(target: str, estimator: str) -> None:
    """A handful of samples makes a noisy denoiser, and yet E[w] = Z: log Z within 4.5 standard
    errors, 8 cases, one false alarm in 18,000."""
    system = SMALL[target]
    draws = learning_free(system, ESTIMATORS[estimator]).sample(4_000, seed=2, batch_size=1_500)
    truth = tcsis.exact.solve(system).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error)
    assert 0.05 < draws.ess < 0.999


@pytest.mark.statistical
@pytest.mark.parametrize("schedule", ["default", "parallel"])
def test_walkers_make_good_draws(schedule: str) -> None:
    """Forty-eight walkers: on the default schedule near-perfect weights, χ² at level 1e-5."""
    target = SMALL["glass"]
    chosen = None
    if schedule == "parallel":
        chosen = tcsis.schedules.parallel(6, torch.linspace(1, 0, 13))
    sampler = learning_free(target, carried_walkers(num_walkers=48, num_rungs=20))
    draws = sampler.sample(1_500, schedule=chosen, seed=3)
    assert draws.ess > (0.9 if schedule == "default" else 0.6)
    if schedule == "default":
        check_states(target, draws.x)
    assert draws.num_network_calls == 1_500 * (4 if schedule == "default" else 12)
    assert draws.num_density_calls > 0


@pytest.mark.statistical
def test_walkers_take_the_second_order_step() -> None:
    """Six walkers, two steps: log Z within 4.5 standard errors, one false alarm in 140,000; only
    states that a correction changed are asked about again."""
    target = Ising(2, 0.2, 0.1)
    sampler = learning_free(target, carried_walkers(num_walkers=6, num_rungs=2, num_sweeps=1))
    draws = sampler.sample(
        4_000, schedule=tcsis.schedules.parallel(4, [1, 0.5, 0]),
        step=tcsis.reverse.Trapezoidal(target), seed=3, batch_size=1_500,
    )  # fmt: skip
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error)
    assert draws.ess > 0.3
    assert 4_000 * 2 < draws.num_network_calls < 4_000 * 2.5
    named = learning_free(target, "walkers").sample(
        20, schedule=tcsis.schedules.parallel(4, [1, 0.6, 0.3, 0]),
        step=tcsis.reverse.Trapezoidal(target),
    )  # fmt: skip
    assert named.ess > 0.5


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.28, 0.4407, 0.6])
def test_side_four_stands_at_the_floor(beta: float) -> None:
    """Twice the floor of 10,000 draws is 1.6 standard deviations: seeds are fixed."""
    target = Ising(4, beta)
    draws = learning_free(target, num_rungs=200, num_steps=16, num_sweeps=4).sample(10_000, seed=1)
    row = tcsis.evaluate(draws, target)["correlation"]
    assert row.error < 2 * row.floor


@pytest.mark.slow
@pytest.mark.statistical
def test_side_ten_at_the_critical_point() -> None:
    target = Ising(10, 0.4407)
    draws = learning_free(target).sample(10_000, seed=1)
    assert tcsis.evaluate(draws, target)["correlation"].error < 0.01
    assert draws.log_z == pytest.approx(93.612250, abs=0.05)


def test_seeds_and_costs() -> None:
    target = SMALL["glass"]
    for estimator in ("joint", "walkers"):
        sampler = learning_free(target, estimator)
        first, again = (sampler.sample(50, seed=4) for _ in range(2))
        assert torch.equal(first.x, again.x)
        assert torch.equal(first.log_weight, again.log_weight)
        assert not torch.equal(first.x, sampler.sample(50, seed=5).x)
    joint = learning_free(target, num_rungs=10, num_steps=3, num_sweeps=2).sample(7, seed=0)
    assert joint.num_density_calls == 7 * (10 * 2 + 3 * 2)  # a density and a sweep a rung


def test_black_boxes_are_sequential() -> None:
    """Without a colouring all sites are scheduled one by one."""
    target = black_box(SMALL["potts"])
    draws = learning_free(target, carried_walkers(8, 10)).sample(500, seed=0)
    assert draws.num_network_calls == 500 * 4
    assert draws.ess > 0.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: learning_free(t, "magic"), "estimator is 'magic': expected one of joint, "),
        (lambda t: learning_free(t, "walkers", num_steps=3), "belong to the joint sampler"),
        (lambda t: learning_free(t, num_rungs=0), "num_rungs is 0"),
        (lambda t: learning_free(t, num_steps=0), "num_steps is 0"),
        (lambda t: carried_walkers(num_walkers=0), "num_walkers is 0"),
        (lambda t: learning_free(t).sample(0), "n is 0: expected"),
        (lambda t: learning_free(t, "walkers").sample(0), "n is 0: expected"),
        (
            lambda t: learning_free(black_box(t), "coloured").sample(10),
            "colouring",
        ),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call(SMALL["glass"])
    assert "\n" not in str(error.value)
