"""The study of the paper: its plan, its cells, and how it goes on after whatever happened to it."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest

from tcsis.app.cli import main
from tcsis.app.cli import paper as command
from tcsis.app.study import cells, plots, table, workers
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import FULL, METHODS, QUICK, Method, Plan, Setting, Task, expected_seconds
from tcsis.learn import unbiased

STEPS = {"autoregressive": 10, "self-normalized": 3, "paper": 2, "unbiased": 3, "leaps": 3}
TINY = replace(
    QUICK,
    settings=QUICK.settings[:1],
    methods=tuple(replace(m, quick_steps=STEPS.get(m.name)) for m in METHODS),
    num_draws=200,
    num_chain_steps=100,
)
CHEAP = replace(
    TINY,
    settings=(Setting(3, 0.3, 6, (0, 1)),),
    methods=tuple(m for m in TINY.methods if m.name in ("autoregressive", "gwg", "exact")),
)
WRITTEN = {
    "cells", "table.md", "table.csv", "index.md", "correlation.png", "correlation_error.png",
    "magnetisation.png", "error.png",
}  # fmt: skip
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from tcsis.app.cli import main, paper
from tcsis.app.study.plan import QUICK, Method
methods = Method("paper", "short", quick_steps=2), Method("autoregressive", "endless", 10**9)
paper.QUICK = replace(QUICK, settings=QUICK.settings[:1], methods=methods, num_draws=200)
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


class Here(Executor):
    """Cells one after the other in this process, which has imported everything already."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable, /, *given: object) -> Future:
        future: Future = Future()
        future.set_result(function(*given))
        return future


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Lanes", Here)


def rows(folder: Path) -> list[dict[str, str]]:
    """The table without its timings."""
    with (folder / "table.csv").open() as file:
        found = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if not k.endswith("_seconds")} for row in found]


def cell_files(folder: Path) -> list[Path]:
    return sorted((folder / "cells").glob("*.json"))


def fabricate(task: Task, **update: object) -> Cell:
    """A cell that nothing was run for."""
    numbers = {
        "error": 0.02, "floor": 0.01, "weighted_error": 0.01, "ess": 0.5, "log_z": 1.0,
        "log_z_error": -0.1, "log_z_deviation": 0.1, "positive": 0.5, "training_seconds": 1.0,
        "sampling_seconds": 2.0, "num_density_calls": 3.0, "network_calls": 4.0,
        "correlation": [1.0, 0.5], "weighted_correlation": [1.0, 0.4], "magnetisation": [1, 3],
        "weighted_magnetisation": [0.5, 0.5],
    }  # fmt: skip
    return Cell(key=cells.make_key(task), **{"code": cells.code()} | numbers | update)


# -- the plan --------------------------------------------------------------------------------------


def test_the_plan_is_the_one_that_was_agreed() -> None:
    assert [(s.side, s.beta, s.num_calls, s.seeds) for s in FULL.settings] == [
        (4, 0.28, 24, (0, 1, 2)), (4, 0.4407, 24, (0, 1, 2)), (4, 0.6, 24, (0, 1, 2)),
        (10, 0.28, 64, (0, 1)), (10, 0.4407, 64, (0, 1)), (10, 0.6, 64, (0, 1)),
    ]  # fmt: skip
    assert (FULL.num_draws, FULL.num_chain_steps) == (10_000, 10_000)
    assert FULL.training_seconds == {4: 45, 10: 120}
    assert [source.title for source in table.sources()] == [
        "TCSIS, self-normalized", "TCSIS, self-normalized, paper's estimator", "TCSIS, unbiased",
        "autoregressive", "LEAPS", "LEAPS, corrected", "GWG", "Glauber", "exact",
    ]  # fmt: skip
    assert {source.title for source in table.sources()} == plots.LOOKS.keys()
    assert [(s.side, s.beta, s.seeds) for s in QUICK.settings] == [
        (4, 0.28, (0,)),
        (4, 0.4407, (0,)),
    ]
    assert QUICK.num_draws == 1_000


def test_tasks_have_one_budget_each_and_the_longest_come_first() -> None:
    for plan in (FULL, QUICK):
        tasks = plan.tasks()
        assert len({task.name for task in tasks}) == len(tasks)
        seconds = [expected_seconds(task) for task in tasks]
        assert seconds == sorted(seconds, reverse=True)
        for task in tasks:
            budgets = [task.training_seconds is not None, task.training_steps is not None]
            assert sum(budgets) == task.method.trained
    assert len(FULL.tasks()) == 8 * (3 * 3 + 3 * 2)
    assert all(task.training_seconds is None for task in QUICK.tasks())  # or it would not repeat


def test_settings_of_the_methods() -> None:
    target = FULL.settings[-1].make_target()
    found = {
        task.method.name: cells.make_key(task)["settings"]
        for task in FULL.tasks()
        if task.setting == FULL.settings[-1]
    }
    for name in ("autoregressive", "self-normalized", "unbiased"):
        assert found[name]["method"]["kind"] == name
    paper = found["paper"]["method"]
    assert paper["kind"] == "self-normalized"
    assert paper["estimator"] == {"kind": "shared", "num_samples": 2_000}
    assert paper["objective"] == "score-entropy"
    assert paper["step"] == "euler"
    assert paper["network"]["kind"] == "lattice"
    assert found["paper"]["buffer"]["kind"] == "model_and_noise"
    for name in ("paper", "self-normalized", "unbiased"):  # calls as in the paper
        assert found[name]["method"]["num_calls"] == 64
    assert found["gwg"] == {"kernel": "gwg", "num_steps": 64}
    assert found["glauber"] == {"kernel": "glauber", "num_steps": 10_000}
    assert target.num_sites == 100


# -- the table -------------------------------------------------------------------------------------


def test_rows_over_seeds() -> None:
    setting = Setting(4, 0.28, 24, (0, 1))
    plan = replace(TINY, settings=(setting,))
    leaps = next(method for method in plan.methods if method.name == "leaps")
    made = {}
    for seed, error, miss in ((0, 0.01, 0.1), (1, 0.03, -0.2)):
        task = plan.task(setting, leaps, seed)
        made[task] = fabricate(task, error=error, weighted_error=error / 2, log_z_error=miss)
    plain, corrected = table.make_rows(plan, made)
    assert (plain.method, corrected.method) == ("LEAPS", "LEAPS, corrected")
    assert plain.error == pytest.approx(0.02)
    assert plain.spread == pytest.approx(0.02 / 2**0.5)
    assert plain.ratio == pytest.approx(2)
    assert plain.log_z_error == -0.2
    assert corrected.error == plain.weighted_error == pytest.approx(0.01)
    assert corrected.ratio == pytest.approx(1)
    text = table.as_markdown([plain, corrected])
    assert "| 4×4, β = 0.28 | LEAPS | 2 | 0.0200 ± 0.0141 | 2 | 0.0100 |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_numbers_that_are_missing_are_dashes() -> None:
    task = TINY.tasks()[0]
    cell = fabricate(task, weighted_error=None, ess=None, log_z_error=None)
    row = table.make_rows(TINY, {task: cell})[0]
    assert row.spread is None
    assert table.entries(row).count("–") == 3


# -- running, stopping, going on -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_every_method_goes_through_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unbiased, "NUM_FITTED", 256)
    assert run(monkeypatch, TINY, tmp_path, "--json", num_workers=2) == 0
    printed = capfd.readouterr()
    assert len(json.loads(printed.out)["rows"]) == len(table.sources())
    assert f"{len(TINY.tasks())} of {len(TINY.tasks())} cells to run" in printed.err
    assert {path.name for path in tmp_path.iterdir()} == WRITTEN
    assert len(cell_files(tmp_path)) == len(TINY.tasks()) == 8
    assert len(rows(tmp_path)) == 9
    page = (tmp_path / "index.md").read_text()
    assert f"tcsis paper --quick --out {tmp_path} --workers 2" in page
    for task in TINY.tasks():
        cell = cells.read(cells.locate(tmp_path, task))
        assert cell is not None
        assert sum(cell.magnetisation) == TINY.num_draws
        assert (cell.ess is not None) == task.method.trained
        assert (cell.training_seconds > 0) == task.method.trained
        if cell.weighted_magnetisation is not None:
            assert sum(cell.weighted_magnetisation) == pytest.approx(1)
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
    results = workers.run_all(CHEAP.tasks(), stopped, 1)
    first, _ = next(results)
    results.close()  # while a training is under way
    path = cells.locate(stopped, first)
    kept = path.read_bytes()
    assert 1 <= len(cell_files(stopped)) < len(CHEAP.tasks())
    monkeypatch.setattr(workers, "Lanes", Here)
    assert run(monkeypatch, CHEAP, stopped, "--quiet") == 0
    assert path.read_bytes() == kept
    assert run(monkeypatch, CHEAP, whole, "--quiet") == 0
    assert rows(stopped) == rows(whole)


@pytest.mark.usefixtures("here")
def test_a_damaged_cell_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = replace(CHEAP, methods=tuple(m for m in CHEAP.methods if not m.trained))
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
    methods = (Method("glauber", "Glauber"), CHEAP.methods[-1])
    failing = replace(CHEAP, methods=methods, num_chain_steps=0)
    assert run(monkeypatch, failing, tmp_path, "--json") == 1
    printed = capfd.readouterr()
    assert len(json.loads(printed.out)["failures"]) == 2
    assert "Traceback" not in printed.err
    assert "error: Glauber, 3×3, β = 0.3, seed 0: num_steps is 0" in printed.err
    assert [row["method"] for row in rows(tmp_path)] == ["exact"]
    assert "num_steps is 0" in (tmp_path / "index.md").read_text()
    assert len(cell_files(tmp_path)) == 2


def test_cells_of_another_study_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    task = QUICK.tasks()[0]
    cells.keep(tmp_path, task, fabricate(task))
    assert main(["paper", "--out", str(tmp_path)]) == 2
    assert "of another study, with num_draws = 1000 where 10000 is wanted" in capfd.readouterr().err
    assert run(monkeypatch, CHEAP, tmp_path) == 2
    assert "that this study does not have" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"cells"}


def test_the_key_sees_a_change_of_settings(tmp_path: Path) -> None:
    task = next(task for task in TINY.tasks() if task.method.name == "self-normalized")
    cell = fabricate(task)
    cell.key["settings"]["method"]["num_calls"] = 7
    cells.keep(tmp_path, task, cell)
    with pytest.raises(ValueError, match=r"settings.method.num_calls = 7 where 24 is wanted"):
        cells.read_all(tmp_path, TINY.tasks())


def test_cells_of_other_code_are_run_again(tmp_path: Path) -> None:
    old, new = TINY.tasks()[:2]
    cells.keep(tmp_path, old, fabricate(old, code="of before"))
    cells.keep(tmp_path, new, fabricate(new))
    kept = cells.read_all(tmp_path, TINY.tasks())
    assert list(kept.cells) == [new]
    assert kept.outdated == [f"{old.name}.json"]


def test_bad_options_are_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "--quick", "--workers", "0", "--out", str(tmp_path)]) == 2
    assert "workers is 0: expected an integer of at least 1" in capfd.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["paper", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "is a file: expected a folder" in capfd.readouterr().err


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


def test_a_worker_that_dies_is_a_failure_of_its_cells() -> None:
    future: Future[Cell | workers.Failure] = Future()
    future.set_exception(BrokenProcessPool("gone"))
    failure = workers.outcome_of(future, TINY.tasks()[0])
    assert isinstance(failure, workers.Failure)
    assert "ended from outside" in failure.sentence


@pytest.mark.slow
def test_a_killed_worker_costs_its_own_work_only() -> None:
    with workers.one_thread(), workers.Lanes(2) as lanes:
        slow = lanes.submit(wait_and_tell, 3.0)
        killed = lanes.submit(kill_myself)
        after = [lanes.submit(wait_and_tell, 0.1) for _ in range(3)]
        assert isinstance(killed.exception(), BrokenProcessPool)
        assert slow.result() == 3.0
        assert [future.result() for future in after] == [0.1] * 3


def wait_and_tell(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with workers.one_thread():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "NUMBA_NUM_THREADS" not in os.environ
