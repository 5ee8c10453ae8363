"""Files of every format: what they mean, by enumeration, and what is wrong with those that mean
nothing."""

import gzip
import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from tcsis import exact, formats
from tcsis.targets import Factors, Pairwise, Target

PENTAGON = "c a pentagon\np edge 5 5\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\n"
CNF = "c a formula\np cnf 4 4\n1 -2 0\n2 3\n -4 0\n-1 4 0\n1 -1 3 0\n"
CLAUSES = [(1, -2), (2, 3, -4), (-1, 4)]


def read(folder: Path, name: str, text: str, **settings: Any) -> Target:
    (folder / name).write_text(text)
    return formats.read(folder / name, **settings)


def all_states(target: Target) -> torch.Tensor:
    return torch.tensor(list(itertools.product(*map(range, target.value_counts))))


def log_density(target: Target) -> np.ndarray:
    return target.to(dtype=torch.float64).log_density(all_states(target)).numpy()


# -- graphs ----------------------------------------------------------------------------------------


def test_max_cut(tmp_path: Path) -> None:
    target = read(tmp_path, "a.gset", "4 4\n1 2 1\n2 3 -2\n3 4 1\n4 1 0.5\n", beta=0.5)
    edges = {(0, 1): 1.0, (1, 2): -2.0, (2, 3): 1.0, (3, 0): 0.5}
    expected = [
        0.5 * sum(w for (i, j), w in edges.items() if x[i] != x[j])
        for x in all_states(target).tolist()
    ]
    np.testing.assert_allclose(log_density(target), expected, atol=1e-12)
    assert target.site_names == ("1", "2", "3", "4")
    assert isinstance(target, Pairwise)


def test_independent_sets_of_a_pentagon(tmp_path: Path) -> None:
    settings = {"problem": "independent-set", "fugacity": 2.0}
    target = read(tmp_path, "a.dimacs", PENTAGON, **settings)
    # 1 + 5λ + 5λ²
    assert exact.solve(target).log_z == pytest.approx(np.log(1 + 10 + 20), abs=1e-12)
    weighted = PENTAGON.replace("e 1 2", "n 1 3\ne 1 2")
    target = read(tmp_path, "b.dimacs", weighted, **settings)
    assert exact.solve(target).log_z == pytest.approx(np.log(1 + 8 + 8 + 2 * 16 + 3 * 4), abs=1e-12)
    assert target.value_names[0] == ("out", "in")
    pentagon = formats.independent_set(networkx.cycle_graph(5), fugacity=np.float32(2.0))
    assert exact.solve(pentagon).log_z == pytest.approx(np.log(31), abs=1e-12)


def test_colourings_of_a_pentagon(tmp_path: Path) -> None:
    hard = read(tmp_path, "a.col", PENTAGON, problem="colouring", num_values=3)
    assert isinstance(hard, Factors)
    assert exact.solve(hard).log_z == pytest.approx(np.log(2**5 - 2), abs=1e-12)  # (V-1)⁵ - (V-1)
    soft = read(tmp_path, "a.col", PENTAGON, problem="colouring", num_values=3, beta=0.7)
    assert isinstance(soft, Pairwise)
    clash = np.exp(-0.7)
    expected = (clash + 2) ** 5 + 2 * (clash - 1) ** 5  # the trace of a transfer matrix
    assert exact.solve(soft).log_z == pytest.approx(np.log(expected), abs=1e-12)


def test_edges_in_both_directions_are_one(tmp_path: Path) -> None:
    text = "p col 3 4\ne 1 2\ne 2 1\ne 2 3\ne 3 2\n"
    for edges in (4, 2):
        target = read(tmp_path, "a.col", text.replace("3 4", f"3 {edges}"), problem="max-cut")
        assert log_density(target).max() == 2


def test_networkx_graphs() -> None:
    graph = networkx.Graph()
    graph.add_edge("a", "b", weight=1.5)
    graph.add_edge("b", "c")
    spins = formats.ising(graph, beta=2.0)
    assert spins.site_names == ("a", "b", "c")
    x = torch.tensor([[1, 1, 0]])
    assert spins.log_density(x).item() == pytest.approx(2 * (1.5 - 1))
    multiple = networkx.MultiGraph([(0, 1), (0, 1)])
    assert formats.max_cut(multiple).log_density(torch.tensor([0, 1])).item() == 2
    with pytest.raises(ValueError, match="expected an undirected"):
        formats.ising(networkx.DiGraph([(0, 1)]))
    with pytest.raises(ValueError, match="joins 0 to itself"):
        formats.ising(networkx.Graph([(0, 0)]))


# -- clauses ---------------------------------------------------------------------------------------


def broken(x: list[int], clause: tuple[int, ...]) -> bool:
    return not any(x[abs(literal) - 1] == (literal > 0) for literal in clause)


def test_clauses_hard_and_soft(tmp_path: Path) -> None:
    hard, soft = read(tmp_path, "a.cnf", CNF), read(tmp_path, "a.cnf", CNF, beta=0.5)
    counts = np.array(
        [sum(broken(x, clause) for clause in CLAUSES) for x in all_states(hard).tolist()]
    )
    np.testing.assert_array_equal(log_density(hard), np.where(counts > 0, -np.inf, 0.0))
    np.testing.assert_allclose(log_density(soft), -0.5 * counts, atol=1e-12)
    assert exact.solve(hard).log_z == pytest.approx(np.log((counts == 0).sum()))
    given = hard.given({"1": "true"})
    assert exact.solve(given.given({"4": "true"})).log_z == exact.solve(given).log_z


@pytest.mark.parametrize(
    "text",
    ["p wcnf 3 3 10\n10 1 -2 0\n3 2 3 0\n1.5 -1 0\n", "h 1 -2 0\n3 2 3 0\n1.5 -1 0\n"],
    ids=["old", "new"],
)
def test_weighted_clauses(tmp_path: Path, text: str) -> None:
    target = read(tmp_path, "a.wcnf", text, beta=2.0)
    expected = [
        -np.inf if broken(x, (1, -2)) else -2 * (3 * broken(x, (2, 3)) + 1.5 * broken(x, (-1,)))
        for x in all_states(target).tolist()
    ]
    np.testing.assert_allclose(log_density(target), expected, atol=1e-12)


# -- networks --------------------------------------------------------------------------------------


def test_uai(tmp_path: Path) -> None:
    text = "MARKOV\n3\n2 3 2\n2\n2 0 1\n2 2 1\n6\n1 2 3 4 5 6\n6\n0.5 0 1\n 2 1 1\n"
    target = read(tmp_path, "a.uai", text)
    first, second = np.arange(1.0, 7).reshape(2, 3), np.array([[0.5, 0, 1], [2, 1, 1]])
    with np.errstate(divide="ignore"):
        expected = [np.log(first[a, b] * second[c, b]) for a, b, c in all_states(target).tolist()]
    np.testing.assert_allclose(log_density(target), expected, atol=1e-12)
    pairs = read(tmp_path, "b.uai", "MARKOV\n2\n2 2\n1\n2 1 0\n4\n1 2 3 4\n")
    assert isinstance(pairs, Pairwise)
    assert np.exp(log_density(pairs)) == pytest.approx([1, 3, 2, 4])
    network = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2\n0.3 0.7\n4\n0.1 0.9 0.6 0.4\n"
    joint = np.exp(log_density(read(tmp_path, "c.uai", network)))
    assert joint == pytest.approx([0.03, 0.27, 0.42, 0.28])
    with pytest.raises(ValueError, match="line 10: the table of variables 0 1 sums to"):
        read(tmp_path, "d.uai", network.replace("0.1 0.9 0.6 0.4", "0.1 0.6 0.9 0.4"))


def test_bif_by_hand(tmp_path: Path) -> None:
    text = """network "small" { property a = b; } // a comment
    variable smoking { type discrete [ 2 ] { yes, no }; property p = (1, 2); }
    variable cancer { /* two
    lines */ type discrete[2] {"present" "absent"}; }
    probability ( cancer | smoking ) { (yes) 0.03, 0.97; default 0.01 0.99; }
    probability ( smoking ) { table 0.3, 0.7; }"""
    target = read(tmp_path, "a.bif", text)
    assert target.names.sites == ("smoking", "cancer")
    assert target.value_names == (("yes", "no"), ("present", "absent"))
    joint = np.exp(log_density(target))
    assert joint == pytest.approx([0.3 * 0.03, 0.3 * 0.97, 0.7 * 0.01, 0.7 * 0.99])
    truth = exact.solve(target.given({"cancer": "present"}))
    assert np.exp(truth.log_z) == pytest.approx(0.3 * 0.03 + 0.7 * 0.01)


@dataclass
class Factor:
    variables: list[str]
    values: np.ndarray
    state_names: dict[str, list[Any]]


@dataclass
class Markov:
    """What pgmpy's Markov networks have."""

    factors: list[Factor]

    def nodes(self) -> list[str]:
        return ["a", "b", "c"]

    def get_factors(self) -> list[Factor]:
        return self.factors


def test_markov_networks_of_pgmpy() -> None:
    states = {"a": ["x", "y"], "b": [0, 1, 2], "c": ["u", "v"]}
    ab, bc = np.arange(1.0, 7).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    factors = [Factor(["a", "b"], ab, states), Factor(["b", "c"], bc, states)]
    target = formats.from_pgmpy(Markov(factors))
    assert target.site_names == ("a", "b", "c")
    assert target.value_names[1] == ("0", "1", "2")
    np.testing.assert_allclose(
        np.exp(log_density(target)), np.einsum("ab,bc->abc", ab, bc).ravel(), atol=1e-12
    )
    swapped = Factor(["b", "c"], bc, states | {"b": [2, 1, 0]})
    with pytest.raises(ValueError, match="two tables have the states of b in different orders"):
        formats.from_pgmpy(Markov([factors[0], swapped]))


# -- others ----------------------------------------------------------------------------------------


@dataclass
class Machine:
    """What a fitted BernoulliRBM has."""

    components_: np.ndarray
    intercept_visible_: np.ndarray
    intercept_hidden_: np.ndarray
    feature_names_in_: np.ndarray


def test_machines_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    machine = Machine(rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=2),
                      np.array(["a", "b", "c"], object))  # fmt: skip
    target = formats.from_sklearn(machine)
    assert target.site_names == ("a", "b", "c")
    x = all_states(target).numpy()
    # scikit-learn's own free energy, with its sign turned
    inside = x @ machine.components_.T + machine.intercept_hidden_
    expected = x @ machine.intercept_visible_ + np.logaddexp(0, inside).sum(1)
    np.testing.assert_allclose(log_density(target), expected, atol=1e-12)


def test_couplings_of_dca(tmp_path: Path) -> None:
    text = "J 0 1 0 2 0.5\nJ 2 1 1 0 -1\nh 0 0 0.1\nh 1 2 0.2\nh 2 1 1\n"
    target = read(tmp_path, "a.dca", text)
    assert (target.num_sites, target.num_values, target.value_names) == (3, 3, None)
    expected = [
        0.5 * (a == 0 and b == 2) - (c == 1 and b == 0)
        + 0.1 * (a == 0) + 0.2 * (b == 2) + (c == 1)
        for a, b, c in all_states(target).tolist()
    ]  # fmt: skip
    np.testing.assert_allclose(log_density(target), expected, atol=1e-12)
    letters = read(tmp_path, "b.dca", "J 0 1 A U 0.5\nh 0 - 0.1\nh 1 C 1\n")
    assert letters.value_names == (tuple("-ACGU"),) * 2
    assert letters.log_density(torch.tensor([1, 4])).item() == pytest.approx(0.5)


# -- what is wrong ---------------------------------------------------------------------------------

GRAPH = {"problem": "max-cut"}
WRONG = [
    ("a.gset", "", {}, "a.gset: the first line has 0 words: expected numbers of nodes and edges"),
    ("a.gset", "3 1\n1 4 1\n", {}, "a.gset, line 2: a node is '4': expected an integer from 1"),
    ("a.gset", "3 2\n1 2 1\n", {}, "a.gset: there are 1 edges: expected 2, as declared"),
    ("a.gset", "9999999999 1\n", {}, "line 1: the number of nodes is '9999999999': expected an"),
    ("a.gset", "2 1\n1 2 nan\n", {}, "line 2: the weight is 'nan': expected a number of at most"),
    ("a.gset", "2 1\n1 1 1\n", {}, "line 2: node 1 is joined to itself: expected two different"),
    ("a.gset", "2 1\n1 2 1\n", {"num_values": 3}, "num_values is 3 for max-cut"),
    ("a.gset", "2 1\n1 2 1\n", {"gain": 3}, "unknown setting 'gain' of format gset: expected prob"),
    ("a.col", "p edge 2 1\ne 1 2\n", {}, "can mean several things: expected a problem, one of max"),
    ("a.col", "p edge 2 1\ne 1 2\n", {"problem": "tour"}, "problem is 'tour': expected one of max"),
    ("a.col", "e 1 2\n", GRAPH, "line 1: 'e' stands before p: expected p edge NODES EDGES first"),
    ("a.col", "p edge 2 1\nf 1 2\n", GRAPH, "line 2: the line is 'f 1 2': expected e I J, or n"),
    ("a.col", PENTAGON, {"problem": "colouring"}, "num_values is missing for colouring"),
    ("a.cnf", "p cnf 2 1\n1 3 0\n", {}, "line 2: a literal is '3': expected an integer from -2"),
    ("a.cnf", "p cnf 2 1\n1 2\n", {}, "line 2: the last clause has no end: expected 0 after it"),
    ("a.cnf", "p cnf 2 1\n0\n", {}, "line 2: the clause is empty and breaks always: expected"),
    ("a.cnf", f"p cnf 20 1\n{' '.join(map(str, range(1, 16)))} 0\n", {},
     "line 2: the clause has 15 variables: expected at most 12; split it with further variables"),
    ("a.cnf", "p cnf 2 2\n1 0\n", {}, "a.cnf: there are 1 clauses: expected 2, as declared"),
    ("a.wcnf", "3 1 2\n", {}, "line 1: the clause has no end: expected a weight, literals and 0"),
    ("a.wcnf", "-3 1 2 0\n", {}, "line 1: the weight is -3: expected a number of at least 0"),
    ("a.uai", "CLUSTER\n", {}, "line 1: the file begins with 'CLUSTER': expected MARKOV or BAYES"),
    ("a.uai", "MARKOV\n2\n2", {}, "line 3: the file ends: expected a number of values"),
    ("a.uai", "MARKOV\n1\n2\n1\n1 0\n3\n1 1 1\n", {}, "line 6: a table of 3 entries: expected 2"),
    ("a.uai", "MARKOV\n1\n2\n1\n1 0\n2\n1 -1\n", {}, "line 7: an entry is -1: expected at least 0"),
    ("a.uai", f"MARKOV\n30\n{'2 ' * 30}\n1\n30 {' '.join(map(str, range(30)))}\n", {},
     "the tables would take 1,073,741,824 entries: expected at most 16,777,216; make it smaller"),
    ("a.bif", "variable a { }\n", {}, "line 1: variable 'a' has no type: expected type discrete"),
    ("a.bif", "variable a { type discrete [ 2 ] { x, x }; }\n", {}, "there are 1 different states"),
    ("a.bif", "variable a { type discrete [ 2 ] { x, y }; }\n", {}, "there is no probability of a"),
    ("a.bif", "variable a { type discrete [ 2 ] { x, y }; }\nprobability ( b ) { table 1; }", {},
     "line 2: 'b' is no variable: expected one that is declared above"),
    ("a.bif", "variable a { type discrete [2] {x, y}; }\nprobability ( a ) {\n table 0.5;\n}", {},
     "line 3: there are 1 probabilities: expected 2"),
    ("a.bif", "variable a { type discrete [2] {x, y}; }\nprobability ( a ) { table 0.5 0.9; }", {},
     "line 2: probabilities of 'a' add up to 1.4: expected 1"),
    ("a.bif", 'variable "a\n', {}, "line 1: '\"' stands alone: expected a closing quote"),
    ("a.fasta", "ACD\n", {}, "line 1: the line is 'ACD': expected a name after > first"),
    ("a.fasta", ">a\nACD\n>b\nAC\n", {}, "line 3: 'b' has 2 letters: expected 3, as the first"),
    ("a.fasta", ">a\nAC?\n", {}, "line 1: 'a' has '?': expected letters of -ACDEFGHIKLMNPQRSTVWY"),
    ("a.dca", "J 0 0 1 1 2\n", {}, "line 1: site 0 is coupled to itself: expected two different"),
    ("a.dca", "h 3 1 2\n", {}, "sites go up to 3 and not all of them have fields: expected"),
    ("a.dca", "h 0 300 2\n", {}, "a value is '300': expected an integer from 0 to 254"),
    ("a.coo", "0 1 2\n", {}, "no line says what the values are: expected a line # vartype=SPIN"),
    ("a.coo", "# vartype=SPIN\n0 99999 2\n", {}, "the largest site is 99999 and 2 are mentioned"),
    ("a.qubo", "p qubo 0 2 1 0\n0 2 1\n", {}, "line 2: a site is '2': expected an integer from"),
    ("a.bqm", "DIMODDQM", {}, "the file begins with b'DIMODDQM': expected b'DIMODBQM'"),
    ("a.bqm", "", {}, "a.bqm: the file ends at byte 0 in its first bytes: expected 8 bytes of it"),
    ("a.xyz", "", {}, "has the extension '.xyz': expected a format of bqm, dqm, coo, qubo, gset"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "settings", "sentence"), WRONG)
def test_malformed_files(
    tmp_path: Path, name: str, text: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        read(tmp_path, name, text, **settings)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.cnf").write_bytes(b"p cnf 1 1\n\xff 0\n")
    with pytest.raises(ValueError, match="line 2: the byte 0xff is no text: expected a text file"):
        formats.read(tmp_path / "a.cnf")
    with pytest.raises(ValueError, match="is not a file: expected the path of one"):
        formats.read(tmp_path / "b.cnf")


def test_packed_files(tmp_path: Path) -> None:
    packed = gzip.compress(CNF.encode())
    (tmp_path / "a.cnf.gz").write_bytes(packed)
    assert exact.solve(formats.read(tmp_path / "a.cnf.gz")).log_z == pytest.approx(np.log(6))
    (tmp_path / "a.cnf.gz").write_bytes(packed[:-12])
    with pytest.raises(ValueError, match=r"cannot be read .*: expected a file that is whole"):
        formats.read(tmp_path / "a.cnf.gz")


def test_large_models_are_refused_before_they_are_made(tmp_path: Path) -> None:
    star = "\n".join(f"1 {k} 0" for k in range(2, 30_000))
    with pytest.raises(ValueError, match="the model is too large: the factors of its sites take"):
        read(tmp_path, "star.cnf", f"p cnf 30000 29998\n{star}\n")
    graph = networkx.path_graph(1_000)
    with pytest.raises(ValueError, match="edges of 200×200 tables are too many"):
        formats.colouring(graph, 200)


def test_a_line_p_behind_clauses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "late.wcnf"
    path.write_text("3 1 -255 0\np wcnf 4 2 10\n1 2 0\n")
    with pytest.raises(ValueError, match="line 2: clauses stand before p: expected p wcnf first"):
        formats.read(path)


@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_hard_clauses_stay_hard_at_any_temperature(tmp_path: Path, beta: float) -> None:
    path = tmp_path / "hard.wcnf"
    path.write_text("h 1 2 0\n2 -1 0\n")
    log_density = formats.read(path, beta=beta).log_density(torch.tensor([[0, 0], [0, 1], [1, 0]]))
    assert log_density.tolist() == [-math.inf, 0.0, -2 * beta]
