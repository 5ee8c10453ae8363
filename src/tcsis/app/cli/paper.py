"""The study of the paper: run what is missing, then write table and figures."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

from tcsis.app import executors
from tcsis.app.cli.cells import choose_folder, read_kept, report, run_missing
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer
from tcsis.app.executors import Place
from tcsis.app.study import output, table
from tcsis.app.study.cells import CELLS, Cell
from tcsis.app.study.plan import Plan
from tcsis.app.study.programme import FULL, QUICK
from tcsis.basics.files import WriteError
from tcsis.basics.locks import sole_writer

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
    folder = choose_folder(out, FOLDERS[plan.name])
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
    tasks = plan.tasks()
    CELLS.refuse_strangers(folder, tasks)  # before anything is written
    with sole_writer(folder):
        try:
            found = read_kept(CELLS, folder, tasks, printer)
            missing = [task for task in tasks if task not in found]
            failures = run_missing(CELLS, folder, found, missing, place, printer, line, command)
            rows = output.write(plan, folder, found, failures, command, place.described)
        except WriteError as error:
            raise WriteError(f"{error}; then go on with: {command}") from error
    printer.show(*table.as_tables(rows), f"table and figures: {folder}")
    data = {"folder": str(folder), "rows": [asdict(row) for row in rows]}
    return report(printer, data, failures, command)


def line(cell: Cell) -> str:
    readings = list(cell.readings.values())
    seconds = cell.training_seconds + sum(reading.seconds for reading in readings)
    found = " and ".join(f"{reading.error:.4f}" for reading in readings)
    return f"error {found}, floor {readings[0].floor:.4f}, {seconds:.1f} s"
