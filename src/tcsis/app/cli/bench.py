"""When to learn: run the cells that are missing, then write tables and figures; or run a few cells
again and compare their ratios with those of a folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tcsis.app import executors
from tcsis.app.bench import guard, page, table
from tcsis.app.bench.cells import CELLS, Cell
from tcsis.app.bench.plan import Plan, Task
from tcsis.app.bench.programme import FULL, QUICK
from tcsis.app.cli.cells import announce, choose_folder, collect, read_kept, report, run_missing
from tcsis.app.cli.failures import FINE, GATE, RunInterruptedError
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer
from tcsis.app.executors import Failure, Place
from tcsis.basics.files import WriteError
from tcsis.basics.locks import sole_writer

FOLDERS = {FULL.name: Path("runs") / "bench", QUICK.name: Path("runs") / "bench-quick"}


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
    folder = choose_folder(out if check is None else check, FOLDERS[plan.name])
    with executors.choose(num_workers, scheduler) as place:
        if check is not None:
            return perform_check(plan, folder, place, printer, command)
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
    CELLS.refuse_strangers(folder, plan.tasks())  # before anything is written
    with sole_writer(folder):
        try:
            found = read_kept(CELLS, folder, plan.tasks(), printer)
            missing = can_run([task for task in plan.tasks() if task not in found], printer)
            failures = run_missing(CELLS, folder, found, missing, place, printer, line, command)
            rows = page.write(plan, folder, found, failures, command, place.described)
        except WriteError as error:
            raise WriteError(f"{error}; then go on with: {command}") from error
    printer.show(*table.as_tables(rows), f"tables and figures: {folder}")
    results = {row.task.name: row.result.model_dump() for row in rows}
    return report(printer, {"folder": str(folder), "results": results}, failures, command)


def can_run(tasks: list[Task], printer: Printer) -> list[Task]:
    """Those whose libraries are installed; the others are told."""
    found = [task for task in tasks if task.method.installed]
    for needed in sorted({str(task.method.needs) for task in tasks if task not in found}):
        printer.note(f"note: {needed} is not installed, and its cells are left out")
    return found


def line(cell: Cell) -> str:
    found = cell.result
    if found.refused:
        return f"more than {table.seconds(found.cost)}; {found.refused}"
    return table.seconds(found.cost)


# -- the guard -----------------------------------------------------------------------------------


def perform_check(plan: Plan, folder: Path, place: Place, printer: Printer, command: str) -> int:
    """Run the guarded cells again; 0 where their ratios are those of the folder, else 5."""
    tasks = guard.guarded_tasks(plan)
    then = guard.kept_results(folder, tasks)
    tasks = list(then)
    printer.note(announce(0, tasks, place.num_workers))
    now, failures = dict[Task, Cell](), dict[Task, Failure]()
    try:
        collect(executors.run_all(CELLS.run, tasks, place), tasks, now, failures, printer, line)
    except KeyboardInterrupt:
        raise RunInterruptedError(f"interrupted: go on with: {command}") from None
    if failures:
        return report(printer, {"ratios": []}, failures, command)
    ratios, wrong = guard.compare(then, {task: cell.result for task, cell in now.items()})
    code = GATE if wrong else FINE
    printer.data({"ratios": [str(ratio) for ratio in ratios], "wrong": wrong, "exit_code": code})
    printer.show(*map(str, ratios))
    for sentence in wrong:
        print(f"error: {sentence}", file=sys.stderr)
    if not wrong:
        printer.show(f"all {len(ratios)} ratios are those of {folder}, up to {guard.FACTOR:g}")
    return code
