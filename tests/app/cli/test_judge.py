"""``tcsis judge``: anybody's file, a target, a verdict, an exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tcsis
from tcsis.targets import Ising

ISING = ["ising", "--side", "4", "--beta", "0.4407"]
TARGET = Ising(4, 0.4407)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same perfect draws in several forms, and draws that are too cold."""
    folder = tmp_path_factory.mktemp("draws")
    draws = tcsis.Draws(tcsis.exact.draw(TARGET, 5_000, seed=3).x)
    spins = 2 * draws.x.numpy().astype(int) - 1
    paths = {name: folder / name for name in ("a.csv", "b.csv", "a.npy", "a.nc", "a.json")}
    draws.to_pandas(TARGET).to_csv(paths["a.csv"])
    np.savetxt(paths["b.csv"], spins, fmt="%d", delimiter=",")
    np.save(paths["a.npy"], spins)
    draws.to_netcdf(paths["a.nc"], TARGET)
    samples = draws.to_dimod(TARGET, vartype="SPIN", aggregate=True)
    paths["a.json"].write_text(json.dumps(samples.to_serializable()))
    paths["cold"] = folder / "cold.npy"
    np.save(paths["cold"], tcsis.exact.draw(Ising(4, 0.4407 * 1.2), 5_000, seed=3).x.numpy())
    return paths


@pytest.mark.parametrize("name", ["a.csv", "b.csv", "a.npy", "a.nc", "a.json"])
def test_perfect_draws_are_trusted(tcsis_cli: Callable, files: dict[str, Path], name: str) -> None:
    done = tcsis_cli("judge", files[name], *ISING, "--require", "trusted", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["methods"][0]["verdict"]["level"] == "trusted"
    assert data["methods"][0]["n"] == 5_000
    assert data["exact"]["method"] == "enumeration"


def test_cold_draws_fail_the_gate(tcsis_cli: Callable, files: dict[str, Path]) -> None:
    done = tcsis_cli("judge", files["cold"], *ISING, "--require", "unrefuted")
    assert done.code == 5
    assert "failed" in done.out
    assert "the verdict is failed, not --require unrefuted" in done.err
    assert tcsis_cli("judge", files["cold"], *ISING, "--quiet").code == 0


def test_a_model_is_a_second_opinion(
    tcsis_cli: Callable, files: dict[str, Path], trained: Path
) -> None:
    done = tcsis_cli("judge", files["a.npy"], "--model", trained)
    assert done.code == 0, done.err
    assert "the model agrees" in done.out
    other = tcsis_cli("judge", files["a.npy"], "ising", "--side", "4", "--beta", "0.4", "--model",
                      trained)  # fmt: skip
    assert other.code == 2
    assert "expected a model of this target" in other.err


def test_bad_input(tcsis_cli: Callable, files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("0,1,1\n1,0,1\n")
    for arguments, why in [
        ((files["a.npy"],), "target is missing: expected what the draws are of"),
        ((files["a.npy"], "--side", "4"), "target is missing: expected a name"),
        ((tmp_path / "none.csv", *ISING), "is not a file: expected draws to read"),
        ((tmp_path / "short.csv", *ISING), "3 columns of values"),
        ((files["a.npy"], *ISING, "--require", "good"), "require is 'good'"),
        ((files["a.npy"], "ising", "--side", "5", "--beta", "1"), "expected (n, 25)"),
        ((files["a.npy"], *ISING, "--model", tmp_path), "config.toml"),
    ]:
        done = tcsis_cli("judge", *arguments)
        assert done.code == 2
        assert why in " ".join(done.err.split())
        assert "Traceback" not in done.err
