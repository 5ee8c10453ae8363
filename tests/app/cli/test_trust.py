"""A folder from elsewhere runs no code unasked; what was run here before is run again."""

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tcsis.app import trust
from tcsis.app.cli import main
from tcsis.basics.seals import open_toml, seal_toml

DENSITY = """
from pathlib import Path
Path(__file__).with_name("was-run").touch()
def log_density(x):
    return (x == x.roll(1, -1)).double().sum(-1)
def other(x):
    return x.double().sum(-1)
"""
SITES = ["--num-sites", "6", "--num-values", "2"]
TINY = ["--preset", "tiny", "--steps", "2", "--n", "20", "--quiet"]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run on a function, whose code leaves a mark when it is imported."""
    (tmp_path / "ring.py").write_text(DENSITY)
    run = tmp_path / "run"
    line = ["train", f"{tmp_path / 'ring.py'}:log_density", *SITES, *TINY, "--out", str(run)]
    assert main(line) == 0
    (tmp_path / "was-run").unlink()
    return run


def readers(run: Path) -> list[list[str | Path]]:
    return [
        ["sample", run, "--n", "9"],
        ["evaluate", run],
        ["train", "--resume", "--out", run],
        ["train", "--config", run / "config.toml", "--out", run.with_name("new")],
        ["exact", "--config", run.with_name("mine.toml")],
    ]


def write_mine(run: Path) -> None:
    """A config that was taken out of the folder, for a command of another kind."""
    text = open_toml(run, (run / "config.toml").read_bytes()).decode()
    run.with_name("mine.toml").write_text(text.split("[run]")[0])


def test_what_was_made_here_is_run(made: Path, tcsis_cli: Callable) -> None:
    for line in readers(made)[:4]:
        assert tcsis_cli(*line, "--quiet").code == 0, line
        assert made.with_name("was-run").exists()
        made.with_name("was-run").unlink()
    new = made.with_name("new")
    assert trust.read(new)["sha256"] == trust.read(made)["sha256"]
    assert tcsis_cli("evaluate", new, "--quiet").code == 0


def test_what_was_not_is_not_run(
    made: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same folder on an account with another key."""
    write_mine(made)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    for line in readers(made):
        outcome = tcsis_cli(*line)
        assert outcome.code == 2, line
        assert "was not made here, and its config runs the code of" in outcome.err
        assert "--trust-code" in outcome.err
        assert outcome.err.count("\n") == 1
        assert not made.with_name("was-run").exists()
    for line in (["show", made], ["report", made]):
        assert tcsis_cli(*line, "--quiet").code == 0
        assert not made.with_name("was-run").exists()
    for line in readers(made):
        assert tcsis_cli(*line, "--trust-code", "--quiet").code == 0, line
    assert tcsis_cli("sample", made, "--n", "9", "--quiet").code == 0  # resuming signed it


@pytest.mark.parametrize("spoil", ["no record", "another key", "another function", "no object"])
def test_a_record_that_does_not_hold(spoil: str, made: Path, tcsis_cli: Callable) -> None:
    record = made / "code.json"
    found = json.loads(record.read_text())
    if spoil == "no record":
        record.unlink()
    elif spoil == "another key":
        record.write_text(json.dumps(found | {"signature": "0" * 64}))
    elif spoil == "no object":
        record.write_text("[1]")
    else:  # the signature of one function does not serve another
        text = open_toml(made, (made / "config.toml").read_bytes()).decode()
        (made / "config.toml").write_text(seal_toml(text.replace(":log_density", ":other")))
    outcome = tcsis_cli("evaluate", made)
    assert (outcome.code, "was not made here" in outcome.err) == (2, True)
    assert not made.with_name("was-run").exists()


def test_code_that_was_changed(made: Path, tcsis_cli: Callable) -> None:
    """It may be fine, and it is another density than the draws are of."""
    source = made.with_name("ring.py")
    source.write_text(DENSITY.replace("==", "!="))
    for line in readers(made)[:4]:
        outcome = tcsis_cli(*line)
        assert outcome.code == 2
        assert "has changed since the run in" in outcome.err
        assert not made.with_name("was-run").exists()
    source.write_text(DENSITY)
    assert tcsis_cli("evaluate", made, "--quiet").code == 0


def test_a_name_on_the_command_line_is_the_users_own(
    made: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mine(made)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    source, mine = f"{made.with_name('ring.py')}:other", made.with_name("mine.toml")
    for line in (
        ["exact", source, *SITES],
        ["exact", "--config", mine, "--set", f"target.name={source}"],
    ):
        assert tcsis_cli(*line, "--quiet").code == 0, line


def test_modules_are_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package_of_tests"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "ring.py").write_text(DENSITY)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert trust.find_module("package_of_tests.ring") == package / "ring.py"
    assert "package_of_tests" not in sys.modules
    assert trust.find_module("package_of_tests.nothing") is None
    assert trust.find_module("package_of_tests.ring.more") is None
    assert trust.find_module("no_such_module.at.all") is None
    here = tmp_path / "here"
    here.mkdir()
    (here / "ring_of_tests.py").write_text(DENSITY)
    monkeypatch.chdir(here)
    assert trust.find_module("ring_of_tests") == here / "ring_of_tests.py"
    nothing, other = trust.hash_code("sys:exit"), trust.hash_code("ring_of_tests:other")
    assert nothing != other == trust.hash_code(f"{here / 'ring_of_tests.py'}:other")
    assert nothing == trust.hash_code("nothing.py:f")


def test_the_key_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = trust.read_key()
    assert len(key) == 32
    assert trust.read_key() == key
    path = tmp_path / "state" / "tcsis" / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    trust.make_key(path)  # of a process that was a little later
    assert trust.read_key() == key
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


def test_without_a_place_for_a_key(
    made: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs work, and every time they are read the user is asked."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    new = tmp_path / "new"
    source = f"{made.with_name('ring.py')}:log_density"
    assert tcsis_cli("exact", source, *SITES, "--n", "9", "--out", new, "--quiet").code == 0
    assert not (new / "code.json").exists()
    assert tcsis_cli("evaluate", new).code == 2
    assert tcsis_cli("evaluate", new, "--trust-code", "--quiet").code == 0


def test_a_target_without_code_needs_no_trust(
    tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    line = ["exact", "ising", "--side", "3", "--beta", "0.4", "--n", "20", "--quiet"]
    assert tcsis_cli(*line, "--out", run).code == 0
    shutil.copytree(run, tmp_path / "sent")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert tcsis_cli("evaluate", tmp_path / "sent", "--quiet").code == 0
    assert not os.path.exists(tmp_path / "elsewhere")
