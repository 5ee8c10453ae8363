"""What is kept of one run, and its file: a whole one under its name, or none.

A cell carries the key of all that determines it, and a digest of the code that made it.  A file
with another key belongs to another study and is refused.  One that cannot be read is damaged, and
one of other code, which may have had other settings, is out of date: their cells are to be run
again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tcsis.app.study.plan import Task
from tcsis.app.study.sources import digest
from tcsis.app.summaries import finite
from tcsis.basics.files import write_whole
from tcsis.basics.frozen import Frozen
from tcsis.basics.seals import open_json, seal_json
from tcsis.draws import Draws
from tcsis.judging import metrics
from tcsis.judging.evaluation import Comparison
from tcsis.judging.reference import Reference, States

FOLDER = "cells"


class Reading(Frozen):
    """One set of draws.  Errors are those of G(r), r = 1..max_distance; ``log_z_error`` is against
    the exact value and ``log_z_deviation`` the standard error.  What has no weights has None in
    their place, as has a number that is not finite."""

    num_draws: int
    error: float
    floor: float
    weighted_error: float | None
    ess: float | None
    log_z: float | None
    log_z_error: float | None
    log_z_deviation: float | None
    positive: float  # share of the draws with a mean spin above zero
    seconds: float
    num_density_calls: float
    network_calls: float  # a draw
    correlation: list[float]  # G(r), r = 0..max_distance
    weighted_correlation: list[float] | None
    magnetisation: list[int]  # draws with 0..d spins up
    weighted_magnetisation: list[float] | None  # shares of the weight


class Cell(Frozen):
    """One run: its training, and its draws under the name of every reading."""

    key: dict[str, Any]
    code: str
    training_seconds: float
    training_densities: float
    readings: dict[str, Reading]


def make_key(task: Task) -> dict[str, Any]:
    """All that determines a cell, as plain data."""
    setting = task.setting
    return {
        "side": setting.side, "beta": setting.beta, "num_calls": setting.num_calls,
        "method": task.method.name, "seed": task.seed, "num_draws": task.num_draws,
        "seconds": task.seconds, "steps": task.steps,
        "settings": task.method.way.describe(task, setting.make_target()),
    }  # fmt: skip


def code(task: Task) -> str:
    """A digest of what the sampler is made of."""
    return digest(task.method.way.modules)


# -- making --------------------------------------------------------------------------------------


def run(task: Task) -> Cell:
    """Train, draw, and compare with the exact answers."""
    target = task.setting.make_target()
    made = task.method.way.run(task, target)
    reference = Reference(target)
    return Cell(
        key=make_key(task),
        code=code(task),
        training_seconds=made.training_seconds,
        training_densities=made.training_densities,
        readings={name: measure(draws, reference) for name, draws in made.readings.items()},
    )


def measure(draws: Draws, reference: Reference) -> Reading:
    target, truth = reference.target, reference.truth
    assert target.lattice is not None and truth is not None
    weights = draws.weights
    counts = draws.x.long().sum(-1)  # spins up
    size = target.num_sites + 1
    states = States(target, draws.x.long())
    judged = Comparison(states, None, reference).correlation()
    assert judged.error is not None and judged.floor is not None
    weighted = None
    if weights is not None and bool(weights.isfinite().all()):
        weighted = metrics.correlation(draws.x, target.num_values, target.lattice, weights)
    return Reading(
        num_draws=len(draws),
        error=judged.error,
        floor=judged.floor,
        weighted_error=None if weighted is None else mean_error(weighted, truth.correlation),
        ess=finite(draws.ess),
        log_z=finite(draws.log_z),
        log_z_error=finite(None if draws.log_z is None else draws.log_z - truth.log_z),
        log_z_deviation=finite(draws.log_z_error),
        positive=float((2 * counts > target.num_sites).double().mean()),
        seconds=draws.seconds,
        num_density_calls=draws.num_density_calls,
        network_calls=draws.num_network_calls / len(draws),
        correlation=metrics.correlation(draws.x, target.num_values, target.lattice).tolist(),
        weighted_correlation=None if weighted is None else weighted.tolist(),
        magnetisation=torch.bincount(counts, minlength=size).tolist(),
        weighted_magnetisation=None
        if weighted is None
        else metrics.histogram(counts, size, weights).tolist(),
    )


def mean_error(estimate: Tensor, truth: Tensor | None) -> float:
    assert truth is not None
    return float((estimate - truth)[1:].abs().mean())


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


def read_all(folder: Path, tasks: list[Task]) -> Kept:
    """The finished cells of a folder; those of another study are refused."""
    refuse_strangers(folder, tasks)
    kept = Kept({}, [], [])
    for task in tasks:
        path = locate(folder, task)
        if not path.exists():
            continue
        cell = read(path)
        if cell is None:
            kept.damaged.append(path.name)
        else:
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


def refuse_strangers(folder: Path, tasks: list[Task]) -> None:
    """Refuse a folder with cells that no task of this study would write."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder")
    known = {locate(folder, task).name for task in tasks}
    for path in sorted((folder / FOLDER).glob("*.json")):
        if path.name not in known:
            raise ValueError(
                f"{folder} has a cell {path.name} that this study does not have: it belongs to "
                "another one; pass another folder with --out"
            )


def refuse_others(folder: Path, path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a cell with another key, naming the first difference."""
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"{folder} has a cell {path.name} of another study, with "
                f"{difference(name, found.get(name), wanted.get(name))}: pass another folder with "
                "--out, or remove that cell to run it again"
            )


def difference(name: str, found: Any, wanted: Any) -> str:
    """Both values, going down into tables."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for inner in sorted(found.keys() | wanted.keys()):
            if found.get(inner) != wanted.get(inner):
                return difference(f"{name}.{inner}", found.get(inner), wanted.get(inner))
    return f"{name} = {found!r} where {wanted!r} is wanted"
