"""Many cells on an executor; each is kept as it comes back, by the process that started them."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path

from tcsis.app import executors
from tcsis.app.executors import OTHER_CODE, Failure
from tcsis.app.study import cells
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import Task
from tcsis.basics.files import WriteError
from tcsis.basics.signals import deferred


def run_all(
    tasks: list[Task], folder: Path, executor: Executor
) -> Generator[tuple[Task, Cell | Failure], None, None]:
    """Run and keep every cell, yielding each as it is finished.  One that fails comes as a
    ``Failure``, and the others go on."""
    with closing(executors.run_all(cells.run, tasks, executor)) as results:
        for task, outcome in results:
            yield task, keep(folder, task, outcome)


def keep(folder: Path, task: Task, outcome: Cell | Failure) -> Cell | Failure:
    """A cell once it is in its file; why there is none of it, where there is none."""
    if isinstance(outcome, Failure):
        return outcome
    if outcome.code != cells.code(task):
        return OTHER_CODE
    try:
        with deferred():
            cells.keep(folder, task, outcome)
    except WriteError as error:
        return Failure.of(error)
    return outcome
