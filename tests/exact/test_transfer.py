"""The transfer matrix against enumeration, Kaufman's formula and known figures."""

import math

import pytest
import torch
from scipy import stats

from tcsis.exact import kaufman, transfer
from tcsis.targets import Ising, Lattice, Pairwise, Potts, SpinGlass, Symmetries

DOUBLE = {"dtype": torch.float64}
CRITICAL = 0.4407


def all_states(target):
    return torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)


def probabilities(target):
    log_density = target.log_density(all_states(target))
    return (log_density - log_density.logsumexp(0)).exp()


def enumerate_all(target):
    """log Z, mean energy, site marginals, G(r) and (for V = 2) the law of the number of ones."""
    x, d, v, lattice = all_states(target), target.num_sites, target.num_values, target.lattice
    log_density = target.log_density(x)
    log_z = log_density.logsumexp(0)
    p = (log_density - log_z).exp()
    one_hot = torch.nn.functional.one_hot(x, v).double()  # (n, d, v)
    marginals = torch.einsum("n,niv->iv", p, one_hot)
    same = sum((one_hot[..., u] * p[:, None]).T @ one_hot[..., u] for u in range(v))
    association = v / (v - 1) * (same - marginals @ marginals.T)
    side = min(lattice.shape)
    correlation = []
    for r in range(side // 2 + 1 if lattice.periodic else side):
        pairs = []
        for axis, length in enumerate(lattice.shape):
            kept = length if lattice.periodic else length - r
            i, j = lattice.sites, lattice.sites.roll(-r, axis)
            pairs.append(association[i.narrow(axis, 0, kept), j.narrow(axis, 0, kept)].flatten())
        correlation.append(torch.cat(pairs).mean())
    ones = torch.zeros(d + 1, **DOUBLE).index_add(0, x.sum(1), p) if v == 2 else None
    energy = -(p * log_density).sum()
    return float(log_z), float(energy), marginals, torch.stack(correlation), ones


def random_pairwise(shape, num_values, boundary="periodic", seed=0):
    """Asymmetric tables and fields, different everywhere."""
    generator = torch.Generator().manual_seed(seed)
    lattice = Lattice(shape, boundary)
    bonds, v = lattice.bonds(), num_values
    couplings = torch.randn(len(bonds), v, v, generator=generator, **DOUBLE)
    fields = torch.randn(lattice.num_sites, v, generator=generator, **DOUBLE)
    return Pairwise(bonds, couplings, fields, constant=1.7, lattice=lattice, **DOUBLE)


def homogeneous_pairwise(shape, num_values, seed=0):
    """Asymmetric tables, one for each axis, and one field, the same everywhere."""
    generator = torch.Generator().manual_seed(seed)
    lattice, v = Lattice(shape), num_values
    couplings = torch.randn(2, v, v, generator=generator, **DOUBLE)
    field = torch.randn(v, generator=generator, **DOUBLE)
    d = lattice.num_sites
    target = Pairwise(
        lattice.bonds(), couplings.repeat_interleave(d, 0), field.expand(d, v),
        lattice=lattice, **DOUBLE,
    )  # fmt: skip
    assert target.symmetries.translations
    return target


def small_targets():
    for boundary in ("periodic", "open"):
        for shape in ((2, 2), (2, 3), (3, 3), (3, 4), (4, 3), (4, 4), (2, 7)):
            yield Ising(shape, CRITICAL, boundary=boundary, **DOUBLE)
            yield Ising(shape, 0.3, field=0.4, boundary=boundary, **DOUBLE)
            yield Ising(shape, -0.7, boundary=boundary, **DOUBLE)
            yield SpinGlass(shape, 0.9, "gaussian", boundary=boundary, **DOUBLE)
            yield random_pairwise(shape, 2, boundary)
        for shape in ((2, 2), (2, 3), (3, 2), (3, 3)):
            yield Potts(shape, 3, 0.8, boundary=boundary, **DOUBLE)
            yield random_pairwise(shape, 3, boundary)
        yield Potts((2, 3), 4, 1.0, boundary=boundary, **DOUBLE)
    for shape in ((2, 2), (2, 3), (3, 2), (3, 3), (2, 4)):
        yield homogeneous_pairwise(shape, 2)
        yield homogeneous_pairwise(shape, 3)


def name(target):
    return f"{target}-{target.lattice.boundary}-{target.lattice.shape}"


@pytest.mark.parametrize("target", list(small_targets()), ids=name)
def test_agrees_with_enumeration(target):
    log_z, energy, marginals, correlation, ones = enumerate_all(target)
    result = transfer.solve(target)
    assert transfer.applies(target)
    assert result.log_z == pytest.approx(log_z, rel=1e-11)
    assert transfer.log_z(target) == pytest.approx(log_z, rel=1e-11)
    assert result.mean_energy == pytest.approx(energy, rel=1e-11)
    torch.testing.assert_close(result.site_marginals, marginals, rtol=1e-11, atol=1e-14)
    torch.testing.assert_close(result.correlation, correlation, rtol=1e-10, atol=1e-13)
    if ones is not None:
        torch.testing.assert_close(transfer.magnetisation(target), ones, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize(
    ("side", "beta", "log_z"),
    [
        (4, 0.28, 12.530667),
        (4, 0.4407, 15.522246),
        (4, 0.6, 20.056533),
        (10, 0.28, 77.710681),
        (10, 0.4407, 93.612250),
    ],
)
def test_known_log_z_of_ising(side, beta, log_z):
    assert transfer.log_z(Ising(side, beta)) == pytest.approx(log_z, abs=1e-6)


def test_known_correlation_of_critical_ising():
    correlation = transfer.solve(Ising(10, CRITICAL)).correlation
    known = torch.tensor([1.0, 0.738164, 0.650784, 0.613844, 0.597304, 0.592463], **DOUBLE)
    torch.testing.assert_close(correlation, known, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(10, 10), (5, 12), (12, 5), (2, 100)])
@pytest.mark.parametrize("beta", [0.1, CRITICAL, 2.0, 10.0])
def test_agrees_with_kaufman(shape, beta):
    result = transfer.solve(Ising(shape, beta))
    assert result.log_z == pytest.approx(kaufman.log_z(shape, beta), rel=1e-12)
    assert result.mean_energy == pytest.approx(kaufman.mean_energy(shape, beta), rel=1e-10)


def test_the_widest_lattice_agrees_with_kaufman():
    assert transfer.log_z(Ising(14, CRITICAL)) == pytest.approx(
        kaufman.log_z((14, 14), CRITICAL), rel=1e-12
    )


@pytest.mark.parametrize("boundary", ["periodic", "open"])
def test_long_disordered_strip_is_consistent(boundary):
    """Energy is -d log Z of p̄^λ by λ; marginals and magnetisation agree on the mean."""
    target = random_pairwise((4, 40), 2, boundary)
    result, step = transfer.solve(target), 1e-4
    up, down = (transfer.log_z(target.scaled(1 + sign * step)) for sign in (1, -1))
    assert result.mean_energy == pytest.approx(-(up - down) / (2 * step), rel=1e-6)
    ones = transfer.magnetisation(target) @ torch.arange(161, **DOUBLE)
    assert float(ones) == pytest.approx(float(result.site_marginals[:, 1].sum()), rel=1e-10)


@pytest.mark.parametrize("boundary", ["periodic", "open"])
def test_transposing_the_lattice_changes_nothing(boundary):
    target = random_pairwise((4, 6), 2, boundary)
    sites = target.lattice.sites.T.flatten()
    transposed = Pairwise(
        sites.argsort()[target.edges], target.couplings, target.fields[sites],
        constant=target.constant, lattice=Lattice((6, 4), boundary),
    )  # fmt: skip
    here, there = transfer.solve(target), transfer.solve(transposed)
    assert there.log_z == pytest.approx(here.log_z, rel=1e-13)
    assert there.mean_energy == pytest.approx(here.mean_energy, rel=1e-12)
    torch.testing.assert_close(there.site_marginals, here.site_marginals[sites])
    torch.testing.assert_close(there.correlation, here.correlation)


@pytest.mark.parametrize(
    "target",
    [
        Ising(6, CRITICAL),
        Ising((5, 6), 0.3, field=0.2),
        SpinGlass(6, 1.0),
        Potts((4, 5), 3, 1.0),
        homogeneous_pairwise((4, 5), 3),
    ],
    ids=name,
)
def test_symmetries_save_work_only(target):
    plain = target.to()
    plain.symmetries = Symmetries()
    fast, slow = transfer.solve(target), transfer.solve(plain)
    assert fast.log_z == pytest.approx(slow.log_z, rel=1e-13)
    assert fast.mean_energy == pytest.approx(slow.mean_energy, rel=1e-12)
    torch.testing.assert_close(fast.site_marginals, slow.site_marginals)
    torch.testing.assert_close(fast.correlation, slow.correlation)
    if target.num_values == 2:
        torch.testing.assert_close(
            transfer.magnetisation(target), transfer.magnetisation(plain), rtol=1e-10, atol=0.0
        )


def test_cold_glass_neither_underflows_nor_overflows():
    target = SpinGlass(4, 20.0, "gaussian", **DOUBLE)
    log_z, energy, marginals, correlation, _ = enumerate_all(target)
    result = transfer.solve(target)
    assert result.log_z == pytest.approx(log_z, rel=1e-12)
    assert result.mean_energy == pytest.approx(energy, rel=1e-12)
    torch.testing.assert_close(result.site_marginals, marginals, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(result.correlation, correlation, rtol=1e-10, atol=1e-12)


def test_number_of_torch_threads_is_restored():
    threads = torch.get_num_threads()
    transfer.log_z(Ising(2, 0.4))
    with pytest.raises(ValueError, match="V = 2"):
        transfer.magnetisation(Potts(2, 3, 1.0))
    assert torch.get_num_threads() == threads


# -- refusals --------------------------------------------------------------------------------


def test_refuses_what_is_no_narrow_nearest_neighbour_lattice():
    lattice = Lattice((4, 4))
    far = Pairwise([[0, 5]], torch.ones(1, 2, 2), torch.zeros(16, 2), lattice=lattice)
    wrapped = Pairwise(
        [[0, 3]], torch.ones(1, 2, 2), torch.zeros(16, 2), lattice=Lattice((4, 4), "open")
    )
    refused = [
        (Ising((3, 3, 3), 0.2), "2-D lattice"),
        (Pairwise.from_spins(torch.zeros(3, 3)), "2-D lattice"),
        (far, r"edge \[0, 5\]"),
        (wrapped, r"edge \[0, 3\]"),
        (Ising(15, 0.4), "too wide"),
        (Potts(9, 3, 1.0), "too wide"),
    ]
    for target, reason in refused:
        assert not transfer.applies(target)
        with pytest.raises(ValueError, match=reason):
            transfer.log_z(target)


def test_refuses_what_float64_cannot_hold():
    with pytest.raises(ValueError, match="too cold for the transfer matrix"):
        transfer.solve(Ising(10, 50.0))


# -- draws -----------------------------------------------------------------------------------

DRAWN = [
    Ising((2, 3), CRITICAL, field=0.1, **DOUBLE),
    Ising((3, 3), CRITICAL, **DOUBLE),
    random_pairwise((3, 3), 2),
    random_pairwise((3, 4), 2, "open"),
    random_pairwise((4, 2), 2),
    Potts((2, 3), 3, 0.5, **DOUBLE),
]


def chi_square_p_value(observed, expected):
    """Of the χ² test, with the classes of small expectation pooled."""
    order = expected.argsort(descending=True)
    observed, expected = observed[order], expected[order]
    kept = int((expected >= 10).sum())
    kept -= float(expected[kept:].sum()) < 10  # the pool needs ten as well
    pooled = [torch.cat([part[:kept], part[kept:].sum()[None]]) for part in (observed, expected)]
    return stats.chisquare(*(part.numpy() for part in pooled)).pvalue


def p_value(target, x):
    """Of the χ² test over all states that x are draws of ``target``."""
    d, v = target.num_sites, target.num_values
    index = (x.long() * v ** torch.arange(d - 1, -1, -1)).sum(1)
    observed = torch.bincount(index, minlength=v**d).double()
    return chi_square_p_value(observed, probabilities(target) * len(x))


@pytest.mark.statistical
@pytest.mark.parametrize("target", DRAWN, ids=name)
def test_draws_follow_the_target(target):
    """χ² over all states; false alarms: 1e-5 a target."""
    x = transfer.draw(target, 50_000, generator=torch.Generator().manual_seed(0))
    assert x.shape == (50_000, target.num_sites)
    assert x.dtype == torch.uint8
    assert p_value(target, x) > 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize("target", [t for t in DRAWN if t.lattice.periodic], ids=name)
def test_draws_that_forget_the_periodic_closure_are_found_out(target, monkeypatch):
    """The same χ² test rejects chains of rows that start right and do not return to the start."""
    law = transfer.first_row_law(transfer.read(target))
    monkeypatch.setattr(transfer, "first_row_law", lambda rows: law)
    monkeypatch.setattr(
        transfer, "below", lambda rows, start: torch.ones(rows.num_states, len(start), **DOUBLE)
    )
    x = transfer.draw(target, 50_000, generator=torch.Generator().manual_seed(0))
    assert p_value(target, x) < 1e-10


@pytest.mark.statistical
@pytest.mark.parametrize("target", [Ising(10, CRITICAL), SpinGlass(8, 1.0, "gaussian")], ids=name)
def test_draws_of_larger_lattices_have_the_exact_energy_and_magnetisation(target):
    """Energy within 4.5 standard errors (false alarms 7e-6), ones by χ² (1e-5)."""
    n = 4000
    x = transfer.draw(target, n, generator=torch.Generator().manual_seed(1)).long()
    energy = -target.log_density(x).double()
    error = float(energy.mean()) - transfer.solve(target).mean_energy
    assert abs(error) < 4.5 * float(energy.std()) / math.sqrt(n)
    law = transfer.magnetisation(target)
    ones = torch.bincount(x.sum(1), minlength=len(law)).double()
    assert chi_square_p_value(ones, law * n) > 1e-5


@pytest.mark.parametrize("target", [Ising(4, CRITICAL), random_pairwise((3, 5), 3, "open")])
def test_draws_are_reproducible(target):
    first, again, other = (
        transfer.draw(target, 100, generator=torch.Generator().manual_seed(seed))
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_few_draws():
    generator = torch.Generator().manual_seed(0)
    assert transfer.draw(Ising(4, CRITICAL), 1, generator=generator).shape == (1, 16)
    with pytest.raises(ValueError, match="at least one"):
        transfer.draw(Ising(4, CRITICAL), 0, generator=generator)
