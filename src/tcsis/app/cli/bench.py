"""When to learn: run the cells that are missing, then write tables and figures; or run a few cells
again and compare their ratios with those of a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tcsis.app import executors
from tcsis.app.bench import cells, guard, page, table
from tcsis.app.bench.cells import Cell
from tcsis.app.bench.plan import Plan, Result, Task, expected_seconds, expected_total
from tcsis.app.bench.programme import FULL, QUICK
from tcsis.app.bench.running import run_all
from tcsis.app.cli.failures import DIVERGED, FAULT, FINE, GATE, UNWRITTEN, RunInterruptedError
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer
from tcsis.app.executors import Failure, Place
from tcsis.basics.files import WriteError
from tcsis.basics.locks import sole_writer
from tcsis.basics.progress import progress_bar

FOLDERS = {FULL.name: Path("runs") / "bench", QUICK.name: Path("runs") / "bench-quick"}
Found = tuple[dict[Task, Cell], dict[Task, Failure]]


def bench(
    quick: bool,
    out: str | None,
    num_workers: int | None,
    scheduler: str | None,
    check: str | None,
    printing: PrintOptions,
) -> int:
    """Run the benchmark, or its guard, and return the exit code."""
    plan, printer = QUICK if quick else FULL, Printer(printing)
    command = command_line(quick, out, num_workers, scheduler, check)
    if check is not None and out is not None:
        raise ValueError("out is given with check: expected one of them, a check keeps nothing")
    if "" in (out, check):  # of a variable that was not set, and not the folder one is in
        raise ValueError("the folder has no name: expected one")
    folder = FOLDERS[plan.name] if out is None else Path(out)
    with executors.choose(num_workers, scheduler) as place:
        if check is not None:
            return perform_check(plan, Path(check), place, printer, command)
        return perform(plan, folder, place, printer, command)


def command_line(
    quick: bool, out: str | None, num_workers: int | None, scheduler: str | None, check: str | None
) -> str:
    parts = ["tcsis", "bench", *(["--quick"] if quick else [])]
    parts += [*(["--out", out] if out else []), *(["--check", check] if check else [])]
    parts += [] if num_workers is None else ["--workers", str(num_workers)]
    parts += [] if scheduler is None else ["--scheduler", scheduler]
    return shlex.join(parts)


# -- the benchmark -------------------------------------------------------------------------------


def perform(plan: Plan, folder: Path, place: Place, printer: Printer, command: str) -> int:
    cells.refuse_strangers(folder, plan.tasks())  # before anything is written
    with sole_writer(folder):
        try:
            found, failures = run_missing(plan, folder, place, printer, command)
            rows = page.write(plan, folder, found, failures, command, place.described)
        except WriteError as error:
            raise WriteError(f"{error}; then go on with: {command}") from error
    printer.show(*table.as_tables(rows), f"tables and figures: {folder}")
    results = {row.task.name: row.result.model_dump() for row in rows}
    return report(printer, {"folder": str(folder), "results": results}, failures, command)


def run_missing(plan: Plan, folder: Path, place: Place, printer: Printer, command: str) -> Found:
    """The cells that are there, and those that are not, run."""
    tasks = plan.tasks()
    kept = cells.read_all(folder, tasks)
    for name in kept.damaged:
        printer.note(f"note: {name} is damaged and is run again")
    if kept.outdated:
        printer.note(f"note: {len(kept.outdated)} cells were made by other code and are run again")
    lacking = [task for task in tasks if task not in kept.cells]
    missing = [task for task in lacking if task.method.installed]
    for needed in sorted({str(task.method.needs) for task in lacking if task not in missing}):
        printer.note(f"note: {needed} is not installed, and its cells are left out")
    printer.note(announce(len(kept.cells), missing, place.num_workers))
    found, failures = dict(kept.cells), dict[Task, Failure]()

    def take(task: Task, result: Cell | Failure) -> None:
        if isinstance(result, Failure):
            failures[task] = result
        else:
            found[task] = result

    try:
        run_showing(missing, folder, place, printer, take)
    except KeyboardInterrupt:
        said = f"{len(found)} of {len(tasks)} cells are kept in {folder}"
        raise RunInterruptedError(f"interrupted: {said}; go on with: {command}") from None
    return found, failures


def run_showing(
    tasks: list[Task],
    folder: Path | None,
    place: Place,
    printer: Printer,
    take: Callable[[Task, Cell | Failure], None],
) -> None:
    """Run cells, each a line when it is finished."""
    whole, done = sum(map(expected_seconds, tasks)) or 1.0, 0.0
    results = run_all(tasks, folder, place)
    # closed whatever happens here
    with progress_bar("cells", whole, printer.lively) as show, closing(results):
        for task, result in results:
            take(task, result)
            printer.note(line(task, result))
            done += expected_seconds(task)
            show(done)


def announce(num_found: int, missing: list[Task], num_workers: int) -> str:
    if not missing:
        return f"all {num_found} cells are there"
    minutes = max(1.0, expected_total(missing, num_workers) / 60)
    total = num_found + len(missing)
    return (
        f"{len(missing)} of {total} cells to run, {num_workers} at a time: about {minutes:.0f} min"
    )


def line(task: Task, result: Cell | Failure) -> str:
    if isinstance(result, Failure):
        return f"{task.label}: failed, {result.sentence}"
    found = result.result
    if found.refused:
        return f"{task.label}: more than {table.seconds(found.cost)}; {found.refused}"
    return f"{task.label}: {table.seconds(found.cost)}"


def report(
    printer: Printer, data: dict[str, Any], failures: dict[Task, Failure], command: str
) -> int:
    """What failed, the JSON object and the exit code."""
    known = {"DivergedError": DIVERGED, "WriteError": UNWRITTEN}
    codes = {known.get(failure.kind, FAULT) for failure in failures.values()}
    code = (codes.pop() if len(codes) == 1 else FAULT) if codes else FINE
    said = [f"{task.label}: {failure.sentence}" for task, failure in failures.items()]
    printer.data(data | {"failures": said, "exit_code": code})
    for sentence in said:
        print(f"error: {sentence}", file=sys.stderr)
    if failures:
        printer.note(f"{len(failures)} cells failed; the same command tries them again: {command}")
    return code


# -- the guard -----------------------------------------------------------------------------------


def perform_check(plan: Plan, folder: Path, place: Place, printer: Printer, command: str) -> int:
    """Run the guarded cells again; 0 where their ratios are those of the folder, else 5."""
    tasks = guard.guarded_tasks(plan)
    then = guard.kept_results(folder, tasks)
    tasks = list(then)
    printer.note(announce(0, tasks, place.num_workers))
    now, failures = dict[Task, Result](), dict[Task, Failure]()

    def take(task: Task, result: Cell | Failure) -> None:
        if isinstance(result, Failure):
            failures[task] = result
        else:
            now[task] = result.result

    try:
        run_showing(tasks, None, place, printer, take)
    except KeyboardInterrupt:
        raise RunInterruptedError(f"interrupted: go on with: {command}") from None
    if failures:
        return report(printer, {"ratios": []}, failures, command)
    ratios, wrong = guard.compare(then, now)
    code = GATE if wrong else FINE
    printer.data({"ratios": [str(ratio) for ratio in ratios], "wrong": wrong, "exit_code": code})
    printer.show(*map(str, ratios))
    for sentence in wrong:
        print(f"error: {sentence}", file=sys.stderr)
    if not wrong:
        printer.show(f"all {len(ratios)} ratios are those of {folder}, up to {guard.FACTOR:g}")
    return code
