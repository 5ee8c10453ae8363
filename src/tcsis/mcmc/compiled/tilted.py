"""Heat-bath sweeps with a field of its own for every chain: p̄(x)^scale·exp(Σ_i fields_c[i, x_i]).

With fields log k_t(x_t^i | v) this is the posterior of x_0 given x_t, which walkers follow.  As in
``odds`` and ``values``, logarithms come in base 2.  An infinite field holds a site at a value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy import float32, uint8
from numpy.typing import ArrayLike

from tcsis.mcmc.compiled import odds as spins
from tcsis.mcmc.compiled import values
from tcsis.mcmc.compiled.arrays import Bytes, Counts, PairwiseArrays, Singles, Words
from tcsis.mcmc.compiled.lanes import (
    CHUNK,
    FLUSH,
    WIDTH,
    fill_uniforms,
    flush,
    load_columns,
    load_sites,
    store_columns,
    store_sites,
)
from tcsis.mcmc.compiled.moves import check, run

find_odds, gibbs_spins = spins.find_odds, spins.gibbs_lanes
find_logits, gibbs_values = values.find_logits, values.gibbs_lanes

LOG2_E = 1 / math.log(2)


def sweep_tilted(
    model: PairwiseArrays,
    x: Bytes,
    streams: Words,
    num_sweeps: int,
    fields: Singles,
    scale: ArrayLike = 1.0,
) -> Counts:
    """Update the sites in order 0..d-1, ``num_sweeps`` times, by the heat bath, chain c in the
    fields (chains, d, v) of its own; the number of changes, (chains,)."""
    scales = (check(model, x, streams, scale) * LOG2_E).astype(np.float32)[None, :]
    if fields.shape != (*x.shape, model.num_values):
        raise ValueError(
            f"fields has shape {fields.shape}: expected {(*x.shape, model.num_values)}, one field "
            "for each value of each site of each chain"
        )
    fields = fields.astype(np.float32) * float32(LOG2_E)
    if model.num_values == 2:
        tilt = np.ascontiguousarray((fields[..., 1] - fields[..., 0]).T)
        spin_args = (scales, tilt, spins.odds_model(model))
        return run(sweep_tilted_spins, x, streams, num_sweeps, x.shape[1], *spin_args)[0]
    tilt = np.ascontiguousarray(fields.reshape(len(x), -1).T)
    value_args = (scales, tilt, values.value_model(model))
    return run(sweep_tilted_values, x, streams, num_sweeps, x.shape[1], *value_args)[0]


@njit(cache=True, nogil=True)
def sweep_tilted_spins(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    scale: Singles, tilt: Singles, model: Any,
) -> None:  # fmt: skip
    """Sweeps of chains first..stop-1 of x (chains, d) for V = 2, with scale (1, chains) and tilt
    (d, chains), what the fields add to the log-odds of value 1."""
    one = np.ones((1, WIDTH), np.float32)
    for block in range(first, stop, WIDTH):
        lanes, states = load_sites(x, block), load_columns(streams, block)
        flips, recent = load_columns(counts, block), np.zeros(WIDTH, np.uint8)
        scales, tilts = load_columns(scale, block), load_columns(tilt, block)
        u, odds = np.empty((CHUNK, WIDTH), np.uint32), np.empty(WIDTH, np.float32)
        for _ in range(num_sweeps):
            for site in range(x.shape[1]):
                if site % CHUNK == 0:
                    fill_uniforms(states, u)
                find_odds(lanes, site, model, odds)
                for lane in range(WIDTH):
                    odds[lane] = odds[lane] * scales[0, lane] + tilts[site, lane]
                gibbs_spins(lanes, site, odds, one, u, recent)
                if site % FLUSH == 0:
                    flush(recent, flips)
            flush(recent, flips)
        store_sites(lanes, block, x)
        store_columns(states, block, streams)
        store_columns(flips, block, counts)


@njit(cache=True, nogil=True)
def sweep_tilted_values(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int,
    scale: Singles, tilt: Singles, model: Any,
) -> None:  # fmt: skip
    """The same for V > 2, with tilt (d·v, chains), the fields themselves."""
    v = model.fields.shape[1]
    one, work = np.ones((1, WIDTH), np.float32), np.empty((2, WIDTH), np.float32)
    for block in range(first, stop, WIDTH):
        lanes, states = load_sites(x, block), load_columns(streams, block)
        changes, drawn = load_columns(counts, block), np.empty(WIDTH, np.uint8)
        scales, tilts = load_columns(scale, block), load_columns(tilt, block)
        u, logits = np.empty((CHUNK, WIDTH), np.uint32), np.empty((v, WIDTH), float32)
        for _ in range(num_sweeps):
            for site in range(x.shape[1]):
                if site % CHUNK == 0:
                    fill_uniforms(states, u)
                find_logits(lanes, site, model, logits)
                for value in range(v):
                    for lane in range(WIDTH):
                        own = logits[value, lane] * scales[0, lane]
                        logits[value, lane] = own + tilts[site * v + value, lane]
                gibbs_values(logits, one, u, site % CHUNK, drawn, work)
                for lane in range(WIDTH):
                    changes[0, lane] += uint8(lanes[site, lane] != drawn[lane])
                    lanes[site, lane] = drawn[lane]
        store_sites(lanes, block, x)
        store_columns(states, block, streams)
        store_columns(changes, block, counts)
