"""Problems in files on the command line: read by their extension, known again without the file."""

import json
from collections.abc import Callable
from pathlib import Path

import dimod
import numpy as np
import pytest
import xarray

from tcsis.app.results import Result
from tcsis.draws.storage import read_draws

BIF = """network test { }
variable smoking { type discrete [ 2 ] { yes, no }; }
variable cancer { type discrete [ 2 ] { present, absent }; }
variable xray { type discrete [ 3 ] { good, bad, none }; }
probability ( smoking ) { table 0.3, 0.7; }
probability ( cancer | smoking ) { (yes) 0.03, 0.97; (no) 0.01, 0.99; }
probability ( xray | cancer ) { table 0.1, 0.8, 0.7, 0.1, 0.2, 0.1; }
"""
TRIANGLE = "p edge 3 3\ne 1 2\ne 2 3\ne 1 3\n"
TINY = ["--preset", "tiny", "--steps", "3", "--n", "200"]


@pytest.fixture
def bif(tmp_path: Path) -> Path:
    path = tmp_path / "network.bif"
    path.write_text(BIF)
    return path


def test_exact_with_evidence_by_name(tcsis_cli: Callable, bif: Path) -> None:
    outcome = tcsis_cli("exact", bif, "--given", "smoking=yes", "--json")
    data = json.loads(outcome.out)
    assert np.exp(data["log_z"]) == pytest.approx(0.3)
    assert data["marginals"]["cancer"] == pytest.approx({"present": 0.03, "absent": 0.97})
    assert data["marginals"]["xray"]["good"] == pytest.approx(0.03 * 0.1 + 0.97 * 0.8)
    by_number = json.loads(tcsis_cli("exact", bif, "--given", "0=0", "--json").out)
    assert by_number["marginals"] == data["marginals"]
    shown = tcsis_cli("exact", bif, "--given", "smoking=yes").out
    assert "present 0.0300  absent 0.9700" in shown


def test_graphs_and_formulas(tcsis_cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "g.dimacs").write_text(TRIANGLE)
    (tmp_path / "f.cnf").write_text("p cnf 3 2\n1 2 0\n-1 3 0\n")
    expected = {
        ("g.dimacs", "--as", "colouring", "--num-values", "3"): 6,
        ("g.dimacs", "--as", "independent-set", "--fugacity", "2"): 7,
        ("g.dimacs", "--as", "max-cut", "--beta", "0"): 8,
        ("f.cnf",): 4,
        ("f.cnf", "--given", "1=true"): 2,
    }
    for (name, *options), count in expected.items():
        data = json.loads(tcsis_cli("exact", tmp_path / name, *options, "--json").out)
        assert np.exp(data["log_z"]) == pytest.approx(count)


def test_a_format_can_be_named(tcsis_cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "G1").write_text("3 2\n1 2 1\n2 3 1\n")
    data = json.loads(tcsis_cli("exact", "gset", tmp_path / "G1", "--beta", "0.5", "--json").out)
    assert np.exp(data["log_z"]) == pytest.approx(2 * (1 + np.exp(0.5)) ** 2)
    np.savez(tmp_path / "pairs.npz", J=np.array([[0.0, 1.0], [1.0, 0.0]]))
    data = json.loads(tcsis_cli("exact", tmp_path / "pairs.npz", "--json").out)
    assert data["target"]["name"] == "pairwise"


def test_a_run_holds_without_its_file(tcsis_cli: Callable, bif: Path, tmp_path: Path) -> None:
    chains, trained, drawn = tmp_path / "chains", tmp_path / "trained", tmp_path / "drawn"
    few = ["--chains", "8", "--steps", "100", "--burn-in", "20"]
    assert tcsis_cli("mcmc", bif, "--given", "smoking=yes", *few, "--out", chains).code == 0
    assert tcsis_cli("train", bif, *TINY, "--out", trained).code == 0
    bif.unlink()
    assert tcsis_cli("evaluate", chains).code == 0
    assert tcsis_cli("report", chains).code == 0
    assert tcsis_cli("sample", trained, "--n", "200", "--out", drawn).code == 0
    assert tcsis_cli("evaluate", drawn).code == 0
    assert tcsis_cli("train", "--resume", "--steps", "5", "--out", trained).code == 0
    outcome = tcsis_cli("mcmc", bif, *few)
    assert outcome.code == 2
    assert "is not a file: expected the path of one" in outcome.err


def test_names_are_in_draws_and_report(tcsis_cli: Callable, bif: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--given", "smoking=no", "--n", "500", "--out", folder]
    assert tcsis_cli("exact", bif, *options).code == 0
    draws, _ = read_draws(folder / "draws.nc")
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as tree:
        x = tree["posterior"]["x"]
        assert x.site.values.tolist() == ["smoking", "cancer", "xray"]
        names = tree["constant_data"]["value_names"]
        assert names.sel(site="cancer").values.tolist() == ["present", "absent", ""]
        assert x.sel(site="xray").values[0].tolist() == draws.x[:, 2].tolist()
    sites = Result.load(folder / "result.json").methods[0].sites
    assert [site.site for site in sites] == ["cancer", "xray"]
    assert sites[1].values == ["good", "bad", "none"]
    assert sites[0].exact == pytest.approx([0.01, 0.99])
    report = (folder / "report.html").read_text()
    assert "Sites by name" in report
    assert "present" in report


def test_a_bqm_from_file_to_draws(tcsis_cli: Callable, tmp_path: Path) -> None:
    bqm = dimod.BinaryQuadraticModel({"a": 1.0, "b": 0.0}, {("a", "b"): -2.0}, 0.0, "BINARY")
    with bqm.to_file() as file:
        (tmp_path / "problem.bqm").write_bytes(file.read())
    folder = tmp_path / "run"
    run = ["train", tmp_path / "problem.bqm", "--beta", "2", *TINY, "--out", folder]
    assert tcsis_cli(*run).code == 0
    data = json.loads(tcsis_cli("evaluate", folder, "--json").out)
    assert data["exact"]["log_z"] == pytest.approx(np.log(2 + np.exp(-2) + np.exp(2)), abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{bif}", "--given", "smoking=maybe"], "for the value at site smoking: expected yes, no"),
        (["{bif}", "--given", "smoke=yes"], "expected smoking, cancer, xray; did you mean 'smok"),
        (["{bif}", "--beta", "2"], "unknown argument of target bif 'beta'"),
        (["{bif}", "--as", "max-cut"], "unknown argument of target bif 'problem'"),
        (["{bif}.bif"], "network.bif.bif is not a file: expected the path of one"),
        (["{folder}/g.col"], "can mean several things: expected a problem, one of max-cut"),
        (["{folder}/bad.cnf"], "bad.cnf, line 2: a literal is 'x': expected an integer from"),
    ],
)
def test_refusals(
    tcsis_cli: Callable, bif: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "g.col").write_text(TRIANGLE)
    (tmp_path / "bad.cnf").write_text("p cnf 1 1\nx 0\n")
    filled = [argument.format(bif=bif, folder=tmp_path) for argument in arguments]
    outcome = tcsis_cli("exact", *filled)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
