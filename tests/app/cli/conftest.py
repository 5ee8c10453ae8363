"""Command lines run in this process, and two small runs that several tests look at."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tcsis.app.cli import main

ISING = ["ising", "--side", "4", "--beta", "0.4407"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def tcsis_cli(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """``tcsis_cli("train", "ising", ...)``: the exit code and what was printed.  What has no folder
    named goes to one below ``tmp_path``."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Outcome:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few seconds that is good enough to be trusted."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    assert main(["train", *ISING, "--steps", "400", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "untrained"
    options = ["--preset", "tiny", "--steps", "1", "--n", "2000", "--out", str(folder), "--quiet"]
    assert main(["train", *ISING, *options]) == 0
    return folder
