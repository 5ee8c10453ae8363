"""Single-site updates for V > 2.

Everything follows from the logits of a site, h_i(v) + Σ_j J_ij(v, x_j), which are log p̄ as a
function of the value of that site, up to a constant, times the scale of the chain (which is kept
multiplied by log2(e), as in ``odds``).  The heat bath draws value v with probability ∝ e^logit;
Metropolis proposes another value, each with the same probability.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import int64, uint8

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints, PairwiseArrays, Singles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import CHUNK, WIDTH, ZERO, exp2, in_blocks, to_unit
from tcsis.mcmc.compiled.random import UNIT
from tcsis.mcmc.compiled.skeleton import make_step, make_sweep


class ValueModel(NamedTuple):
    """Bonds by ``agreement`` (2m,), or by ``tables`` (n, v, v) where there are any; ``scale`` and
    ``gibbs`` as in ``OddsModel``.  There are v + 2 ``rows`` to work in: logits, peak, sum."""

    start: Ints
    neighbours: Ints
    fields: Singles
    agreement: Singles
    tables: Singles
    table_index: Ints
    scale: Singles
    gibbs: bool
    rows: int


def value_model(model: PairwiseArrays, gibbs: bool, scale: Doubles) -> ValueModel:
    agreement = np.zeros(0) if model.agreement is None else model.agreement
    return ValueModel(
        model.start, model.neighbours, model.fields.astype(np.float32),
        agreement.astype(np.float32), model.tables.astype(np.float32), model.table_index,
        in_blocks((scale / math.log(2)).astype(np.float32)), gibbs, model.num_values + 2,
    )  # fmt: skip


@jit(forceinline=True)
def propose(value: Any, u: Any, v: int) -> Any:
    """Another value and a uniform of its own: u·(v - 1) has an integer part and a fraction."""
    product = int64(u) * (v - 1)
    shifted = int64(value) + 1 + (product >> 31)
    return uint8(shifted - v if shifted >= v else shifted), product & (UNIT - 1)


@jit(forceinline=True)
def update_lanes(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, drawn: Bytes, work: Singles,
) -> None:  # fmt: skip
    find_logits(model, site, lanes, work)
    choose_lanes(model, block, site, lanes, u, recent, drawn, work)


@jit(forceinline=True)
def choose_lanes(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, drawn: Bytes, work: Singles,
) -> None:  # fmt: skip
    """A new value in every lane from logits (v, WIDTH), by the rule of the model."""
    if model.gibbs:
        draw_lanes(site, work, model.scale, block, u, drawn)
    else:
        _metropolis_lanes(site, lanes, work, model.scale, block, u, drawn)
    set_lanes(site, lanes, drawn, recent)


@jit(forceinline=True)
def set_lanes(site: int, lanes: Bytes, drawn: Bytes, recent: Bytes) -> None:
    for lane in range(WIDTH):
        recent[lane] = uint8(recent[lane] + uint8(lanes[site, lane] != drawn[lane]))
        lanes[site, lane] = drawn[lane]


@jit(forceinline=True)
def find_logits(model: Any, site: int, lanes: Bytes, logits: Singles) -> None:
    for value in range(model.fields.shape[1]):
        for lane in range(WIDTH):
            logits[value, lane] = model.fields[site, value]
        for entry in range(model.start[site], model.start[site + 1]):
            other = model.neighbours[entry]
            if len(model.tables):
                table = model.table_index[entry]
                for lane in range(WIDTH):
                    logits[value, lane] += model.tables[table, value, lanes[other, lane]]
            else:
                b = model.agreement[entry]
                for lane in range(WIDTH):
                    logits[value, lane] += b if lanes[other, lane] == uint8(value) else ZERO


@jit(forceinline=True)
def draw_lanes(site: int, work: Singles, scale: Singles, row: int, u: Words, drawn: Bytes) -> None:
    """Draw the first value up to which the weights sum to a share u of all of them.  That value
    has a weight, so one of probability zero is never drawn."""
    v = work.shape[0] - 2
    peak, total = v, v + 1
    for lane in range(WIDTH):
        work[peak, lane], work[total, lane], drawn[lane] = work[0, lane], ZERO, 0
    for value in range(1, v):
        for lane in range(WIDTH):
            work[peak, lane] = max(work[peak, lane], work[value, lane])
    for value in range(v):
        for lane in range(WIDTH):
            work[total, lane] += exp2((work[value, lane] - work[peak, lane]) * scale[row, lane])
            work[value, lane] = work[total, lane]
    for lane in range(WIDTH):
        work[total, lane] *= to_unit(u[site % CHUNK, lane])
    for value in range(v - 1):
        for lane in range(WIDTH):
            drawn[lane] = uint8(drawn[lane] + uint8(work[value, lane] < work[total, lane]))


@jit(forceinline=True)
def _metropolis_lanes(
    site: int, lanes: Bytes, logits: Singles, scale: Singles, row: int, u: Words, drawn: Bytes
) -> None:
    for lane in range(WIDTH):
        old = lanes[site, lane]
        new, fraction = propose(old, u[site % CHUNK, lane], logits.shape[0] - 2)
        log_ratio = (logits[new, lane] - logits[old, lane]) * scale[row, lane]
        drawn[lane] = new if to_unit(fraction) <= exp2(min(log_ratio, ZERO)) else old


@jit(forceinline=True)
def update_site(model: Any, chain: int, site: int, x: Bytes, u: Any, logits: Singles) -> bool:
    v = len(logits) - 2
    for value in range(v):
        logits[value] = model.fields[site, value]
    for entry in range(model.start[site], model.start[site + 1]):
        there = x[chain, model.neighbours[entry]]
        if len(model.tables):
            for value in range(v):
                logits[value] += model.tables[model.table_index[entry], value, there]
        else:
            logits[there] += model.agreement[entry]
    return choose_value(model, chain, site, x, u, logits)


@jit(forceinline=True)
def choose_value(model: Any, chain: int, site: int, x: Bytes, u: Any, logits: Singles) -> bool:
    """As ``choose_lanes``, for one chain; whether the value changed."""
    v, old = len(logits) - 2, x[chain, site]
    scale = model.scale[chain // WIDTH, chain % WIDTH]
    if model.gibbs:
        new = _draw_value(logits, v, scale, u)
    else:
        new, fraction = propose(old, u, v)
        if to_unit(fraction) > exp2(min((logits[new] - logits[old]) * scale, ZERO)):
            new = old
    x[chain, site] = new
    return new != old


@jit(forceinline=True)
def _draw_value(logits: Singles, v: int, scale: Any, u: Any) -> Any:
    """As ``draw_lanes``."""
    peak, total, drawn = logits[0], ZERO, uint8(0)
    for value in range(1, v):
        peak = max(peak, logits[value])
    for value in range(v):
        total += exp2((logits[value] - peak) * scale)
        logits[value] = total
    total *= to_unit(u)
    for value in range(v - 1):
        drawn = uint8(drawn + uint8(logits[value] < total))
    return drawn


sweep_values = make_sweep(update_lanes, update_site)
step_values = make_step(update_site)
