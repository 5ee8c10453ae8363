"""Chains given some sites: they move the free ones, and come back with all of them."""

import math
import re

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import exact, mcmc
from tcsis.judging.metrics import state_index
from tcsis.mcmc import ParallelTempering, independence_chains
from tcsis.targets import Given, Ising, from_callable
from tcsis.targets.base import counting


def check_states(target: Given, x: Tensor) -> None:
    """Independent states (n, d) have the known values, and pass a χ² test at level 1e-5."""
    assert not target.known.contradicted(x).any()
    p = exact.Enumeration(target).p * len(x)
    index = state_index(x[:, target.free_sites], target.num_values)
    counts = torch.bincount(index, minlength=len(p)).double()
    large = p >= 5
    statistic = float(((counts - p) ** 2 / p)[large].sum())
    assert statistic < chi2.isf(1e-5, int(large.sum()))


STEPS = {"glauber": 200, "metropolis": 300, "gibbs": 60, "pair-gibbs": 30, "balanced-sqrt": 150}


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", STEPS)
def test_chains(given_target: Given, kernel: str) -> None:
    """The last states of 2,000 chains; 30 tests at level 1e-5."""
    num_steps = STEPS[kernel]
    draws = mcmc.sample(
        given_target, kernel, num_chains=2_000, num_steps=num_steps, burn_in=num_steps - 1, seed=1
    )
    assert draws.x.shape == (2_000, 1, given_target.num_sites)
    check_states(given_target, draws.x[:, 0])


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["wolff", "swendsen-wang", "gwg", "dmala", "pas"])
def test_kernels_of_pairwise_targets(kernel: str) -> None:
    """Five tests at level 1e-5."""
    target = Ising((2, 4), 0.5, field=0.2, boundary="open").given({0: 1, 1: 0, 6: 1})
    draws = mcmc.sample(target, kernel, num_chains=2_000, num_steps=100, burn_in=99, seed=2)
    check_states(target, draws.x[:, 0])


@pytest.mark.statistical
def test_tempering(given_target: Given) -> None:
    """Six tests at level 1e-5."""
    kernel = ParallelTempering("gibbs", (0.3, 0.6, 1.0))
    draws = mcmc.sample(given_target, kernel, num_chains=1_000, num_steps=40, burn_in=39, seed=3)
    check_states(given_target, draws.x[:, 0])


@pytest.mark.statistical
def test_population_annealing(given_target: Given) -> None:
    """log Z within 4.5 of its own errors, which families give; 6 tests, 7e-6 each."""
    found = mcmc.population_annealing(
        given_target, num_replicas=2_000, num_rungs=20, steps_per_rung=10, seed=4
    )
    log_z = exact.solve(given_target).log_z
    assert found.log_z == pytest.approx(log_z, abs=4.5 * found.log_z_error)
    assert not given_target.known.contradicted(found.draws.x).any()


@pytest.mark.statistical
def test_annealed_importance_sampling(given_target: Given) -> None:
    """log Z within 4.5 standard errors; 6 tests, 7e-6 each."""
    draws = mcmc.annealed_importance_sampling(given_target, num_chains=4_000, num_rungs=20, seed=5)
    log_z = exact.solve(given_target).log_z
    assert draws.log_z == pytest.approx(log_z, abs=4.5 * draws.log_z_error)
    assert draws.x.shape == (4_000, given_target.num_sites)


@pytest.mark.statistical
def test_independence_chains(given_target: Given) -> None:
    """Annealed draws as proposals, whole states all of them; 6 tests at level 1e-5."""

    class Annealed:
        def sample(self, n: int, *, seed: int = 0):
            return mcmc.annealed_importance_sampling(
                given_target, num_chains=n, num_rungs=5, seed=seed
            )

    draws = independence_chains(Annealed(), given_target, 1, num_chains=1_000, burn_in=40, seed=6)
    assert draws.x.shape == (1_000, 1, given_target.num_sites)
    check_states(given_target, draws.x[:, 0])


def test_first_states_are_whole_states() -> None:
    target = Ising(3, 5.0).given({0: 1})
    whole = torch.zeros(4, 9, dtype=torch.long)
    draws = mcmc.sample(target, num_chains=4, num_steps=1, init=whole)
    assert (draws.x[..., 0] == 1).all()
    assert draws.x[..., 1:].double().mean() < 0.5  # cold: they stay near where they came from
    with pytest.raises(ValueError, match=re.escape("of shape (..., 9)")):
        mcmc.sample(target, num_chains=4, num_steps=1, init=whole[:, 1:])
    population = mcmc.population_annealing(target, num_replicas=4, num_rungs=2, init=whole)
    assert population.draws.x.shape == (4, 1, 9)
    assert math.isnan(population.log_z)


def test_costs_are_those_of_the_free_sites() -> None:
    target = from_callable(lambda x: x.sum(-1).double(), 10, 3).given({0: 1, 1: 2})
    with counting(target) as cost:
        draws = mcmc.sample(target, "gibbs", num_chains=2, num_steps=3)
    assert draws.num_density_calls == cost.densities == 2 * 3 * 8 * 3
    both = Ising(4, 0.3), Ising(4, 0.3).given(dict.fromkeys(range(8), 1))
    prices = [mcmc.sample(target, num_chains=2, num_steps=3).num_density_calls for target in both]
    assert prices[0] == prices[1] == 6  # a sweep costs a density, of what there is


def test_a_large_target_with_much_evidence() -> None:
    """No exact answers, and a diagnosis all the same."""
    target = Ising(20, 0.4).given({site: site % 2 for site in range(0, 400, 3)})
    draws = mcmc.sample(target, num_chains=20, num_steps=60, burn_in=20, seed=0)
    assert mcmc.diagnose(draws, target).verdict in ("mixed", "not mixed")


def test_evidence_that_cannot_be() -> None:
    def sets(x: Tensor) -> Tensor:
        return torch.where((x & x.roll(1, -1)).any(-1), -torch.inf, 0.0).double()

    target = from_callable(sets, 6, 2).given({1: 1, 2: 1})
    with pytest.raises(ValueError, match=re.escape(".given({1: 1, 2: 1}).free forbids all")):
        mcmc.population_annealing(target, num_replicas=20, num_rungs=2)
