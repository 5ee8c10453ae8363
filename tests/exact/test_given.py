"""Exact answers given some sites: enumeration of the free ones, and rows with known sites."""

import re

import pytest
import torch
from scipy import stats
from torch import Tensor

from tcsis import exact
from tcsis.exact import transfer
from tcsis.judging.metrics import state_index
from tcsis.noise import UniformNoise
from tcsis.targets import Given, Ising, Lattice, Pairwise, Potts, Target, from_callable

CRITICAL = 0.4407


def whole_law(target: Given) -> tuple[Tensor, Tensor]:
    """Every state of all sites and its log density, which the whole target is asked for."""
    v, d = target.num_values, target.num_sites
    x = torch.cartesian_prod(*[torch.arange(v)] * d)
    agrees = ~target.known.contradicted(x).any(1)
    return x, target.target.to(dtype=torch.float64).log_density(x).where(agrees, -torch.inf)


def random_lattice(shape: tuple[int, int], v: int, boundary: str, seed: int = 0) -> Pairwise:
    generator = torch.Generator().manual_seed(seed)
    lattice = Lattice(shape, boundary)
    bonds = lattice.bonds()
    couplings = torch.randn(len(bonds), v, v, generator=generator)
    fields = torch.randn(lattice.num_sites, v, generator=generator)
    return Pairwise(bonds, couplings, fields, constant=1.7, lattice=lattice, dtype=torch.float64)


# -- enumeration -----------------------------------------------------------------------------------


def test_enumeration_of_the_free_sites(given_target: Given) -> None:
    x, log_density = whole_law(given_target)
    truth, p = exact.solve(given_target), log_density.softmax(0)
    one_hot = torch.nn.functional.one_hot(x, given_target.num_values).double()
    assert truth.method == "enumeration"
    assert truth.log_z == pytest.approx(float(log_density.logsumexp(0)), abs=1e-12)
    assert truth.mean_energy == pytest.approx(-float(p[p > 0] @ log_density[p > 0]), abs=1e-12)
    marginals = torch.einsum("n,niv->iv", p, one_hot)
    torch.testing.assert_close(truth.site_marginals, marginals, rtol=0, atol=1e-12)
    if given_target.num_values == 2:
        ones = torch.zeros(given_target.num_sites + 1).double().index_add(0, x.sum(1), p)
        torch.testing.assert_close(truth.magnetisation.probabilities, ones, rtol=0, atol=1e-12)
    if given_target.lattice is not None:
        assert truth.correlation.shape == (given_target.lattice.max_distance + 1,)


def test_the_probability_of_the_evidence() -> None:
    whole = Ising(4, 0.3, field=0.2)
    evidence, x = {2: 1, 3: 0}, exact.Enumeration(whole)
    states = x.states(torch.arange(x.num_states))
    share = x.p[(states[:, 2] == 1) & (states[:, 3] == 0)].sum()
    log_p = exact.solve(whole.given(evidence)).log_z - exact.solve(whole).log_z
    assert log_p == pytest.approx(float(share.log()), abs=1e-12)


def test_known_sites_do_not_count() -> None:
    """25 sites with ten known have 2^15 states left."""
    target = Ising(5, CRITICAL).given(dict.fromkeys(range(10), 1))
    assert exact.solve(target).method == "enumeration"
    assert exact.solve(target).log_z == pytest.approx(transfer.solve(target).log_z, abs=1e-10)


def test_noised_states(given_target: Given) -> None:
    """p_t, score and denoiser of all sites, from sums over all states of the whole target."""
    v, noise = given_target.num_values, UniformNoise(given_target.num_values)
    x, log_density = whole_law(given_target)
    generator = torch.Generator().manual_seed(0)
    x_t = torch.randint(v, (3, given_target.num_sites), generator=generator)
    t = torch.tensor([0.3, 0.6, 0.9])
    log_p = log_density.log_softmax(0)
    kernel = noise.log_kernel(x_t, t.double()).double()  # (3, d, v)
    index = x.T.expand(3, -1, -1)  # (3, d, states)
    joint = log_p + kernel.gather(2, index).sum(1)  # (3, states)
    table = exact.Enumeration(given_target)
    expected = joint.logsumexp(1)
    torch.testing.assert_close(table.log_marginal(noise, x_t, t), expected, rtol=0, atol=1e-10)
    one_hot = torch.nn.functional.one_hot(x, v).double()
    denoiser = torch.einsum("bn,niv->biv", joint.softmax(1), one_hot)
    said = exact.denoiser(given_target, noise, x_t, t).exp()
    torch.testing.assert_close(said, denoiser, rtol=0, atol=1e-10)
    score = noise.log_score_from_denoiser(denoiser.log(), x_t, t.double())
    torch.testing.assert_close(table.log_score(noise, x_t, t), score, rtol=0, atol=1e-8)


# -- transfer matrix -------------------------------------------------------------------------------

ROWS: dict[str, Given] = {
    "periodic": Ising((4, 3), 0.5, field=0.2).given({0: 1, 1: 0, 7: 1, 11: 0}),
    "a whole row": Ising((4, 3), 0.5).given({3: 1, 4: 0, 5: 1}),
    "all but one": Ising((3, 3), 0.5).given(dict.fromkeys(range(8), 0)),
    "open": Ising((3, 4), 0.6, boundary="open").given({0: 1, 6: 0, 7: 0}),
    "three values": Potts((2, 4), 3, 0.9).given({1: 2, 6: 0}),
    "three values, open": Potts((4, 2), 3, 0.9, boundary="open").given({0: 2, 3: 1}),
    "disorder": random_lattice((3, 3), 3, "periodic").given({4: 2, 0: 1}),
    "disorder, open": random_lattice((4, 3), 2, "open").given({0: 0, 5: 1, 11: 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_with_known_sites(name: str) -> None:
    target = ROWS[name]
    truth, found = exact.solve(target), transfer.solve(target)
    assert truth.method == "enumeration"
    assert found.log_z == pytest.approx(truth.log_z, abs=1e-10)
    assert found.mean_energy == pytest.approx(truth.mean_energy, abs=1e-10)
    torch.testing.assert_close(found.site_marginals, truth.site_marginals, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.correlation, truth.correlation, rtol=0, atol=1e-10)
    if target.num_values == 2:
        ones = transfer.magnetisation(target)
        expected = truth.magnetisation.probabilities
        torch.testing.assert_close(ones, expected, rtol=0, atol=1e-12)


def p_value(target: Given, x: Tensor) -> float:
    """Of the χ² test over the states of the free sites, those of small expectation pooled."""
    p = exact.Enumeration(target).p
    index = state_index(x[:, target.free_sites], target.num_values)
    observed, expected = torch.bincount(index, minlength=len(p)).double(), p * len(x)
    order = expected.argsort(descending=True)
    kept = int((expected >= 10).sum())
    parts = [part[order] for part in (observed, expected)]
    pooled = [torch.cat([part[:kept], part[kept:].sum()[None]]) for part in parts]
    few = float(pooled[1][-1]) < 10  # the pool needs ten as well
    pooled = [torch.cat([p[:-2], p[-2:].sum()[None]]) for p in pooled] if few else pooled
    return stats.chisquare(*(part.numpy() for part in pooled)).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in ROWS if name != "all but one"])
def test_draws_by_rows(name: str) -> None:
    """χ² over all states; false alarms: 1e-5 a target."""
    target = ROWS[name]
    x = transfer.draw(target, 20_000, torch.Generator().manual_seed(0))
    assert not target.known.contradicted(x).any()
    assert p_value(target, x) > 1e-5


@pytest.mark.statistical
def test_draws_by_enumeration(given_target: Given) -> None:
    """χ² over all states; false alarms: 1e-5 a target."""
    draws = exact.draw(given_target, 20_000, seed=3)
    assert draws.x.shape == (20_000, given_target.num_sites)
    assert not given_target.known.contradicted(draws.x).any()
    assert p_value(given_target, draws.x) > 1e-5
    assert draws.log_z == pytest.approx(exact.solve(given_target).log_z)


@pytest.mark.statistical
def test_draws_of_other_evidence_are_found_out() -> None:
    """The same χ² test rejects draws whose known sites were set after the fact."""
    target = ROWS["periodic"]
    x = transfer.draw(target.target, 20_000, torch.Generator().manual_seed(0))
    assert p_value(target, x) < 1e-10


def test_a_lattice_too_large_to_enumerate() -> None:
    """The free half of the sites is a tree of its own: rows of known sites cut the lattice."""
    side, rows = 10, range(0, 10, 2)
    known = {row * side + c: (row + c) % 2 for row in rows for c in range(side)}
    target = Ising(side, CRITICAL).given(known)
    truth = exact.solve(target)
    assert truth.method == "transfer matrix"
    alone = target.free  # five rings of ten sites, each in the field of the rows beside it
    rings = alone.edges.unflatten(0, (5, -1)) % 10
    tables = alone.couplings.unflatten(0, (5, -1))
    fields = alone.fields.unflatten(0, (5, -1))
    log_z = sum(
        exact.solve(Pairwise(*ring)).log_z for ring in zip(rings, tables, fields, strict=True)
    )
    assert truth.log_z == pytest.approx(log_z + alone.constant, abs=1e-8)
    x = exact.draw(target, 50, seed=1).x
    assert not target.known.contradicted(x).any()
    assert exact.quick(target)


# -- refusals --------------------------------------------------------------------------------------


def test_too_large() -> None:
    target = Ising(20, CRITICAL).given({0: 1})
    assert exact.solvable(target.target)  # by Kaufman's formula, which knows of no evidence
    assert not exact.solvable(target)
    with pytest.raises(ValueError, match=re.escape("2^399 states is too large")):
        exact.solve(target)
    with pytest.raises(ValueError, match=re.escape("use tcsis.mcmc.sample for draws")):
        exact.sampler(target)


def test_evidence_that_cannot_be() -> None:
    def sets(x: Tensor) -> Tensor:
        return torch.where((x & x.roll(1, -1)).any(-1), -torch.inf, 0.0).double()

    target: Target = from_callable(sets, 5, 2).given({1: 1, 2: 1})
    with pytest.raises(ValueError, match=re.escape("given({1: 1, 2: 1}) forbids every state")):
        exact.solve(target)
