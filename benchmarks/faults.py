"""Runs that are killed, stopped and starved of disk at random moments, and what is left of them.

    python benchmarks/faults.py              writes docs/results/faults/faults.{md,json}
    python benchmarks/faults.py --trials 20  a part of it, printed only

A trial starts a run in a process of its own, ends it at a random moment by SIGKILL, SIGTERM or
SIGINT, or fills its disk, sees that readers find a whole run, resumes it, for some trials through
more such ends, and compares what comes out with a run that nothing happened to: all tensors of the
checkpoint, draws with their weights, config, and result and metrics but for times.  Every second
trial overwrites an older run, whose files have to stay as they are until the new one is complete.

The disk is a small tmpfs where this process may mount one (root), or else those trials are left
out.  Processes are forked from one that has imported everything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numba
import torch
from numba.np.ufunc import parallel

from tcsis.app.cli import inspection, main, running
from tcsis.basics.seals import open_json
from tcsis.draws.storage import read_draws
from tcsis.learn import checkpoint

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "faults"
NUM_TRIALS = 500
DISK = "48m"
LINE = [
    "train", "ising", "--side", "3", "--beta", "0.4", "--preset", "tiny", "--steps", "60", "--n",
    "100", "--set", "run.checkpoint_every=0", "--set", "train.num_evaluations=2", "--quiet",
    "--out", "run",
]  # fmt: skip
OLD = ["mcmc", "ising", "--side", "3", "--beta", "0.2", "--chains", "5", "--steps", "20",
       "--burn-in", "0", "--quiet", "--out", "run"]  # fmt: skip
RESUME = ["train", "--resume", "--quiet", "--out", "run"]
CODES = {
    "SIGKILL": (-signal.SIGKILL,),
    "SIGTERM": (143, -signal.SIGTERM),  # the second one before the program has begun
    "SIGINT": (130,),
    "full disk": (6,),
}  # fmt: skip
TIMES = ("seconds", "training_seconds", "spent")
SECOND_FAULT = 0.3
LATEST = 1.1
"""Faults come until this many times the length of a whole run."""


@dataclass
class Trial:
    """What happened: the faults with the exit codes they led to, and everything that was wrong."""

    number: int
    overwrites: bool
    faults: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    saved_steps: list[int | None] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


# -- processes -----------------------------------------------------------------------------------


def start(line: list[str], said: Path) -> int:
    """A command line in a process of its own, with what it prints in a file."""
    pid = os.fork()
    if pid:
        return pid
    # that of numba is shared by all processes, and one that is killed may hold it for ever
    parallel._backend_init_process_lock = threading.RLock()
    code = 99
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = main(line)
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(line: list[str], said: Path) -> int:
    return wait(start(line, said))


def run_with_fault(
    line: list[str], fault: str, delay: float, said: Path, random_numbers: random.Random
) -> int:
    """The exit code of a command line to which something happens after a while."""
    pid = start(line, said)
    time.sleep(delay)
    if fault == "full disk":
        filler = Path("filler")
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * random_numbers.choice((4_096, 65_536)))
        code = wait(pid)
        filler.unlink()
        return code
    os.kill(pid, getattr(signal, fault))  # a process that has ended is still waited for
    return wait(pid)


@contextlib.contextmanager
def disk() -> Iterator[bool]:
    """A new folder to work in, and whether it is a disk of its own that can be filled."""
    here, place = Path.cwd(), Path(tempfile.mkdtemp(dir="/dev/shm"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    os.chdir(place)
    try:
        yield mounted
    finally:
        os.chdir(here)
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
        shutil.rmtree(place)


# -- what is compared ----------------------------------------------------------------------------


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def fingerprint(folder: Path) -> dict[str, Any]:
    """Everything about a complete run that a fault must not change, by what it is."""
    tensors, data = checkpoint.load(folder / "checkpoint")
    draws, attributes = read_draws(folder / "draws.nc")
    result = json.loads(open_json(folder / "result.json", (folder / "result.json").read_bytes()))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    hashed = {name: hash_bytes(value.numpy().tobytes()) for name, value in tensors.items()}
    return {
        "tensors": hashed,
        "data": without_times(data),
        "draws": [hash_bytes(value.tobytes()) for value in draws.to_numpy().values()],
        "attributes": without_times(attributes),
        "result": without_times(result),
        "metrics": without_times([json.loads(line) for line in lines]),
        "config": (folder / "config.toml").read_text(),
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")
                        if "checkpoint-" not in str(path)),
    }  # fmt: skip


def hash_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_files(folder: Path) -> dict[str, str]:
    """Every file but the name of whoever writes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".writer")
    return {str(path.relative_to(folder)): hash_bytes(path.read_bytes()) for path in paths}


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [f"{name} differs" for name in wanted if found[name] != wanted[name]]


# -- a trial -------------------------------------------------------------------------------------


def try_once(number: int, wanted: dict[str, Any], seconds: float) -> Trial:
    chance = random.Random(number)
    trial = Trial(number, overwrites=number % 2 == 1)
    with disk() as can_be_filled:
        kinds = [kind for kind in CODES if can_be_filled or kind != "full disk"]
        said = Path("said.txt")
        old: dict[str, str] | None = None
        if trial.overwrites:
            assert run(OLD, said) == 0
            old = hash_files(Path("run"))
        line = [*LINE, *(["--overwrite"] if trial.overwrites else [])]
        while not trial.faults or chance.random() < SECOND_FAULT:
            fault = kinds[(number + len(trial.faults)) % len(kinds)]
            delay = chance.uniform(0, LATEST * seconds)
            code = run_with_fault(line, fault, delay, said, chance)
            trial.faults.append(fault)
            trial.codes.append(code)
            if code not in (0, *CODES[fault]):
                trial.wrong.append(f"exit code {code} after {fault}")
            trial.saved_steps.append(look_at_what_is_left(trial, code, old, said))
            line = how_to_go_on()
            if code == 0:
                break
        for _ in range(2):
            if trial.codes[-1] == 0:
                break
            code = run(line, said)
            if code == 0:
                break
            trial.wrong.append(f"exit code {code} of {' '.join(line)}: {last_line(said)}")
        trial.wrong += differences(fingerprint(Path("run")), wanted)
        strangers = {path.name for path in Path().iterdir()} - {"run", "said.txt"}
        trial.wrong += [f"{name} is left" for name in strangers]
        if "Traceback" in said.read_text():
            trial.wrong.append(f"a traceback: {said.read_text()[-1_000:]}")
    return trial


def look_at_what_is_left(
    trial: Trial, code: int, old: dict[str, str] | None, said: Path
) -> int | None:
    """See that the run is readable or not there yet; the step that it would go on from."""
    folder, place = Path("run"), Path("run.replacement")
    began = (folder / "config.toml").exists() or place.exists() or Path("run.replaced").exists()
    if began and run(["show", "--quiet", "run"], said) != 0:
        trial.wrong.append(f"show fails: {last_line(said)}")
    if old is not None and place.exists() and folder.exists() and hash_files(folder) != old:
        trial.wrong.append("the old run is not what it was")
    where = place if place.exists() else folder
    if code == 0 or not checkpoint.exists(where / "checkpoint"):
        return None
    return checkpoint.load(where / "checkpoint")[1]["step"]


def how_to_go_on() -> list[str]:
    """Resume what there is to resume, or begin again."""
    began = any(Path(name, "config.toml").exists() for name in ("run.replacement",))
    began = began or Path("run.replaced").exists()
    if not began and Path("run", "config.toml").exists():
        began = 'command = "train"' in Path("run", "config.toml").read_text()
    return RESUME if began else [*LINE, "--overwrite"]


def last_line(said: Path) -> str:
    return (said.read_text().splitlines() or [""])[-1]


# -- the study -----------------------------------------------------------------------------------


def study(num_trials: int) -> list[Trial]:
    with disk():
        said = Path("said.txt")
        assert main(LINE) == 0  # in this process, so that all others have what it compiles
        wanted, seconds = fingerprint(Path("run")), math.inf
        for _ in range(5):
            shutil.rmtree("run")
            begin = time.perf_counter()
            assert run(LINE, said) == 0
            seconds = min(seconds, time.perf_counter() - begin)
            assert fingerprint(Path("run")) == wanted, "two runs that nothing happens to differ"
    print(f"a run takes {seconds:.2f} s", flush=True)
    trials = []
    for number in range(num_trials):
        trials.append(try_once(number, wanted, seconds))
        if trials[-1].wrong or number % 25 == 24:
            print(trials[-1], flush=True)
    return trials


def page(trials: list[Trial]) -> str:
    faults = [
        (fault, code, step)
        for trial in trials
        for fault, code, step in zip(trial.faults, trial.codes, trial.saved_steps, strict=True)
    ]
    rows = []
    for kind in CODES:
        of_kind = [(code, step) for fault, code, step in faults if fault == kind]
        late = sum(code == 0 for code, _ in of_kind)
        steps = [step for _, step in of_kind if step is not None]
        resumed = f"{min(steps)} to {max(steps)}" if steps else ""
        before = len(of_kind) - late - len(steps)
        codes = Counter(code for code, _ in of_kind if code != 0)
        spelled = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
        numbers = f"{len(of_kind)} | {late} | {before} | {len(steps)}"
        rows.append(f"| {kind} | {numbers} | {resumed} | {spelled} |")
    wrong = [trial for trial in trials if trial.wrong]
    listed = "".join(f"- trial {trial.number}: {'; '.join(trial.wrong)}\n" for trial in wrong)
    overwriting = sum(trial.overwrites for trial in trials)
    table = "\n".join(rows)
    return f"""# Kills, signals and full disks

    python benchmarks/faults.py

{len(trials)} runs, {overwriting} of which overwrite an older one, met {len(faults)} faults at
random moments of a run and a tenth beyond. Each was resumed, some through more faults, and
compared with a run that nothing happened to: every tensor of the checkpoint, the draws and their
weights, config, result, metrics and the names of all files, all but times. After each fault
`tcsis show` had to find a whole run, and an older one that was being overwritten had to be as it
was, file by file.

| fault | times | after the end | before a state was kept | resumed | from step | exit codes |
|---|---|---|---|---|---|---|
{table}

Wrong: {len(wrong)} of {len(trials)}.

{listed}The run: `tcsis {" ".join(LINE)}`, whose state is written after each of its 60 steps.
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--trials", type=int, default=NUM_TRIALS)
    return parser.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    assert running and inspection  # imported here, once for all processes
    asked = parse().trials
    found = study(asked)
    if asked == NUM_TRIALS:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "faults.json").write_text(json.dumps([asdict(t) for t in found], indent=1) + "\n")
        (FOLDER / "faults.md").write_text(page(found))
    else:
        print(page(found))
    sys.exit(any(trial.wrong for trial in found))
