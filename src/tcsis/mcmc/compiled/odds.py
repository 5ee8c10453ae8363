"""Single-site updates for V = 2 with any couplings: probabilities computed in each lane.

Everything follows from the log-odds of value 1 at site i, offset_i + Σ_j weight_ij x_j, times the
scale of the chain, which may differ from chain to chain.  Scales are kept multiplied by log2(e),
since ``exp2`` is cheaper than exp.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint8

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints, PairwiseArrays, Singles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import CHUNK, ONE, WIDTH, ZERO, exp2, in_blocks, to_unit
from tcsis.mcmc.compiled.random import UNIT
from tcsis.mcmc.compiled.skeleton import make_step, make_sweep

LAST = np.uint32(UNIT - 1)


class OddsModel(NamedTuple):
    """``scale`` is (blocks, WIDTH); the rule is Metropolis unless it is ``gibbs``."""

    start: Ints
    neighbours: Ints
    offset: Singles
    weight: Singles
    scale: Singles
    gibbs: bool
    rows: int = 1


def odds_model(model: PairwiseArrays, gibbs: bool, scale: Doubles) -> OddsModel:
    """The arrays the updates need, for chains at ``scale`` (chains,)."""
    scale_2 = in_blocks((scale / math.log(2)).astype(np.float32))
    return OddsModel(model.start, model.neighbours, *model.spin_odds, scale_2, gibbs)


@jit(forceinline=True)
def log_ratio(value: Any, odds: Any) -> Any:
    """Δ from the log-odds of value 1."""
    return -odds if value else odds


@jit(forceinline=True)
def gibbs_flip(delta: Any, u: Any) -> Any:
    """The less likely of flipping and staying has probability e/(1 + e), e = 2^-|Δ|.  Drawing that
    one, with u read from its own end of the unit interval, keeps float32 exact in the tails."""
    e = exp2(-abs(delta))
    likely = delta > ZERO
    unlikely = to_unit(LAST - u if likely else u) * (ONE + e) < e
    return uint8(likely ^ unlikely)


@jit(forceinline=True)
def metropolis_flip(delta: Any, u: Any) -> Any:
    return uint8(to_unit(u) <= exp2(min(delta, ZERO)))


def over_lanes(flip: Any) -> Any:
    """Flips of one site in all lanes, from odds (1, WIDTH), times a row of scale."""

    @jit(forceinline=True)
    def flip_lanes(
        site: int, lanes: Bytes, odds: Singles, scale: Singles, row: int, u: Words, recent: Bytes
    ) -> None:
        for lane in range(WIDTH):
            delta = log_ratio(lanes[site, lane], odds[0, lane] * scale[row, lane])
            flips = flip(delta, u[site % CHUNK, lane])
            lanes[site, lane] = uint8(lanes[site, lane] ^ flips)
            recent[lane] = uint8(recent[lane] + flips)

    return flip_lanes


gibbs_lanes, metropolis_lanes = over_lanes(gibbs_flip), over_lanes(metropolis_flip)


@jit(forceinline=True)
def update_lanes(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, drawn: Any, odds: Singles,
) -> None:  # fmt: skip
    find_odds(model, site, lanes, odds)
    if model.gibbs:
        gibbs_lanes(site, lanes, odds, model.scale, block, u, recent)
    else:
        metropolis_lanes(site, lanes, odds, model.scale, block, u, recent)


@jit(forceinline=True)
def find_odds(model: Any, site: int, lanes: Bytes, odds: Singles) -> None:
    """Neighbours two at a time, which halves the traffic of the sums."""
    neighbours, weight = model.neighbours, model.weight
    entry, stop = model.start[site], model.start[site + 1]
    for lane in range(WIDTH):
        odds[0, lane] = model.offset[site]
    if (stop - entry) % 2:
        for lane in range(WIDTH):
            odds[0, lane] += weight[entry] if lanes[neighbours[entry], lane] else ZERO
        entry += 1
    for pair in range(entry, stop, 2):
        a, b = neighbours[pair], neighbours[pair + 1]
        weight_a, weight_b = weight[pair], weight[pair + 1]
        for lane in range(WIDTH):
            partial = odds[0, lane] + (weight_a if lanes[a, lane] else ZERO)
            odds[0, lane] = partial + (weight_b if lanes[b, lane] else ZERO)


@jit(forceinline=True)
def update_site(model: Any, chain: int, site: int, x: Bytes, u: Any, work: Any) -> Any:
    odds = model.offset[site]
    for entry in range(model.start[site], model.start[site + 1]):
        odds += model.weight[entry] * float32(x[chain, model.neighbours[entry]])
    delta = log_ratio(x[chain, site], odds * model.scale[chain // WIDTH, chain % WIDTH])
    flip = gibbs_flip(delta, u) if model.gibbs else metropolis_flip(delta, u)
    x[chain, site] = uint8(x[chain, site] ^ flip)
    return flip


sweep_odds = make_sweep(update_lanes, update_site)
step_odds = make_step(update_site)
