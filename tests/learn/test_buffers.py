"""Buffers: what they start from, how it moves on, and what it follows."""

import math

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn.buffers import (
    Buffer,
    Chains,
    ModelAndNoise,
    PopulationAnnealing,
    Source,
    Uniform,
)
from tcsis.mcmc.allowed import uniform_states
from tcsis.targets import Ising, Potts, Target, from_callable

TARGET = Ising(3, 0.4)
TABLE = Enumeration(TARGET)
DEVIATION = math.sqrt(float(TABLE.p @ (TABLE.log_density + TABLE.mean_energy).square()))
"""Of the energy."""
SOURCES: dict[str, Source] = {
    "uniform": Uniform(size=40),
    "mcmc": Chains(size=40, num_chains=8, num_steps=5),
    "model_and_noise": ModelAndNoise(size=40, num_new=8),
    "resampled": ModelAndNoise(size=40, num_new=8, resample=True),
    "population_annealing": PopulationAnnealing(
        size=40, num_rungs=4, steps_per_rung=2, num_moved=8
    ),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def all_ones(n: int, _: torch.Generator) -> Draws:
    """A model that has only one thing to say."""
    return Draws(torch.ones(n, 9, dtype=torch.uint8), torch.zeros(n, dtype=torch.float64))


def run(source: Source, seed: int, target: Target = TARGET) -> tuple[Tensor, Tensor]:
    """The states at the start, and after one refresh."""
    own = generator(seed)
    start = source.start(target, own)
    return start, source.refresh(target, start, all_ones, own)


def check_follows(x: Tensor, p: Tensor) -> None:
    """χ² over all states; false alarms 1e-4."""
    counts = torch.bincount(state_index(x, 2), minlength=len(p)).double()
    expected = len(x) * p
    common = expected >= 5
    counts = torch.cat([counts[common], counts[~common].sum()[None]])
    expected = torch.cat([expected[common], expected[~common].sum()[None]])
    statistic = float(((counts - expected).square() / expected.clamp_min(1e-9)).sum())
    assert statistic < chi2.isf(1e-4, len(counts) - 1)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("target", [TARGET, Potts(3, 3, 0.5)], ids=["ising", "potts"])
def test_buffers_have_their_shape_and_repeat_with_the_seed(name: str, target: Target) -> None:
    start, after = run(SOURCES[name], 1, target)
    for x in (start, after):
        assert x.shape == (40, 9)
        assert x.dtype == torch.int64
        assert int(x.min()) >= 0 and int(x.max()) < target.num_values
    again = run(SOURCES[name], 1, target)
    assert torch.equal(start, again[0]) and torch.equal(after, again[1])
    other = run(SOURCES[name], 2, target)
    assert not torch.equal(start, other[0])
    assert not torch.equal(after, start)


@pytest.mark.parametrize(("name", "most"), [("mcmc", 8), ("population_annealing", 8)])
def test_a_refresh_replaces_some_states(name: str, most: int) -> None:
    start, after = run(SOURCES[name], 3)
    changed = int((start != after).any(1).sum())
    assert 0 < changed <= most


@pytest.mark.statistical
def test_uniform_covers_all_states() -> None:
    """χ², false alarms 1e-4; and all of it new at every refresh."""
    start, after = run(Uniform(size=10_000), 4)
    flat = torch.full((512,), 1 / 512, dtype=torch.float64)
    check_follows(start, flat)
    check_follows(after, flat)
    assert float((start == after).all(1).double().mean()) < 0.02


@pytest.mark.statistical
def test_model_and_noise_share_the_new_states() -> None:
    """A tenth noise: of 2,000 new states 1,800 ± 60 (4.5 standard errors, false alarms 7e-6) are
    the model's, and the other states of the buffer stay as they were."""
    start, after = run(ModelAndNoise(size=4_000, num_new=2_000), 5)
    kept = (start == after).all(1)
    assert 2_000 <= int(kept.sum()) <= 2_000 + 60
    new = after[~kept]
    assert int((new == 1).all(1).sum()) == pytest.approx(1_800, abs=75)
    only_noise = ModelAndNoise(size=400, num_new=400, noise_share=1.0)
    assert float((run(only_noise, 5)[1] == 1).all(1).double().mean()) < 0.05
    no_noise = ModelAndNoise(size=400, num_new=400, noise_share=0.0)
    assert bool((run(no_noise, 5)[1] == 1).all())


@pytest.mark.statistical
def test_resampled_draws_follow_the_target() -> None:
    """Uniform draws with log p̄ as their weights: once resampled, their mean energy is that of the
    target within 4 standard errors (an ESS of a twentieth; false alarms 6e-5), and not before."""

    def weighted(n: int, own: torch.Generator) -> Draws:
        x = uniform_states(TARGET, n, own)
        return Draws(x.byte(), TARGET.log_density(x).double())

    energies = {}
    for resample in (True, False):
        source = ModelAndNoise(size=8_000, num_new=8_000, noise_share=0.0, resample=resample)
        start = source.start(TARGET, generator())
        x = source.refresh(TARGET, start, weighted, generator(6))
        energies[resample] = -float(TARGET.log_density(x).double().mean())
    assert abs(energies[True] - TABLE.mean_energy) < 4 * DEVIATION * math.sqrt(20 / 8_000)
    assert energies[False] > TABLE.mean_energy + 2


@pytest.mark.statistical
def test_mcmc_states_follow_the_target() -> None:
    """Ends of 2,000 chains of 60 steps: mean energy within 4.5 standard errors, 7e-6."""
    x = Chains(size=2_000, num_steps=60).start(TARGET, generator(7))
    energy = -float(TARGET.log_density(x).double().mean())
    assert abs(energy - TABLE.mean_energy) < 4.5 * DEVIATION / math.sqrt(2_000)


@pytest.mark.statistical
def test_an_annealed_population_follows_the_target_and_stays() -> None:
    """χ² over 512 states at the start and after ten sweeps, false alarms 1e-4 each; the control, a
    population of a hotter lattice, must fail it."""
    source = PopulationAnnealing(size=4_000)
    own = generator(8)
    x = source.start(TARGET, own)
    check_follows(x, TABLE.p)
    for _ in range(10):
        x = source.refresh(TARGET, x, all_ones, own)
    check_follows(x, TABLE.p)
    hot = source.start(Ising(3, 0.3), own)
    with pytest.raises(AssertionError):
        check_follows(hot, TABLE.p)


def test_a_buffer_is_refreshed_when_it_is_due() -> None:
    buffer = Buffer(Uniform(size=40, every=3), TARGET)
    with pytest.raises(AssertionError, match="not been started"):
        assert buffer.all is None
    own = generator()
    buffer.start(own)
    for step in range(7):
        before = buffer.all
        buffer.refresh(step, step / 7, all_ones, own)
        assert (buffer.all is not before) == (step in (3, 6)), step


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="noise_share"):
        ModelAndNoise(noise_share=1.5)
    with pytest.raises(ValueError, match="every"):
        Chains(every=0)
    for source in (Uniform, Chains, ModelAndNoise, PopulationAnnealing):
        with pytest.raises(ValueError, match="size"):
            source(size=0)


def test_a_population_leaves_the_allowed_state_it_starts_from() -> None:
    """Three of six sites are on, so that single sites cannot move; all 20 states are reached, in
    the start and by refreshes from one of them."""
    first = torch.tensor([1, 1, 1, 0, 0, 0])
    target = from_callable(
        lambda x: torch.where(x.sum(1) == 3, 0.1 * x[:, 0].double(), -torch.inf), 6, 2,
        allowed=first,
    )  # fmt: skip
    source = PopulationAnnealing(size=400, num_rungs=3, steps_per_rung=2)
    own = generator()
    x = source.start(target, own)
    assert len(x.unique(dim=0)) == 20
    x = first.repeat(400, 1)
    for _ in range(4):
        x = source.refresh(target, x, all_ones, own)
    assert len(x.unique(dim=0)) == 20
    assert target.log_density(x).isfinite().all()
