"""A few cells again, and the ratios between their methods beside those of a folder.

Seconds differ from machine to machine; what a draw of one method costs in draws of another, on the
same target in the same run, should not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcsis.app.bench.cells import CELLS, make_key
from tcsis.app.bench.plan import Plan, Result, Task
from tcsis.app.cells import FOLDER

FACTOR = 2.5
"""That a ratio may be off either way."""

Results = Mapping[Task, Result]


@dataclass(frozen=True)
class Ratio:
    """What a draw of ``task`` costs in those of ``other``, then and now."""

    task: Task
    other: Task
    then: float
    now: float

    @property
    def holds(self) -> bool:
        return 1 / FACTOR <= self.now / self.then <= FACTOR

    def __str__(self) -> str:
        names = f"{self.task.label} costs {self.now:.3g} times {self.other.method.title}"
        return f"{names}, and {self.then:.3g} times in the folder"


def guarded_tasks(plan: Plan) -> list[Task]:
    """Those of the plan that are run again, as far as they are installed."""
    found = [task for task in plan.tasks() if task.name in plan.guarded and task.method.installed]
    return sorted(found, key=lambda task: plan.guarded.index(task.name))


def kept_results(folder: Path, tasks: Sequence[Task]) -> dict[Task, Result]:
    """What the folder has of these tasks, whatever code made it."""
    found = {}
    for task in tasks:
        path = CELLS.locate(folder, task)
        if not path.exists() and task.method.needs and (folder / FOLDER).exists():
            continue  # made where that library was not installed
        if not path.exists():
            raise ValueError(
                f"{folder} has no {path.name}: expected the folder of a run that is finished, and "
                "--quick if that run had it; make one with tcsis bench --out"
            )
        cell = CELLS.read(path)
        if cell is None:
            raise ValueError(
                f"{path} is damaged: restore it, or run the command again that made {folder}"
            )
        CELLS.refuse_other(path, cell.key, make_key(task))
        found[task] = cell.result
    return found


def compare(then: Results, now: Results) -> tuple[list[Ratio], list[str]]:
    """The ratios of every method to the first of its target, and sentences on what is wrong."""
    ratios, wrong = [], []
    first: dict[tuple[str, int], Task] = {}
    for task, before in then.items():
        if before.refused:
            continue
        if now[task].refused:
            wrong.append(f"{task.label} was good before and is refused now: {now[task].refused}")
            continue
        other = first.setdefault((task.family.name, task.side), task)
        if other != task:
            ratios.append(
                Ratio(task, other, before.cost / then[other].cost, now[task].cost / now[other].cost)
            )
    if not ratios and not wrong:
        wrong.append("no two methods of one target have an estimate: there is nothing to compare")
    wrong += [
        f"{ratio}: expected a factor of at most {FACTOR:g} between them"
        for ratio in ratios
        if not ratio.holds
    ]
    return ratios, wrong
