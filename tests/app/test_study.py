"""The study of the paper: its plan, its cells, and how it goes on after whatever happened to it."""

import ast
import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tcsis.app import digests, executors
from tcsis.app.cells import code_of
from tcsis.app.cli import main
from tcsis.app.cli import paper as command
from tcsis.app.executors import Place
from tcsis.app.study import cells, table
from tcsis.app.study.cells import CELLS, Cell, Reading
from tcsis.app.study.plan import Method, Plan, Setting, Task
from tcsis.app.study.programme import FULL, METHODS, QUICK
from tcsis.app.study.ways import Ladder
from tcsis.learn import unbiased


def shortened(method: Method) -> Method:
    """A few steps of training, and of ladders a few rungs."""
    way = replace(method.way, num_rungs=20) if isinstance(method.way, Ladder) else method.way
    return replace(method, way=way, quick_steps=3 if method.timed else None)


TINY = replace(
    QUICK,
    settings=(replace(QUICK.settings[0], num_draws=200),),
    methods=tuple(map(shortened, METHODS)),
    num_chain_steps=100,
)
CHEAP = replace(
    TINY,
    settings=(Setting(3, 0.3, 6, 200, (0, 1)),),
    methods=tuple(m for m in TINY.methods if m.name in ("autoregressive", "gwg", "exact")),
)
LEAPS = next(method for method in METHODS if method.name == "leaps")
GLAUBER = next(method for method in METHODS if method.name == "glauber")
WRITTEN = {
    "cells", "table.md", "table.csv", "index.md", "correlation.png", "distances.png",
    "magnetisation.png", "error.png",
}  # fmt: skip
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from tcsis.app.cli import main, paper
from tcsis.app.study.programme import METHODS, QUICK
found = {method.name: method for method in METHODS}
short = replace(found["gwg"], drawing=1000.0)  # which comes first
methods = short, replace(found["autoregressive"], quick_steps=10**9)
setting = replace(QUICK.settings[0], num_draws=200)
paper.QUICK = replace(QUICK, settings=(setting,), methods=methods)
sys.exit(main(sys.argv[1:]))
"""
"""The command, with a cell that is soon finished and another that never is."""


def run(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, folder: Path, *options: str, num_workers: int = 1
) -> int:
    """The command, with a plan in the place of the quick one."""
    monkeypatch.setattr(command, "QUICK", plan)
    arguments = ["paper", "--quick", "--out", str(folder), "--workers", str(num_workers)]
    return main([*arguments, *options])


class Here(Place):
    """Cells one after the other in this process, which has imported everything already."""

    num_workers = 1
    described = "This process"

    def submit(self, function: Callable, /, *given: object) -> Future:
        future: Future = Future()
        future.set_result(function(*given))
        return future

    def end(self) -> None:
        pass


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "choose", lambda num_workers, scheduler: Here())


def rows(folder: Path) -> list[dict[str, str]]:
    """The table without its timings."""
    with (folder / "table.csv").open() as file:
        found = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if not k.endswith("_seconds")} for row in found]


def cell_files(folder: Path) -> list[Path]:
    return sorted((folder / "cells").glob("*.json"))


def fabricate(task: Task, *, code: str | None = None, **update: object) -> Cell:
    """A cell that nothing was run for."""
    numbers = {
        "num_draws": 4, "error": 0.02, "floor": 0.01, "weighted_error": 0.01, "ess": 0.5,
        "log_z": 1.0, "log_z_error": -0.1, "log_z_deviation": 0.1, "positive": 0.5, "seconds": 2.0,
        "num_density_calls": 3.0, "network_calls": 4.0, "correlation": [1.0, 0.5],
        "weighted_correlation": [1.0, 0.4], "magnetisation": [1, 3],
        "weighted_magnetisation": [0.5, 0.5],
    }  # fmt: skip
    readings = {name: Reading(**numbers | update) for name, _ in task.method.readings}
    return Cell(
        key=cells.make_key(task), code=code or code_of(task), training_seconds=1.0,
        training_densities=5.0, readings=readings,
    )  # fmt: skip


# -- the plan --------------------------------------------------------------------------------------


def test_the_plan_is_the_one_that_was_agreed() -> None:
    seeds = (0, 1, 2)
    assert [(s.side, s.beta, s.num_calls, s.seeds) for s in FULL.settings] == [
        (4, 0.28, 24, seeds), (4, 0.4407, 24, seeds), (4, 0.6, 24, seeds),
        (10, 0.28, 64, seeds), (10, 0.4407, 64, seeds), (10, 0.6, 64, seeds),
        (16, 0.4407, 64, seeds),
    ]  # fmt: skip
    assert FULL.num_chain_steps == 10_000
    assert FULL.seconds is not None
    assert set(FULL.seconds) == {4, 10, 16}
    titles = [source.title for source in table.sources(METHODS)]
    assert len(set(titles)) == len(titles) == 20
    for name in ("LEAPS", "DNFS"):
        assert f"{name}, continuous-time weights" in titles
        assert f"{name}, weights of its steps" in titles
    assert [(s.side, s.beta, s.num_draws, s.seeds) for s in QUICK.settings] == [
        (4, 0.28, 1_000, (0,)),
        (4, 0.4407, 1_000, (0,)),
    ]


def test_tasks_have_one_budget_each_and_the_longest_come_first() -> None:
    for plan in (FULL, QUICK):
        tasks = plan.tasks()
        assert len({task.name for task in tasks}) == len(tasks)
        seconds = [task.expected_seconds for task in tasks]
        assert seconds == sorted(seconds, reverse=True)
        for task in tasks:
            assert sum([task.seconds is not None, task.steps is not None]) == task.method.timed
    everywhere = [method for method in METHODS if method.sides is None]
    assert len(FULL.tasks()) == 3 * (7 * len(everywhere) + 3)  # and one at side 4 alone
    assert all(task.seconds is None for task in QUICK.tasks())  # or it would not repeat


def test_settings_of_the_methods() -> None:
    setting = next(s for s in FULL.settings if s.side == 10)
    found = {
        task.method.name: cells.make_key(task)["settings"]
        for task in FULL.tasks()
        if task.setting == setting
    }
    for name in ("autoregressive", "any-time", "self-normalized", "unbiased"):
        assert found[name]["method"]["kind"] == name
    paper = found["self-normalized-paper"]["method"]
    assert paper["kind"] == "self-normalized"
    assert paper["estimator"] == {"kind": "shared", "num_samples": 2_000}
    assert paper["objective"] == "score-entropy"
    assert paper["step"] == "euler"
    assert paper["network"]["kind"] == "dit"
    assert found["self-normalized-paper"]["buffer"]["kind"] == "model_and_noise"
    for name in ("self-normalized-paper", "self-normalized", "unbiased"):  # calls as in the paper
        assert found[name]["method"]["num_calls"] == 64
    assert found["leaps"]["num_calls"] == found["dnfs"]["num_calls"] == 64
    assert found["any-time"]["calls"] == 50
    assert found["gwg"] == {"kernel": "gwg", "num_steps": 64}
    assert found["glauber"] == {"kernel": "glauber", "num_steps": 10_000}
    unbiased_paper = next(m for m in METHODS if m.name == "unbiased-paper")
    small = cells.make_key(FULL.task(FULL.settings[0], unbiased_paper, 0))["settings"]
    assert small["method"]["estimator"]["kind"] == "log_marginal"
    assert (small["buffer"]["kernel"], small["buffer"]["num_steps"]) == ("gwg", 1_000)


# -- the table -------------------------------------------------------------------------------------


def test_rows_over_seeds() -> None:
    setting = Setting(4, 0.28, 24, 4, (0, 1))
    plan = replace(TINY, settings=(setting,))
    made = {}
    for seed, error, miss in ((0, 0.01, 0.1), (1, 0.03, -0.2)):
        task = plan.task(setting, LEAPS, seed)
        made[task] = fabricate(task, error=error, weighted_error=error / 2, log_z_error=miss)
    plan = replace(plan, methods=(LEAPS,))
    first, second = table.make_rows(plan, made)
    assert first.method == "LEAPS, continuous-time weights"
    assert second.method == "LEAPS, weights of its steps"
    assert first.error == pytest.approx(0.02)
    assert first.spread == pytest.approx(0.02 / 2**0.5)
    assert first.ratio == pytest.approx(2)
    assert first.log_z_error == -0.2
    assert first.weighted_ratio == pytest.approx(1)
    assert first.density_calls == 8  # of training and drawing
    text = table.as_markdown([first, second])
    assert "| LEAPS, weights of its steps | 2 | 4 | 0.0200 ± 0.0141 | 2 | 1 |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_numbers_that_are_missing_are_dashes() -> None:
    task = TINY.tasks()[0]
    cell = fabricate(task, weighted_error=None, ess=None, log_z_error=None)
    row = table.make_rows(replace(TINY, methods=(task.method,)), {task: cell})[0]
    assert row.spread is None
    assert table.entries(row).count("–") == 3


# -- code ------------------------------------------------------------------------------------------


def test_code_that_counts() -> None:
    van = {
        path.relative_to(digests.ROOT).as_posix() for path in digests.reached(("tcsis.peers.van",))
    }
    assert {
        "peers/van/model.py",
        "peers/training.py",
        "targets/base.py",
    } <= van
    assert not any(name.startswith(("peers/dnfs", "app/", "judging/", "exact/")) for name in van)
    assert any(path.parent.name == "exact" for path in digests.reached(("tcsis.exact",)))
    assert digests.digest(("tcsis.peers.van",)) != digests.digest(("tcsis.peers.mdns",))


def test_words_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""One."""\nA = 1\n"""Of A."""\ndef f(x):\n    """Two."""\n    return x\n'
    )
    (tmp_path / "b.py").write_text("A = 1\ndef f(x):\n    # three\n    return x\n")
    (tmp_path / "c.py").write_text("A = 1\ndef f(x):\n    return -x\n")
    a, b, c = (ast.dump(digests.parse(tmp_path / name)) for name in ("a.py", "b.py", "c.py"))
    assert a == b != c


# -- running, stopping, going on -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_every_method_goes_through_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unbiased, "NUM_FITTED", 256)
    assert run(monkeypatch, TINY, tmp_path, "--json", num_workers=2) == 0
    printed = capfd.readouterr()
    assert len(json.loads(printed.out)["rows"]) == len(table.sources(METHODS))
    assert f"{len(TINY.tasks())} of {len(TINY.tasks())} cells to run" in printed.err
    assert {path.name for path in tmp_path.iterdir()} == WRITTEN
    assert len(cell_files(tmp_path)) == len(TINY.tasks()) == 18
    assert len(rows(tmp_path)) == 20
    page = (tmp_path / "index.md").read_text()
    assert f"tcsis paper --quick --out {tmp_path} --workers 2" in page
    for task in TINY.tasks():
        cell = CELLS.read(CELLS.locate(tmp_path, task))
        assert cell is not None
        learned = task.method.group != "without a network"
        assert (cell.training_seconds > 0) == learned
        assert len(cell.readings) == len(task.method.readings)
        for reading in cell.readings.values():
            assert sum(reading.magnetisation) == reading.num_draws <= task.num_draws
            assert (reading.ess is not None) == (learned or task.method.name == "learning-free")
            if reading.weighted_magnetisation is not None:
                assert sum(reading.weighted_magnetisation) == pytest.approx(1)
    stamps = {path: path.stat().st_mtime_ns for path in cell_files(tmp_path)}
    before = rows(tmp_path)
    assert run(monkeypatch, TINY, tmp_path, "--quiet") == 0  # nothing is left to do
    assert {path: path.stat().st_mtime_ns for path in cell_files(tmp_path)} == stamps
    assert rows(tmp_path) == before


@pytest.mark.slow
def test_stopped_and_resumed_gives_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a cell gives depends neither on the process that it runs in nor on a stop before it."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    with (
        executors.local(1) as place,
        closing(CELLS.run_all(stopped, CHEAP.tasks(), place)) as all,
    ):
        first, _ = next(all)
        place.end()  # while a training is under way
    path = CELLS.locate(stopped, first)
    kept = path.read_bytes()
    assert 1 <= len(cell_files(stopped)) < len(CHEAP.tasks())
    monkeypatch.setattr(executors, "choose", lambda num_workers, scheduler: Here())
    assert run(monkeypatch, CHEAP, stopped, "--quiet") == 0
    assert path.read_bytes() == kept
    assert run(monkeypatch, CHEAP, whole, "--quiet") == 0
    assert rows(stopped) == rows(whole)


@pytest.mark.usefixtures("here")
def test_a_damaged_cell_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = replace(CHEAP, methods=tuple(m for m in CHEAP.methods if not m.timed))
    assert run(monkeypatch, plan, tmp_path, "--quiet") == 0
    before = rows(tmp_path)
    first, *others = cell_files(tmp_path)
    stamps = [path.stat().st_mtime_ns for path in others]
    first.write_bytes(first.read_bytes()[:100])
    (tmp_path / "cells" / f"{first.name}.tmp").write_text("{")  # as a crash leaves it
    assert run(monkeypatch, plan, tmp_path) == 0
    assert f"{first.name} is damaged and is run again" in capfd.readouterr().err
    assert rows(tmp_path) == before
    assert [path.stat().st_mtime_ns for path in others] == stamps


@pytest.mark.usefixtures("here")
def test_a_failing_cell_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    methods = (GLAUBER, CHEAP.methods[-1])
    failing = replace(CHEAP, methods=methods, num_chain_steps=0)
    assert run(monkeypatch, failing, tmp_path, "--json") == 1
    printed = capfd.readouterr()
    assert len(json.loads(printed.out)["failures"]) == 2
    assert "Traceback" not in printed.err
    assert "error: Glauber, 10,000 steps, 3×3, β = 0.3, seed 0: num_steps is 0" in printed.err
    assert [row["method"] for row in rows(tmp_path)] == ["exact"]
    assert "num_steps is 0" in (tmp_path / "index.md").read_text()
    assert len(cell_files(tmp_path)) == 2


def test_cells_of_another_study_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    task = QUICK.tasks()[0]
    CELLS.keep(tmp_path, task, fabricate(task))
    assert main(["paper", "--out", str(tmp_path)]) == 2
    assert "of another study, with num_draws = 1000 where 10000 is wanted" in capfd.readouterr().err
    assert run(monkeypatch, CHEAP, tmp_path) == 2
    assert "that this study does not have" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"cells"}


def test_the_key_sees_a_change_of_settings(tmp_path: Path) -> None:
    task = next(task for task in TINY.tasks() if task.method.name == "self-normalized")
    cell = fabricate(task)
    cell.key["settings"]["method"]["num_calls"] = 7
    CELLS.keep(tmp_path, task, cell)
    with pytest.raises(ValueError, match=r"settings.method.num_calls = 7 where 24 is wanted"):
        CELLS.read_all(tmp_path, TINY.tasks())


def test_cells_of_other_code_are_run_again(tmp_path: Path) -> None:
    old, new = TINY.tasks()[:2]
    CELLS.keep(tmp_path, old, fabricate(old, code="of before"))
    CELLS.keep(tmp_path, new, fabricate(new))
    kept = CELLS.read_all(tmp_path, TINY.tasks())
    assert list(kept.cells) == [new]
    assert kept.outdated == [f"{old.name}.json"]


def test_cells_of_a_worker_with_other_code_are_not_kept(tmp_path: Path) -> None:
    task = TINY.tasks()[0]
    outcome = CELLS.take(tmp_path, task, fabricate(task, code="of elsewhere"))
    assert isinstance(outcome, executors.Failure)
    assert "other code of tcsis" in outcome.sentence
    assert CELLS.take(tmp_path, task, outcome) is outcome
    assert not cell_files(tmp_path)


def test_bad_options_are_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "--quick", "--workers", "0", "--out", str(tmp_path)]) == 2
    assert "workers is 0: expected an integer of at least 1" in capfd.readouterr().err
    both = ["--workers", "2", "--scheduler", "tcp://127.0.0.1:8786"]
    assert main(["paper", "--quick", "--out", str(tmp_path), *both]) == 2
    assert "workers and scheduler exclude each other" in capfd.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["paper", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "is a file: expected a folder" in capfd.readouterr().err
    assert main(["paper", "--quick", "--out", str(tmp_path)]) == 2
    assert "is not empty and no study is in it" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"file"}
    assert main(["paper", "--quick", "--out", ""]) == 2
    assert "the folder has no name" in capfd.readouterr().err


@pytest.mark.slow
def test_ctrl_c_keeps_finished_cells_and_says_how_to_go_on(
    tmp_path: Path, interrupt: Callable[..., str]
) -> None:
    line = ["paper", "--quick", "--out", str(tmp_path), "--workers", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *line],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    err = interrupt(process, lambda: bool(cell_files(tmp_path)))
    said = re.search(r"cells are kept in .*; go on with: (.*)$", err)
    assert said is not None
    assert shlex.split(said[1]) == ["tcsis", *line]
    assert len(cell_files(tmp_path)) == 1
