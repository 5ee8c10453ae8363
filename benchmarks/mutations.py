"""Damaged, edited and exchanged files of runs, and whether any of it is taken for a result.

    python benchmarks/mutations.py                 writes docs/results/faults/mutations.{md,json}
    python benchmarks/mutations.py --mutations 500 a part of it, printed only

A mutation changes one file of a run folder, or exchanges it with that of another run, and then a
command that reads it is called.  It has to end with the numbers of the folder as it was, or with
one clear sentence and an exit code of its own; a traceback, "a fault of tcsis" and any other number
are wrong.  What a user writes by hand, a config or couplings, carries no checksum: there a changed
number is the user's, and what is asked for is no traceback alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import safetensors.torch
import torch

from tcsis.app.cli import main

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "faults"
NUM_MUTATIONS = 10_000
BATCH = 250
"""Mutations in one process, which a damaged file might end."""
LONGEST = 60
"""Seconds after which a command that reads a damaged file is taken not to end."""
TIMES = (
    "seconds",
    "training_seconds",
    "spent",
    "folder",
    "files",
    "environment",
    "commands",
    "writer",
)

TINY = ["--preset", "tiny", "--steps", "20", "--n", "60", "--set", "train.num_evaluations=2"]
ISING = ["ising", "--side", "3", "--beta", "0.4"]
RUNS = {
    "run": ["train", *ISING, *TINY],
    "other seed": ["train", *ISING, *TINY, "--seed", "1"],
    "other target": ["train", "ising", "--side", "3", "--beta", "0.3", *TINY],
    "chains": ["mcmc", *ISING, "--chains", "6", "--steps", "20", "--burn-in", "0"],
    "other chains": ["mcmc", *ISING, "--chains", "6", "--steps", "20", "--burn-in", "0",
                     "--seed", "1"],
    "arrays": ["exact", "pairwise", "couplings.npz", "--n", "60"],
    "function": ["exact", "ring.py:log_density", "--num-sites", "6", "--num-values", "2",
                 "--n", "60"],
}  # fmt: skip
DENSITY = "def log_density(x):\n    return (x == x.roll(1, -1)).double().sum(-1)\n"
HAND = "[target]\nname = 'ising'\nside = 3\nbeta = 0.4\n\n[run]\nseed = 3\nthreads = 1\n"


# -- mutations of one file -----------------------------------------------------------------------

Change = Callable[[bytes, random.Random], bytes]


def flip_bit(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    flipped = content[place] ^ 1 << chance.randrange(8)
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def flip_bits(content: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(2, 40)):
        content = flip_bit(content, chance)
    return content


def truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def lengthen(content: bytes, chance: random.Random) -> bytes:
    return content + chance.randbytes(chance.randrange(1, 200))


def blank(content: bytes, chance: random.Random) -> bytes:
    """Zeros where a block of the disk was."""
    size = chance.choice((16, 512, 4_096))
    place = chance.randrange(max(1, len(content) - size))
    return content[:place] + bytes(min(size, len(content) - place)) + content[place + size :]


def drop_part(content: bytes, chance: random.Random) -> bytes:
    a, b = sorted(chance.randrange(len(content)) for _ in range(2))
    return content[:a] + content[b:]


def edit_number(content: bytes, chance: random.Random) -> bytes:
    """Another digit in one of the numbers of a text."""
    places = [match.start() for match in re.finditer(rb"[0-9]", content)]
    place = chance.choice(places)
    others = [digit for digit in b"0123456789" if digit != content[place]]
    return content[:place] + bytes([chance.choice(others)]) + content[place + 1 :]


def drop_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def swap_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    a, b = (chance.randrange(len(lines)) for _ in range(2))
    lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def swap_tensors(content: bytes, chance: random.Random) -> bytes:
    """Two tensors of one shape, each under the name of the other."""
    tensors = safetensors.torch.load(content)
    pairs = [
        (a, b) for a in tensors for b in tensors
        if a < b and tensors[a].shape == tensors[b].shape and tensors[a].dtype == tensors[b].dtype
    ]  # fmt: skip
    a, b = chance.choice(pairs)
    return safetensors.torch.save(tensors | {a: tensors[b], b: tensors[a]})


ANY: tuple[Change, ...] = (flip_bit, flip_bits, truncate, lengthen, blank, drop_part)
TEXT: tuple[Change, ...] = (*ANY, edit_number, edit_number, drop_line, swap_lines)


# -- what is mutated, and who reads it -----------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A file of a run, relative to its folder, how it is changed, with whose it is exchanged, and
    the command lines that read it."""

    run: str
    path: str
    changes: tuple[Change, ...]
    others: tuple[str, ...]
    readers: tuple[tuple[str, ...], ...]
    share: int = 1
    checked: bool = True


SHOW, REPORT, EVALUATE = ("show", "RUN"), ("report", "RUN"), ("evaluate", "RUN")
SAMPLE = ("sample", "RUN", "--n", "30", "--seed", "5")
RESUME = ("train", "--resume", "--out", "RUN")
REPEAT = ("exact", "--config", "RUN/config.toml")
TENSORS = "checkpoint/LAST/tensors.safetensors"
DATA = "checkpoint/LAST/data.json"
TRAINED = ("other seed", "other target")
SUBJECTS = (
    Subject("run", "config.toml", TEXT, TRAINED, (SHOW, EVALUATE, SAMPLE, RESUME), 4),
    Subject("run", "result.json", TEXT, TRAINED, (SHOW, REPORT), 4),
    Subject("run", "draws.nc", ANY, (*TRAINED, "chains"), (EVALUATE,), 4),
    Subject("run", TENSORS, (*ANY, swap_tensors, swap_tensors), TRAINED, (SAMPLE, RESUME), 4),
    Subject("run", DATA, TEXT, TRAINED, (SAMPLE, RESUME), 4),
    Subject("run", "checkpoint", (), TRAINED, (SAMPLE, RESUME), 1),
    Subject("run", "env.json", TEXT, ("other seed",), (SHOW,)),
    Subject("run", "metrics.jsonl", TEXT, ("other seed",), (SHOW,)),
    Subject("chains", "config.toml", TEXT, ("other chains",), (SHOW, EVALUATE)),
    Subject("chains", "draws.nc", ANY, ("other chains", "run"), (EVALUATE,), 2),
    Subject("chains", "result.json", TEXT, ("other chains",), (SHOW,)),
    Subject("arrays", "config.toml", TEXT, ("chains",), (EVALUATE, REPEAT)),
    Subject("arrays", "../couplings.npz", ANY, (), (REPEAT,), 2),
    Subject("function", "code.json", TEXT, (), (EVALUATE,)),
    Subject("function", "../ring.py", TEXT, (), (EVALUATE,)),
    Subject("run", "../hand.toml", TEXT, (), (("exact", "--config", "hand.toml"),), 1, False),
    Subject("run", "../couplings.json", TEXT, (), (("exact", "pairwise", "couplings.json"),), 1,
            False),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: "refused", "same", or what is wrong."""

    number: int
    file: str
    change: str
    command: str
    code: int
    found: str
    said: str = ""


def call(line: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line)
    return code, out.getvalue(), err.getvalue()


def command_line(reader: tuple[str, ...], run: str) -> list[str]:
    return [part.replace("RUN", run) for part in reader] + ["--json"]


def numbers(out: str) -> Any:
    """All that a command says, but times and places."""
    return without_times(json.loads(out)) if out.strip() else None


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def locate(run: str, path: str) -> Path:
    if "LAST" in path:
        saved = sorted(Path(run, "checkpoint").iterdir())[-1]
        return saved / Path(path).name
    return Path(run, path)


def mutate(subject: Subject, pristine: Path, chance: random.Random) -> str:
    """Change the file in the working directory; the name of what was done."""
    path = locate(subject.run, subject.path)
    choices: list[Any] = [*subject.changes, *subject.others, "delete"]
    change = chance.choice(choices)
    if change == "delete":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return "delete"
    if isinstance(change, str):
        other = locate(str(pristine / change), subject.path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(other, path) if other.is_dir() else shutil.copy(other, path)
        return f"that of {change}"
    before = path.read_bytes()
    after = change(before, chance)
    path.write_bytes(after)
    return change.__name__ if after != before else "nothing"


def try_once(number: int, pristine: Path, wanted: dict[tuple[str, ...], Any]) -> Outcome:
    chance = random.Random(number)
    subject = chance.choices(SUBJECTS, [one.share for one in SUBJECTS])[0]
    reader = chance.choice(subject.readers)
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(pristine / subject.run, subject.run)
    for path in pristine.iterdir():
        if path.is_file():
            shutil.copy(path, path.name)
    change = mutate(subject, pristine, chance)
    code, out, err = call(command_line(reader, subject.run))
    names = (subject.path.removeprefix("../"), change, reader[0])
    return Outcome(number, *names, code, *judge(subject, reader, code, out, err, wanted))


def judge(
    subject: Subject, reader: tuple[str, ...], code: int, out: str, err: str, wanted: dict
) -> tuple[str, str]:
    if code == 1 or "Traceback" in err + out or "fault of tcsis" in err:
        return "fault", err[-400:]
    if code != 0:
        lines = err.strip().splitlines()
        clear = len([line for line in lines if line.startswith("error: ")]) == 1
        return ("refused" if clear else "unclear"), err[-400:]
    if not subject.checked:
        return "accepted", ""
    found, right = numbers(out), wanted[subject.run, *reader]
    if reader[0] == "show" and "methods" not in found:
        right = {key: value for key, value in right.items() if key in found}
    return ("same", "") if found == right else ("wrong number", out[-400:])


# -- the study -----------------------------------------------------------------------------------


def prepare() -> dict[tuple[str, ...], Any]:
    """Make the runs in the working directory, and what every reader says of them as they are."""
    rng = np.random.default_rng(0)
    j = np.triu(rng.normal(size=(5, 5)), 1)
    np.savez("couplings.npz", J=j + j.T, beta=0.3)
    Path("couplings.json").write_text(json.dumps({"J": (j + j.T).round(3).tolist()}, indent=1))
    Path("ring.py").write_text(DENSITY)
    Path("hand.toml").write_text(HAND)
    for name, line in RUNS.items():
        code, _, err = call([*line, "--quiet", "--out", name])
        assert code == 0, err
        Path(name, "report.html").unlink()  # large, and nobody reads it
    wanted: dict[tuple[str, ...], Any] = {}
    for subject in SUBJECTS:
        for reader in subject.readers:
            if (subject.run, *reader) not in wanted:
                code, out, err = call(command_line(reader, subject.run))
                assert code == 0, err
                wanted[subject.run, *reader] = numbers(out)
    return wanted


def try_batch(batch: range, pristine: Path, wanted: dict, kept: Path) -> None:
    """In a process of its own, one line for each mutation."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            with kept.open("a") as file:
                for number in batch:
                    signal.alarm(LONGEST)  # which ends the process
                    outcome = try_once(number, pristine, wanted)
                    file.write(json.dumps(asdict(outcome)) + "\n")
                    file.flush()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        number = len(kept.read_text().splitlines())
        ended = Outcome(number, "", "", "", code, "fault", f"the process ended with {code}")
        with kept.open("a") as file:
            file.write(json.dumps(asdict(ended)) + "\n")
        try_batch(range(number + 1, batch.stop), pristine, wanted, kept)


def study(total: int) -> list[Outcome]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        pristine, work, kept = (Path(place, name) for name in ("pristine", "work", "kept.jsonl"))
        work.mkdir()
        kept.touch()
        os.chdir(work)
        wanted = prepare()
        shutil.copytree(work, pristine)  # configs name files by paths below ``work``
        for first in range(0, total, BATCH):
            try_batch(range(first, min(first + BATCH, total)), pristine, wanted, kept)
            found = [Outcome(**json.loads(line)) for line in kept.read_text().splitlines()]
            print(len(found), dict(Counter(one.found for one in found)), flush=True)
            for one in found[first:]:
                if one.found not in ("refused", "same", "accepted"):
                    print(one, flush=True)
        os.chdir("/")
    return found


def page(outcomes: list[Outcome]) -> str:
    kinds = ("refused", "same", "accepted", "wrong number", "fault", "unclear")
    files = sorted({one.file for one in outcomes})
    rows = []
    for file in files:
        count = Counter(one.found for one in outcomes if one.file == file)
        numbers = " | ".join(str(count[kind]) for kind in kinds)
        rows.append(f"| `{file.replace('LAST/', '')}` | {sum(count.values())} | {numbers} |")
    total = Counter(one.found for one in outcomes)
    rows.append(f"| all | {len(outcomes)} | " + " | ".join(str(total[k]) for k in kinds) + " |")
    changes = ", ".join(sorted({one.change for one in outcomes}))
    table = "\n".join(rows)
    return f"""# Damaged, edited and exchanged files

    python benchmarks/mutations.py

{len(outcomes):,} mutations of files of runs, each followed by a command that reads the file:
`show`, `report`, `evaluate`, `sample`, `train --resume` or `exact --config`. Refused: one clear
sentence and an exit code of its own. Same: the numbers of the folder as it was. Accepted: what is
written by hand (`hand.toml`, `couplings.json`) carries no checksum, and what it says is taken. A
wrong number, a traceback or "a fault of tcsis", or an unclear end must not be.

| file | mutations | refused | same | accepted | wrong number | fault | unclear |
|---|---|---|---|---|---|---|---|
{table}

Changes: {changes}.

`metrics.jsonl` is for other programs: no command reads it. What stays the same is damage that no
number depends on, such as a checkpoint that was deleted, so that the run starts again from its
seed, the name of the machine, or nothing at all, where two equal lines changed places.
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mutations", type=int, default=NUM_MUTATIONS)
    return parser.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    asked = parse().mutations
    outcomes = study(asked)
    if asked == NUM_MUTATIONS:
        bad = [asdict(one) for one in outcomes if one.found not in ("refused", "same", "accepted")]
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "mutations.json").write_text(json.dumps(bad, indent=1) + "\n")
        (FOLDER / "mutations.md").write_text(page(outcomes))
    else:
        print(page(outcomes))
    sys.exit(any(one.found not in ("refused", "same", "accepted") for one in outcomes))
