"""Parallel tempering against enumeration: swaps alone, and with either engine between them."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2

from tcsis import mcmc
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.mcmc import ParallelTempering, start_chains
from tcsis.mcmc.compiled import make_streams, swap_neighbours
from tcsis.mcmc.tempering import TemperedChains
from tcsis.targets import Ising, Pairwise

GLASS = Pairwise.from_spins(
    torch.tensor([[0, 1, 0, -0.7], [1, 0, 0.4, 0], [0, 0.4, 0, 1.2], [-0.7, 0, 1.2, 0]]),
    torch.tensor([0.3, -0.2, 0.5, 0.1]),
    dtype=torch.float64,
)
LADDERS = {2: (0.3, 1.0), 3: (0.1, 0.5, 1.0), 5: (0.0, 0.2, 0.45, 0.7, 1.0)}

LEVEL = 1e-6
"""Of one χ² test.  There are 25, so one choice of seeds in 40,000 gives a false alarm."""

N = 50_000


def laws(ladder: tuple[float, ...]) -> NDArray[np.float64]:
    """p̄^λ normalised, (copies, states)."""
    log_density = Enumeration(GLASS).log_density
    return np.stack([(scale * log_density).softmax(0).numpy() for scale in ladder])


def worst(ladder: tuple[float, ...], index: NDArray[np.int64]) -> float:
    """The least level at which χ² takes the joint states of two neighbours, index (chains, copies),
    for draws from the product of their laws."""
    p, levels = laws(ladder), []
    for low in range(len(ladder) - 1):
        expected = len(index) * np.outer(p[low], p[low + 1]).reshape(-1)
        seen = np.bincount(index[:, low] * p.shape[1] + index[:, low + 1], minlength=len(expected))
        rare = expected < 10
        expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
        counts = np.append(seen[~rare], seen[rare].sum())
        statistic = ((counts - expected) ** 2 / expected).sum()
        levels.append(float(chi2.sf(statistic, len(expected) - 1)))
    return min(levels)


def swapped(
    ladder: tuple[float, ...],
    weigh: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]],
) -> NDArray[np.int64]:
    """Independent draws from the product of all laws after four rounds of swaps, decided from what
    ``weigh`` makes of log densities and rows."""
    rng, streams = np.random.default_rng(0), make_streams(1, N)
    log_density, p = Enumeration(GLASS).log_density.numpy(), laws(ladder)
    index = np.stack([rng.choice(len(law), N, p=law) for law in p], 1).reshape(-1)
    rows = np.arange(len(index)).reshape(N, -1)
    for number in range(4):
        first = number % min(2, len(ladder) - 1)
        weights = weigh(log_density[index], rows)
        assert swap_neighbours(first, np.array(ladder), weights, rows, streams) > 0
    return index[rows]


@pytest.mark.statistical
@pytest.mark.parametrize("ladder", LADDERS.values())
def test_swaps_leave_the_product_invariant(ladder: tuple[float, ...]) -> None:
    assert worst(ladder, swapped(ladder, lambda log_density, rows: log_density)) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("ladder", LADDERS.values())
def test_wrong_swaps_are_caught(ladder: tuple[float, ...]) -> None:
    """The sign of the ratio, densities of other copies, and those of where copies began."""

    def of_others(log_density: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.roll(log_density.reshape(rows.shape), 1, axis=1).reshape(-1)

    assert worst(ladder, swapped(ladder, lambda log_density, rows: -log_density)) < LEVEL
    assert worst(ladder, swapped(ladder, of_others)) < LEVEL
    by_place = swapped(ladder, lambda log_density, rows: log_density[rows].reshape(-1))
    assert worst(ladder, by_place) < LEVEL


@pytest.mark.parametrize(
    ("hot", "cold", "probability"),
    [
        (-1.0, -2.0, 1.0),
        (-2.0, -1.0, math.exp(-0.6)),
        (0.0, 5.0, math.exp(-3)),
        (1.5, 1.5, 1.0),
        (-math.inf, 0.0, 0.0),
        (0.0, -math.inf, 1.0),
        (-math.inf, -math.inf, 0.0),
    ],
)
def test_acceptance(hot: float, cold: float, probability: float) -> None:
    """Within 4.5 standard deviations of 50,000 decisions at scales 0.4 and 1."""
    rows = np.arange(2 * N).reshape(N, 2)
    weights = np.tile([hot, cold], N)
    accepted = swap_neighbours(0, np.array([0.4, 1.0]), weights, rows, make_streams(0, N))
    assert accepted == (rows[:, 0] > rows[:, 1]).sum()
    assert abs(accepted / N - probability) <= 4.5 * (probability * (1 - probability) / N) ** 0.5


def test_neighbours_and_no_others() -> None:
    """With all log densities alike every pair swaps: 0-1 and 2-3, then 1-2 and 3-4."""
    rows, ladder = np.arange(10).reshape(2, 5), np.linspace(0.2, 1, 5)
    streams = make_streams(0, 2)
    assert swap_neighbours(0, ladder, np.zeros(10), rows, streams) == 4
    assert rows.tolist() == [[1, 0, 3, 2, 4], [6, 5, 8, 7, 9]]
    assert swap_neighbours(1, ladder, np.zeros(10), rows, streams) == 4
    assert rows.tolist() == [[1, 3, 0, 4, 2], [6, 8, 5, 9, 7]]


def tempered(ladder: tuple[float, ...], kernel: str, n: int = N) -> TemperedChains:
    """Chains whose copies are all at one state."""
    x = torch.zeros(n, GLASS.num_sites, dtype=torch.long)
    chains = start_chains(GLASS, ParallelTempering(kernel, ladder), x, seed=3)
    assert isinstance(chains, TemperedChains)
    return chains


def index_in_order(chains: TemperedChains) -> NDArray[np.int64]:
    """The states of all copies from the hottest to the coldest, (chains, copies)."""
    assert torch.equal(chains.copies.x[torch.from_numpy(chains.rows[:, -1])], chains.x)
    return state_index(chains.copies.x.long(), GLASS.num_values).numpy()[chains.rows]


@pytest.mark.statistical
@pytest.mark.parametrize("ladder", LADDERS.values())
@pytest.mark.parametrize("kernel", ["gibbs", "glauber"])
def test_every_scale_has_its_law(kernel: str, ladder: tuple[float, ...]) -> None:
    chains = tempered(ladder, kernel)
    share = chains.advance(20 if kernel == "gibbs" else 80)
    assert 0.3 < share < 1
    assert worst(ladder, index_in_order(chains)) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["balanced-sqrt", "pas"])
def test_every_scale_has_its_law_in_torch(kernel: str) -> None:
    """Kernels that keep log densities of the scale they were at."""
    chains = tempered(LADDERS[3], kernel, 10_000)
    chains.advance(40)
    assert worst(LADDERS[3], index_in_order(chains)) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["gibbs", "balanced-sqrt"])
def test_copies_that_keep_their_scale_are_caught(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = tempered(LADDERS[3], kernel, 10_000)
    monkeypatch.setattr(chains.copies, "temper", lambda scale: None)
    chains.advance(40)
    assert worst(LADDERS[3], index_in_order(chains)) < LEVEL


@pytest.mark.parametrize("kernel", ["gibbs", "gwg"])
def test_seeds(kernel: str) -> None:
    target = Ising(4, 0.5)
    run = {"num_chains": 6, "num_steps": 20}
    first = mcmc.sample(target, ParallelTempering(kernel), **run, seed=1)
    assert torch.equal(first.x, mcmc.sample(target, ParallelTempering(kernel), **run, seed=1).x)
    assert not torch.equal(first.x, mcmc.sample(target, ParallelTempering(kernel), **run, seed=2).x)


def test_a_chain_does_not_depend_on_the_others() -> None:
    many, few = tempered(LADDERS[3], "gibbs", 300), tempered(LADDERS[3], "gibbs", 40)
    many.advance(7)
    few.advance(3)
    few.advance(4)
    assert torch.equal(many.x[:40], few.x)
    assert np.array_equal(many.rows[:40], few.rows)


def test_chains_are_put_elsewhere() -> None:
    """All copies of a chain, at scales in order again."""
    chains = tempered(LADDERS[5], "gibbs", 30)
    chains.advance(9)
    there = torch.ones(30, GLASS.num_sites, dtype=torch.long)
    chains.place(there)
    assert torch.equal(chains.x.long(), there)
    assert np.array_equal(chains.rows, np.arange(150).reshape(30, 5))
    with pytest.raises(ValueError, match="scale is given: tempered chains have a ladder"):
        chains.place(there, torch.ones(30))
