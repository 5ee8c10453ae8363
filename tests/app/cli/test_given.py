"""``--given`` on the command line: kept in the folder of a run, and read back."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import tcsis
from tcsis.draws.storage import read_draws
from tcsis.learn.trainer import CHECKPOINT

SMALL = ["ising", "--side", "3", "--beta", "0.4", "--given", "3=1,5=0"]
TINY = ["--preset", "tiny", "--steps", "5", "--n", "100"]
TARGET = tcsis.targets.Ising(3, 0.4).given({3: 1, 5: 0})
RING = "def log_density(x):\n    return (x == x.roll(1, -1)).double().sum(-1)\n"


def check_known(folder: Path) -> None:
    x = read_draws(folder / "draws.nc")[0].x.long()
    assert (x[..., 3] == 1).all()
    assert (x[..., 5] == 0).all()


def test_exact(tcsis_cli: Callable, tmp_path: Path) -> None:
    outcome = tcsis_cli("exact", *SMALL, "--json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert data["log_z"] == pytest.approx(tcsis.exact.solve(TARGET).log_z)
    assert data["target"]["given"] == "3=1,5=0"
    folder = tmp_path / "exact"
    assert tcsis_cli("exact", *SMALL, "--n", "50", "--out", folder).code == 0
    check_known(folder)


def test_a_run_from_training_to_evaluation(tcsis_cli: Callable, tmp_path: Path) -> None:
    folder, again = tmp_path / "run", tmp_path / "again"
    assert tcsis_cli("train", *SMALL, *TINY, "--out", folder).code == 0
    config = tomllib.loads((folder / "config.toml").read_text())
    assert config["target"]["given"] == "3=1,5=0"
    check_known(folder)
    assert "given({3: 1, 5: 0})" in (folder / "report.html").read_text()
    assert repr(tcsis.load(folder / CHECKPOINT).target) == repr(TARGET)
    assert tcsis_cli("train", "--resume", "--out", folder, "--steps", "8").code == 0
    check_known(folder)
    assert tcsis_cli("sample", folder, "--n", "50", "--out", again).code == 0
    check_known(again)
    assert tcsis_cli("evaluate", again).code == 0
    assert "3=1,5=0" in tcsis_cli("show", folder).out
    assert tcsis_cli("report", folder).code == 0


def test_a_run_does_not_go_on_with_other_evidence(tcsis_cli: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert tcsis_cli("train", *SMALL, *TINY, "--out", folder).code == 0
    outcome = tcsis_cli("train", "--resume", "--out", folder, "--given", "3=0")
    assert outcome.code == 2
    assert "target has given = 3=0 and the saved model 3=1,5=0" in outcome.err


def test_chains_and_a_config_file(tcsis_cli: Callable, tmp_path: Path) -> None:
    folder, again = tmp_path / "chains", tmp_path / "again"
    few = ["--chains", "4", "--steps", "30", "--burn-in", "10"]
    assert tcsis_cli("mcmc", *SMALL, *few, "--out", folder).code == 0
    check_known(folder)
    config = folder / "config.toml"
    assert tcsis_cli("mcmc", "--config", config, "--out", again).code == 0
    check_known(again)
    other = tmp_path / "other"  # an option stands in for the whole entry
    assert tcsis_cli("mcmc", "--config", config, "--given", "0=1", "--out", other).code == 0
    assert tomllib.loads((other / "config.toml").read_text())["target"]["given"] == "0=1"


def test_compare(tcsis_cli: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "compare"
    methods = "autoregressive,gibbs,learning-free,population-annealing,exact"
    options = ["--preset", "tiny", "--steps", "5", "--n", "200", "--methods", methods]
    assert tcsis_cli("compare", *SMALL, *options, "--out", folder).code == 0
    result = json.loads((folder / "result.json").read_text())
    assert [method["name"] for method in result["methods"]] == methods.split(",")
    assert all(state[3] == 1 for method in result["methods"] for state in method["states"])


def test_functions_and_files(
    tcsis_cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.py").write_text(RING)
    own = ["ring.py:log_density", "--num-sites", "5", "--num-values", "3", "--given", "0=2"]
    assert tcsis_cli("train", *own, *TINY, "--out", "ring").code == 0
    assert tcsis_cli("sample", "ring", "--n", "20", "--out", "drawn").code == 0
    assert (read_draws(Path("drawn/draws.nc"))[0].x[:, 0] == 2).all()
    couplings = np.ones((4, 4)) - np.eye(4)
    np.savez("pairs.npz", J=couplings)
    assert (
        tcsis_cli("train", "pairwise", "pairs.npz", "--given", "1=1", *TINY, "--out", "pairs").code
        == 0
    )
    assert tcsis_cli("evaluate", "pairs").code == 0
    assert (read_draws(Path("pairs/draws.nc"))[0].x[:, 1] == 1).all()


def test_a_run_of_the_any_time_method_is_given_more(tcsis_cli: Callable, tmp_path: Path) -> None:
    """What is given is kept with the draws, and adds to what the run was trained with."""
    run, drawn, again = tmp_path / "run", tmp_path / "drawn", tmp_path / "again"
    assert tcsis_cli("train", *SMALL, *TINY, "--method", "any-time", "--out", run).code == 0
    assert tcsis_cli("sample", run, "--given", "0=1", "--n", "50", "--out", drawn).code == 0
    config = tomllib.loads((drawn / "config.toml").read_text())
    assert config["target"]["given"] == "3=1,5=0,0=1"
    x = read_draws(drawn / "draws.nc")[0].x
    assert (x[:, [0, 3, 5]] == torch.tensor([1, 1, 0])).all()
    assert tcsis_cli("evaluate", drawn).code == 0
    repeat = ["sample", run, "--config", drawn / "config.toml", "--out", again]
    assert tcsis_cli(*repeat).code == 0
    assert torch.equal(read_draws(again / "draws.nc")[0].x, x)
    assert (x[:, 0] == 1).all() and not x[:, 1].all()
    outcome = tcsis_cli(
        "sample", run, "--set", 'target.given="0=1"', "--n", "50", "--out", again, "--overwrite"
    )
    assert outcome.code == 0
    assert tomllib.loads((again / "config.toml").read_text())["target"]["given"] == "3=1,5=0,0=1"
    assert (read_draws(again / "draws.nc")[0].x[:, 0] == 1).all()
    outcome = tcsis_cli("sample", run, "--given", "5=1", "--n", "50")
    assert outcome.code == 2
    assert "given has the values 0 and 1 at site 5" in outcome.err


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("3", "given has '3': expected site=value"),
        ("3=up", "given has 'up' for the value at site 3: expected a number"),
        ("9=1", "given names site 9: expected sites 0..8"),
        ("3=2", "given has the value 2 at site 3: expected 0..1"),
        ("", "given names no site"),
        ("3=1,3=0", "given has the values 1 and 0 at site 3"),
    ],
)
def test_refusals(tcsis_cli: Callable, given: str, sentence: str) -> None:
    outcome = tcsis_cli("exact", *SMALL[:-1], given)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_help_names_it(tcsis_cli: Callable) -> None:
    for command in ("train", "mcmc", "compare", "exact"):
        assert "--given" in tcsis_cli(command, "--help").out
