"""Metrics against enumeration, and floors against what exact draws really show."""

import networkx
import pytest
import torch

import tcsis
from tcsis.exact import Enumeration
from tcsis.judging import metrics
from tcsis.targets import Ising, Lattice, Pairwise, Potts, Target

CRITICAL = Ising(4, 0.4407)


def draws(table: Enumeration, n: int, seed: int) -> torch.Tensor:
    return table.draw(n, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("target", [Ising((3, 2), 0.3, 0.4), Ising((2, 4), 0.3, 0.4, "open"),
                                    Potts(2, 3, 0.7)])  # fmt: skip
def test_weighted_metrics_over_all_states_are_exact(target: Target) -> None:
    """Every state once, weighted by its probability, must give the exact values."""
    table = Enumeration(target)
    assert target.lattice is not None
    x = table.states(torch.arange(table.num_states))
    v, exact_marginals = target.num_values, table.site_marginals
    torch.testing.assert_close(metrics.site_marginals(x, v, table.p), exact_marginals)
    g = metrics.correlation(x, v, target.lattice, table.p)
    expected = metrics.lattice_correlation(table.pair_same, exact_marginals, target.lattice)
    torch.testing.assert_close(g, expected)
    torch.testing.assert_close(metrics.mean(target.energy(x), table.p).item(), table.mean_energy)
    if v == 2:
        torch.testing.assert_close(metrics.magnetisation_histogram(x, table.p), table.magnetisation)


def test_correlation_of_spins_by_hand() -> None:
    """For V = 2 G(r) is the connected correlation of the spins, over both axes and all sites."""
    lattice = Lattice((4, 4))
    x = draws(Enumeration(Ising(4, 0.3, 0.2)), 500, 0)
    s = x.double().reshape(-1, 4, 4) * 2 - 1
    for r in range(3):
        terms = []
        for axis in (1, 2):
            other = s.roll(-r, axis)
            terms.append((s * other).mean(0) - s.mean(0) * other.mean(0))
        expected = torch.stack(terms).mean()
        torch.testing.assert_close(metrics.correlation(x, 2, lattice)[r], expected)


def test_small_pieces() -> None:
    x = torch.tensor([[0, 0, 1], [1, 1, 1], [0, 1, 2], [2, 2, 0]])
    torch.testing.assert_close(
        metrics.mode_shares(x, 3), torch.tensor([1 + 1 / 3, 1 + 1 / 3, 1 + 1 / 3]).double() / 4
    )
    assert metrics.state_index(x, 3).tolist() == [1, 13, 5, 24]
    assert metrics.magnetisation(torch.tensor([[0, 1, 1, 1]])).item() == 0.5
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])
    assert metrics.total_variation(p, q) == 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(("beta", "floor"), [(0.28, 0.0025), (0.4407, 0.0023), (0.6, 0.0010)])
def test_correlation_floor(beta: float, floor: float) -> None:
    """The closed form against 200 sets of 10,000 exact draws.  The mean of 200 half-normal errors
    has a relative standard error of 0.053; 4.5 of them make a false alarm 1 in 50,000 a case."""
    target = Ising(4, beta)
    table = Enumeration(target)
    assert target.lattice is not None
    lattice = target.lattice
    truth = metrics.lattice_correlation(table.pair_same, table.site_marginals, lattice)[1:]
    terms = (
        metrics.correlation_terms(
            table.states(torch.arange(65_536)), lattice, table.site_marginals
        )[:, 1:]
        + 1
    )  # without a field the mean of the terms is G - 1
    generator = torch.Generator().manual_seed(0)

    def drawn(n: int) -> torch.Tensor:
        return terms[table.draw_index(n, generator)]

    errors = [(drawn(10_000).mean(0) - truth).abs().mean() for _ in range(200)]
    spread = drawn(20_000).std(0)
    expected = metrics.mean_floor(spread, 10_000)
    assert expected == pytest.approx(floor, abs=1e-4)
    assert float(torch.stack(errors).mean()) == pytest.approx(expected, rel=0.24)


@pytest.mark.statistical
def test_total_variation_floor() -> None:
    """Exact for any p, rare states included: 40 sets of 1,000 draws over 65,536 states.  The
    total variation hardly fluctuates (relative spread 1 % a set), so 1 % is five deviations."""
    table = Enumeration(CRITICAL)
    generator = torch.Generator().manual_seed(0)
    seen = [
        metrics.total_variation(
            metrics.histogram(table.draw_index(1_000, generator), 65_536), table.p
        )
        for _ in range(40)
    ]
    assert sum(seen) / 40 == pytest.approx(metrics.total_variation_floor(table.p, 1_000), rel=0.01)
    coin = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert metrics.total_variation_floor(coin, 1) == pytest.approx(0.5)
    assert metrics.total_variation_floor(coin, 2) == pytest.approx(0.25)


def test_floors_of_the_full_state() -> None:
    """What perfect draws score at 10,000 samples: half of the probability at high temperature."""
    for beta, floor in ((0.28, 0.50), (0.4407, 0.15), (0.6, 0.03)):
        p = Enumeration(Ising(4, beta)).p
        assert metrics.total_variation_floor(p, 10_000) == pytest.approx(floor, abs=0.005)


def test_pair_correlations() -> None:
    target = Pairwise.from_spins(torch.tensor([[0.0, 1, 0], [1, 0, -2], [0, -2, 0]]), beta=0.4)
    table = Enumeration(target)
    x = table.states(torch.arange(8))
    c = metrics.pair_correlations(x, 2, target.edges, table.p)
    expected = torch.tanh(torch.tensor([0.4, -0.8], dtype=torch.float64))  # a tree: tanh(βJ)
    torch.testing.assert_close(c, expected)


@pytest.mark.statistical
def test_floor_of_pairs_that_never_agree() -> None:
    """Neighbours of different colours: C_ij has no error of first order, and that of second order
    is of the size of its floor, not of many."""
    target = tcsis.formats.colouring(networkx.path_graph(3), 4)
    n, errors, floors = 400, [], []
    for seed in range(30):
        drawn = tcsis.exact.draw(target, n, seed=seed)
        row = tcsis.evaluate(drawn, target)["pair correlations"]
        assert row.error is not None and row.floor is not None
        errors.append(row.error)
        floors.append(row.floor)
    assert 0.3 < sum(errors) / sum(floors) < 1
    assert max(errors) < 4 * floors[0]


@pytest.mark.statistical
def test_perfect_colourings_are_trusted() -> None:
    """1,000 draws, 20 times; with first order alone one in fourteen was doubtful."""
    target = tcsis.formats.colouring(networkx.random_regular_graph(3, 24, seed=11), 4)
    levels = [
        tcsis.judge(tcsis.exact.draw(target, 1_000, seed=5_000 + seed).x, target).level
        for seed in range(20)
    ]
    assert levels == ["trusted"] * 20
