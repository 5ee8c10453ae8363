"""Pieces of work on processes of this machine and on a Dask cluster, and what is lost with one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import cloudpickle
import pytest
import torch

from tcsis.app import executors
from tcsis.app.executors import Failure

# a worker of a cluster does not have the tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from tcsis.app import executors

def forever(folder):
    (Path(folder) / "begun").write_text(str(os.getpid()))
    time.sleep(1000)

try:
    with executors.local(1) as place:
        list(executors.run_all(forever, [sys.argv[1]], place))
except KeyboardInterrupt:
    sys.exit(130)
"""
"""A script without a main guard, whose piece never ends."""


def square(x: int) -> int:
    if x == 3:
        raise ValueError("three is\nrefused")
    return x * x


def wait_for(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    begin = time.monotonic()
    while not ready():
        assert time.monotonic() - begin < seconds
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only until somebody asks how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- any executor ----------------------------------------------------------------------------------


def test_a_failing_piece_does_not_lose_the_others() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = dict(executors.run_all(square, range(5), pool))
    assert found.pop(3) == Failure("ValueError", "three is refused")
    assert found == {0: 0, 1: 1, 2: 4, 4: 16}


def test_pieces_of_one_process_come_one_after_the_other_on_one_thread(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(3) as pool:
            work = [(number, tmp_path) for number in range(6)]
            found = [told for _, told in executors.run_all(look_around, work, pool)]
    finally:
        torch.set_num_threads(before)
    assert found == [(1, 1)] * 6


def look_around(piece: tuple[int, Path]) -> tuple[int, int]:
    """How many pieces are under way, and how many threads each has."""
    number, folder = piece
    (folder / str(number)).touch()
    time.sleep(0.05)
    seen = len(list(folder.iterdir()))
    (folder / str(number)).unlink()
    return seen, torch.get_num_threads()


def test_what_cannot_be_sent_is_refused_before_anything_begins() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="cannot be sent to anoth"):
        next(executors.run_all(square, [1, Lock()], pool))


@pytest.mark.parametrize("never", ["shut down", "no executor"])
def test_what_takes_no_work_is_refused_in_a_sentence(never: str) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    where: Any = pool if never == "shut down" else 3
    with pytest.raises(ValueError, match=r"executor takes no work \(.*\): expected an executor"):
        next(executors.run_all(square, [1], where))


class OnlyOne(ThreadPoolExecutor):
    """Is shut down once it has a piece."""

    given: Future

    def submit(self, function: Callable, /, *given: Any, **named: Any) -> Future:
        if hasattr(self, "given"):
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.given = Future()
        return self.given


def test_what_was_taken_is_cancelled_where_the_rest_is_refused() -> None:
    with OnlyOne(1) as pool:
        with pytest.raises(ValueError, match="executor takes no work"):
            next(executors.run_all(square, [1, 2], pool))
        assert pool.given.cancelled()


def test_what_has_not_begun_is_cancelled_when_nobody_wants_it_any_more(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        results = executors.run_all(note, [tmp_path / str(i) for i in range(20)], pool)
        next(results)
        results.close()
    assert len(list(tmp_path.iterdir())) < 5


def note(path: Path) -> None:
    path.touch()
    time.sleep(0.1)


FAULTS = """
import resource
import cloudpickle, torch
from tcsis.app import executors

def faults(size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        torch.ones(size).mul(2.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(executors.attempt(cloudpickle.dumps((faults, 2**20))))
"""
"""How often pages of 4 MB are made anew while 400 arrays of that size are."""


@pytest.mark.slow
def test_a_worker_of_dask_keeps_memory_for_the_next_array() -> None:
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": executors.TRIM_OF_DASK}
    told = subprocess.check_output([sys.executable, "-c", FAULTS], env=environment, text=True)
    assert int(told) < 40_000  # of 400,000


# -- processes of this machine ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_process_costs_its_own_piece_only(tmp_path: Path) -> None:
    """Which is done once more; one that is killed again is a failure."""
    pieces = ["patient", "killed once", "killed always", "quick"]
    with executors.local(2) as place:
        work = [(name, tmp_path) for name in pieces]
        found = {name: told for (name, _), told in executors.run_all(suffer, work, place)}
    lost = found.pop("killed always")
    assert isinstance(lost, Failure)
    assert "ended from outside" in lost.sentence
    assert found == dict.fromkeys(("patient", "killed once", "quick"), (1, "1", "1"))
    times = {name: begun(tmp_path, name) for name in pieces}
    assert times == {"patient": 1, "killed once": 2, "killed always": 2, "quick": 1}


def suffer(piece: tuple[str, Path]) -> tuple[int, str, str]:
    """Leaves a file for every time that it is begun; says how many threads there are."""
    name, folder = piece
    (folder / f"{name} {time.time_ns()}").touch()
    if name == "patient":
        wait_for(lambda: begun(folder, "killed always") == 2)
    first = begun(folder, name) == 1
    if name == "killed always" or (name == "killed once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    environment = os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]
    return torch.get_num_threads(), *environment


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(number: int, tmp_path: Path) -> None:
    line = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_for(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text() != "")
        worker = int((tmp_path / "begun").read_text())
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does, to all of them
        else:
            process.kill()
        _, err = process.communicate(timeout=30)
        wait_for(lambda: not is_running(worker), 10 * executors.MOMENT)
    finally:
        process.kill()
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert err == ""


# -- a cluster -------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["nonsense", "tcp://host", "tcp://host:many", "http://host:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="expected an address such as tcp://host:8786"):
        executors.choose(None, address)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"needs distributed, .* pip install 'tcsis\[cluster\]'"):
        executors.dask("tcp://127.0.0.1:1")


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with pytest.raises(ValueError, match=r"no scheduler answers at .* within 0\.5 s"):
        executors.dask("tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"n_workers": 0}, "has no workers: start some with 'dask worker tcp"),
        ({"n_workers": 1, "threads_per_worker": 2}, "has several threads: expected one each"),
    ],
)
def test_clusters_that_will_not_do(
    shape: dict[str, int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "START", 0.5)
    options = {"processes": False, "protocol": "tcp", "dashboard_address": None}
    with (
        distributed.LocalCluster(host="127.0.0.1", **options, **shape) as cluster,
        pytest.raises(ValueError, match=told),
    ):
        executors.dask(cluster.scheduler_address)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, processes of this machine."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    place = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    each = ["--nthreads", "1", "--nworkers", "2", "--local-directory", str(folder)]
    lines = [["scheduler", "--port", "0", *place], ["worker", *place, *each]]
    program = [sys.executable, "-m", "dask"]
    quiet = {
        "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True,
    }  # fmt: skip
    running = [subprocess.Popen([*program, *line], **quiet) for line in lines]
    try:
        wait_for(file.exists)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
            process.wait()


@pytest.mark.slow
def test_a_lost_worker_of_a_cluster_costs_its_own_piece_only(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is done once more; what has come back before is not."""
    monkeypatch.setattr(executors, "START", 60.0)
    names = ["one", "two", "three", "four"]
    with executors.dask(cluster) as place:
        results = executors.run_all(take_a_while, [(name, tmp_path) for name in names], place)
        (first, _), (worker, _) = next(results)
        wait_for(lambda: len(list(tmp_path.glob(f"* {worker} *"))) == 2)
        lost = next(name for name in names if name != first and begun(tmp_path, f"{name} {worker}"))
        os.kill(worker, signal.SIGKILL)
        rest = {name: threads for (name, _), (_, threads) in results}
    assert rest == {name: 1 for name in names if name != first}
    assert [begun(tmp_path, name) for name in (first, lost)] == [1, 2]


def begun(folder: Path, what: str) -> int:
    return len(list(folder.glob(f"{what} *")))


def take_a_while(piece: tuple[str, Path]) -> tuple[int, int]:
    """The number of the process, and how many threads it has."""
    name, folder = piece
    (folder / f"{name} {os.getpid()} {time.time_ns()}").touch()
    time.sleep(1.0)
    return os.getpid(), torch.get_num_threads()
