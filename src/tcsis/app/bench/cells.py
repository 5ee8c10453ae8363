"""What is kept of one run, and its file: a whole one under its name, or none.

A cell carries the key of all that determines it, and a digest of the code that made it.  One that
cannot be read is damaged, and one of other code is out of date: both are run again.  A cell with
another key belongs to another programme and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcsis.app.bench.plan import Result, Task
from tcsis.app.study.cells import refuse_others
from tcsis.app.study.sources import digest
from tcsis.basics.files import write_whole
from tcsis.basics.frozen import Frozen
from tcsis.basics.seals import open_json, seal_json

FOLDER = "cells"


class Cell(Frozen):
    """A result under the key of all that determines it."""

    key: dict[str, Any]
    code: str
    result: Result


def make_key(task: Task) -> dict[str, Any]:
    """All that determines a cell, as plain data."""
    return {
        "target": repr(task.family.make(task.side)), "method": task.method.name,
        "observables": [name for name, _ in task.family.observables],
        "seconds": task.seconds, "seed": task.seed, "settings": task.method.way.describe(task),
    }  # fmt: skip


def code(task: Task) -> str:
    """A digest of what the sampler and its measurement are made of."""
    return digest(task.method.way.modules)


def run(task: Task) -> Cell:
    target = task.family.make(task.side)
    return Cell(key=make_key(task), code=code(task), result=task.method.way.run(task, target))


# -- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """The cells of a folder by their task, and the names of files that are damaged, or of cells
    that other code made."""

    cells: dict[Task, Cell]
    damaged: list[str]
    outdated: list[str]


def keep(folder: Path, task: Task, cell: Cell) -> Path:
    path = locate(folder, task)
    text = json.dumps(cell.model_dump(), allow_nan=False, indent=1) + "\n"
    write_whole(path, seal_json(text))
    return path


def read_all(folder: Path, tasks: Sequence[Task]) -> Kept:
    """The finished cells of a folder; those of another programme are refused."""
    kept = Kept({}, [], [])
    for task in tasks:
        path = locate(folder, task)
        if not path.exists():
            continue
        cell = read(path)
        if cell is None:
            kept.damaged.append(path.name)
            continue
        current, wanted = cell.code == code(task), make_key(task)
        if not current:  # other code may have had other settings
            wanted["settings"] = cell.key.get("settings")
        refuse_others(folder, path, cell.key, wanted)
        if current:
            kept.cells[task] = cell
        else:
            kept.outdated.append(path.name)
    return kept


def read(path: Path) -> Cell | None:
    """The cell in a file; None if it is damaged."""
    try:
        return Cell.model_validate_json(open_json(path, path.read_bytes()))
    except ValueError:
        return None


def locate(folder: Path, task: Task) -> Path:
    return folder / FOLDER / f"{task.name}.json"


def refuse_strangers(folder: Path, tasks: Sequence[Task]) -> None:
    """Refuse a folder with cells that no task of this programme would write."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder")
    names = {locate(folder, task).name for task in tasks}
    for path in sorted((folder / FOLDER).glob("*.json")):
        if path.name not in names:
            raise ValueError(
                f"{folder} has a cell {path.name} that this programme does not have: it belongs to "
                "another one; pass another folder with --out"
            )
