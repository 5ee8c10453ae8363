"""Cells of a long programme: one piece of its work each, kept as it is finished.

A cell has a file of its own, a whole one under the name of its task, or none.  It carries the key
of all that determines it, and a digest of the code that made it.  A file with another key belongs
to another programme and is refused.  One that cannot be read is damaged, and one of other code,
which may have had other settings, is out of date: their cells are to be run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tcsis.app import executors
from tcsis.app.digests import digest
from tcsis.app.executors import Failure
from tcsis.basics import locks
from tcsis.basics.files import WriteError, naming, write_whole
from tcsis.basics.frozen import Frozen
from tcsis.basics.seals import open_json, seal_json
from tcsis.basics.signals import deferred

FOLDER = "cells"


class AnyTask(Protocol):
    """A piece of the work: ``name`` is that of its file, ``label`` what a reader sees, and
    ``modules`` are those whose code, with all that they import, decides what it gives."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def modules(self) -> tuple[str, ...]: ...

    @property
    def expected_seconds(self) -> float: ...


class AnyCell(Frozen):
    """What came of a task, under the key of all that determines it."""

    key: dict[str, Any]
    code: str


Task = TypeVar("Task", bound=AnyTask)
Cell = TypeVar("Cell", bound=AnyCell)


def code_of(task: AnyTask) -> str:
    """A digest of what a cell is made by."""
    return digest(task.modules)


@dataclass(frozen=True)
class Kept(Generic[Task, Cell]):
    """The cells of a folder by their task, and the names of files that are damaged, or of cells
    that other code made."""

    cells: dict[Task, Cell]
    damaged: list[str]
    outdated: list[str]


@dataclass(frozen=True)
class Cells(Generic[Task, Cell]):
    """The cells of a ``programme``, by its name: their class, ``make_key``, which gives all that
    determines one as plain data, and ``run``, which makes one."""

    programme: str
    cell: type[Cell]
    make_key: Callable[[Task], dict[str, Any]]
    run: Callable[[Task], Cell]

    def locate(self, folder: Path, task: Task) -> Path:
        return folder / FOLDER / f"{task.name}.json"

    def keep(self, folder: Path, task: Task, cell: Cell) -> Path:
        path = self.locate(folder, task)
        text = json.dumps(cell.model_dump(), allow_nan=False, indent=1) + "\n"
        write_whole(path, seal_json(text))
        return path

    def read(self, path: Path) -> Cell | None:
        """The cell in a file; None if it is damaged."""
        try:
            return self.cell.model_validate_json(open_json(path, path.read_bytes()))
        except ValueError:
            return None

    def read_all(self, folder: Path, tasks: Sequence[Task]) -> Kept[Task, Cell]:
        """The finished cells of a folder; those of another programme are refused."""
        self.refuse_strangers(folder, tasks)
        kept: Kept[Task, Cell] = Kept({}, [], [])
        for task in tasks:
            path = self.locate(folder, task)
            if not path.exists():
                continue
            cell = self.read(path)
            if cell is None:
                kept.damaged.append(path.name)
                continue
            current, wanted = cell.code == code_of(task), self.make_key(task)
            if not current:  # other code may have had other settings
                wanted["settings"] = cell.key.get("settings")
            self.refuse_other(path, cell.key, wanted)
            if current:
                kept.cells[task] = cell
            else:
                kept.outdated.append(path.name)
        return kept

    def refuse_strangers(self, folder: Path, tasks: Sequence[Task]) -> None:
        """Refuse a folder that holds something else, or cells that no task would write."""
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: expected a folder")
        inside = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
        if inside - {locks.NAME} and FOLDER not in inside:
            locks.refuse_busy(folder)
            raise ValueError(
                f"{folder} is not empty and no {self.programme} is in it: pass another folder"
            )
        known = {self.locate(folder, task).name for task in tasks}
        for path in sorted((folder / FOLDER).glob("*.json")):
            if path.name not in known:
                raise ValueError(
                    f"{folder} has a cell {path.name} that this {self.programme} does not have: it "
                    "belongs to another one; pass another folder"
                )

    def refuse_other(self, path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Refuse a cell with another key, naming the first difference."""
        if found != wanted:
            raise ValueError(
                f"{path.parent.parent} has a cell {path.name} of another {self.programme}, with "
                f"{difference(found, wanted)}: pass another folder, or remove that cell "
                "to run it again"
            )

    def run_all(
        self, folder: Path, tasks: Sequence[Task], executor: Executor
    ) -> Generator[tuple[Task, Cell | Failure], None, None]:
        """Run and keep every cell, yielding each as it is finished.  One that fails comes as a
        ``Failure``, and the others go on."""
        with naming(folder / FOLDER):
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        with closing(executors.run_all(self.run, tasks, executor)) as results:
            for task, outcome in results:
                yield task, self.take(folder, task, outcome)

    def take(self, folder: Path, task: Task, outcome: Cell | Failure) -> Cell | Failure:
        """A cell once it is in its file; why there is none of it, where there is none."""
        if isinstance(outcome, Failure):
            return outcome
        if outcome.code != code_of(task):
            told = "its worker has other code of tcsis: install there what this process runs"
            return Failure("OtherCode", told)
        try:
            with deferred():
                self.keep(folder, task, outcome)
        except WriteError as error:
            return Failure.of(error)
        return outcome


def difference(found: dict[str, Any], wanted: dict[str, Any], where: str = "") -> str:
    """The first entry in which two tables differ, with both values; goes into inner tables."""
    name = next(n for n in sorted(found.keys() | wanted.keys()) if found.get(n) != wanted.get(n))
    this, that = found.get(name), wanted.get(name)
    if isinstance(this, dict) and isinstance(that, dict):
        return difference(this, that, f"{where}{name}.")
    return f"{where}{name} = {this!r} where {that!r} is wanted"
