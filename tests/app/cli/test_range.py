"""``--range`` and ``--at`` on the command line: one run, draws at any value of its range."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import tcsis
from tcsis.draws.storage import read_draws

SMALL = ["ising", "--side", "3", "--range", "beta=0.1:0.6"]
TINY = ["--preset", "tiny", "--steps", "6", "--n", "100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("range") / "run"


def test_a_run_and_draws_at_a_value(tcsis_cli: Callable, folder: Path, tmp_path: Path) -> None:
    trained = tcsis_cli("train", *SMALL, *TINY, "--out", folder)
    assert trained.code == 0
    assert "beta from 0.1 to 0.6, between the levels: ESS 0." in trained.err
    config = tomllib.loads((folder / "config.toml").read_text())
    assert config["target"]["beta"] == 0.6
    assert config["run"]["range"] == "beta=0.1:0.6"
    assert config["train"]["method"]["over"] == {"parameter": "beta", "low": 0.1, "high": 0.6}
    out, again = tmp_path / "draws", tmp_path / "again"
    assert tcsis_cli("sample", folder, "--at", "beta=0.25", "--n", "50", "--out", out).code == 0
    sampled = tomllib.loads((out / "config.toml").read_text())
    assert sampled["target"]["beta"] == 0.25
    draws = read_draws(out / "draws.nc")[0]
    expected = tcsis.load(folder).at(beta=0.25).sample(50)
    assert draws.x.tolist() == expected.x.tolist()
    assert draws.log_weight.tolist() == pytest.approx(expected.log_weight.tolist())
    assert tcsis_cli("evaluate", out).code == 0
    outcome = tcsis_cli("sample", folder, "--n", "300000000000")
    assert outcome.code == 2
    assert "n is 300000000000: that takes about 24 TB of memory" in outcome.err
    outcome = tcsis_cli("sample", out, "--n", "10")
    assert outcome.code == 2
    assert f"holds draws: expected their model, {folder}" in outcome.err
    judge = ["judge", out / "draws.nc", "ising", "--side", "3", "--beta", "0.25", "--model", folder]
    assert tcsis_cli(*judge, "--at", "beta=0.25").code == 0
    assert "expected a model of this target" in tcsis_cli(*judge).err
    assert "at is given without model" in tcsis_cli("judge", out, "--at", "beta=0.25").err
    # the command that repeats it
    repeated = tcsis_cli("sample", folder, "--config", out / "config.toml", "--out", again)
    assert repeated.code == 0
    assert read_draws(again / "draws.nc")[0].x.tolist() == draws.x.tolist()
    assert tcsis_cli("train", "--resume", "--out", folder, "--steps", "8").code == 0
    assert tcsis_cli("show", folder).code == 0


def test_what_cannot_be_asked_is_refused(tcsis_cli: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert tcsis_cli("train", *SMALL, *TINY, "--out", folder).code == 0
    for options, message in (
        (["--at", "beta=0.7"], "beta is 0.7: the model was trained for beta from 0.1 to 0.6"),
        (["--at", "beta"], "at is 'beta': expected the parameter and one value"),
        (["--at", "power=0.5"], "ask in Python"),
    ):
        outcome = tcsis_cli("sample", folder, *options)
        assert outcome.code == 2
        assert message in outcome.err
    outcome = tcsis_cli("train", "--resume", "--range", "beta=0.1:0.7", "--out", folder)
    assert outcome.code == 2
    assert "beta is 0.6 and goes up to 0.7 in the range" in outcome.err
    outcome = tcsis_cli("train", "--resume", "--beta", "0.5", "--out", folder)
    assert "beta is 0.5 and goes up to 0.6 in the range" in outcome.err
    assert tcsis_cli("sample", folder, "--at", "beta=0.6", "--n", "50").code == 0  # as before
    for options, message in (
        (["--range", "beta=0.1"], "range is 'beta=0.1': expected a parameter and its two ends"),
        (["--range", "beta=0.1:0.6", "--method", "any-time"], "leave out method"),
        (["--range", "beta=0.1:0.6", "--preset", "paper"], "expected fast or tiny for a range"),
        (["--range", "beta=0.1:0.6", "--beta", "0.3"], "beta is 0.3 and goes up to 0.6 in the"),
        (["--range", "bta=0.1:0.6", "--beta", "0.3"], "did you mean beta?"),
    ):
        outcome = tcsis_cli("train", "ising", "--side", "3", *options)
        assert outcome.code == 2, outcome.err
        assert message in outcome.err, outcome.err
    plain = tmp_path / "plain"
    one = ["ising", "--side", "3", "--beta", "0.3"]
    assert tcsis_cli("train", *one, *TINY, "--out", plain).code == 0
    outcome = tcsis_cli("sample", plain, "--at", "beta=0.2", "--json")
    assert outcome.code == 2
    assert "which knows one target" in outcome.err + json.dumps(outcome.out)
