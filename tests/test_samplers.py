"""Whatever samples gives ``Draws``, as the guide says."""

from collections.abc import Callable

import pytest
import torch

import tcsis
from tcsis import Draws, mcmc
from tcsis.peers import dnfs, leaps, mdns, sdds, van
from tcsis.targets import Ising

TARGET = Ising(3, 0.3)
CHAINS = {"num_chains": 5, "num_steps": 10, "burn_in": 2, "progress": False}


def trained(method: str) -> tcsis.Learned:
    return tcsis.train(TARGET, method, "tiny", steps=2, progress=False)


SAMPLERS: dict[str, Callable[[], Draws]] = {
    "exact": lambda: tcsis.exact.draw(TARGET, 8),
    "exact sampler": lambda: tcsis.exact.sampler(TARGET).sample(8),
    "chains": lambda: mcmc.sample(TARGET, **CHAINS),
    "tempered chains": lambda: mcmc.sample(TARGET, "tempering", **CHAINS),
    "chain sampler": lambda: mcmc.ChainSampler(TARGET, num_chains=5).sample(8),
    "population": lambda: mcmc.population_annealing(TARGET, num_replicas=20, num_rungs=3),
    "annealed": lambda: mcmc.annealed_importance_sampling(TARGET, num_chains=20, num_rungs=3),
    "learning-free": lambda: tcsis.learning_free(TARGET, num_rungs=5).sample(8),
    "autoregressive": lambda: trained("autoregressive").sample(8),
    "any-time": lambda: trained("any-time").sample(8),
    "any-time given": lambda: trained("any-time").given({0: 1}).sample(8),
    "self-normalized": lambda: trained("self-normalized").sample(8),
    "unbiased": lambda: trained("unbiased").sample(8),
    "own chain": lambda: trained("autoregressive").chain(4, num_chains=3, burn_in=2),
    "dnfs": lambda: dnfs.train(TARGET, steps=2, progress=False).sample(8),
    "leaps": lambda: leaps.train(TARGET, steps=2, progress=False).sample(8),
    "mdns": lambda: mdns.train(TARGET, steps=2, progress=False).sample(8),
    "sdds": lambda: sdds.train(TARGET, steps=2, progress=False).sample(8),
    "van": lambda: van.train(TARGET, steps=2, progress=False).sample(8),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_gives_draws(name: str) -> None:
    draws = SAMPLERS[name]()
    assert isinstance(draws, Draws)
    assert draws.x.dtype == torch.uint8
    assert draws.x.shape[-1] == 9
    assert draws.seconds > 0


def test_a_population_is_draws_with_a_log_z_of_its_own() -> None:
    population = mcmc.population_annealing(TARGET, num_replicas=2_000, num_rungs=20, seed=1)
    assert population.x.shape == (2_000, 1, 9)
    assert population.log_weight is None and population.ess is None
    truth = tcsis.exact.solve(TARGET).log_z
    assert abs(population.log_z - truth) < 5 * population.log_z_error
    assert population.flat.log_z == population[:10].log_z == population.log_z
    assert type(population.draws) is Draws
    assert torch.equal(population.draws.x, population.x)
    assert tcsis.judge(population, TARGET).level == tcsis.judge(population.draws, TARGET).level
