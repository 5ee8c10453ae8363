"""The studies of faults and mutations, a part of each, and that they would notice."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tcsis.basics import seals

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
faults = pytest.importorskip("faults")
mutations = pytest.importorskip("mutations")


def run_study(*line: str) -> None:
    """In a process of its own, which forks; it fails where anything is wrong."""
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, *line]
    done = subprocess.run(
        command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=False,
        env=os.environ | threads,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_kills_signals_and_full_disks() -> None:
    run_study("faults.py", "--trials", "24")


@pytest.mark.slow
def test_damaged_edited_and_exchanged_files() -> None:
    run_study("mutations.py", "--mutations", "250")


def test_the_first_study_sees_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for seed in ("0", "1"):
        assert faults.main([*faults.LINE[:-1], seed, "--steps", "3", "--seed", seed]) == 0
        found.append(faults.fingerprint(Path(seed)))
    wrong = faults.differences(*found)
    for name in ("tensors", "data", "draws", "attributes", "result", "config"):
        assert f"{name} differs" in wrong
    assert faults.differences(found[0], found[0]) == []


def test_the_second_study_sees_wrong_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checksums edited results are taken for true."""
    work, pristine = tmp_path / "work", tmp_path / "pristine"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(mutations, "RUNS", {"run": mutations.RUNS["run"]})
    chosen = [one for one in mutations.SUBJECTS if (one.run, one.path) == ("run", "result.json")]
    monkeypatch.setattr(mutations, "SUBJECTS", [replace(one, others=()) for one in chosen])
    wanted = mutations.prepare()
    work.rename(pristine)
    work.mkdir()
    monkeypatch.chdir(work)
    sealed = [mutations.try_once(number, pristine, wanted).found for number in range(40)]
    assert set(sealed) <= {"refused", "same"}
    monkeypatch.setattr(seals, "check", lambda path, found, content: content)
    open_ones = [mutations.try_once(number, pristine, wanted).found for number in range(40)]
    assert "wrong number" in open_ones
