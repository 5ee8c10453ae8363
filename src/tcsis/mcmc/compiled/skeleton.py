"""The loops that all single-site updates share, around the functions in which they differ.

A form of the updates is a model, a named tuple of arrays, and two functions of it:

    update_lanes(model, block, site, lanes, u, recent, drawn, work)
    update_site(model, chain, site, x, u, work)            1 if the site changed, or 0

The first updates a site in all lanes, lanes (d, WIDTH), with row site % CHUNK of the uniforms
u (CHUNK, WIDTH), and adds the changes to recent (WIDTH,); it computes in drawn (WIDTH,) uint8 and
in work (model.rows, WIDTH) float32.  The second updates one chain of x (chains, d) with the
uniform u, and computes in work (model.rows,).  Sites and uniforms come in one order, so that a
chain does not depend on which of the two moves it.

The functions are compiled into the loops, once for each form, which runs as fast as loops written
out for each.  That takes whole arrays as arguments: a tuple of arrays, or a slice made at every
site, was 6 to 12 % slower for V = 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import (
    CHUNK,
    FEW,
    FLUSH,
    WIDTH,
    fill_uniforms,
    flush,
    load_columns,
    load_sites,
    store_columns,
    store_sites,
)
from tcsis.mcmc.compiled.random import advance, load_stream, pick, store_stream


def make_block_sweep(update_lanes: Any) -> Any:
    """Sweeps of whole blocks of chains, the lanes side by side."""

    @jit(nogil=True)
    def sweep_blocks(
        first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int, model: Any
    ) -> None:
        u, work = np.empty((CHUNK, WIDTH), np.uint32), np.empty((model.rows, WIDTH), np.float32)
        recent, drawn = np.zeros(WIDTH, np.uint8), np.empty(WIDTH, np.uint8)
        for start in range(first, stop, WIDTH):
            lanes, states = load_sites(x, start), load_columns(streams, start)
            changes, block = load_columns(counts, start), start // WIDTH
            for _ in range(num_sweeps):
                for site in range(x.shape[1]):
                    if site % CHUNK == 0:
                        fill_uniforms(states, u)
                    update_lanes(model, block, site, lanes, u, recent, drawn, work)
                    if site % FLUSH == 0:
                        flush(recent, changes)
                flush(recent, changes)
            store_sites(lanes, start, x)
            store_columns(states, start, streams)
            store_columns(changes, start, counts)

    return sweep_blocks


def make_sweep(update_lanes: Any, update_site: Any) -> Any:
    """Sweeps in the order 0..d-1 of chains first..stop-1 of x (chains, d), where ``first`` begins
    a block; the number of changes is added to counts[0]."""
    sweep_blocks = make_block_sweep(update_lanes)

    @jit(nogil=True)
    def sweep_chains(
        first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int, model: Any
    ) -> None:
        d, work = x.shape[1], np.empty(model.rows, np.float32)
        for chain in range(first, stop):
            state = load_stream(streams, chain)
            for _ in range(num_sweeps):
                for site in range(d):
                    u, state = advance(state)
                    counts[0, chain] += update_site(model, chain, site, x, u, work)
                for _ in range(-d % CHUNK):  # a block draws whole chunks
                    u, state = advance(state)
            store_stream(state, streams, chain)

    # not compiled itself: a call more costs nothing beside sweeps, and each part is compiled alone,
    # and only where there is something for it to do
    def sweep(
        first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_sweeps: int, model: Any
    ) -> None:
        left_over = (stop - first) % WIDTH
        split = stop - left_over if left_over < FEW else stop
        if first < split:
            sweep_blocks(first, split, x, streams, counts, num_sweeps, model)
        if split < stop:
            sweep_chains(split, stop, x, streams, counts, num_sweeps, model)

    return sweep


def make_step(update_site: Any) -> Any:
    """Updates of a random site a step, another one in each of the chains first..stop-1."""

    @jit(nogil=True)
    def step(
        first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_steps: int, model: Any
    ) -> None:
        work = np.empty(model.rows, np.float32)
        for chain in range(first, stop):
            state = load_stream(streams, chain)
            for _ in range(num_steps):
                where, state = advance(state)
                u, state = advance(state)
                site = pick(where, x.shape[1])
                counts[0, chain] += update_site(model, chain, site, x, u, work)
            store_stream(state, streams, chain)

    return step
