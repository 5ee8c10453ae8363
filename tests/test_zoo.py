"""The zoo of targets: every case builds, and its exact answer is exact."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import tcsis
from tcsis.app import executors
from tcsis.app.executors import Failure
from tcsis.exact import transfer

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
zoo = pytest.importorskip("zoo")
zoo_exact = pytest.importorskip("zoo_exact")
zoo_page = pytest.importorskip("zoo_page")
zoo_targets = pytest.importorskip("zoo_targets")

CASES = {case.name: case for case in zoo_targets.CASES}


def num_states(case: "zoo_targets.Case") -> int:
    target = case.make()
    return target.num_values**target.num_sites


SMALL = [
    name
    for name, case in CASES.items()
    if case.exact is zoo_exact.enumerated and num_states(case) <= 2**16
]


def test_names_are_different_and_families_many() -> None:
    assert len(CASES) == len(zoo_targets.CASES) >= 28
    assert len({case.family for case in CASES.values()}) >= 12


@pytest.mark.parametrize("name", CASES)
def test_every_case_builds(name: str) -> None:
    target = CASES[name].make()
    x = torch.zeros(3, target.num_sites, dtype=torch.long)
    assert target.log_density(x).shape == (3,)


@pytest.mark.parametrize("name", SMALL)
def test_enumeration_is_that_of_the_library(name: str) -> None:
    target, answer = CASES[name].make(), CASES[name].answer()
    table = tcsis.exact.Enumeration(target)
    assert answer.log_z == pytest.approx(table.log_z, abs=1e-9)
    np.testing.assert_allclose(answer.marginals, table.site_marginals.numpy(), atol=1e-9)


def test_the_share_of_a_mode_is_its_probability() -> None:
    assert CASES["two far modes, 9 : 1, 16 sites"].mode_share() == pytest.approx(0.9, abs=1e-6)
    assert CASES["near-deterministic, 16 sites"].mode_share() > 0.95
    assert CASES["RBM 40×12, weights 0.7"].mode_share() is None


# -- elimination -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        tcsis.targets.Ising(3, 0.4, 0.2),
        tcsis.targets.SpinGlass((3, 4), 1.0, "gaussian", boundary="open"),
        tcsis.targets.SherringtonKirkpatrick(9, 1.0),
        zoo_targets.chain(4, 6),
    ],
    ids=str,
)
def test_elimination_agrees_with_enumeration(target: tcsis.targets.Target) -> None:
    same_answer(zoo_targets.by_elimination(target), zoo_exact.enumerated(target))


def test_elimination_leaves_forbidden_states_out() -> None:
    graph = zoo_targets.random_network(12, 3, seed=1)
    factors = zoo_targets.independent_set_factors(graph, 1.0)
    target = zoo_targets.independent_sets(graph, 1.0)
    same_answer(zoo_exact.eliminated(factors), zoo_exact.enumerated(target))


def test_elimination_of_colourings() -> None:
    graph = zoo_targets.random_network(8, 3, seed=1)
    factors = zoo_targets.colouring_factors(graph, 3)
    same_answer(
        zoo_exact.eliminated(factors), zoo_exact.enumerated(zoo_targets.colourings(graph, 3))
    )


def test_elimination_of_factors_over_three_sites() -> None:
    sites, j = zoo_targets.triples(0, 9, 8), zoo_targets.normal(0, 9)
    spin = np.array([-1.0, 1.0])
    tables = [float(s) * np.einsum("i,j,k->ijk", spin, spin, spin) for s in j]
    factors = [(tuple(map(int, t)), table) for t, table in zip(sites, tables, strict=True)]
    factors += [((site,), np.zeros(2)) for site in range(8)]
    target = tcsis.targets.from_callable(
        lambda x: (2 * x - 1)[:, sites].prod(-1).double() @ j, 8, 2
    )
    same_answer(zoo_exact.eliminated(factors), zoo_exact.enumerated(target))


def test_elimination_agrees_with_the_transfer_matrix() -> None:
    target = zoo_targets.random_fields()
    exact = tcsis.exact.solve(target)
    answer = zoo_targets.by_elimination(target)
    assert exact.method == "transfer matrix"
    assert answer.log_z == pytest.approx(exact.log_z, abs=1e-9)
    np.testing.assert_allclose(answer.marginals, exact.site_marginals.numpy(), atol=1e-9)


def same_answer(one: "zoo_exact.Answer", other: "zoo_exact.Answer") -> None:
    assert one.log_z == pytest.approx(other.log_z, abs=1e-9)
    np.testing.assert_allclose(one.marginals, other.marginals, atol=1e-9)


# -- other exact ways ------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "num_values"), [(3, 2), (3, 4), (4, 3), (5, 4)])
def test_rows_of_a_potts_lattice(side: int, num_values: int) -> None:
    target = tcsis.targets.Potts(side, num_values, 0.8)
    answer = zoo_exact.potts(side, num_values, 0.8)
    assert answer.log_z == pytest.approx(transfer.log_z(target), abs=1e-9)


def test_classes_of_rows_hold_every_row() -> None:
    assert sum(size for _, size in zoo_exact.first_rows(6, 10)) == 10**6


def test_the_transfer_matrix_agrees_with_enumeration() -> None:
    target = tcsis.targets.SpinGlass(4, 1.0)
    same_answer(zoo_exact.even_lattice(target), zoo_exact.enumerated(target))


def test_hidden_units_summed_out() -> None:
    weights = 0.7 * zoo_targets.normal(0, 8, 5)
    target = tcsis.targets.RBM(weights, zoo_targets.normal(1, 8), zoo_targets.normal(2, 5))
    same_answer(zoo_exact.rbm(target), zoo_exact.enumerated(target))


def test_sites_that_do_not_see_each_other() -> None:
    fields = zoo_targets.FACTORISED_FIELDS
    x = torch.randint(5, (50, 20), generator=torch.Generator().manual_seed(0))
    direct = fields.gather(1, x.T).sum(0)
    torch.testing.assert_close(zoo_targets.factorised().log_density(x), direct)
    small = tcsis.targets.Pairwise([], [], fields[:4])
    same_answer(zoo_exact.independent(fields[:4].numpy()), zoo_exact.enumerated(small))


def test_a_chain_and_its_function_are_one_target() -> None:
    x = torch.randint(20, (50, 12), generator=torch.Generator().manual_seed(0))
    pairwise = zoo_targets.chain(12, 20).to(dtype=torch.float64)
    torch.testing.assert_close(
        pairwise.log_density(x), zoo_targets.chain_function().log_density(x), rtol=0, atol=1e-12
    )


# -- the runner ------------------------------------------------------------------------------------


def test_words_select_cells() -> None:
    assert len(zoo.selected([])) == 3 * len(CASES)
    assert {case.family for case, _ in zoo.selected(["Potts"])} == {"Potts"}
    assert {seed for _, seed in zoo.selected(["Potts", "seed 1"])} == {1}


def test_a_cell_from_training_to_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, its line, and a second start that finds it done."""
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    monkeypatch.setattr(zoo, "CELLS", tmp_path / "cells.jsonl")
    monkeypatch.setattr(zoo, "NUM_STATE_DRAWS", 2048)
    monkeypatch.setattr(zoo, "run", partial(zoo.run, num_draws=512, steps=2))
    monkeypatch.setattr(executors, "choose", lambda workers, scheduler: ThreadPoolExecutor(1))
    for _ in range(2):
        zoo.main(["β = 0.28, field", "seed 0"])
    (cell,) = map(json.loads, (tmp_path / "cells.jsonl").read_text().splitlines())
    assert "error" not in cell
    assert 0 < cell["ess"] <= 1
    assert cell["steps"] == 2
    assert cell["states_tv"] > 0.5 * cell["states_tv_floor"]
    assert "Ising 4×4, β = 0.28" in (tmp_path / "zoo.md").read_text()
    assert (tmp_path / "zoo.png").stat().st_size > 0


def test_a_cell_that_is_lost_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(function: object, pieces: list, place: object) -> list:
        return [(piece, Failure("BrokenProcessPool", "ended from outside")) for piece in pieces]

    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    monkeypatch.setattr(zoo, "CELLS", tmp_path / "cells.jsonl")
    monkeypatch.setattr(executors, "run_all", lose)
    monkeypatch.setattr(zoo, "picture", lambda cases, cells, path: path.touch())
    zoo.main(["β = 0.28, field", "seed 0"])
    assert "seed 0: ended from outside" in capsys.readouterr().err
    assert zoo.kept() == []


def test_a_failure_is_a_row() -> None:
    def breaks() -> None:
        raise ValueError("no such target\nat all")

    case = zoo_targets.Case("broken", "none", breaks, zoo_exact.enumerated)
    cell = zoo.run(case, 0)
    assert cell["error"] == "ValueError: no such target"
    assert "no such target" in zoo_page.page([case], [cell], 1, 1)
