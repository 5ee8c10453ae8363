"""More draws than are made at once, from the command line."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tcsis.draws import shards
from tcsis.draws.storage import read_draws

LINE = ["ising", "--side", "3", "--beta", "0.4", "--preset", "tiny", "--steps", "60"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tcsis.app.cli import main

    folder = tmp_path_factory.mktemp("model") / "run"
    assert main(["train", *LINE, "--n", "1000", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of 500 draws, for requests of more than 1,000."""
    from tcsis.app import experiment, many

    monkeypatch.setattr(experiment, "MOST_AT_ONCE", 1_000)
    monkeypatch.setattr(experiment, "shard_size", lambda sites: 500)
    monkeypatch.setattr(many, "MOST_JUDGED", 800)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def x(folder: Path) -> torch.Tensor:
    return read_draws(folder / "draws.nc")[0].x


def test_many_draws_are_judged_by_the_first(
    model: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    out = tmp_path / "many"
    drawn = tcsis_cli("sample", model, "-n", "2700", "--seed", "5", "--out", out, "--json")
    assert drawn.code == 0
    method = json.loads(drawn.out)["methods"][0]
    draws = read_draws(out / "draws.nc")[0]
    assert len(draws) == method["n"] == 2_700
    assert method["num_judged"] == 800
    assert method["log_z"] == draws.log_z != draws[:800].log_z
    assert method["ess"] == draws.ess
    assert method["verdict"]["why"].endswith("Judged by the first 800 of 2,700 draws.")
    assert {path.name for path in out.iterdir()} == {
        "config.toml", "env.json", "draws.nc", "result.json", "report.html",
    }  # fmt: skip
    for line in (
        ["evaluate", out],
        ["judge", out / "draws.nc", "ising", "--side", "3", "--beta", "0.4"],
    ):
        again = json.loads(tcsis_cli(*line, "--json").out)["methods"][0]
        assert (again["n"], again["num_judged"]) == (2_700, 800)
        assert again["log_z"] == draws.log_z


def test_few_draws_are_as_they_were(model: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    import tcsis

    out = tmp_path / "few"
    assert (
        tcsis_cli("sample", model, "-n", "1000", "--seed", "5", "--out", out, "--quiet").code == 0
    )
    assert torch.equal(x(out), tcsis.load(model).sample(1_000, seed=5).x)
    assert "num_judged" in (out / "result.json").read_text()
    assert json.loads((out / "result.json").read_text())["methods"][0]["num_judged"] is None


def test_an_interrupted_run_says_how_to_go_on(
    model: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    request = ["sample", model, "-n", "2700"]
    assert tcsis_cli(*request, "--out", whole, "--quiet").code == 0
    ensure, made = shards.Shards.ensure, []

    def interrupted(self: shards.Shards, folder: Path, shard: int) -> None:
        if shard == 2:
            raise KeyboardInterrupt
        made.append(shard)
        ensure(self, folder, shard)

    with monkeypatch.context() as patch:
        patch.setattr(shards.Shards, "ensure", interrupted)
        stopped = tcsis_cli(*request, "--out", out, "--quiet")
    assert stopped.code == 130
    line = f"tcsis sample {model} --resume --out {out}"
    assert f"2 shards of draws are kept in {out}; go on with: {line}" in stopped.err
    assert line in tcsis_cli("show", out).out.replace("\n", "")
    other = tcsis_cli(*request, "--seed", "9", "--resume", "--out", out)
    assert other.code == 2
    assert "was begun with other settings" in other.err
    assert tcsis_cli(*shlex.split(line)[1:], "--quiet").code == 0
    assert torch.equal(x(out), x(whole))
    assert json.loads((out / "result.json").read_text())["methods"][0]["n"] == 2_700
    afresh = tcsis_cli(*request, "--seed", "9", "--overwrite", "--out", out, "--quiet")
    assert afresh.code == 0
    assert not torch.equal(x(out), x(whole))


def test_processes_need_a_folder(
    model: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused = tcsis_cli("sample", model, "-n", "2700")
    assert refused.code == 2
    assert "several processes share the draws: expected --out, one folder for all" in refused.err


@pytest.mark.slow
def test_two_processes_of_torchrun(model: Path, tmp_path: Path) -> None:
    """As many draws as need shards of the real size."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    two = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    for name, start in (("one", []), ("two", two)):
        out = ["-n", "140000", "--out", str(tmp_path / name), "--quiet"]
        command = [sys.executable, *start, "-m", "tcsis", "sample", str(model), *out]
        subprocess.run(command, env=environment, check=True)
    assert torch.equal(x(tmp_path / "one"), x(tmp_path / "two"))
