"""The compiled moves as functions of a model, a batch of states and their random streams.

All of them change ``x`` (chains, d) uint8 and ``streams`` (4, chains) uint32 in place.  ``scale``
is a number or one for each chain, (chains,), not negative: chain c moves in p̄^scale[c].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Doubles, PairwiseArrays, Words
from tcsis.mcmc.compiled.clusters import cluster_model, swendsen_wang_moves, wolff_moves
from tcsis.mcmc.compiled.factors import (
    FactorArrays,
    factor_model,
    step_factors,
    sweep_factors,
)
from tcsis.mcmc.compiled.lanes import WIDTH
from tcsis.mcmc.compiled.odds import odds_model, step_odds, sweep_odds
from tcsis.mcmc.compiled.tables import step_table, sweep_table, table_model
from tcsis.mcmc.compiled.threads import share_out
from tcsis.mcmc.compiled.values import step_values, sweep_values, value_model

Kernel = Callable[..., None]
Arrays = PairwiseArrays | FactorArrays

RULES = ("gibbs", "metropolis")
SWEEPS: dict[str, Kernel] = {
    "table": sweep_table, "odds": sweep_odds, "values": sweep_values, "factors": sweep_factors,
}  # fmt: skip
STEPS: dict[str, Kernel] = {
    "table": step_table, "odds": step_odds, "values": step_values, "factors": step_factors,
}  # fmt: skip


def sweep(
    model: Arrays,
    x: Bytes,
    streams: Words,
    num_sweeps: int,
    rule: str = "gibbs",
    scale: ArrayLike = 1.0,
) -> Counts:
    """Update the sites in order 0..d-1, ``num_sweeps`` times; the number of changes, (chains,).

    A Metropolis sweep flips every spin that is free to flip.  Without fields that can be a cycle
    it never leaves (the stripes of a small torus, and any state at scale zero): prefer Gibbs.
    """
    form, arrays = choose_form(model, rule, check(model, x, streams, scale))
    return run(SWEEPS[form], x, streams, num_sweeps, x.shape[1], arrays)[0]


def step(
    model: Arrays,
    x: Bytes,
    streams: Words,
    num_steps: int,
    rule: str = "gibbs",
    scale: ArrayLike = 1.0,
) -> Counts:
    """Update one random site a step, every chain its own; the number of changes, (chains,)."""
    form, arrays = choose_form(model, rule, check(model, x, streams, scale))
    return run(STEPS[form], x, streams, num_steps, 1, arrays)[0]


def wolff(
    model: PairwiseArrays, x: Bytes, streams: Words, num_moves: int, scale: ArrayLike = 1.0
) -> Counts:
    """Grow and turn single clusters; how many turned and how many sites they had, (2, chains)."""
    clusters = cluster_model(model, check(model, x, streams, scale))
    return run(wolff_moves, x, streams, num_moves, x.shape[1], clusters)


def swendsen_wang(
    model: PairwiseArrays, x: Bytes, streams: Words, num_moves: int, scale: ArrayLike = 1.0
) -> Counts:
    """Draw all clusters anew; how many there were and how many sites changed, (2, chains)."""
    clusters = cluster_model(model, check(model, x, streams, scale))
    return run(swendsen_wang_moves, x, streams, num_moves, x.shape[1], clusters)


def choose_form(model: Arrays, rule: str, scale: Doubles) -> tuple[str, Any]:
    """The fastest form of single-site updates, and its model."""
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}: expected one of {', '.join(RULES)}")
    gibbs = rule == "gibbs"
    if isinstance(model, FactorArrays):
        return "factors", factor_model(model, gibbs, scale)
    if model.num_values == 2 and (scale == scale[0]).all():
        table = table_model(model, gibbs, scale[0])
        if table is not None:
            return "table", table
    if model.num_values == 2:
        return "odds", odds_model(model, gibbs, scale)
    return "values", value_model(model, gibbs, scale)


def run(kernel: Kernel, x: Bytes, streams: Words, num_moves: int, work: int, model: Any) -> Counts:
    """What ``kernel`` counts, (2, chains); ``work`` is the single-site updates of one move."""
    if num_moves < 0:
        raise ValueError(f"number of moves is {num_moves}: expected 0 or more")
    counts = np.zeros((2, len(x)), dtype=np.int64)
    share_out(kernel, len(x), num_moves * work, WIDTH, x, streams, counts, num_moves, model)
    return counts


def check(model: Arrays, x: Bytes, streams: Words, scale: ArrayLike) -> Doubles:
    """``scale`` for each chain, (chains,), once everything has the right form."""
    check_states(model, x)
    if not x.flags.writeable:
        raise ValueError("x is read-only: expected an array to change in place")
    if streams.dtype != np.uint32 or streams.shape != (4, len(x)) or not streams.flags.c_contiguous:
        raise ValueError(
            f"streams has dtype {streams.dtype} and shape {streams.shape}: "
            f"expected make_streams(seed, {len(x)})"
        )
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (len(x),)).copy()
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise ValueError(f"scale is {scales}: expected finite numbers of at least 0")
    return scales


def check_states(model: Arrays, x: Bytes) -> None:
    d, v = model.fields.shape
    has_form = x.ndim == 2 and len(x) and x.shape[1] == d and x.flags.c_contiguous
    if x.dtype != np.uint8 or not has_form:
        raise ValueError(
            f"x has dtype {x.dtype} and shape {x.shape}: expected uint8 of shape (chains, {d}), "
            "row after row"
        )
    if x.max() >= v:
        raise ValueError(f"x has tokens up to {x.max()}: expected 0..{v - 1}")
