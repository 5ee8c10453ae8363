"""What is kept of one run: its training, and what its draws were measured to be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tcsis.app.cells import AnyCell, Cells, code_of
from tcsis.app.study.plan import Task
from tcsis.app.summaries import finite
from tcsis.basics.frozen import Frozen
from tcsis.draws import Draws
from tcsis.judging import metrics
from tcsis.judging.evaluation import Comparison
from tcsis.judging.reference import Reference, States


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


class Cell(AnyCell):
    """One run: its training, and its draws under the name of every reading."""

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


# -- making --------------------------------------------------------------------------------------


def run(task: Task) -> Cell:
    """Train, draw, and compare with the exact answers."""
    target = task.setting.make_target()
    made = task.method.way.run(task, target)
    reference = Reference(target)
    return Cell(
        key=make_key(task),
        code=code_of(task),
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


CELLS = Cells("study", Cell, make_key, run)
