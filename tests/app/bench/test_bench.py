"""``tcsis bench``: its programme, cells, tables, command and guard."""

import json
import math
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tcsis.app.bench import cells, figures, guard, learned, page, table
from tcsis.app.bench.autocorrelation import judge, off
from tcsis.app.bench.cells import CELLS
from tcsis.app.bench.others import Reads, Simulations
from tcsis.app.bench.plan import Method, Plan, Result, Task
from tcsis.app.bench.programme import FULL, QUICK
from tcsis.app.bench.targets import IsingAt, glass_truth, ising_truth
from tcsis.app.cells import Cells, code_of
from tcsis.app.cli import bench as command
from tcsis.app.cli import main
from tcsis.app.executors import Failure, Place
from tcsis.basics.files import WriteError
from tcsis.draws import Draws
from tcsis.targets import Ising, SpinGlass

WRITTEN = {"cells", "table.md", "index.md", "cost.png", "densities.png", "amortised.png"}


def named(plan: Plan, *names: str) -> Plan:
    return replace(plan, methods=tuple(m for m in plan.methods if m.name in names))


SMALL = replace(
    named(QUICK, "gibbs", "wolff", "annealing"),
    families=tuple(
        replace(family, sides=(side,)) for family, side in zip(QUICK.families, (4, 8), strict=False)
    ),
    chains=1.0, guarded=("critical-4-gibbs", "critical-4-wolff", "critical-4-annealing"),
)  # fmt: skip
SEEDED = named(SMALL, "wolff")


class Here(Place):
    """Cells one after the other in this process, which has imported everything already."""

    num_workers, described = 1, "Here"

    def end(self) -> None:
        pass

    def submit(self, function: Callable, /, *given: object) -> Future:
        future: Future = Future()
        future.set_result(function(*given))
        return future


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.executors, "choose", lambda *_: Here())


def run(monkeypatch: pytest.MonkeyPatch, plan: Plan, *options: str) -> int:
    """The command, with a plan in the place of the quick one."""
    monkeypatch.setattr(command, "QUICK", plan)
    return main(["bench", "--quick", "--workers", "1", *options])


def result(cost: float = 1e-3, **update: Any) -> Result:
    """What nothing was run for."""
    given = {
        "seconds": cost / 4, "densities": 2.0, "draw": 4.0, "relative_error": 0.05, "refused": None,
        "detail": "τ of the energy", "num_draws": 100, "energy": 1.0, "energy_error": 0.1,
        "exact_energy": 1.05,
    }  # fmt: skip
    return Result(**given | update)


def fabricate(task: Task, found: Result | None = None, code: str | None = None) -> cells.Cell:
    return cells.Cell(
        key=cells.make_key(task), code=code or code_of(task), result=found or result()
    )


# -- the programme ---------------------------------------------------------------------------------


def test_the_programme_is_the_one_that_was_agreed() -> None:
    assert {family.name: family.sides for family in FULL.families} == {
        "critical": (8, 12, 16, 24, 32), "cold": (8, 12, 16, 24), "potts": (8, 12, 16),
        "glass-2": (6, 8, 10, 12), "glass-3": (6, 8, 10, 12),
    }  # fmt: skip
    tasks = FULL.tasks()
    names = [task.name for task in tasks]
    assert len(set(names)) == len(names)
    assert set(FULL.guarded) <= set(names)
    assert set(QUICK.guarded) <= {task.name for task in QUICK.tasks()}
    assert "critical-32-wolff" in names
    assert "critical-32-autoregressive" not in names
    assert "glass-2-6-wolff" not in names
    assert "glass-2-6-dwave" in names
    assert "glass-2-6-mcising-wolff" not in names
    assert "potts-8-dwave" not in names


def test_ladders_end_at_the_target() -> None:
    for family in FULL.families:
        small, large = (family.ladder.scales(side) for side in (8, 16))
        assert small[0] == pytest.approx(family.ladder.lowest)
        assert small[-1] == large[-1] == 1.0
        assert all(a < b for a, b in pairwise(large))
        assert len(large) > 1.8 * len(small) - 2


def test_a_training_of_patience_has_more_time() -> None:
    seconds = {task.name: task.seconds for task in FULL.tasks()}
    assert seconds["potts-8-any-time"] > 2 * seconds["critical-8-any-time"]
    assert seconds["potts-8-wolff"] == seconds["critical-8-wolff"] == FULL.chains


# -- what is known exactly -------------------------------------------------------------------------


def test_the_energy_of_a_glass_by_differences_is_the_mean_over_all_states() -> None:
    target = SpinGlass(4, 2.0)
    states = (torch.arange(2**16)[:, None] >> torch.arange(16)) & 1
    log_density = target.log_density(states).double()
    truth = glass_truth(target)
    assert truth.log_z == pytest.approx(float(log_density.logsumexp(0)), rel=1e-6)
    mean = float(log_density.softmax(0) @ log_density)
    assert truth.energy == pytest.approx(-mean, rel=1e-5)
    variance = float(log_density.softmax(0) @ (log_density - mean).square())
    assert truth.energy_spread == pytest.approx(math.sqrt(variance), rel=0.01)


def test_what_is_rare_and_was_not_met_is_no_fault() -> None:
    """At β = 3 one state in 9,000 is excited: 500 exact draws know no error of their energy."""
    target = SpinGlass(4, 3.0)
    truth = glass_truth(target)
    assert truth.draws is not None and truth.energy is not None
    ground = truth.draws[target.energy(truth.draws) < -65.9].to(torch.uint8).repeat(2, 1)
    draws = Draws(ground, torch.zeros(len(ground), dtype=torch.float64))
    assert off(*learned.mean_energy(draws, target, truth), truth.energy) < 1
    energy = target.energy(ground.long()).double().numpy().reshape(8, -1)
    other = np.random.default_rng(0).normal(size=energy.shape)
    energy[0, 60] += 1e-9  # or nothing would have changed at all
    assert judge({"energy": energy, "q²": other}, 1, truth.energy).refused is not None
    assert judge({"energy": energy, "q²": other}, 1, truth.energy, truth.energy_spread).energy_error


def test_draws_that_miss_a_mode_are_not_believed() -> None:
    """All up or about that: weights even, log Z low by log 2, and no draw with the other sign."""
    target = Ising(4, 0.8)
    truth = ising_truth(target)
    assert truth.log_z is not None
    x = torch.ones(4_000, 16, dtype=torch.uint8)
    x[torch.arange(400), torch.arange(400) % 16] = 0
    exact = Draws(x, torch.full((4_000,), truth.log_z, dtype=torch.float64))
    half = replace(exact, log_weight=exact.log_weight - 0.69)
    generator = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(4_000, dtype=torch.float64, generator=generator)
    why = learned.doubt(replace(half, log_weight=half.log_weight + noise), target, None, truth)  # type: ignore[arg-type]
    assert why is not None
    assert why.startswith("log Z is")


# -- the tables ------------------------------------------------------------------------------------


def rows_of(**costs: Result) -> list[table.Row]:
    tasks = {task.method.name: task for task in QUICK.tasks() if task.name.startswith("critical-4")}
    return [table.Row(tasks[name], found) for name, found in costs.items()]


@pytest.mark.parametrize(
    ("gibbs", "wolff", "says"),
    [
        (result(1e-3), result(1e-6), "never: dearer than Wolff at every n"),
        (result(1e-3), result(2e-4), "100,000 draws"),
        (result(1e-3, refused="stuck"), result(2e-4), "100,000 draws"),
        (result(2e-4, refused="stuck"), result(1.1e-3), "10,000 to 100,000 draws"),
        (result(2e-4, refused="stuck"), result(1.1e-3, refused="stuck"), "at most 100,000 draws"),
        (
            result(5e-5, refused="short"), result(2e-4),
            "100,000 draws, but the cost of heat-bath sweeps is not known",
        ),
        (
            result(5e-5, refused="short"), result(2e-4, refused="short"),
            "the cost of heat-bath sweeps is not known",
        ),
    ],
)  # fmt: skip
def test_when_training_pays(gibbs: Result, wolff: Result, says: str) -> None:
    trained = result(1e-4, training_seconds=10.0)
    rows = rows_of(gibbs=gibbs, wolff=wolff, autoregressive=trained)
    assert table.choose(rows[0].task.family, 4, rows).says == says


@pytest.mark.parametrize(
    ("gibbs", "sentence"),
    [
        (result(1e-7), "training never pays: dearer than heat-bath sweeps at every n"),
        (result(1e-4 + 1e-6), "training pays from 10,000,000 draws"),
        (result(1e-6, refused="short"), "the cost of heat-bath sweeps is not known"),
    ],
)
def test_what_a_panel_says(gibbs: Result, sentence: str) -> None:
    rows = rows_of(gibbs=gibbs, autoregressive=result(1e-4, training_seconds=10.0))
    assert table.choose(rows[0].task.family, 4, rows).sentence == sentence


def test_a_trained_sampler_that_is_not_believed_never_pays() -> None:
    rows = rows_of(gibbs=result(), autoregressive=result(1e-9, refused="log Z is 9 off"))
    assert table.choose(rows[0].task.family, 4, rows).says == "no trained sampler is believed"


def test_a_bound_is_shown_as_one() -> None:
    row = rows_of(gibbs=result(2e-3, refused="stuck: the sign of m never changed"))[0]
    shown = dict(zip(table.HEADS, table.entries(row), strict=True))
    assert shown["cost of an independent draw"] == "> 2 ms"
    assert shown["density calls"] == "> 8"
    assert shown["off by"] == "0.5"
    assert shown["why not"].startswith("stuck")


def test_amortised() -> None:
    assert table.amortised(result(1e-4, training_seconds=10.0), 1e5) == pytest.approx(2e-4)
    assert table.seconds(1.234e-6) == "1.23 µs"
    assert table.seconds(75.0) == "75 s"


def test_errors_and_trainings_are_spelled_out() -> None:
    trained = result(training_seconds=20.0, training_densities=3.7e6, relative_error=1e-3)
    shown = dict(zip(table.HEADS, table.entries(*rows_of(autoregressive=trained)), strict=True))
    assert shown["training"] == "20 s, 3.7e+06 calls"
    assert shown["±"] == "< 1%"


def test_the_page_says_what_trainings_had() -> None:
    assert page.trainings(QUICK) == "Trainings had 40 steps."
    said = page.trainings(FULL)
    assert said.startswith("Trainings had 15 s at side 6, 20 s at side 8,")
    assert said.endswith("; Potts V = 10, transition: 4 times that.")


def test_what_a_panel_says_stays_within_it() -> None:
    trained = result(1e-4, training_seconds=10.0)
    found = rows_of(gibbs=result(5e-5, refused="short"), wolff=result(2e-4), autoregressive=trained)
    figure = figures.by_amount(QUICK, found)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    (said,) = axes.texts
    assert "but the cost of heat-bath sweeps" in said.get_text().replace("\n", " ")
    left, right = figure.axes[0].get_tightbbox().x0, figure.axes[1].get_tightbbox().x0
    assert left <= said.get_window_extent().x0 < said.get_window_extent().x1 < right
    assert axes.title.get_window_extent().y0 > said.get_window_extent().y1


# -- cells -----------------------------------------------------------------------------------------


def test_cells_are_kept_and_read_again(tmp_path: Path) -> None:
    first, second, third, _ = SMALL.tasks()[:4]
    CELLS.keep(tmp_path, first, fabricate(first))
    CELLS.keep(tmp_path, second, fabricate(second, code="of before"))
    path = CELLS.keep(tmp_path, third, fabricate(third))
    path.write_bytes(path.read_bytes()[:80])
    kept = CELLS.read_all(tmp_path, SMALL.tasks())
    assert list(kept.cells) == [first]
    assert kept.cells[first].result == result()
    assert kept.outdated == [f"{second.name}.json"]
    assert kept.damaged == [f"{third.name}.json"]


def test_cells_of_a_worker_with_other_code_are_not_kept(tmp_path: Path) -> None:
    task = SMALL.tasks()[0]
    outcome = CELLS.take(tmp_path, task, fabricate(task, code="of elsewhere"))
    assert isinstance(outcome, Failure)
    assert "other code of tcsis" in outcome.sentence
    assert not (tmp_path / "cells").exists()


def test_cells_of_another_programme_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    task = SEEDED.tasks()[0]
    CELLS.keep(tmp_path, task, fabricate(task))
    assert run(monkeypatch, replace(SEEDED, chains=7.0), "--out", str(tmp_path)) == 2
    assert "with seconds = 1.0 where 7.0 is wanted" in capfd.readouterr().err
    assert main(["bench", "--out", str(tmp_path)]) == 2
    assert "that this benchmark does not have" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"cells"}


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_from_the_first_cell_to_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path))
    assert run(monkeypatch, SMALL, *out, "--json") == 0
    printed = capfd.readouterr()
    found = json.loads(printed.out)["results"]
    assert len(found) == len(SMALL.tasks()) == 6
    assert {path.name for path in tmp_path.iterdir()} == WRITTEN
    assert (
        f"tcsis bench --quick --out {tmp_path} --workers 1" in (tmp_path / "index.md").read_text()
    )
    # what any reader should find there: single-site chains do not turn a cold lattice, clusters do
    assert found["cold-8-gibbs"]["refused"] is not None
    assert found["cold-8-wolff"]["refused"] is None
    assert "| > " in (tmp_path / "table.md").read_text()
    for name, kept in found.items():
        if not kept["refused"]:
            assert abs(kept["energy"] - kept["exact_energy"]) < 5 * kept["energy_error"], name
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert run(monkeypatch, SMALL, *out) == 0  # nothing is left to do
    assert "all 6 cells are there" in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == stamps
    monkeypatch.setattr(guard, "FACTOR", 10.0)  # on a machine that does other things too
    assert run(monkeypatch, SMALL, "--check", str(tmp_path)) == 0
    assert "all 2 ratios are those of" in capfd.readouterr().out
    slow = next(task for task in SMALL.tasks() if task.name == "critical-4-wolff")
    CELLS.keep(tmp_path, slow, fabricate(slow, result(found[slow.name]["seconds"] * 1e4)))
    assert run(monkeypatch, SMALL, "--check", str(tmp_path), "--json") == 5
    printed = capfd.readouterr()
    assert "Ising, critical, side 4, Wolff costs" in printed.err
    assert "expected a factor of at most 10 between them" in printed.err
    assert json.loads(printed.out)["exit_code"] == 5


@pytest.mark.slow
def test_a_trained_sampler_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = named(QUICK, "autoregressive", "wolff")
    critical = replace(plan.families[0], sides=(4,))
    plan = replace(plan, families=(critical,), chains=0.5)
    assert run(monkeypatch, plan, "--out", str(tmp_path), "--json") == 0
    found = json.loads(capfd.readouterr().out)["results"]
    trained = found["critical-4-autoregressive"]
    assert trained["training_seconds"] > 0.1
    assert 0 < trained["ess"] <= 1
    assert trained["draw"] == pytest.approx(1 / trained["ess"])
    assert "training pays from" in (tmp_path / "index.md").read_text().lower()


class Broken:
    """A way that raises what it is told to."""

    modules = ("tcsis.app.bench.ways",)

    def __init__(self, error: Exception):
        self.error = error

    def run(self, task: Task, target: object) -> Result:
        raise self.error

    def describe(self, task: Task) -> dict[str, Any]:
        return {}


def broken(error: Exception) -> Plan:
    way = Broken(error)
    methods = (Method("broken", "broken", way), *SEEDED.methods)  # type: ignore[arg-type]
    return replace(SEEDED, methods=methods, families=SMALL.families[:1], chains=0.2)


@pytest.mark.usefixtures("here")
def test_a_failing_cell_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = broken(RuntimeError("no such luck"))
    assert run(monkeypatch, plan, "--out", str(tmp_path), "--json") == 1
    printed = capfd.readouterr()
    assert "error: Ising, critical, side 4, broken: RuntimeError: no such luck" in printed.err
    assert "the same command tries them again" in printed.err
    assert list(json.loads(printed.out)["results"]) == ["critical-4-wolff"]
    assert "no such luck" in (tmp_path / "index.md").read_text()


@pytest.mark.parametrize(("kind", "code"), [("DivergedError", 3), ("WriteError", 6), ("Other", 1)])
def test_the_kind_of_a_failure_is_the_exit_code(
    kind: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(
        self: object, folder: Path, tasks: list[Task], place: Place
    ) -> Generator[tuple[Task, Failure], None, None]:
        yield from ((task, Failure(kind, "it is so")) for task in tasks)

    monkeypatch.setattr(Cells, "run_all", fail)
    assert run(monkeypatch, SEEDED, "--out", str(tmp_path)) == code


def test_an_interrupt_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stop(
        self: object, folder: Path, tasks: list[Task], place: Place
    ) -> Iterator[tuple[Task, cells.Cell]]:
        yield tasks[0], fabricate(tasks[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(Cells, "run_all", stop)
    assert run(monkeypatch, SEEDED, "--out", str(tmp_path)) == 130
    said = f"1 of 2 cells are kept in {tmp_path}; go on with: tcsis bench --quick --out {tmp_path}"
    assert said in capfd.readouterr().err


def test_a_full_disk_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise WriteError("table.md cannot be written")

    monkeypatch.setattr(command.page, "write", refuse)
    monkeypatch.setattr(command, "run_missing", lambda *_: {})
    assert run(monkeypatch, SEEDED, "--out", str(tmp_path)) == 6
    assert "cannot be written; then go on with: tcsis bench --quick" in capfd.readouterr().err


def test_bad_options_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--quick", "--workers", "0", "--out", str(tmp_path)]) == 2
    assert "workers is 0: expected an integer of at least 1" in capfd.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["bench", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "is a file: expected a folder" in capfd.readouterr().err
    assert main(["bench", "--quick", "--out", str(tmp_path)]) == 2
    assert "is not empty and no benchmark is in it" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"file"}
    assert main(["bench", "--check", "a", "--out", "b"]) == 2
    assert "out is given with check" in capfd.readouterr().err
    for option in ("--out", "--check"):
        assert main(["bench", "--quick", option, ""]) == 2
        assert "the folder has no name" in capfd.readouterr().err
    assert main(["bench", "--quick", "--check", str(tmp_path / "none")]) == 2
    assert "expected the folder of a run that is finished" in capfd.readouterr().err


# -- the guard -------------------------------------------------------------------------------------


def test_ratios_are_to_the_first_method_of_a_target() -> None:
    tasks = guard.guarded_tasks(SMALL)
    assert [task.name for task in tasks] == list(SMALL.guarded)
    then = {task: result(cost) for task, cost in zip(tasks, (1e-6, 2e-6, 8e-6), strict=True)}
    half = {task: result(found.cost / 2) for task, found in then.items()}
    ratios, wrong = guard.compare(then, half)  # a faster machine
    assert [ratio.then for ratio in ratios] == pytest.approx([2.0, 8.0])
    assert not wrong
    _, wrong = guard.compare(then, half | {tasks[1]: result(3e-6)})
    assert len(wrong) == 1
    assert "Wolff costs 6 times heat-bath sweeps, and 2 times in the folder" in wrong[0]


def test_a_method_that_is_refused_now_is_wrong() -> None:
    tasks = guard.guarded_tasks(SMALL)
    then = {task: result() for task in tasks}
    _, wrong = guard.compare(then, then | {tasks[2]: result(refused="the energy is off")})
    assert wrong == [f"{tasks[2].label} was good before and is refused now: the energy is off"]
    refused = {task: result(refused="short") for task in tasks}
    ratios, wrong = guard.compare(refused, then)
    assert not ratios
    assert wrong == ["no two methods of one target have an estimate: there is nothing to compare"]


def test_training_pays_against_the_chains_of_others_too() -> None:
    plan = named(FULL, "wolff", "any-time", "mcising-wolff")
    cost = {"wolff": 1e-3, "any-time": 1e-4, "mcising-wolff": 2e-4}
    rows = [
        table.Row(task, result(cost[task.method.name], training_seconds=10.0))
        for task in plan.tasks()
        if (task.family.name, task.side) == ("critical", 16)
    ]
    (choice,) = table.choices(plan, rows)
    assert choice.other is not None
    assert choice.other.task.method.needs == "mcising"
    assert choice.says == "100,000 draws"


def test_the_committed_results_are_of_this_programme() -> None:
    folder = Path(__file__).parents[3] / "docs" / "results" / "bench"
    assert not CELLS.read_all(folder, FULL.tasks()).damaged
    tasks = [task for task in FULL.tasks() if task.name in FULL.guarded]
    found = guard.kept_results(folder, tasks)
    assert len(found) == len(FULL.guarded)
    ratios, wrong = guard.compare(found, found)
    assert ratios
    assert not wrong


def test_a_library_that_the_folder_had_not_is_left_out(tmp_path: Path) -> None:
    tasks = [task for task in FULL.tasks() if task.name in FULL.guarded]
    peers = [task for task in tasks if task.method.needs]
    for task in tasks:
        if task not in peers:
            CELLS.keep(tmp_path, task, fabricate(task))
    assert peers
    assert set(guard.kept_results(tmp_path, tasks)) == set(tasks) - set(peers)
    path = CELLS.locate(tmp_path, next(task for task in tasks if task not in peers))
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(ValueError, match="is damaged: restore it, or run the command again"):
        guard.kept_results(tmp_path, tasks)


# -- other libraries -------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("library", ["mcising", "dwave.samplers"])
def test_chains_of_others_sample_the_same_target(library: str) -> None:
    """The mean energy of 64 chains over 300 recorded states, within five standard errors from the
    chains: a false alarm in a million."""
    pytest.importorskip(library)
    target = IsingAt(0.3)(4)
    truth = ising_truth(target)
    x = torch.randint(2, (64, 16), generator=torch.Generator().manual_seed(0))
    others = Simulations(target, "wolff", x, 0) if library == "mcising" else Reads(target, x, 0)
    assert (others.x == x).all()
    others.advance(50)
    energies = []
    for _ in range(300):
        others.advance(3)
        energies.append(target.energy(others.x.long()))
    means = torch.stack(energies).double().mean(0)
    assert truth.energy is not None
    assert abs(float(means.mean()) - truth.energy) < 5 * float(means.std()) / 8
