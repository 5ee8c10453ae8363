"""What chains are worth: τ of processes that are known, and chains that must be refused."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tcsis.app.bench import chains
from tcsis.app.bench.autocorrelation import by_sum, integrated_time, judge, off, split_r_hat
from tcsis.app.bench.targets import IsingAt, ising_truth, observe, squared_magnetisation


def autoregressive(rho: float, num_chains: int, n: int, seed: int = 0) -> np.ndarray:
    """x_t = ρ·x_{t-1} + noise, of variance one, (chain, n); its τ is ½·(1 + ρ)/(1 - ρ)."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(num_chains, n)) * math.sqrt(1 - rho**2)
    x = np.empty((num_chains, n))
    x[:, 0] = generator.normal(size=num_chains)
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.98])
def test_tau_of_a_known_process(rho: float) -> None:
    """Within five of its own standard errors: a false alarm in a million."""
    wanted = 0.5 * (1 + rho) / (1 - rho)
    found = integrated_time(autoregressive(rho, 16, 20_000))
    assert abs(found.tau / wanted - 1) < 5 * found.relative_error
    assert found.relative_error < 0.1


@pytest.mark.statistical
def test_the_error_of_tau_is_its_scatter() -> None:
    found = [integrated_time(autoregressive(0.9, 8, 4_000, seed)) for seed in range(60)]
    scatter = np.std([time.tau for time in found]) / np.mean([time.tau for time in found])
    claimed = np.mean([time.relative_error for time in found])
    assert 0.6 < scatter / claimed < 1.4


@pytest.mark.statistical
def test_tau_of_what_is_slow_and_rare() -> None:
    """White noise and a slow process of a twentieth of its variance, which is nine tenths of τ and
    which the sum of ρ gives up before it has begun.  Within four standard errors."""
    slow = 0.05 * 0.5 * (1 + 0.99) / (1 - 0.99)
    wanted = (0.5 + slow) / 1.05
    x = autoregressive(0.0, 32, 8_000) + 0.05**0.5 * autoregressive(0.99, 32, 8_000, seed=1)
    found = integrated_time(x)
    assert abs(found.tau / wanted - 1) < 4 * found.relative_error
    assert by_sum(x).tau < wanted / 3


def test_fast_chains_that_are_long_enough_are_accepted() -> None:
    x = autoregressive(0.9, 16, 5_000)
    judged = judge({"energy": x + 3.0, "m²": x**2}, thin=4, exact_energy=3.0)
    assert judged.refused is None
    assert judged.slowest == "energy"
    assert judged.draw == pytest.approx(2 * 9.5 * 4, rel=0.15)
    assert judged.times == pytest.approx(4_000 / 9.5, rel=0.15)
    assert abs(judged.energy - 3.0) < 5 * judged.energy_error


def test_a_short_run_is_refused_with_a_bound() -> None:
    x = autoregressive(0.98, 16, 500)
    judged = judge({"energy": x}, thin=1, exact_energy=None)
    assert judged.refused is not None
    assert "autocorrelation times of the energy, 50 are wanted" in judged.refused
    assert judged.draw <= 400  # of which a fifth is burn-in
    assert judged.relative_error is None


def test_chains_that_never_move_are_stuck_and_never_fast() -> None:
    fast = autoregressive(0.0, 8, 2_000)
    judged = judge({"energy": fast, "sign of m": np.ones((8, 2_000))}, 3, None)
    assert judged.refused == "stuck: the sign of m never changed in any of 8 chains"
    assert judged.draw == 1_600 * 3  # the whole run, as a bound


def test_chains_that_stay_apart_are_refused() -> None:
    """Each has a short τ about a mean of its own; about that of all it is as long as the run."""
    apart = autoregressive(0.0, 8, 2_000) * 0.1 + np.repeat([1.0, -1.0], 4)[:, None]
    judged = judge({"energy": apart}, 1, None)
    assert judged.refused is not None
    assert "chains disagree about the energy, R-hat" in judged.refused
    assert judged.draw > 400
    assert split_r_hat(apart) > 5


def test_chains_that_agree_on_a_wrong_energy_are_refused() -> None:
    x = autoregressive(0.5, 8, 4_000)
    judged = judge({"energy": x}, 1, exact_energy=0.5)
    assert judged.refused is not None
    assert "standard errors off" in judged.refused
    assert judged.draw == 3_200
    assert judge({"energy": x}, 1, exact_energy=float(x.mean())).refused is None


def test_rounding_of_an_energy_is_no_error() -> None:
    assert off(-87.0, 0.0, -87.00001) < 1
    assert off(-87.0, 1e-3, -87.1) == pytest.approx(100, rel=0.01)


class Counter:
    """Chains that count their steps; the first site of each is the parity of a slow clock."""

    def __init__(self, period: int):
        self.period, self.steps = period, 0

    @property
    def x(self) -> Tensor:
        return torch.full((4, 1), (self.steps // self.period) % 2)

    def advance(self, num_steps: int) -> float:
        self.steps += num_steps
        return 1.0

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        raise AssertionError


def test_slow_chains_are_recorded_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "CAPACITY", 16)
    monkeypatch.setattr(chains, "is_enough", lambda values: values.shape[-1] == 16 and seen[-1])
    seen = [False]
    counter = Counter(10)

    def look(x: Tensor) -> Tensor:
        seen.append(counter.steps >= 64)
        return x[:, 0].double()[None]

    found = chains.record(counter, look, seconds=60.0)
    assert found.thin == 4
    assert found.values.shape == (1, 4, 16)
    steps = 4 * np.arange(1, 17)
    assert (found.values[0, 0] == (steps // 10) % 2).all()


def test_observables_of_all_up() -> None:
    target = IsingAt(0.4)(4)
    truth = ising_truth(target)
    up = torch.ones(2, 16, dtype=torch.uint8)
    values = observe(target, (("m²", squared_magnetisation),), truth, up)
    assert values.tolist() == [[pytest.approx(-0.4 * 32)] * 2, [1.0] * 2]
