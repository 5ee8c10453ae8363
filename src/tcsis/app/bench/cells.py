"""What is kept of one run: its result, and the settings that it came by."""

from __future__ import annotations

from typing import Any

from tcsis.app.bench.plan import Result, Task
from tcsis.app.cells import AnyCell, Cells, code_of


class Cell(AnyCell):
    """A result under the key of all that determines it."""

    result: Result


def make_key(task: Task) -> dict[str, Any]:
    """All that determines a cell, as plain data."""
    return {
        "target": repr(task.family.make(task.side)), "method": task.method.name,
        "observables": [name for name, _ in task.family.observables],
        "seconds": task.seconds, "seed": task.seed, "settings": task.method.way.describe(task),
    }  # fmt: skip


def run(task: Task) -> Cell:
    target = task.family.make(task.side)
    return Cell(key=make_key(task), code=code_of(task), result=task.method.way.run(task, target))


CELLS = Cells("benchmark", Cell, make_key, run)
