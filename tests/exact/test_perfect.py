"""Coupling from the past against enumeration, the transfer matrix and Kaufman."""

from dataclasses import replace

import networkx
import numpy as np
import pytest
import torch
from scipy import stats

from tcsis import exact
from tcsis.exact import Enumeration, kaufman, perfect, transfer
from tcsis.judging.metrics import state_index
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass

ALARM = 1e-4
"""The false-alarm rate of each statistical test below; seeds are fixed."""
NUM_DRAWS = 20_000


def ferromagnet(num_values: int, seed: int) -> Pairwise:
    """Uneven strengths on a random graph, one of them nothing, and a site without a pair."""
    edges = np.array(networkx.gnm_random_graph(6, 9, seed=seed).edges)
    b = np.random.default_rng(seed).exponential(size=len(edges)) * (np.arange(len(edges)) > 0)
    tables = b[:, None, None] * np.eye(num_values)
    return Pairwise(edges, tables, np.zeros((7, num_values)), dtype=torch.float64)


def chance(target: Pairwise, model: perfect.Ferromagnet) -> float:
    """That draws of the model's law fit that of the target as badly, by χ² over all states."""
    table = Enumeration(target)
    x = perfect.draw(model, NUM_DRAWS, torch.Generator().manual_seed(5)).long()
    counts = torch.bincount(state_index(x, target.num_values), minlength=table.num_states).double()
    expected = NUM_DRAWS * table.p.double()
    likely = expected >= 5
    seen = torch.cat([counts[likely], counts[~likely].sum()[None]])
    wanted = torch.cat([expected[likely], expected[~likely].sum()[None]])
    kept = wanted > 0
    return stats.chisquare(seen[kept], wanted[kept] * seen.sum() / wanted.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target",
    [
        Ising(3, 0.44),
        Ising((2, 4), 0.7),
        Potts((2, 3), 3, 1.0),
        ferromagnet(2, 1),
        ferromagnet(4, 2),
    ],
    ids=str,
)
def test_states_follow_the_law(target: Pairwise) -> None:
    assert chance(target, perfect.read(target)) > ALARM


@pytest.mark.statistical
def test_wrong_probabilities_of_a_bond_are_seen() -> None:
    """The negative control: a bond between two clusters that forgets their colours."""
    target = Potts((2, 3), 3, 1.0)
    model = perfect.read(target)
    forgetful = replace(model, apart=model.joined)
    assert chance(target, forgetful) < ALARM
    halved = replace(
        model, apart=model.joined / (model.joined + 2 * (1 - model.joined))
    )  # as if of two values
    assert chance(target, halved) < ALARM


@pytest.mark.statistical
def test_chains_are_followed_until_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: the end of one chain after as many sweeps is no draw of a cold law."""
    target = Ising(3, 0.44)
    model = perfect.read(target)

    def impatient(model: perfect.Ferromagnet, numbers: np.random.Generator) -> np.ndarray:
        upper, lower = (np.full(len(model.edges), value) for value in (True, False))
        perfect.advance(
            numbers.random((1, len(model.edges))), upper, lower, model.edges, model.joined,
            model.apart, model.first, model.bonds,
        )  # fmt: skip
        return lower

    monkeypatch.setattr(perfect, "settle", impatient)
    assert chance(target, model) < ALARM


def test_chains_keep_their_order() -> None:
    model, numbers = perfect.read(Ising(6, 0.44)), np.random.default_rng(0)
    upper, lower = (np.full(len(model.edges), value) for value in (True, False))
    for _ in range(20):
        perfect.advance(
            numbers.random((1, len(model.edges))), upper, lower, model.edges, model.joined,
            model.apart, model.first, model.bonds,
        )  # fmt: skip
        assert (lower <= upper).all()


@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.28, 0.4407, 0.6])
def test_large_lattices_agree_with_exact_answers(beta: float) -> None:
    target = Ising(16, beta)
    draws, truth = exact.draw(target, 1_000, seed=3), exact.solve(target)
    energy = target.energy(draws.x.long()).double()
    z = (energy.mean() - truth.mean_energy) / (energy.std() / len(energy) ** 0.5)
    assert abs(float(z)) < stats.norm.isf(ALARM / 2)
    up = int((2 * draws.x.long().sum(1) > 256).sum())
    assert stats.binomtest(up, int((2 * draws.x.long().sum(1) != 256).sum())).pvalue > ALARM
    assert draws.log_weight is not None
    assert float(draws.log_weight[0]) == kaufman.log_z((16, 16), beta)


def test_what_is_drawn_so() -> None:
    for target in (Ising(16, 0.4), Ising((6, 6, 6), 0.2), Potts(16, 5, 0.5)):
        assert exact.coupled(target)
        assert exact.drawable(target)
    assert exact.quickly_drawable(Ising(16, 0.4))
    assert not exact.quickly_drawable(Potts(16, 5, 0.5))  # near a first-order transition, perhaps
    for target in (Ising(16, -0.4), Ising(16, 0.4, field=0.1), SpinGlass(16, 1.0)):
        assert not perfect.applies(target)
    assert not exact.coupled(Ising(10, 0.4))  # the transfer matrix knows more
    assert exact.draw(Potts(16, 3, 0.5), 3).log_weight is None


def test_the_same_seed_draws_the_same() -> None:
    target = Ising(16, 0.4407)
    first, again = (exact.draw(target, 5, seed=1).x for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(first[:2], exact.draw(target, 2, seed=1).x)
    assert not torch.equal(first, exact.draw(target, 5, seed=2).x)


def test_chains_that_do_not_meet_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfect, "LAST_DOUBLING", 3)
    with pytest.raises(ValueError, match="have not met after 8 sweeps"):
        exact.draw(Ising(24, 0.4407), 10)


@pytest.mark.parametrize("shape", [(4, 4), (5, 6), (10, 10), (3, 12)])
@pytest.mark.parametrize("beta", [0.1, 0.4407, 0.9, -0.3])
def test_correlations_of_the_torus(shape: tuple[int, int], beta: float) -> None:
    target = Ising(shape, beta, dtype=torch.float64)
    expected = transfer.solve(target).correlation
    assert exact.torus.correlation(target).numpy() == pytest.approx(expected.numpy(), abs=1e-12)


def test_a_correlation_needs_the_factor_of_its_path() -> None:
    """The negative control: without Π t it is not even below one."""
    torus = exact.torus.read(Ising(6, 0.3))
    path = np.array([exact.torus.bond_between(torus, k, k + 1) for k in range(3)])
    bare = exact.torus.correlation_along(torus, path) / np.tanh(0.3) ** np.arange(1, 4)
    assert (bare > 1).all()
