"""Exact draws of planar models against enumeration and the transfer matrix."""

import numpy as np
import pytest
import torch
from scipy import stats

from tcsis.exact import Enumeration, TooColdError, compiled, kac_ward, planar_draws, transfer
from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES
from tcsis.exact.planar import triangulated
from tcsis.exact.separators import dissect
from tcsis.judging.metrics import state_index
from tcsis.targets import Pairwise, SpinGlass

ALARM = 1e-4
"""The false-alarm rate of each test below; seeds are fixed."""


def drawn(target: Pairwise, n: int, seed: int = 0) -> torch.Tensor:
    model = kac_ward.read(target)
    generator = torch.Generator().manual_seed(seed)
    return planar_draws.draw(model, kac_ward.solve(model).log_z, n, generator)


@pytest.mark.statistical
def test_states_follow_the_law(planar):
    target = planar(0.7, seed=2)
    table, x = Enumeration(target), drawn(target, 20_000)
    counts = torch.bincount(state_index(x.long(), 2), minlength=table.num_states)
    expected = 20_000 * table.p
    likely = expected >= 5
    observed = torch.cat([counts[likely], counts[~likely].sum()[None]]).double()
    expected = torch.cat([expected[likely], expected[~likely].sum()[None]])
    kept = expected > 0
    result = stats.chisquare(observed[kept], expected[kept] * observed.sum() / expected.sum())
    assert len(target.edges) == 0 or result.pvalue > ALARM


@pytest.mark.parametrize("numbers", [DOUBLES, DOUBLE_DOUBLES], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("seed", range(4))
def test_a_draw_knows_its_probability(on_points, seed, numbers):
    """log q of a draw is log p̄ - log Z, through parts within parts."""
    model = kac_ward.read(on_points(150, 0.5, seed, every=1 + seed % 2))
    uniform = np.random.default_rng(seed).random((20, 150))
    spins, log_q = planar_draws.Planner(model).plan(numbers).draw(uniform)
    assert planar_draws.error(model, kac_ward.solve(model).log_z, spins, log_q) < 1e-8


def test_every_site_is_drawn_once():
    graph = triangulated(kac_ward.read(SpinGlass(16, 1.0, boundary="open")).graph)
    parts = dissect(graph)
    sites = [site for part in parts for site in part.sites]
    assert len(sites) == len(set(sites)) == graph.num_sites - 1
    assert max(len(part.sites) for part in parts) < 40  # separators are short


@pytest.mark.statistical
def test_bonds_and_overlaps_at_width_twelve():
    """χ² of 4,000 draws: every bond against its exact mean, overlaps of pairs of draws against
    those of the transfer matrix."""
    target = SpinGlass((12, 12), 1.0, seed=3, boundary="open", dtype=torch.float64)
    n, model = 4000, kac_ward.read(target)
    correlations = torch.from_numpy(kac_ward.solve(model).correlations)
    ours = 2.0 * drawn(target, n) - 1
    theirs = 2.0 * transfer.draw(target, n, torch.Generator().manual_seed(1)) - 1
    i, j = target.edges.T
    z = ((ours[:, i] * ours[:, j]).mean(0) - correlations) / ((1 - correlations**2) / n).sqrt()
    # bonds are not independent: the largest of them all, by Bonferroni
    assert stats.norm.sf(float(z.abs().max())) * 2 * len(z) > ALARM
    overlap = [(x[::2] * x[1::2]).mean(1) for x in (ours, theirs)]
    edges = torch.linspace(-1, 1, 13, dtype=torch.float64)
    table = torch.stack([torch.histogram(q.double(), edges).hist for q in overlap])
    table = table[:, table.sum(0) > 10]
    assert stats.chi2_contingency(table.numpy()).pvalue > ALARM


def test_cold_draws_take_double_doubles():
    target = SpinGlass(10, 3.0, seed=1, boundary="open", dtype=torch.float64)
    model = kac_ward.read(target)
    log_z, uniform = kac_ward.solve(model).log_z, np.random.default_rng(0).random((50, 100))
    planner = planar_draws.Planner(model)
    off = [
        planar_draws.error(model, log_z, *planner.plan(numbers).draw(uniform))
        for numbers in (DOUBLES, DOUBLE_DOUBLES)
    ]
    assert off[0] > planar_draws.TOLERATED
    assert off[1] < 1e-9


def test_too_cold_draws_are_refused():
    with pytest.raises(TooColdError, match="too cold for exact draws"):
        drawn(SpinGlass(16, 7.0, seed=1, boundary="open"), 20)


def test_a_wrong_update_is_seen():
    """The negative control: with the wrong t, draws have other probabilities."""
    model = kac_ward.read(SpinGlass(8, 1.0, seed=1, boundary="open"))
    planner, log_z = planar_draws.Planner(model), kac_ward.solve(model).log_z
    right = planner.plan(DOUBLES)
    uniform = np.random.default_rng(0).random((10, 64))
    assert planar_draws.error(model, log_z, *right.draw(uniform)) < 1e-9
    wrong = compiled.walk(
        DOUBLES, uniform, right.root, right.first, right.known, right.ends, -right.t,
        right.t_low, right.start, right.sigma, right.sigma_low,
    )  # fmt: skip
    assert not planar_draws.error(model, log_z, *wrong) < 0.1


def test_the_same_seed_gives_the_same_draws():
    target = SpinGlass(8, 1.0, boundary="open")
    assert torch.equal(drawn(target, 10, seed=4), drawn(target, 10, seed=4))
    assert not torch.equal(drawn(target, 10, seed=4), drawn(target, 10, seed=5))
