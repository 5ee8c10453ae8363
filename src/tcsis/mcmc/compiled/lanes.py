"""Many chains side by side: the last axis of every array in here is the lane, one chain each.

A block is WIDTH chains.  Its state is (d, WIDTH) uint8, so that the loop over lanes is the
innermost one everywhere and turns into vector instructions; the last block is filled up with idle
lanes.  The width is a constant because the compiler then needs no code for what is left over at
the end of a loop.  Floating-point operations are neither reordered nor fused, so a lane computes
bit for bit what a chain on its own does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import float32, int32

from tcsis.mcmc.compiled.arrays import Bytes, Singles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.random import advance, load_stream, store_stream

WIDTH = 128
"""Chains of a block."""

FEW = 8
"""With fewer chains than this in a block it is faster to run them one by one."""

CHUNK = 8
"""Uniforms drawn at a time: a sweep uses a multiple of this many of a chain's stream."""

TILE = 64
"""Sites transposed at a time: TILE × WIDTH bytes stay in the first-level cache."""

FLUSH = 128
"""One-byte counters are emptied after at most this many updates."""

ZERO, HALF, ONE = float32(0), float32(0.5), float32(1)
UNIT_INVERSE = float32(2.0**-31)
LOWEST = float32(-126)
ROUND = float32(1.5 * 2**23)  # a float32 this large has no bits behind the point
EXPONENT_BIAS = int32(127 << 23)
C1, C2, C3 = float32(6.93147182e-1), float32(2.40226477e-1), float32(5.55033237e-2)
C4, C5, C6 = float32(9.61842295e-3), float32(1.33989053e-3), float32(1.53574962e-4)


def in_blocks(values: Singles) -> Singles:
    """values (chains, ...) as (blocks, ..., WIDTH), with zeros for the idle lanes."""
    num_blocks = -(-len(values) // WIDTH)
    padded = np.zeros((num_blocks * WIDTH, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    blocks = padded.reshape(num_blocks, WIDTH, *values.shape[1:])
    return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))


@jit()
def load_sites(x: Bytes, first: int) -> Any:
    """Chains first, first + 1, ... of x (chains, d) as lanes (d, WIDTH)."""
    d = x.shape[1]
    lanes = np.zeros((d, WIDTH), np.uint8)
    for tile in range(0, d, TILE):
        for lane in range(min(WIDTH, x.shape[0] - first)):
            for site in range(tile, min(tile + TILE, d)):
                lanes[site, lane] = x[first + lane, site]
    return lanes


@jit()
def store_sites(lanes: Bytes, first: int, x: Bytes) -> None:
    """The inverse of ``load_sites``."""
    d = x.shape[1]
    for tile in range(0, d, TILE):
        for lane in range(min(WIDTH, x.shape[0] - first)):
            for site in range(tile, min(tile + TILE, d)):
                x[first + lane, site] = lanes[site, lane]


@jit()
def load_columns(values: Any, first: int) -> Any:
    """Columns first, first + 1, ... of values (n, chains) as lanes (n, WIDTH)."""
    lanes = np.zeros((values.shape[0], WIDTH), values.dtype)
    for row in range(values.shape[0]):
        for lane in range(min(WIDTH, values.shape[1] - first)):
            lanes[row, lane] = values[row, first + lane]
    return lanes


@jit()
def store_columns(lanes: Any, first: int, values: Any) -> None:
    """The inverse of ``load_columns``."""
    for row in range(values.shape[0]):
        for lane in range(min(WIDTH, values.shape[1] - first)):
            values[row, first + lane] = lanes[row, lane]


@jit()
def fill_uniforms(states: Words, u: Words) -> None:
    """The next CHUNK uniforms of every lane: states (4, WIDTH), u (CHUNK, WIDTH)."""
    for lane in range(WIDTH):
        state = load_stream(states, lane)
        for row in range(CHUNK):
            u[row, lane], state = advance(state)
        store_stream(state, states, lane)


@jit()
def flush(recent: Bytes, counts: Any) -> None:
    """Move the one-byte counters recent (WIDTH,) to counts (1, WIDTH)."""
    for lane in range(WIDTH):
        counts[0, lane] += recent[lane]
        recent[lane] = 0


@jit()
def to_unit(u: Any) -> Any:
    """A uniform as a float32 in (0, 1]; not zero, so that what has probability zero never is."""
    return (float32(int32(u)) + HALF) * UNIT_INVERSE


@jit()
def exp2(y: Any) -> Any:
    """2^y for a float32 y ≤ 0 to a relative error of 1e-7, without a call or a branch.

    The integer part of y goes to the exponent bits, the fraction through a polynomial.  Below -126
    it stays at 2^-126, which is less than the smallest ``to_unit``.
    """
    y = max(y, LOWEST)
    rounded = y + ROUND
    r = y - (rounded - ROUND)
    fraction = (((((C6 * r + C5) * r + C4) * r + C3) * r + C2) * r + C1) * r + ONE
    exponent = int32(float32(rounded).view(np.int32) << 23)
    return fraction * int32(exponent + EXPONENT_BIAS).view(np.float32)
