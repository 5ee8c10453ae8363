"""Signals, full disks, live runs and exchanged files: nothing is lost, nothing wrong is said."""

import errno
import json
import os
import resource
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tcsis.app.cli import running
from tcsis.basics import files
from tcsis.basics.locks import sole_writer
from tcsis.draws.storage import read_draws
from tcsis.learn import checkpoint

SMALL = ["ising", "--side", "3", "--beta", "0.4"]
TINY = ["--preset", "tiny", "--steps", "3", "--n", "40", "--set", "train.num_evaluations=0"]
CHAINS = ["mcmc", *SMALL, "--chains", "5", "--steps", "20", "--burn-in", "0"]


def state(folder: Path) -> dict[str, torch.Tensor]:
    """All that a run gives, as tensors."""
    tensors, data = checkpoint.load(folder / "checkpoint")
    draws = read_draws(folder / "draws.nc")[0]
    assert draws.log_weight is not None
    calls = torch.tensor([data["step"], data["num_density_calls"]])
    return tensors | {"x": draws.x, "log_weight": draws.log_weight, "calls": calls}


def check_same(found: Path, wanted: Path) -> None:
    a, b = state(found), state(wanted)
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []
    assert {path.name for path in found.iterdir()} == {path.name for path in wanted.iterdir()}


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written after every step need not survive the loss of power in a test."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    from tcsis.app.cli import main

    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", *SMALL, *TINY, "--out", str(folder), "--quiet"]) == 0
    return folder


# -- signals ---------------------------------------------------------------------------------------


@contextmanager
def signal_once(number: int, ready: Callable[[], bool]) -> Iterator[None]:
    """Send a signal to this process as soon as something is there."""
    ended = threading.Event()

    def watch() -> None:
        while not ready() and not ended.is_set():
            time.sleep(0.01)
        if not ended.is_set():
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def newest(run: Path) -> int:
    return max(checkpoint.list_checkpoints(run / "checkpoint"), default=0)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_saves_and_says_how_to_go_on(
    name: str, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run, number = tmp_path / "run", int(getattr(signal, name))
    line = ["train", *SMALL, *TINY, "--steps", "300", "--set", "run.checkpoint_every=0", "--out"]
    with signal_once(number, lambda: newest(run) > 8):
        outcome = tcsis_cli(*line, run)
    assert outcome.code == 128 + number
    assert outcome.err.count("\n") == 1
    assert f"the state is saved in {run}; go on with: tcsis train --resume" in outcome.err
    step = checkpoint.load(run / "checkpoint")[1]["step"]
    assert 8 <= step < 300
    again = shlex.split(outcome.err.split("go on with: tcsis ")[1])
    assert tcsis_cli(*again, "--quiet").code == 0
    assert tcsis_cli(*line, tmp_path / "whole").code == 0
    check_same(run, tmp_path / "whole")


def test_a_signal_outside_of_a_run(tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = lambda printing: signal.raise_signal(signal.SIGTERM)  # noqa: E731
    monkeypatch.setattr("tcsis.app.cli.catalogue.targets", stop)
    outcome = tcsis_cli("targets", "--json")
    assert (outcome.code, outcome.err) == (143, "interrupted\n")
    assert json.loads(outcome.out)["exit_code"] == 143


def test_an_interrupt_before_anything_was_kept(
    tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            "tcsis.learn.training.Run.begin", lambda run: signal.raise_signal(signal.SIGINT)
        )
        outcome = tcsis_cli("train", *SMALL, *TINY, "--out", run)
    assert outcome.code == 130
    assert "before there was anything to save; go on with: tcsis train --resume" in outcome.err
    assert tcsis_cli("train", "--resume", "--out", run).code == 0


# -- one writer ------------------------------------------------------------------------------------


def test_a_live_run_is_read_and_not_written(
    whole: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run, before = tmp_path / "run", state(whole)
    shutil.copytree(whole, run)
    writers = [
        ["train", "--resume", "--out", run],
        ["train", *SMALL, *TINY, "--overwrite", "--out", run],
        ["compare", *SMALL, "--methods", "exact", "--overwrite", "--out", run],
        [*CHAINS, "--overwrite", "--out", run],
        ["exact", *SMALL, "--n", "9", "--overwrite", "--out", run],
        ["sample", whole, "--n", "9", "--overwrite", "--out", run],
        ["paper", "--quick", "--out", run],
        ["train", *SMALL, *TINY, "--out", run],
    ]
    with sole_writer(run):
        for line in writers:
            outcome = tcsis_cli(*line)
            assert outcome.code == 2, line
            assert f"{run} is being written by process {os.getpid()} on" in outcome.err, line
            assert outcome.err.count("\n") == 1
        shown = tcsis_cli("show", run)
        assert "it is being written by process" in shown.out
        assert "autoregressive" in shown.out
        for command in ("evaluate", "report", "sample"):
            assert tcsis_cli(command, run).code == 0, command
    assert json.loads(tcsis_cli("show", run, "--json").out)["writer"] is None
    assert all(torch.equal(value, before[name]) for name, value in state(run).items())


def test_a_resumed_run_shows_no_result_of_other_settings(
    whole: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is made longer, and when it was stopped there."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with monkeypatch.context() as patch:
        patch.setattr(
            "tcsis.learn.training.Run.make_step", lambda run: signal.raise_signal(signal.SIGINT)
        )
        patch.setattr("tcsis.learn.trainer.Keeper.whole_steps", lambda keeper: nothing())
        assert tcsis_cli("train", "--resume", "--steps", "5", "--out", run).code == 130
    with sole_writer(run):
        shown = tcsis_cli("show", run)
    assert (shown.code, "autoregressive." in shown.out) == (0, False)
    for command in ("show", "report", "evaluate"):
        outcome = tcsis_cli(command, run, "--quiet")
        assert outcome.code == 2
        assert "was made with other settings than config.toml has" in outcome.err
        assert "go on with: tcsis train --resume" in outcome.err
    assert tcsis_cli("train", "--resume", "--out", run, "--quiet").code == 0
    assert tcsis_cli("show", run, "--quiet").code == 0


@contextmanager
def nothing() -> Iterator[Callable[[], bool]]:
    yield lambda: False


# -- overwriting -----------------------------------------------------------------------------------


def test_a_failing_run_overwrites_nothing(whole: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    bad = ["--set", "train.optimisation.learning_rate=1e30", "--steps", "200"]
    outcome = tcsis_cli("train", *SMALL, *TINY, *bad, "--overwrite", "--out", run)
    assert outcome.code == 3
    check_same(run, whole)
    shown = tcsis_cli("show", run)
    assert f"its replacement is not finished: {run}.replacement" in shown.out
    assert tcsis_cli(*CHAINS, "--overwrite", "--out", run, "--quiet").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    assert not (run / "checkpoint").exists()


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_draws_never_take_the_place_of_their_model(
    options: list[str], whole: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    out = run.parent / "elsewhere" / ".." / "run"  # the same folder by another name
    (tmp_path / "elsewhere").mkdir()
    outcome = tcsis_cli("sample", run, "--n", "9", *options, "--out", out)
    assert outcome.code == 2
    assert "is the run of the model itself" in outcome.err
    check_same(run, whole)


def test_an_interrupted_replacement_is_resumed(
    whole: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run = tmp_path / "run"
    assert tcsis_cli(*CHAINS, "--out", run, "--quiet").code == 0
    before = (run / "draws.nc").read_bytes()
    place = tmp_path / "run.replacement"
    line = ["train", *SMALL, *TINY, "--steps", "1000000", "--set", "run.checkpoint_every=0"]
    with signal_once(signal.SIGTERM, lambda: checkpoint.exists(place / "checkpoint")):
        outcome = tcsis_cli(*line, "--overwrite", "--out", run)
    assert outcome.code == 143
    assert f"the state is saved in {place}" in outcome.err
    assert f"--resume --out {run}" in outcome.err
    assert (run / "draws.nc").read_bytes() == before
    assert tcsis_cli("evaluate", run, "--quiet").code == 0
    step = str(checkpoint.load(place / "checkpoint")[1]["step"] + 1)
    resumed = tcsis_cli("train", "--resume", "--out", run, "--steps", step, "--json")
    assert json.loads(resumed.out)["folder"] == str(run)
    assert checkpoint.load(run / "checkpoint")[1]["step"] == int(step)
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_a_run_that_a_crash_left_aside_is_found(
    whole: Path, tmp_path: Path, tcsis_cli: Callable
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, tmp_path / "run.replacement")
    shutil.copytree(whole, tmp_path / "run.replaced")
    for line in (["show", run], ["evaluate", run], ["sample", run, "--out", tmp_path / "drawn"]):
        outcome = tcsis_cli(*line)
        assert outcome.code == 0
        assert f"the run is in {run}.replacement" in outcome.err
    assert tcsis_cli("train", "--resume", "--out", run, "--quiet").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"run", "drawn"}
    check_same(run, whole)


# -- full disks ------------------------------------------------------------------------------------


class FullDisk:
    """``os.fsync``, until the disk has taken so many files."""

    def __init__(self, room: int):
        self.room, self.real = room, os.fsync

    def __call__(self, descriptor: int) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        self.real(descriptor)


def test_a_disk_that_is_full_at_any_write(
    whole: Path, tmp_path: Path, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write of a run fails once, with the name of its file; resumed, the run is the same."""
    monkeypatch.setattr("tcsis.app.experiment.write_report", write_small)
    counted = FullDisk(10**9)
    monkeypatch.setattr(os, "fsync", counted)
    line = ["train", *SMALL, *TINY, "--quiet", "--out"]
    assert tcsis_cli(*line, tmp_path / "counted").code == 0
    writes, named = 10**9 - counted.room, set()
    assert writes > 20
    for room in range(0, writes, 2):  # a file, and then the folder that it is in
        run = tmp_path / str(room)
        monkeypatch.setattr(os, "fsync", FullDisk(room))
        outcome = tcsis_cli(*line, run)
        assert outcome.code == 6, room
        assert outcome.err.count("\n") == 1
        assert "cannot be written (No space left on device): make room on its disk" in outcome.err
        assert f"go on with: tcsis train --resume --out {run}" in outcome.err
        named.add(Path(outcome.err.split()[1]).name.split("-")[0])
        assert not [path for path in run.rglob("*") if path.name.startswith((".tmp-", ".writer"))]
        monkeypatch.setattr(os, "fsync", counted)
        again = ["train", "--resume", "--quiet", "--out"]
        assert tcsis_cli(*(again if (run / "config.toml").exists() else line), run).code == 0
        check_same(run, whole)
    assert named == {
        "config.toml", "env.json", "checkpoint", "metrics.jsonl", "draws.nc", "result.json",
        "report.html",
    }  # fmt: skip


def write_small(result: object, path: Path) -> None:
    files.write_whole(path, "a report")


def test_a_file_that_may_not_grow(tmp_path: Path, tcsis_cli: Callable) -> None:
    """The limit of the operating system itself, which the draws meet half-written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    line = ["exact", *SMALL, "--n", "30000", "--out", tmp_path / "run"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        outcome = tcsis_cli(*line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert outcome.code == 6
    assert "draws.nc cannot be written (File too large): make room" in outcome.err
    assert "then run it again with --overwrite --out" in outcome.err
    assert not (tmp_path / "run" / "draws.nc").exists()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"config.toml", "env.json"}
    assert tcsis_cli(*line, "--overwrite", "--quiet").code == 0


# -- exchanged and edited files --------------------------------------------------------------------


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from tcsis.app.cli import main

    folder = tmp_path_factory.mktemp("others")
    lines = {"seed": [*SMALL, "--seed", "1"], "target": ["ising", "--side", "3", "--beta", "0.3"]}
    for name, line in lines.items():
        assert main(["train", *line, *TINY, "--out", str(folder / name), "--quiet"]) == 0
    return {name: folder / name for name in lines}


EXCHANGED = {
    "config.toml": ("show", "report", "evaluate", "sample"),
    "result.json": ("show", "report"),
    "draws.nc": ("evaluate",),
    "checkpoint": ("sample", "train"),
}


@pytest.mark.parametrize("name", EXCHANGED)
@pytest.mark.parametrize("other", ["seed", "target"])
def test_files_of_another_run(
    name: str, other: str, whole: Path, others: dict[str, Path], tmp_path: Path, tcsis_cli: Callable
) -> None:
    """Each is whole in itself, and belongs to another run."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    copy = shutil.copytree if (others[other] / name).is_dir() else shutil.copy
    copy(others[other] / name, run / name)
    for command in EXCHANGED[name]:
        line = ["train", "--resume", "--out", run] if command == "train" else [command, run]
        outcome = tcsis_cli(*line, "--quiet")
        assert outcome.code in (2, 4), command
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1


def test_a_config_that_was_edited(whole: Path, tmp_path: Path, tcsis_cli: Callable) -> None:
    """In a run folder it is refused; for a run of its own, until its first line is taken out."""
    run, mine = tmp_path / "run", tmp_path / "mine.toml"
    shutil.copytree(whole, run)
    text = (run / "config.toml").read_text()
    edited = text.replace("n = 40", "n = 50")
    assert edited != text
    (run / "config.toml").write_text(edited)
    readers = [[command, run] for command in ("show", "evaluate", "sample")]
    for line in (*readers, ["train", "--resume", "--out", run]):
        outcome = tcsis_cli(*line, "--quiet")
        assert outcome.code == 2
        assert "config.toml does not match its checksum" in outcome.err
    mine.write_text(edited)
    new = ["train", "--config", mine, "--out", tmp_path / "new", "--quiet"]
    assert tcsis_cli(*new).code == 2
    mine.write_text(edited.split("\n", 1)[1])
    assert tcsis_cli(*new).code == 0


def test_arrays_that_were_exchanged(tmp_path: Path, tcsis_cli: Callable) -> None:
    for name, strength in (("a", 0.3), ("b", 0.5)):
        matrix = [[0, strength, 0], [strength, 0, strength], [0, strength, 0]]
        (tmp_path / f"{name}.json").write_text(json.dumps({"J": matrix}))
        line = ["train", "pairwise", tmp_path / f"{name}.json", *TINY, "--quiet"]
        assert tcsis_cli(*line, "--out", tmp_path / name).code == 0
    repeat = ["train", "--config", tmp_path / "a" / "config.toml", "--quiet", "--out"]
    assert tcsis_cli(*repeat, tmp_path / "again").code == 0
    shutil.copy(tmp_path / "b.json", tmp_path / "a.json")
    outcome = tcsis_cli(*repeat, tmp_path / "more")
    assert (outcome.code, "a.json has changed since" in outcome.err) == (2, True)
    assert tcsis_cli("sample", tmp_path / "a", "--quiet").code == 0  # its checkpoint has them
    shutil.rmtree(tmp_path / "a" / "checkpoint")
    shutil.copytree(tmp_path / "b" / "checkpoint", tmp_path / "a" / "checkpoint")
    outcome = tcsis_cli("sample", tmp_path / "a")
    assert (outcome.code, "is of another target" in outcome.err) == (2, True)
    line = ["train", "pairwise", tmp_path / "b.json", *repeat[1:]]
    assert tcsis_cli(*line, tmp_path / "named").code == 0


# -- more than there is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:121] err == 0. "
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 800000000000000 bytes."),
    ],
)  # fmt: skip
def test_want_of_memory_is_no_fault_of_ours(
    error: Exception, tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(printing: object) -> None:
        raise error

    monkeypatch.setattr("tcsis.app.cli.catalogue.targets", ask)
    outcome = tcsis_cli("targets")
    assert outcome.code == 2
    assert outcome.err.startswith("error: there is not enough memory (")
    assert outcome.err.count("\n") == 1


def test_torch_says_so_in_these_words() -> None:
    from tcsis.app.cli.failures import wants_memory

    for size in (2**60, 2**62):
        with pytest.raises(RuntimeError) as caught:
            torch.empty(size, dtype=torch.float64)
        assert wants_memory(caught.value)


def test_a_seed_has_a_next_one() -> None:
    assert running.MAX_SEED == 2**64 - 1
