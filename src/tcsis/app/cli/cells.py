"""Running the cells of a programme: what is there already, what is missing, and what failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tcsis.app.cells import AnyTask, Cell, Cells, Task
from tcsis.app.cli.failures import DIVERGED, FAULT, FINE, UNWRITTEN, RunInterruptedError
from tcsis.app.cli.printer import Printer
from tcsis.app.executors import Failure, Place
from tcsis.basics.progress import progress_bar

Results = Generator[tuple[Task, Cell | Failure], None, None]


def choose_folder(out: str | None, default: Path) -> Path:
    if out == "":  # of a variable that was not set, and not the folder one is in
        raise ValueError("the folder has no name: expected one")
    return default if out is None else Path(out)


def read_kept(
    cells: Cells[Task, Cell], folder: Path, tasks: Sequence[Task], printer: Printer
) -> dict[Task, Cell]:
    """The cells that are there; what has to be run again is told."""
    kept = cells.read_all(folder, tasks)
    for name in kept.damaged:
        printer.note(f"note: {name} is damaged and is run again")
    if kept.outdated:
        printer.note(f"note: {len(kept.outdated)} cells were made by other code and are run again")
    return kept.cells


def run_missing(
    cells: Cells[Task, Cell],
    folder: Path,
    found: dict[Task, Cell],
    missing: Sequence[Task],
    place: Place,
    printer: Printer,
    line: Callable[[Cell], str],
    command: str,
) -> dict[Task, Failure]:
    """Run and keep the cells that are missing; they go to ``found``, and what failed is returned.
    An interrupt says with which ``command`` to go on."""
    failures, total = dict[Task, Failure](), len(found) + len(missing)
    printer.note(announce(len(found), missing, place.num_workers))
    try:
        results = cells.run_all(folder, missing, place)
        collect(results, missing, found, failures, printer, line)
    except KeyboardInterrupt:
        said = f"{len(found)} of {total} cells are kept in {folder}"
        raise RunInterruptedError(f"interrupted: {said}; go on with: {command}") from None
    return failures


def collect(
    results: Results[Task, Cell],
    tasks: Sequence[Task],
    found: dict[Task, Cell],
    failures: dict[Task, Failure],
    printer: Printer,
    line: Callable[[Cell], str],
) -> None:
    """Cells as they are finished, each a line."""
    whole, done = sum(task.expected_seconds for task in tasks) or 1.0, 0.0
    # closed whatever happens here
    with progress_bar("cells", whole, printer.lively) as show, closing(results):
        for task, outcome in results:
            if isinstance(outcome, Failure):
                failures[task] = outcome
                printer.note(f"{task.label}: failed, {outcome.sentence}")
            else:
                found[task] = outcome
                printer.note(f"{task.label}: {line(outcome)}")
            done += task.expected_seconds
            show(done)


def announce(num_found: int, missing: Sequence[AnyTask], num_workers: int) -> str:
    if not missing:
        return f"all {num_found} cells are there"
    minutes = sum(task.expected_seconds for task in missing) / num_workers / 60
    long = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{max(1.0, minutes):.0f} min"
    total = num_found + len(missing)
    return f"{len(missing)} of {total} cells to run, {num_workers} at a time: about {long}"


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
