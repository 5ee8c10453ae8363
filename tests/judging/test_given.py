"""Judging draws given some sites, with exact answers and without."""

from dataclasses import replace

import pytest
import torch

import tcsis
from tcsis import exact, mcmc
from tcsis.targets import Given, Ising, Pairwise


@pytest.mark.statistical
def test_perfect_draws_are_trusted(given_target: Given) -> None:
    """Fewer than one false alarm in 100 sets; these seeds raise none."""
    draws = exact.draw(given_target, 5_000, seed=1)
    evaluation = tcsis.evaluate(draws, given_target)
    assert evaluation.method == "enumeration"
    assert evaluation["states"].error < 4 * evaluation["states"].floor
    assert tcsis.judge(draws, given_target).level == "trusted"


def test_draws_of_the_whole_target_fail(given_target: Given) -> None:
    """With the known values written over what was drawn: each site alone may look right."""
    whole = exact.draw(given_target.target, 5_000, seed=1).x
    wrong = given_target.complete(whole[:, given_target.free_sites])
    allowed = ~given_target.log_density(wrong).isneginf()
    assert tcsis.judge(tcsis.Draws(wrong[allowed]), given_target).level == "failed"


def test_draws_that_contradict_fail() -> None:
    target = Ising(3, 0.3).given({0: 1})
    draws = exact.draw(target, 5_000, seed=1)
    x = draws.x.clone()
    x[:10, 0] = 0
    assert tcsis.judge(tcsis.Draws(x), target).level == "failed"
    weight = draws.log_weight.masked_fill(x[:, 0] == 0, -torch.inf)
    assert "forbids" in str(tcsis.judge(replace(draws, x=x, log_weight=weight), target))


def test_pair_correlations_of_free_sites() -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.combinations(torch.arange(6))
    target = Pairwise(
        edges, torch.randn(len(edges), 2, 2, generator=generator), torch.zeros(6, 2)
    ).given({1: 1, 2: 0})
    row = tcsis.evaluate(exact.draw(target, 4_000, seed=0), target)["pair correlations"]
    assert row.estimate.shape == (6,)
    assert row.error < 4 * row.floor


@pytest.mark.statistical
def test_no_exact_answers() -> None:
    """Weights and chains speak for draws of a target that is too large; fixed seeds."""
    target = Ising((7, 7, 7), 0.1).given({site: site % 2 for site in range(0, 343, 9)})
    assert not exact.solvable(target)
    annealed = mcmc.annealed_importance_sampling(target, num_chains=2_000, num_rungs=60, seed=0)
    assert tcsis.judge(annealed, target).level in ("trusted", "trusted by weight")
    chains = mcmc.sample(target, num_chains=20, num_steps=300, burn_in=50, seed=0)
    assert tcsis.judge(chains, target).level == "trusted"
    assert tcsis.evaluate(chains, target)["site marginals"].error is None


def test_one_free_site() -> None:
    """Most observables are constant then."""
    target = Ising(3, 0.3).given(dict.fromkeys(range(8), 1))
    for draws in (
        exact.draw(target, 3_000, seed=0),
        mcmc.sample(target, num_chains=10, num_steps=300, seed=0),
        mcmc.annealed_importance_sampling(target, num_chains=3_000, seed=0),
    ):
        assert tcsis.judge(draws, target).level in ("trusted", "trusted by weight")
