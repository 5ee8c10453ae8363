"""The study of the paper: run what is missing, then write table and figures."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from tcsis.app import executors
from tcsis.app.cli.failures import DIVERGED, FAULT, FINE, UNWRITTEN, RunInterruptedError
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer
from tcsis.app.executors import Failure, Place
from tcsis.app.study import cells, output, table, workers
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import Plan, Task, expected_seconds, expected_total
from tcsis.app.study.programme import FULL, QUICK
from tcsis.basics.files import WriteError
from tcsis.basics.locks import sole_writer
from tcsis.basics.progress import progress_bar

FOLDERS = {FULL.name: Path("runs") / "paper", QUICK.name: Path("runs") / "paper-quick"}


def paper(
    quick: bool,
    out: str | None,
    num_workers: int | None,
    scheduler: str | None,
    printing: PrintOptions,
) -> int:
    """Run the study and return the exit code."""
    plan = QUICK if quick else FULL
    folder = FOLDERS[plan.name] if out is None else Path(out)
    command = command_line(quick, out, num_workers, scheduler)
    with executors.choose(num_workers, scheduler) as place:
        return perform(plan, folder, place, Printer(printing), command)


def command_line(
    quick: bool, out: str | None, num_workers: int | None, scheduler: str | None
) -> str:
    parts = ["tcsis", "paper", *(["--quick"] if quick else []), *(["--out", out] if out else [])]
    parts += [] if num_workers is None else ["--workers", str(num_workers)]
    parts += [] if scheduler is None else ["--scheduler", scheduler]
    return shlex.join(parts)


def perform(plan: Plan, folder: Path, place: Place, printer: Printer, command: str) -> int:
    cells.refuse_strangers(folder, plan.tasks())  # before anything is written
    with sole_writer(folder):
        try:
            rows, failures = run_missing(plan, folder, place, printer, command)
        except WriteError as error:
            raise WriteError(f"{error}; then go on with: {command}") from error
    printer.show(*table.as_tables(rows), f"table and figures: {folder}")
    return report(printer, folder, rows, failures, command)


def run_missing(
    plan: Plan, folder: Path, place: Place, printer: Printer, command: str
) -> tuple[list[table.Row], dict[Task, Failure]]:
    """Run the cells that are not there, and write everything that is made of them."""
    tasks = plan.tasks()
    kept = cells.read_all(folder, tasks)
    for name in kept.damaged:
        printer.note(f"note: {name} is damaged and is run again")
    if kept.outdated:
        printer.note(f"note: {len(kept.outdated)} cells were made by other code and are run again")
    found, failures = dict(kept.cells), dict[Task, Failure]()
    missing = [task for task in tasks if task not in found]
    printer.note(announce(found, missing, place.num_workers))
    whole, done = sum(map(expected_seconds, missing)) or 1.0, 0.0
    try:
        results = workers.run_all(missing, folder, place)
        # closed whatever happens here
        with progress_bar("cells", whole, printer.lively) as show, closing(results):
            for task, result in results:
                if isinstance(result, Failure):
                    failures[task] = result
                else:
                    found[task] = result
                printer.note(line(task, result))
                done += expected_seconds(task)
                show(done)
        return output.write(plan, folder, found, failures, command, place.described), failures
    except KeyboardInterrupt:
        said = f"{len(found)} of {len(tasks)} cells are kept in {folder}"
        raise RunInterruptedError(f"interrupted: {said}; go on with: {command}") from None


def report(
    printer: Printer,
    folder: Path,
    rows: list[table.Row],
    failures: dict[Task, Failure],
    command: str,
) -> int:
    """What failed, the JSON object and the exit code."""
    known = {"DivergedError": DIVERGED, "WriteError": UNWRITTEN}
    codes = {known.get(failure.kind, FAULT) for failure in failures.values()}
    code = (codes.pop() if len(codes) == 1 else FAULT) if codes else FINE
    said = [f"{task.label}: {failure.sentence}" for task, failure in failures.items()]
    printer.data(
        {"folder": str(folder), "rows": [asdict(row) for row in rows], "failures": said,
         "exit_code": code}
    )  # fmt: skip
    for sentence in said:
        print(f"error: {sentence}", file=sys.stderr)
    if failures:
        printer.note(f"{len(failures)} cells failed; the same command tries them again: {command}")
    return code


def announce(found: dict[Task, Cell], missing: list[Task], num_workers: int) -> str:
    if not missing:
        return f"all {len(found)} cells are there"
    minutes = expected_total(missing, num_workers) / 60
    long = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{max(1.0, minutes):.0f} min"
    total = len(found) + len(missing)
    return f"{len(missing)} of {total} cells to run, {num_workers} at a time: about {long}"


def line(task: Task, result: Cell | Failure) -> str:
    if isinstance(result, Failure):
        return f"{task.label}: failed, {result.sentence}"
    readings = list(result.readings.values())
    seconds = result.training_seconds + sum(reading.seconds for reading in readings)
    found = " and ".join(f"{reading.error:.4f}" for reading in readings)
    return f"{task.label}: error {found}, floor {readings[0].floor:.4f}, {seconds:.1f} s"
