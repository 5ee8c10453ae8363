"""There and back: equal energies on random states to 1e-9, whatever the model."""

import math
from pathlib import Path

import dimod
import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tcsis import exact, formats, judge
from tcsis.targets import Pairwise, Target

TOLERANCE = 1e-9
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = st.floats(-5, 5, allow_nan=False).map(lambda number: round(number, 6))
LABELS = st.one_of(st.integers(0, 99), st.text("abcxyz_", min_size=1, max_size=4))


@st.composite
def bqms(draw: st.DrawFn) -> dimod.BinaryQuadraticModel:
    labels = draw(st.lists(LABELS, min_size=1, max_size=6, unique_by=str))
    linear = {label: draw(NUMBERS) for label in labels}
    pairs = [(u, v) for k, u in enumerate(labels) for v in labels[:k] if draw(st.booleans())]
    quadratic = {pair: draw(NUMBERS) for pair in pairs}
    vartype = draw(st.sampled_from(["SPIN", "BINARY"]))
    return dimod.BinaryQuadraticModel(linear, quadratic, draw(NUMBERS), vartype)


def random_states(target: Target, n: int = 20) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(target.num_values, (n, target.num_sites), generator=generator)


def energies(target: Target, x: torch.Tensor) -> np.ndarray:
    return target.to(dtype=torch.float64).energy(x).numpy()


def dimod_energies(bqm: dimod.BinaryQuadraticModel, x: torch.Tensor) -> np.ndarray:
    """Of tokens in the order of the variables."""
    values = 2 * x.numpy() - 1 if bqm.vartype is dimod.SPIN else x.numpy()
    return bqm.energies((values.astype(np.int8), list(bqm.variables)))


# -- dimod -----------------------------------------------------------------------------------------


@QUICK
@given(bqms(), st.sampled_from([1.0, 0.3, -2.0]))
def test_bqm_to_target_to_bqm(bqm: dimod.BinaryQuadraticModel, beta: float) -> None:
    target = formats.from_bqm(bqm, beta=beta)
    x = random_states(target)
    np.testing.assert_allclose(energies(target, x), beta * dimod_energies(bqm, x), atol=TOLERANCE)
    again = formats.to_bqm(target, beta=beta)
    assert list(again.variables) == list(bqm.variables)
    assert again.vartype is bqm.vartype
    np.testing.assert_allclose(dimod_energies(again, x), dimod_energies(bqm, x), atol=TOLERANCE)


@QUICK
@given(bqms(), st.sampled_from([1, 2]))
def test_bqm_files(tmp_path: Path, bqm: dimod.BinaryQuadraticModel, version: int) -> None:
    path = tmp_path / "problem.bqm"
    with bqm.to_file(version=version) as file:
        path.write_bytes(file.read())
    target, direct = formats.read(path, beta=0.7), formats.from_bqm(bqm, beta=0.7)
    assert target.names == direct.names
    x = random_states(target)
    np.testing.assert_allclose(energies(target, x), energies(direct, x), atol=TOLERANCE)


def test_a_wrong_sign_would_show() -> None:
    bqm = dimod.BinaryQuadraticModel({"a": 1.0}, {("a", "b"): -2.0}, 0.5, "SPIN")
    target = formats.from_bqm(bqm, beta=-1.0)  # as if log p̄ were the energy
    x = random_states(target)
    assert np.abs(energies(target, x) - dimod_energies(bqm, x)).max() > 1


@st.composite
def dqms(draw: st.DrawFn) -> dimod.DiscreteQuadraticModel:
    dqm = dimod.DiscreteQuadraticModel()
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    for site, count in enumerate(counts):
        dqm.add_variable(count, label=f"v{site}")
        dqm.set_linear(f"v{site}", [draw(NUMBERS) for _ in range(count)])
    for i in range(len(counts)):
        for j in range(i):
            for a in range(counts[i]):
                if draw(st.booleans()):
                    dqm.set_quadratic_case(f"v{i}", a, f"v{j}", counts[j] - 1, draw(NUMBERS))
    dqm.offset = draw(NUMBERS)
    return dqm


@QUICK
@given(dqms(), st.booleans())
def test_dqms_and_their_files(
    tmp_path: Path, dqm: dimod.DiscreteQuadraticModel, compress: bool
) -> None:
    path = tmp_path / "problem.dqm"
    with dqm.to_file(compress=compress) as file:
        path.write_bytes(file.read())
    target, read = formats.from_dqm(dqm, beta=0.5), formats.read(path, beta=0.5)
    counts = torch.tensor(target.value_counts)
    x = random_states(target) % counts
    expected = 0.5 * dqm.energies((x.numpy(), list(dqm.variables)))
    for made in (target, read):
        assert made.site_names == tuple(dqm.variables)
        np.testing.assert_allclose(energies(made, x), expected, atol=TOLERANCE)
    assert isinstance(target, Pairwise) == (len(set(counts.tolist())) == 1 and counts[0] > 1)


def test_labels_of_cases_are_names() -> None:
    dqm = dimod.CaseLabelDQM()
    dqm.add_variable(["red", "green", "blue"], label="u", shared_labels=True)
    dqm.add_variable(["hot", "cold"], label="v", shared_labels=True)
    target = formats.from_dqm(dqm)
    assert target.value_names == (("red", "green", "blue"), ("hot", "cold"))
    assert str(target.given({"v": "cold"}).known) == "1=1"


# -- QUBO, Ising, Gset -----------------------------------------------------------------------------


@st.composite
def qubos(draw: st.DrawFn) -> np.ndarray:
    d = draw(st.integers(1, 6))
    values = draw(st.lists(NUMBERS, min_size=d * d, max_size=d * d))
    return np.array(values).reshape(d, d) * (np.arange(d * d).reshape(d, d) % 3 > 0)


def qubo_energies(qubo: np.ndarray, x: torch.Tensor) -> np.ndarray:
    z = x.numpy()
    return np.einsum("ni,ij,nj->n", z, qubo, z)


@QUICK
@given(qubos())
def test_qubos_of_every_form(qubo: np.ndarray) -> None:
    d = len(qubo)
    pairs = {(i, j): qubo[i, j] for i in range(d) for j in range(d)}
    sparse = [scipy.sparse.csr_array(qubo), scipy.sparse.coo_matrix(qubo)]
    forms = [qubo, *sparse, scipy.sparse.dok_array(qubo), scipy.sparse.dia_array(qubo), pairs]
    x = random_states(formats.from_qubo(qubo))
    for form in forms:
        target = formats.from_qubo(form, beta=2.0, offset=0.25)
        expected = 2 * (qubo_energies(qubo, x) + 0.25)
        np.testing.assert_allclose(energies(target, x), expected, atol=TOLERANCE)


@QUICK
@given(qubos())
def test_qubo_to_ising_to_gset_and_back(tmp_path: Path, qubo: np.ndarray) -> None:
    target = formats.from_qubo(qubo)
    x = random_states(target)
    strength, fields, constant = target.spin_form  # Ising
    d = len(qubo)
    couplings = torch.zeros(d, d, dtype=torch.float64)
    couplings[target.edges[:, 0], target.edges[:, 1]] = strength
    ising = Pairwise.from_spins(couplings + couplings.T, fields, constant=constant)
    np.testing.assert_allclose(energies(ising, x), qubo_energies(qubo, x), atol=TOLERANCE)
    graph = formats.to_max_cut(ising)
    formats.write_gset(graph, tmp_path / "problem.gset")
    cut = formats.read(tmp_path / "problem.gset")
    ghost = torch.ones(len(x), cut.num_sites - d, dtype=torch.long)  # at value 1, if it is there
    found = energies(cut, torch.cat([x, ghost], 1)) - graph.graph["constant"]
    np.testing.assert_allclose(found, qubo_energies(qubo, x), atol=TOLERANCE)
    again = formats.to_bqm(cut).change_vartype("BINARY", inplace=False)  # and to a QUBO
    values = torch.cat([x, ghost], 1).numpy().astype(np.int8)
    back = again.energies((values, list(again.variables))) - graph.graph["constant"]
    np.testing.assert_allclose(back, qubo_energies(qubo, x), atol=TOLERANCE)


@QUICK
@given(qubos())
def test_qubo_files(tmp_path: Path, qubo: np.ndarray) -> None:
    d = len(qubo)
    lines = [f"{i} {j} {float(qubo[i, j])!r}" for i in range(d) for j in range(d)]
    texts = {"text.qubo": f"c text\np qubo 0 {d} {d} {d * d - d}\n" + "\n".join(lines)}
    (tmp_path / "text.qubo").write_text(texts["text.qubo"])
    (tmp_path / "text.coo").write_text("# vartype=BINARY\n" + "\n".join(lines))
    np.savez(tmp_path / "dense.npz", Q=qubo)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csc_matrix(qubo))
    scipy.sparse.save_npz(tmp_path / "places.npz", scipy.sparse.coo_matrix(qubo))
    x = random_states(formats.from_qubo(qubo))
    for name in ("text.qubo", "text.coo", "dense.npz", "sparse.npz", "places.npz"):
        form = "coo" if name.endswith("coo") else "qubo"
        target = formats.read(tmp_path / name, form)
        np.testing.assert_allclose(energies(target, x), qubo_energies(qubo, x), atol=TOLERANCE)


# -- BIF -------------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> list[tuple[list[int], np.ndarray]]:
    """Parents of every variable, among those before it, and its table, the variable first."""
    counts = draw(st.lists(st.integers(2, 3), min_size=1, max_size=5))
    found = []
    for site, count in enumerate(counts):
        parents = [other for other in range(site) if draw(st.booleans())][:3]
        shape = (count, *(counts[other] for other in parents))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        table = rng.dirichlet(np.ones(count), shape[1:])
        found.append((parents, np.moveaxis(np.atleast_1d(table), -1, 0).reshape(shape)))
    return found


def as_bif(network: list[tuple[list[int], np.ndarray]], whole: bool) -> str:
    lines = ["network test { }"]
    for site, (_, table) in enumerate(network):
        states = ", ".join(f"s{state}" for state in range(len(table)))
        lines.append(f"variable v{site} {{ type discrete [ {len(table)} ] {{ {states} }}; }}")
    for site, (parents, table) in enumerate(network):
        given_ = " | " + ", ".join(f"v{other}" for other in parents) if parents else ""
        lines.append(f"probability ( v{site}{given_} ) {{")
        if whole or not parents:
            lines.append(f"  table {', '.join(repr(float(p)) for p in table.ravel())};")
        else:
            for places in np.ndindex(*table.shape[1:]):
                row = ", ".join(repr(float(p)) for p in table[:, *places])
                lines.append(f"  ({', '.join(f's{place}' for place in places)}) {row};")
        lines.append("}")
    return "\n".join(lines)


@QUICK
@given(networks(), st.booleans())
def test_bif_to_factors(
    tmp_path: Path, network: list[tuple[list[int], np.ndarray]], whole: bool
) -> None:
    path = tmp_path / "network.bif"
    path.write_text(as_bif(network, whole))
    target = formats.read(path)
    assert target.site_names == tuple(f"v{site}" for site in range(len(network)))
    x = random_states(target) % torch.tensor(target.value_counts)
    z = x.numpy()
    expected = -sum(
        np.log(table[z[:, site], *(z[:, other] for other in parents)])
        for site, (parents, table) in enumerate(network)
    )
    np.testing.assert_allclose(energies(target, x), expected, atol=TOLERANCE)


def test_objects_of_other_kinds_are_refused() -> None:
    for function, sentence in (
        (formats.from_bqm, "bqm is a str: expected a dimod.BinaryQuadraticModel"),
        (formats.from_dqm, "dqm is a str: expected a dimod.DiscreteQuadraticModel"),
        (formats.from_qubo, "qubo is a str: expected a square array"),
        (formats.from_pgmpy, "model is a str: expected a Bayesian or Markov network"),
        (formats.from_sklearn, "model is a str: expected a BernoulliRBM that has been fitted"),
        (formats.max_cut, "graph is a str: expected an undirected networkx.Graph"),
    ):
        with pytest.raises(ValueError, match=sentence):
            function("nothing")


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e6, 1e8, 5e11])
def test_a_large_offset_changes_log_z_alone(offset: float) -> None:
    """Single precision would lose the differences beside it, so such targets are double."""
    bqm = dimod.BinaryQuadraticModel({0: 0.5, 1: -0.3}, {(0, 1): 0.7, (1, 2): -1.0}, 0.0, "SPIN")
    plain = exact.solve(formats.from_bqm(bqm))
    bqm.offset = offset
    target = formats.from_bqm(bqm)
    assert target.dtype == torch.float64
    shifted = exact.solve(target)
    assert torch.allclose(shifted.site_marginals, plain.site_marginals, atol=1e-3)
    assert shifted.log_z + offset == pytest.approx(plain.log_z, abs=1e-3)
    assert shifted.mean_energy - offset == pytest.approx(plain.mean_energy, abs=1e-3)
    warmer = exact.draw(formats.from_bqm(bqm, beta=0.8), 10_000, seed=1)
    assert judge(exact.draw(target, 10_000, seed=1).x, target).level == "trusted"
    assert judge(warmer.x, target).level == "failed"


def test_an_offset_beside_which_nothing_is_left_is_refused() -> None:
    bqm = dimod.BinaryQuadraticModel({0: 0.5}, {(0, 1): 0.7}, 1e16, "SPIN")
    with pytest.raises(ValueError, match=r"offset comes to -1e\+16 in log p̄: expected at most"):
        formats.from_bqm(bqm)


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_biases_that_are_no_numbers_are_refused(wrong: float) -> None:
    for qubo in (np.array([[0.0, wrong], [0.0, 1.0]]), {("a", "a"): wrong}):
        with pytest.raises(ValueError, match=f"a bias is {wrong:g}: expected a number"):
            formats.from_qubo(qubo)


def test_couplings_of_zero_do_not_make_a_graph_dense() -> None:
    """A path of forty sites, with all other pairs told to be nothing."""
    pairs = {(i, j): 0.5 if j == i + 1 else 0.0 for i in range(40) for j in range(i, 40)}
    expected = exact.solve(formats.from_qubo({p: q for p, q in pairs.items() if q})).log_z
    bqm = dimod.BinaryQuadraticModel.from_qubo(pairs)
    for target in (formats.from_qubo(pairs), formats.from_bqm(bqm)):
        assert len(target.edges) == 39
        assert exact.solve(target).log_z == pytest.approx(expected, abs=1e-12)
    graph = networkx.complete_graph(40)
    networkx.set_edge_attributes(graph, 0.0, "weight")
    for target in (formats.ising(graph), formats.max_cut(graph)):
        assert exact.solve(target).log_z == pytest.approx(40 * math.log(2), abs=1e-12)
