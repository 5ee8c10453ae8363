"""Single-site updates for V = 2 with any couplings: probabilities computed in each lane.

Everything follows from the log-odds of value 1 at site i, offset_i + Σ_j weight_ij x_j, times the
scale of the chain, which may differ from chain to chain.  Scales come multiplied by log2(e), since
``exp2`` is cheaper than exp.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy import float32, uint8

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Ints, PairwiseArrays, Singles, Words
from tcsis.mcmc.compiled.lanes import (
    CHUNK,
    FEW,
    FLUSH,
    ONE,
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

LAST = np.uint32(UNIT - 1)


class OddsModel(NamedTuple):
    start: Ints
    neighbours: Ints
    offset: Singles
    weight: Singles


def odds_model(model: PairwiseArrays) -> OddsModel:
    return OddsModel(model.start, model.neighbours, *model.spin_odds)


@njit(cache=True, forceinline=True)
def log_ratio(value: Any, odds: Any) -> Any:
    """Δ from the log-odds of value 1."""
    return -odds if value else odds


@njit(cache=True, forceinline=True)
def gibbs_flip(delta: Any, u: Any) -> Any:
    """The less likely of flipping and staying has probability e/(1 + e), e = 2^-|Δ|.  Drawing that
    one, with u read from its own end of the unit interval, keeps float32 exact in the tails."""
    e = exp2(-abs(delta))
    likely = delta > ZERO
    unlikely = to_unit(LAST - u if likely else u) * (ONE + e) < e
    return uint8(likely ^ unlikely)


@njit(cache=True, forceinline=True)
def metropolis_flip(delta: Any, u: Any) -> Any:
    return uint8(to_unit(u) <= exp2(min(delta, ZERO)))


# -- many chains: sites in order, lanes side by side -------------------------------------------


@njit(cache=True, nogil=True)
def sweep_odds(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    """As ``sweep_table``, with scale (1, chains)."""
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
    flips, recent = load_columns(counts, first), np.zeros(WIDTH, np.uint8)
    u, odds = np.empty((CHUNK, WIDTH), np.uint32), np.empty(WIDTH, np.float32)
    scales = load_columns(scale, first)
    for _ in range(num_sweeps):
        for site in range(x.shape[1]):
            if site % CHUNK == 0:
                fill_uniforms(states, u)
            find_odds(lanes, site, model, odds)
            if gibbs:
                gibbs_lanes(lanes, site, odds, scales, u, recent)
            else:
                _metropolis_lanes(lanes, site, odds, scales, u, recent)
            if site % FLUSH == 0:
                flush(recent, flips)
        flush(recent, flips)
    store_sites(lanes, first, x)
    store_columns(states, first, streams)
    store_columns(flips, first, counts)


@njit(cache=True, forceinline=True)
def find_odds(lanes: Bytes, site: int, model: Any, odds: Singles) -> None:
    """Neighbours two at a time, which halves the traffic of the sums."""
    neighbours, weight = model.neighbours, model.weight
    entry, stop = model.start[site], model.start[site + 1]
    for lane in range(WIDTH):
        odds[lane] = model.offset[site]
    if (stop - entry) % 2:
        for lane in range(WIDTH):
            odds[lane] += weight[entry] if lanes[neighbours[entry], lane] else ZERO
        entry += 1
    for pair in range(entry, stop, 2):
        a, b = neighbours[pair], neighbours[pair + 1]
        weight_a, weight_b = weight[pair], weight[pair + 1]
        for lane in range(WIDTH):
            partial = odds[lane] + (weight_a if lanes[a, lane] else ZERO)
            odds[lane] = partial + (weight_b if lanes[b, lane] else ZERO)


@njit(cache=True, forceinline=True)
def gibbs_lanes(
    lanes: Bytes, site: int, odds: Singles, scale: Singles, u: Words, recent: Bytes
) -> None:
    for lane in range(WIDTH):
        delta = log_ratio(lanes[site, lane], odds[lane] * scale[0, lane])
        flip = gibbs_flip(delta, u[site % CHUNK, lane])
        lanes[site, lane] = uint8(lanes[site, lane] ^ flip)
        recent[lane] = uint8(recent[lane] + flip)


@njit(cache=True, forceinline=True)
def _metropolis_lanes(
    lanes: Bytes, site: int, odds: Singles, scale: Singles, u: Words, recent: Bytes
) -> None:
    for lane in range(WIDTH):
        delta = log_ratio(lanes[site, lane], odds[lane] * scale[0, lane])
        flip = metropolis_flip(delta, u[site % CHUNK, lane])
        lanes[site, lane] = uint8(lanes[site, lane] ^ flip)
        recent[lane] = uint8(recent[lane] + flip)


# -- one chain ---------------------------------------------------------------------------------


@njit(cache=True)
def _sweep_chain(
    chain: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    d = x.shape[1]
    state = load_stream(streams, chain)
    for _ in range(num_sweeps):
        for site in range(d):
            u, state = advance(state)
            counts[0, chain] += _flip_site(x, chain, site, u, gibbs, scale[0, chain], model)
        for _ in range(-d % CHUNK):  # a block draws whole chunks
            u, state = advance(state)
    store_stream(state, streams, chain)


@njit(cache=True, nogil=True)
def step_odds(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_steps: int,
    gibbs: bool, scale: Singles, model: Any,
) -> None:  # fmt: skip
    """As ``step_table``, with scale (1, chains)."""
    for chain in range(first, stop):
        state = load_stream(streams, chain)
        for _ in range(num_steps):
            where, state = advance(state)
            u, state = advance(state)
            site = pick(where, x.shape[1])
            counts[0, chain] += _flip_site(x, chain, site, u, gibbs, scale[0, chain], model)
        store_stream(state, streams, chain)


@njit(cache=True, forceinline=True)
def _flip_site(x: Bytes, chain: int, site: int, u: Any, gibbs: bool, scale: Any, model: Any) -> Any:
    odds = model.offset[site]
    for entry in range(model.start[site], model.start[site + 1]):
        odds += model.weight[entry] * float32(x[chain, model.neighbours[entry]])
    delta = log_ratio(x[chain, site], odds * scale)
    flip = gibbs_flip(delta, u) if gibbs else metropolis_flip(delta, u)
    x[chain, site] = uint8(x[chain, site] ^ flip)
    return flip
