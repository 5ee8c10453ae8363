"""Where work is done: by processes of this machine, or by the workers of a Dask cluster.

    local(num_workers)                processes of this machine
    dask(address)                     the workers of a cluster
    run_all(function, pieces, where)  each piece with what came of it, as they are finished

Both are executors of ``concurrent.futures``, and any other will do.  Pieces go out and results come
back as values, so that no files are shared.  A process works on one piece at a time, on one thread,
and what comes of it depends neither on which one it is nor on how many there are.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import signal
import threading
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
)
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import cloudpickle
import torch
from loky import ProcessPoolExecutor

from tcsis.basics.checks import check_integer
from tcsis.basics.files import WriteError
from tcsis.basics.optional import need
from tcsis.basics.signals import deferred
from tcsis.basics.threads import at_most
from tcsis.learn.descent import DivergedError

MOST_WORKERS = 2
"""Processes of this machine, where nobody says how many."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
MOMENT = 0.5
"""Seconds after which a process notices that its parent is gone."""
PATIENCE, START = 10.0, 30.0
"""Seconds that a scheduler has to answer, and then to find a worker."""
TRIM_OF_DASK, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = "65536", -1, -3
"""The default of distributed.nanny.pre-spawn-environ, and names of malloc.h."""
PROTOCOLS = ("tcp", "tls", "ws", "wss", "ucx")

Piece = TypeVar("Piece")
Outcome = TypeVar("Outcome")


# -- pieces of work --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """What came of a piece that could not be done: the kind of the error, and its sentence."""

    kind: str
    sentence: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """One line; with the kind of error where it was not written for a reader."""
        kind, text = type(error).__name__, " ".join(str(error).split())
        written = isinstance(error, ValueError | DivergedError | WriteError)
        return cls(kind, text if written and text else f"{kind}: {text}")


OTHER_CODE = Failure(
    "OtherCode", "its worker has other code of tcsis: install there what this process runs"
)


def run_all(
    function: Callable[[Piece], Outcome], pieces: Iterable[Piece], executor: Executor
) -> Generator[tuple[Piece, Outcome | Failure], None, None]:
    """Do every piece, and yield each with what came of it, in the order in which they are finished.

    A piece that fails comes with a ``Failure``, and the others go on.  What has not begun is
    cancelled when the generator is closed, or left by an error.
    """
    packed = [(piece, pack(function, piece)) for piece in pieces]  # all, before any begins
    futures: dict[Future[Any], Piece] = {}
    try:
        for piece, sent in packed:
            futures[submit(executor, sent)] = piece
        for future in as_completed(list(futures)):
            done = futures.pop(future), outcome_of(future)
            del future  # or a cluster holds the result, and makes it anew where it is lost
            yield done
    finally:
        for future in futures:
            future.cancel()


def pack(function: Callable[[Piece], Any], piece: Piece) -> bytes:
    """A function and what it is given, by value where no other process could import them."""
    try:
        return bytes(cloudpickle.dumps((function, piece)))
    except Exception as error:  # whatever a class of the user's raises
        raise ValueError(
            f"{piece} cannot be sent to another process ({Failure.of(error).sentence}): expected "
            "what pickle takes, so no open files, locks or connections in what a density refers to"
        ) from None


def submit(executor: Executor, sent: bytes) -> Future[Any]:
    try:
        return executor.submit(attempt, sent)
    except (RuntimeError, AttributeError) as error:
        raise ValueError(
            f"executor takes no work ({error}): expected an executor of concurrent.futures that is "
            "not shut down"
        ) from None


ALONE = threading.Lock()
"""Held by the piece that a process works on: compiled loops are not for several threads at once."""


def attempt(packed: bytes) -> Any:
    """A piece of work in the process that does it."""
    keep_memory()
    with ALONE, at_most(1):
        try:
            function, piece = cloudpickle.loads(packed)
            return function(piece)
        except Exception as error:
            return Failure.of(error)


def keep_memory() -> None:
    """Undo what Dask tells its workers, to give memory back at once: arrays are then paged in anew
    every time, which makes a sampler take up to three times as long.  These are the values that
    glibc comes to by itself."""
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == TRIM_OF_DASK:
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(M_MMAP_THRESHOLD, 2**25)
            libc.mallopt(M_TRIM_THRESHOLD, 2**26)


def outcome_of(future: Future[Any]) -> Any:
    """The result; of a piece that its process did not bring to an end, why."""
    if future.cancelled():
        return Failure("CancelledError", "given up: the scheduler was lost, or has cancelled it")
    error = future.exception()
    if isinstance(error, BrokenExecutor):
        told = "its process was ended from outside, for want of memory perhaps"
        return Failure(type(error).__name__, told)
    return future.result() if error is None else Failure.of(error)


# -- places ----------------------------------------------------------------------------------------


class Place(Executor):
    """An executor that tells how many processes it has, and can be ended at once, as it is when an
    error or an interrupt leaves its ``with`` block."""

    num_workers: int

    @property
    @abstractmethod
    def described(self) -> str:
        """What it consists of, for a page of results."""

    @abstractmethod
    def end(self) -> None:
        """End at once, whatever is under way."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown() if kind is None else self.end()


def choose(num_workers: int | None, scheduler: str | None) -> Place:
    """The cluster at an address if there is one, or else processes of this machine."""
    if scheduler is None:
        return local(min(MOST_WORKERS, os.cpu_count() or 1) if num_workers is None else num_workers)
    if num_workers is not None:
        raise ValueError(
            "workers and scheduler exclude each other: expected a number of processes on this "
            "machine, or the address of a cluster, which has workers of its own"
        )
    return dask(scheduler)


# -- processes of this machine ---------------------------------------------------------------------


def local(num_workers: int) -> Processes:
    """Processes of this machine, one thread each; they end with this one, however that ends."""
    return Processes(check_integer("workers", num_workers))


class Processes(Place):
    """A number of processes, each with a thread that gives it one piece of work after another.

    Each is a pool of its own: one that is killed takes no other along, and its piece is done once
    more by another in its place.
    """

    def __init__(self, num_workers: int):
        self.num_workers = num_workers
        self.threads = ThreadPoolExecutor(num_workers, initializer=leave_interrupts_alone)
        self.own = threading.local()
        self.pools: list[ProcessPoolExecutor] = []
        self.lock, self.ended = threading.Lock(), False

    @property
    def described(self) -> str:
        return (
            f"Processes side by side, one core each: {self.num_workers} on {os.cpu_count()} cores, "
            f"{platform.machine()}"
        )

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        return self.threads.submit(self.run, function, *given, **named)

    def run(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """In a thread: the work, done by the process of the thread, or by the next one."""
        try:
            return self.run_once(function, *given, **named)
        except BrokenExecutor:
            return self.run_once(function, *given, **named)

    def run_once(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if getattr(self.own, "pool", None) is None:
            self.own.pool = self.new_pool()
        try:
            return self.own.pool.submit(function, *given, **named).result()
        except BrokenExecutor:
            self.own.pool = None
            raise

    def new_pool(self) -> ProcessPoolExecutor:
        with self.lock:
            if self.ended:
                raise RuntimeError("the processes are ended")
            self.pools.append(new_process())
            return self.pools[-1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.threads.shutdown(wait, cancel_futures=cancel_futures)
        for pool in self.pools:
            pool.shutdown(wait)

    def end(self) -> None:
        with self.lock:
            self.ended = True
        self.threads.shutdown(wait=False, cancel_futures=True)
        with deferred():  # or threads are left that wait for processes
            for pool in self.pools:
                pool.shutdown(kill_workers=True)


def new_process() -> ProcessPoolExecutor:
    """A pool of one, whose environment is there before torch and numba read it."""
    # said in a thread, where nobody can do anything about it, of what has done no harm
    for told in ("A worker (was restarted|stopped) while", "Failed to kill subprocesses"):
        warnings.filterwarnings("ignore", told, UserWarning, "loky")
    return ProcessPoolExecutor(1, initializer=prepare, initargs=(os.getpid(),), env=ONE_THREAD)


def prepare(parent: int) -> None:
    """In a new process: one thread for the work, and one that ends the process with its parent,
    which may be killed before it can."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(MOMENT)
    os._exit(1)


def leave_interrupts_alone() -> None:
    """In a thread: block interrupts, as do the processes that it starts, from their first moment
    on.  The one that started them all is interrupted, and ends them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


# -- a cluster -------------------------------------------------------------------------------------


def dask(address: str) -> Cluster:
    """The workers of the Dask cluster whose scheduler answers at an address, tcp://host:port."""
    check_address(address)
    return Cluster(address)


class Cluster(Place):
    """The workers of a Dask cluster.  The scheduler gives a piece whose worker is lost to another
    one; pieces that a worker has begun when this ends are brought to their end there, for nobody.
    """

    def __init__(self, address: str):
        self.client = connect(address)
        self.executor = self.client.get_executor(pure=False)
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        self.num_workers = len(workers)
        crowded = [name for name, worker in workers.items() if worker["nthreads"] > 1]
        if crowded:
            self.end()
            raise ValueError(
                f"the worker {crowded[0]} has several threads: expected one each, as from "
                f"'dask worker {address} --nthreads 1 --nworkers N'"
            )

    @property
    def described(self) -> str:
        return f"Workers of a Dask cluster, one thread each: {self.num_workers}"

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        return self.executor.submit(function, *given, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.executor.shutdown(wait and not cancel_futures)
        self.client.close()

    def end(self) -> None:
        self.shutdown(wait=False)


def check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        fine = parts.scheme in PROTOCOLS and bool(parts.hostname) and parts.port is not None
    except ValueError:  # a port that is no number
        fine = False
    if not fine:
        raise ValueError(
            f"scheduler is {address!r}: expected an address such as tcp://host:8786, as "
            "'dask scheduler' prints it when it starts"
        )


def connect(address: str) -> Any:
    """A client of the scheduler, once that has answered and has a worker."""
    distributed = need("distributed", "a Dask cluster", "cluster")
    # of a connection that is lost it logs a traceback; here the pieces say it that are lost with it
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except OSError:
        raise ValueError(
            f"no scheduler answers at {address} within {PATIENCE:g} s: start one with "
            "'dask scheduler' and pass the address that it prints"
        ) from None
    try:
        client.wait_for_workers(1, timeout=START)
    except OSError:
        client.close()
        raise ValueError(
            f"the scheduler at {address} has no workers: start some with "
            f"'dask worker {address} --nthreads 1 --nworkers N'"
        ) from None
    return client
