"""Planar models against enumeration and the transfer matrix, and what a wrong sign does."""

import dataclasses
import math

import networkx
import numpy as np
import pytest
import torch

from tcsis.exact import Enumeration, TooColdError, kac_ward, kaufman, transfer
from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES
from tcsis.exact.planar import Embedding, triangulated
from tcsis.targets import Ising, Lattice, Pairwise, Potts, SherringtonKirkpatrick, SpinGlass


def bond_correlations(table: Enumeration, edges: torch.Tensor) -> np.ndarray:
    return (2 * table.pair_same(*edges.T) - 1).numpy()


@pytest.mark.parametrize("numbers", [DOUBLES, DOUBLE_DOUBLES], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_agrees_with_enumeration(planar, scale, numbers):
    target = planar(scale)
    table, result = Enumeration(target), kac_ward.solve_in(kac_ward.read(target), numbers)
    assert result.log_z == pytest.approx(table.log_z, abs=1e-10)
    assert result.mean_energy == pytest.approx(table.mean_energy, abs=1e-9)
    expected = bond_correlations(table, target.edges)
    np.testing.assert_allclose(result.correlations, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_random_triangulations(on_points, seed):
    target = on_points(14, 1.0, seed)
    table, result = Enumeration(target), kac_ward.solve(kac_ward.read(target))
    assert result.log_z == pytest.approx(table.log_z, abs=1e-11)
    expected = bond_correlations(table, target.edges)
    np.testing.assert_allclose(result.correlations, expected, rtol=0, atol=1e-10)


def with_sign(graph: Embedding, sign: np.ndarray) -> Embedding:
    wrong = dataclasses.replace(graph)
    wrong.__dict__["sign"] = sign
    return wrong


@pytest.mark.parametrize("name", ["wheel", "cube", "points"])
def test_a_wrong_turn_or_a_missing_sign_shows(model_on, name):
    """The negative control: one τ turned around, and all τ left out."""
    target = model_on(name, 1.0, seed=1)
    model, table = kac_ward.read(target), Enumeration(target)
    graph = model.graph
    bond = int(np.abs(model.beta).argmax())
    turned = graph.sign.copy()
    turned[2 * bond : 2 * bond + 2] *= -1
    wrong = [with_sign(graph, turned), with_sign(graph, np.ones_like(graph.sign))]
    for changed in wrong:
        result = kac_ward.solve_in(dataclasses.replace(model, graph=changed), DOUBLES)
        assert not abs(result.log_z - table.log_z) < 1e-3


def test_faces_obey_euler(planar):
    target = planar(1.0)
    graph, whole = kac_ward.read(target).graph, networkx.Graph(target.edges.tolist())
    faces = int(graph.face.max(initial=-1)) + 1
    parts = networkx.number_connected_components(whole)
    assert whole.number_of_nodes() - len(target.edges) + faces == 2 * parts


def test_triangulated(planar):
    graph = kac_ward.read(planar(1.0)).graph
    full = triangulated(graph)
    np.testing.assert_array_equal(full.edges[: len(graph.edges)], graph.edges)
    if graph.num_sites > 2:
        assert len(full.edges) == 3 * graph.num_sites - 6
        assert (np.bincount(full.face) == 3).all()


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.0, 6.0, 10.0])
def test_agrees_with_the_transfer_matrix(beta):
    target = SpinGlass((12, 9), beta, seed=2, boundary="open")
    expected, result = transfer.solve(target), kac_ward.solve(kac_ward.read(target))
    assert result.log_z == pytest.approx(expected.log_z, abs=1e-10)
    assert result.mean_energy == pytest.approx(expected.mean_energy, abs=1e-9)


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_bonds_agree_with_the_transfer_matrix(beta):
    """Turning a bond around multiplies Z by E[exp(-2β s_i s_j)] = cosh 2β - E[s_i s_j]·sinh 2β."""
    target = SpinGlass((12, 8), beta, seed=2, boundary="open")
    model, lattice = kac_ward.read(target), Lattice((12, 8), "open")
    result, log_z = kac_ward.solve(model), transfer.log_z(target)
    for bond in range(0, len(model.beta), 17):
        couplings = target.couplings.clone()
        couplings[bond] *= -1
        other = Pairwise(target.edges, couplings, torch.zeros(96, 2), lattice=lattice)
        ratio = math.exp(transfer.log_z(other) - log_z)
        b = model.beta[bond]
        expected = (math.cosh(2 * b) - ratio) / math.sinh(2 * b)
        assert result.correlations[bond] == pytest.approx(expected, abs=1e-9)


def test_double_doubles_are_needed_where_it_is_cold():
    model = kac_ward.read(SpinGlass((12, 9), 6.0, seed=1, boundary="open"))
    rough, fine = (kac_ward.solve_in(model, numbers) for numbers in (DOUBLES, DOUBLE_DOUBLES))
    assert 1e-9 < abs(rough.log_z - fine.log_z) < rough.error
    assert fine.error < 1e-12


@pytest.mark.parametrize("beta", [1.0, 2.0, 3.0, 4.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_error_is_no_larger_than_estimated(beta, seed):
    model = kac_ward.read(SpinGlass((10, 9), beta, seed=seed, boundary="open"))
    rough, fine = (kac_ward.solve_in(model, numbers) for numbers in (DOUBLES, DOUBLE_DOUBLES))
    assert abs(rough.log_z - fine.log_z) <= rough.error + 1e-15 * fine.log_z


def test_colder_than_double_doubles_is_refused():
    with pytest.raises(TooColdError, match="too cold"):
        kac_ward.solve(kac_ward.read(SpinGlass((12, 9), 25.0, seed=1, boundary="open")))


@pytest.mark.parametrize("beta", [400.0, 1e6])
def test_couplings_whose_exponentials_overflow(beta):
    """A ferromagnet is never too cold: two states, and all bonds satisfied."""
    target = Ising((5, 4), beta, boundary="open")
    result = kac_ward.solve(kac_ward.read(target))
    assert result.log_z == pytest.approx(len(target.edges) * beta + math.log(2), rel=1e-12)
    assert np.all(result.correlations == 1)


def test_a_large_open_lattice_is_nearly_a_torus():
    """Free energies a site differ by the open edge alone, of which a site has 2/L bonds less."""
    side, beta = 48, 0.35
    open_, wrapped = (
        kac_ward.solve(kac_ward.read(Ising(side, beta, boundary="open"))).log_z,
        kaufman.log_z((side, side), beta),
    )
    assert 0 < (wrapped - open_) / side**2 < 2 * beta / side


def test_tables_of_any_form_count():
    """J·s_i s_j + a + b·s_i + c·s_j with fields that take b and c away again."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor([(0, 1), (1, 2), (2, 3), (0, 3)])
    spins = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    j, a, b, c = torch.randn(4, 4, dtype=torch.float64, generator=generator)
    tables = j[:, None, None] * torch.outer(spins, spins) + a[:, None, None]
    tables = tables + b[:, None, None] * spins[:, None] + c[:, None, None] * spins
    fields = torch.zeros(4, dtype=torch.float64)
    fields = fields.index_add(0, edges[:, 0], -b).index_add(0, edges[:, 1], -c)
    target = Pairwise(edges, tables, fields[:, None] * spins, dtype=torch.float64)
    model = kac_ward.read(target)
    assert model is not None
    assert kac_ward.solve(model).log_z == pytest.approx(Enumeration(target).log_z, abs=1e-12)


def test_a_hub_is_left_to_others():
    """All bonds that meet at a site make a dense block."""
    spokes = torch.tensor([(0, i) for i in range(1, 1500)])
    tables = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).expand(1499, 2, 2)
    assert not kac_ward.applies(Pairwise(spokes, tables, torch.zeros(1500, 2)))
    assert kac_ward.applies(Pairwise(spokes[:900], tables[:900], torch.zeros(1500, 2)))


def test_applies():
    assert kac_ward.applies(SpinGlass(30, 1.0, boundary="open"))
    assert kac_ward.applies(Ising((2, 30), 0.4))  # a ring of rungs
    assert kac_ward.applies(Potts(30, 2, 0.4, boundary="open"))  # 2·[x_i = x_j] is s_i s_j + 1
    for target in (
        Ising(30, 0.4, field=0.1, boundary="open"),
        Ising(30, 0.4),
        Ising(30, 0.4, boundary="open").given({0: 1}),
        Potts(30, 3, 0.4, boundary="open"),
        Ising((4, 4, 4), 0.2, boundary="open"),
        SherringtonKirkpatrick(30, 1.0),
    ):
        assert not kac_ward.applies(target)
