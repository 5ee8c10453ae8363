"""Single-site updates for V > 2.

Everything follows from the logits of a site, h_i(v) + Σ_j J_ij(v, x_j), which are log p̄ as a
function of the value of that site, up to a constant, times the scale of the chain (which comes
multiplied by log2(e), as in ``odds``).  The heat bath draws value v with probability ∝ e^logit;
Metropolis proposes another value, each with the same probability.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy import float32, int64, uint8

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Ints, PairwiseArrays, Singles, Words
from tcsis.mcmc.compiled.lanes import (
    CHUNK,
    FEW,
    FLUSH,
    WIDTH,
    ZERO,
    exp2,
    fill_uniforms,
    flush,
    load_columns,
    load_sites,
    store_columns,
    store_sites,
    to_unit,
)
from tcsis.mcmc.compiled.random import UNIT, advance, load_stream, pick, store_stream


class ValueModel(NamedTuple):
    """Bonds by ``agreement`` (2m,), or by ``tables`` (n, v, v) where there are any."""

    start: Ints
    neighbours: Ints
    fields: Singles
    agreement: Singles
    tables: Singles
    table_index: Ints


def value_model(model: PairwiseArrays) -> ValueModel:
    agreement = np.zeros(0) if model.agreement is None else model.agreement
    return ValueModel(
        model.start, model.neighbours, model.fields.astype(np.float32),
        agreement.astype(np.float32), model.tables.astype(np.float32), model.table_index,
    )  # fmt: skip


@njit(cache=True, forceinline=True)
def propose(value: Any, u: Any, v: int) -> Any:
    """Another value and a uniform of its own: u·(v - 1) has an integer part and a fraction."""
    product = int64(u) * (v - 1)
    shifted = int64(value) + 1 + (product >> 31)
    return uint8(shifted - v if shifted >= v else shifted), product & (UNIT - 1)


# -- many chains: sites in order, lanes side by side -------------------------------------------


@njit(cache=True, nogil=True)
def sweep_values(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    """As ``sweep_odds``."""
    for block in range(first, stop, WIDTH):
        if stop - block < FEW:
            for chain in range(block, stop):
                _sweep_chain(chain, x, streams, counts, num_sweeps, gibbs, scale, model)
        else:
            _sweep_block(block, x, streams, counts, num_sweeps, gibbs, scale, model)


@njit(cache=True)
def _sweep_block(
    first: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    lanes, states = load_sites(x, first), load_columns(streams, first)
    changes, recent = load_columns(counts, first), np.zeros(WIDTH, np.uint8)
    u, drawn = np.empty((CHUNK, WIDTH), np.uint32), np.empty(WIDTH, np.uint8)
    logits, work = np.empty((model.fields.shape[1], WIDTH), float32), np.empty((2, WIDTH), float32)
    scales = load_columns(scale, first)
    for _ in range(num_sweeps):
        for site in range(x.shape[1]):
            if site % CHUNK == 0:
                fill_uniforms(states, u)
            find_logits(lanes, site, model, logits)
            if gibbs:
                gibbs_lanes(logits, scales, u, site % CHUNK, drawn, work)
            else:
                _metropolis_lanes(lanes, site, logits, scales, u, drawn)
            for lane in range(WIDTH):
                recent[lane] = uint8(recent[lane] + uint8(lanes[site, lane] != drawn[lane]))
                lanes[site, lane] = drawn[lane]
            if site % FLUSH == 0:
                flush(recent, changes)
        flush(recent, changes)
    store_sites(lanes, first, x)
    store_columns(states, first, streams)
    store_columns(changes, first, counts)


@njit(cache=True, forceinline=True)
def find_logits(lanes: Bytes, site: int, model: Any, logits: Singles) -> None:
    for value in range(logits.shape[0]):
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


@njit(cache=True, forceinline=True)
def gibbs_lanes(
    logits: Singles, scale: Singles, u: Words, row: int, drawn: Bytes, work: Singles
) -> None:
    """Draw the first value up to which the weights sum to a share u of all of them.  That value
    has a weight, so one of probability zero is never drawn.  work (2, WIDTH): peaks, sums."""
    for lane in range(WIDTH):
        work[0, lane], work[1, lane], drawn[lane] = logits[0, lane], ZERO, 0
    for value in range(1, logits.shape[0]):
        for lane in range(WIDTH):
            work[0, lane] = max(work[0, lane], logits[value, lane])
    for value in range(logits.shape[0]):
        for lane in range(WIDTH):
            work[1, lane] += exp2((logits[value, lane] - work[0, lane]) * scale[0, lane])
            logits[value, lane] = work[1, lane]
    for lane in range(WIDTH):
        work[1, lane] *= to_unit(u[row, lane])
    for value in range(logits.shape[0] - 1):
        for lane in range(WIDTH):
            drawn[lane] = uint8(drawn[lane] + uint8(logits[value, lane] < work[1, lane]))


@njit(cache=True, forceinline=True)
def _metropolis_lanes(
    lanes: Bytes, site: int, logits: Singles, scale: Singles, u: Words, drawn: Bytes
) -> None:
    for lane in range(WIDTH):
        old = lanes[site, lane]
        new, fraction = propose(old, u[site % CHUNK, lane], logits.shape[0])
        log_ratio = (logits[new, lane] - logits[old, lane]) * scale[0, lane]
        drawn[lane] = new if to_unit(fraction) <= exp2(min(log_ratio, ZERO)) else old


# -- one chain ---------------------------------------------------------------------------------


@njit(cache=True)
def _sweep_chain(
    chain: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    d, logits = x.shape[1], np.empty(model.fields.shape[1], np.float32)
    state = load_stream(streams, chain)
    for _ in range(num_sweeps):
        for site in range(d):
            u, state = advance(state)
            counts[0, chain] += _set_site(x, chain, site, u, gibbs, scale[0, chain], model, logits)
        for _ in range(-d % CHUNK):  # a block draws whole chunks
            u, state = advance(state)
    store_stream(state, streams, chain)


@njit(cache=True, nogil=True)
def step_values(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_steps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    """As ``step_odds``."""
    logits = np.empty(model.fields.shape[1], np.float32)
    for chain in range(first, stop):
        state = load_stream(streams, chain)
        for _ in range(num_steps):
            where, state = advance(state)
            u, state = advance(state)
            site = pick(where, x.shape[1])
            counts[0, chain] += _set_site(x, chain, site, u, gibbs, scale[0, chain], model, logits)
        store_stream(state, streams, chain)


@njit(cache=True, forceinline=True)
def _set_site(
    x: Bytes, chain: int, site: int, u: Any, gibbs: bool, scale: Any, model: Any, logits: Singles
) -> bool:
    v, old = len(logits), x[chain, site]
    for value in range(v):
        logits[value] = model.fields[site, value]
    for entry in range(model.start[site], model.start[site + 1]):
        there = x[chain, model.neighbours[entry]]
        if len(model.tables):
            for value in range(v):
                logits[value] += model.tables[model.table_index[entry], value, there]
        else:
            logits[there] += model.agreement[entry]
    if gibbs:
        new = _gibbs_value(logits, scale, u)
    else:
        new, fraction = propose(old, u, v)
        if to_unit(fraction) > exp2(min((logits[new] - logits[old]) * scale, ZERO)):
            new = old
    x[chain, site] = new
    return new != old


@njit(cache=True, forceinline=True)
def _gibbs_value(logits: Singles, scale: Any, u: Any) -> Any:
    """As ``gibbs_lanes``."""
    peak, total, drawn = logits[0], ZERO, uint8(0)
    for value in range(1, len(logits)):
        peak = max(peak, logits[value])
    for value in range(len(logits)):
        total += exp2((logits[value] - peak) * scale)
        logits[value] = total
    total *= to_unit(u)
    for value in range(len(logits) - 1):
        drawn = uint8(drawn + uint8(logits[value] < total))
    return drawn
