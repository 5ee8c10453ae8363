"""torchrun -m tcsis train: one run on two processes, and what is said when one is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import tcsis.basics.ranks
from tcsis.app.cli import main
from tcsis.learn import checkpoint

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "--"]
TRAIN = ["tcsis", "train", "ising", "--side", "4", "--beta", "0.4407", "--preset", "tiny"]
OFTEN = ["--set", "run.checkpoint_every=0.2", "--set", "train.num_evaluations=0"]
LONG = ["--steps", "100000", "--quiet"]


def start(*arguments: str | Path) -> subprocess.Popen:
    command = [*TORCHRUN, *map(str, arguments)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=one_thread
    )


def saved_step(folder: Path) -> int:
    try:
        return checkpoint.load(folder)[1]["step"]
    except ValueError:  # nothing yet, or one that is about to be replaced
        return 0


def find_rank(number: int, launcher: subprocess.Popen) -> int:
    """The process that torchrun has started as a rank."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    for child in children:
        if f"\0RANK={number}\0" in Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError(f"no rank {number} among {children}")


def ours(err: str) -> list[str]:
    """Lines on standard error that are not torchrun's own."""
    lines = err.split("Traceback (most recent call last)")[0].splitlines()
    return [line for line in lines if line and "torch/distributed" not in line]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [0, 1])
def test_a_killed_rank_is_told_in_one_sentence(number: int, tmp_path: Path) -> None:
    """By the other one, with the command that goes on; and the run ends on as many ranks as then
    there are."""
    folder = tmp_path / "run"
    launcher = start(*TRAIN, *OFTEN, *LONG, "--out", folder)
    begin = time.monotonic()
    try:
        while saved_step(folder) < 3:
            assert launcher.poll() is None, launcher.communicate()
            assert time.monotonic() - begin < 300
            time.sleep(0.2)
        os.kill(find_rank(number, launcher), signal.SIGKILL)
        out, err = launcher.communicate(timeout=120)
    finally:
        launcher.kill()
    assert launcher.returncode != 0
    assert out == ""
    assert ours(err) == [
        "error: another rank has ended, so that this one ends too: the state is saved in "
        f"{folder}; go on with: torchrun --nproc-per-node 2 -m tcsis train --resume --out {folder}"
    ]
    step = saved_step(folder)
    resume = ["tcsis", "train", "--resume", "--out", folder, "--steps", str(step + 3)]
    if number == 0:
        assert main([*map(str, resume[1:]), "--quiet"]) == 0
    else:
        finished = start(*resume, "--set", "run.n=500", "--json")
        out, err = finished.communicate(timeout=300)
        assert finished.returncode == 0, err
        assert json.loads(out)["folder"] == str(folder)  # one rank has printed
        assert ours(err) == []
    assert saved_step(folder) == step + 3
    assert (folder / "report.html").is_file()


def test_commands_that_are_not_shared_out_are_refused(
    tcsis_cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group of one that says that it is two."""

    class Two(tcsis.basics.ranks.Ranks):
        size = 2

    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tcsis.basics.ranks, "all_ranks", lambda: nullcontext(Two()))
    outcome = tcsis_cli("evaluate", "anywhere")
    assert outcome.code == 2
    assert outcome.err == (
        "error: evaluate was started on 2 ranks: expected one process, as the work of train and "
        "sample alone is shared out among ranks\n"
    )
