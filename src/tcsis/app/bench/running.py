"""Many cells, several processes side by side; the one place that knows how they are run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Generator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tcsis.app.bench import cells
from tcsis.app.bench.cells import Cell
from tcsis.app.bench.plan import Task
from tcsis.app.study import workers


@dataclass(frozen=True)
class Failure:
    """A cell that could not be made: the kind of the error, and its sentence."""

    task: Task
    kind: str
    sentence: str


def run_all(
    tasks: list[Task], folder: Path | None, num_workers: int
) -> Generator[tuple[Task, Cell | Failure], None, None]:
    """Run every cell, and keep it if there is a ``folder``, yielding each as it is finished.

    A cell that fails comes as a ``Failure``, and the others go on.  An interrupt, or closing the
    generator, ends the processes at once; cells that are finished by then are kept.
    """
    if not tasks:
        return
    before = set(multiprocessing.active_children())
    with workers.one_thread(), workers.Lanes(min(num_workers, len(tasks))) as lanes:
        try:
            futures = {lanes.submit(work, task, folder): task for task in tasks}
            for future in as_completed(futures):
                task = futures[future]
                try:
                    yield task, future.result()
                except BrokenProcessPool as error:
                    yield task, Failure(task, type(error).__name__, ENDED)
        except BaseException:  # an interrupt, most of all
            lanes.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise


ENDED = "a worker process was ended from outside, for want of memory perhaps"


def work(task: Task, folder: Path | None) -> Cell | Failure:
    """One cell, in a process of its own."""
    try:
        cell = cells.run(task)
        if folder is not None:
            cells.keep(folder, task, cell)
    except Exception as error:
        return Failure(task, type(error).__name__, workers.sentence_of(error))
    return cell
