"""Chains as a sampler: as many draws as asked for, the same as of the runner."""

import pytest
import torch

from tcsis import mcmc
from tcsis.draws import Sampler
from tcsis.targets import Ising

TARGET = Ising(3, 0.3)


@pytest.mark.parametrize(("n", "shape"), [(1, (1, 1)), (7, (7, 1)), (20, (20, 1)), (21, (20, 2))])
def test_at_least_as_many_draws_as_asked_for(n: int, shape: tuple[int, int]) -> None:
    sampler = mcmc.ChainSampler(TARGET, num_chains=20, burn_in=3)
    assert isinstance(sampler, Sampler)
    assert sampler.sample(n).x.shape == (*shape, 9)


def test_draws_are_those_of_the_runner() -> None:
    draws = mcmc.ChainSampler(TARGET, "glauber", num_chains=5, burn_in=4, thin=3).sample(10, seed=2)
    same = mcmc.sample(
        TARGET, "glauber", num_chains=5, num_steps=10, burn_in=4, thin=3, seed=2, progress=False
    )
    assert torch.equal(draws.x, same.x)


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="kernel is 'gips'"):
        mcmc.ChainSampler(TARGET, "gips")
    with pytest.raises(ValueError, match="num_chains is 0"):
        mcmc.ChainSampler(TARGET, num_chains=0)
    with pytest.raises(ValueError, match="n is 0"):
        mcmc.ChainSampler(TARGET).sample(0)
