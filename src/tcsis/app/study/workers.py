"""Many cells, several processes side by side, one core each.

A process that is started anew reads its number of threads from the environment, so that is set
before, and what a cell gives does not depend on how many of them run.  Each is a pool of its own:
one that is killed takes its own cell with it, and another is started in its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tcsis.app.study import cells
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import Task
from tcsis.basics.files import WriteError
from tcsis.learn.descent import DivergedError

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Failure:
    """A cell that could not be made: the kind of the error, and its sentence."""

    task: Task
    kind: str
    sentence: str


def run_all(
    tasks: list[Task], folder: Path, workers: int
) -> Generator[tuple[Task, Cell | Failure], None, None]:
    """Run and keep every cell, yielding each as it is finished.

    A cell that fails comes as a ``Failure``, and the others go on.  An interrupt, or closing the
    generator, ends the processes at once; cells that are finished by then are kept.
    """
    if not tasks:
        return
    before = set(multiprocessing.active_children())
    with one_thread(), Lanes(min(workers, len(tasks))) as lanes:
        try:
            futures = {lanes.submit(work, task, folder): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], outcome_of(future, futures[future])
        except BaseException:  # an interrupt, most of all
            lanes.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise


class Lanes(Executor):
    """A number of processes, each with a thread that gives it one piece of work after another."""

    def __init__(self, num_lanes: int):
        self.threads = ThreadPoolExecutor(num_lanes, initializer=leave_interrupts_alone)
        self.own = threading.local()
        self.pools: list[ProcessPoolExecutor] = []

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        return self.threads.submit(self.run, function, *given, **named)

    def run(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """In a thread: the work, done by the process of the thread."""
        if getattr(self.own, "pool", None) is None:
            context = multiprocessing.get_context("spawn")
            self.own.pool = ProcessPoolExecutor(1, context, prepare)
            self.pools.append(self.own.pool)
        try:
            return self.own.pool.submit(function, *given, **named).result()
        except BrokenProcessPool:
            self.own.pool = None
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.threads.shutdown(wait, cancel_futures=cancel_futures)
        for pool in self.pools:
            pool.shutdown(wait, cancel_futures=cancel_futures)


def work(task: Task, folder: Path) -> Cell | Failure:
    """One cell, in a process of its own."""
    try:
        cell = cells.run(task)
        cells.keep(folder, task, cell)
    except Exception as error:
        return Failure(task, type(error).__name__, sentence_of(error))
    return cell


def sentence_of(error: Exception) -> str:
    """One line; with the kind of error where it was not written for a reader."""
    text = " ".join(str(error).split())
    written = isinstance(error, ValueError | DivergedError | WriteError)
    return text if written and text else f"{type(error).__name__}: {text}"


def outcome_of(future: Future[Cell | Failure], task: Task) -> Cell | Failure:
    try:
        return future.result()
    except BrokenProcessPool as error:
        sentence = "a worker process was ended from outside, for want of memory perhaps"
        return Failure(task, type(error).__name__, sentence)


def prepare() -> None:
    """In a new process: one thread for the work, and one that ends the process with its parent,
    which may be killed before it can."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def leave_interrupts_alone() -> None:
    """In a thread: block interrupts, as do the processes that it starts, from their first moment
    on.  The one that started them all is interrupted, and ends them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


@contextmanager
def one_thread() -> Iterator[None]:
    """The environment that new processes are to have."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
