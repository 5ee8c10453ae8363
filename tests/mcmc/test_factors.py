"""Chains of factor models: compiled moves, annealing among the values there are, allowed states."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import exact, mcmc
from tcsis.judging.metrics import state_index
from tcsis.mcmc import posterior
from tcsis.mcmc.allowed import allowed_states, uniform_states
from tcsis.mcmc.chains import CompiledChains
from tcsis.targets import Factors


def model(counts: list[int], zeros: bool) -> Factors:
    rng = np.random.default_rng(1)
    factors = [(scope, rng.normal(size=[counts[site] for site in scope])) for scope in SCOPES]
    if zeros:
        factors[0][1][1, 1, 1] = factors[1][1][0, 1] = -np.inf
    return Factors(factors, counts, dtype=torch.float64)


SCOPES = [(0, 1, 2), (2, 3), (1, 3), (0,)]
MODELS = {
    "two values": model([2, 2, 2, 2], zeros=False),
    "mixed": model([3, 2, 2, 3], zeros=False),
    "hard": model([3, 2, 2, 3], zeros=True),
}
N = 20_000


def is_drawn_from(x: Tensor, target: Factors, log_p: Tensor) -> bool:
    """χ² at level 1e-5 over all states; one that is impossible refutes."""
    expected = len(x) * log_p.softmax(0)
    counts = torch.bincount(state_index(x.long(), target.num_values), minlength=len(log_p)).double()
    if bool((counts[expected == 0] > 0).any()):
        return False
    large = expected >= 5
    statistic = float(((counts - expected) ** 2 / expected)[large].sum())
    return statistic < chi2.isf(1e-5, int(large.sum()))


def law(target: Factors) -> tuple[Tensor, Tensor]:
    states = torch.cartesian_prod(*[torch.arange(target.num_values)] * 4)
    return states, target.log_density(states)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["gibbs", "glauber", "metropolis"])
@pytest.mark.parametrize("target", MODELS.values(), ids=list(MODELS))
def test_compiled_chains(target: Factors, kernel: str) -> None:
    """Nine χ² tests at level 1e-5.  Another temperature fails."""
    steps = 40 if kernel == "gibbs" else 200
    draws = mcmc.sample(
        target, kernel, num_chains=N, num_steps=steps, burn_in=steps - 1, progress=False
    )
    assert isinstance(mcmc.start_chains(target, kernel, draws.x[:, 0], 0), CompiledChains)
    _, log_p = law(target)
    assert is_drawn_from(draws.x[:, 0], target, log_p)
    assert not is_drawn_from(draws.x[:, 0], target, 0.8 * log_p.clamp_min(-1e9))


@pytest.mark.statistical
@pytest.mark.parametrize("target", MODELS.values(), ids=list(MODELS))
def test_walkers_in_fields(target: Factors) -> None:
    """From states of any value, also those that sites do not have; three χ² tests at 1e-5."""
    generator = torch.Generator().manual_seed(0)
    fields = torch.randn(4, target.num_values, generator=generator)
    x = torch.randint(target.num_values, (N, 4), generator=generator)
    x = posterior.sweep_walkers(target, fields, x, 30, generator, scale=0.5)
    states, log_p = law(target)
    tilt = fields.expand(len(states), -1, -1).gather(-1, states[..., None]).sum((1, 2))
    log_p = torch.where(log_p.isneginf(), log_p, 0.5 * log_p)
    assert is_drawn_from(x, target, log_p + tilt)


@pytest.mark.statistical
@pytest.mark.parametrize("target", MODELS.values(), ids=list(MODELS))
def test_annealing_counts_the_values_there_are(target: Factors) -> None:
    """log Z within five standard errors, which happens by chance once in a million."""
    truth = exact.solve(target).log_z
    population = mcmc.population_annealing(target, num_replicas=4_096, num_rungs=10)
    assert abs(population.log_z - truth) < 5 * population.log_z_error
    draws = mcmc.annealed_importance_sampling(target, num_chains=4_096, num_rungs=10)
    assert abs(draws.log_z - truth) < 5 * draws.log_z_error
    _, log_p = law(target)
    assert is_drawn_from(population.draws.x[:, 0], target, log_p)


def test_chains_do_not_depend_on_each_other() -> None:
    """One by one or in lanes, a chain is the same."""
    target = MODELS["hard"]
    few = mcmc.sample(target, num_chains=3, num_steps=20, seed=3, progress=False).x
    init = few[:, 0].long()
    first = mcmc.sample(target, num_chains=3, num_steps=9, seed=5, init=init, progress=False).x
    many = init.repeat(20, 1)
    second = mcmc.sample(target, num_chains=60, num_steps=9, seed=5, init=many, progress=False).x
    assert torch.equal(first, second[:3])


def test_clusters_need_pairs() -> None:
    with pytest.raises(ValueError, match="is not pairwise: kernel 'wolff' needs pair couplings"):
        mcmc.sample(MODELS["mixed"], "wolff", num_chains=2, num_steps=2)


def exactly_one(d: int) -> Factors:
    """Copies of one bit, one way round a ring: two allowed states among 2^d."""
    same = np.where(np.eye(2) > 0, 0.0, -np.inf)
    return Factors([((i, (i + 1) % d), same) for i in range(d)], [2] * d)


def test_allowed_states_that_no_guess_would_find(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x = allowed_states(exactly_one(60), 500, generator)
    assert x.shape == (500, 60)
    assert bool((x == x[:, :1]).all())
    assert 150 < int(x[:, 0].sum()) < 350  # evenly of both
    # and where they cannot be drawn, sweeps mend what is broken
    monkeypatch.setattr("tcsis.mcmc.allowed.elimination.quick", lambda target: False)
    x = allowed_states(exactly_one(12), 200, generator)
    assert bool((x == x[:, :1]).all())


def test_uniform_states_have_only_values_that_there_are() -> None:
    x = uniform_states(MODELS["mixed"], 1_000, torch.Generator().manual_seed(0))
    assert x.amax(0).tolist() == [2, 1, 1, 2]
    contradictory = Factors([((0,), [-np.inf, -np.inf])], [2, 2])
    with pytest.raises(ValueError, match="forbids every value of site 0"):
        uniform_states(contradictory, 1, torch.Generator())
