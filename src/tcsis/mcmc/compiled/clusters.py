"""Cluster moves for ferromagnets: log p̄ = Σ_e b_e·[x_i = x_j] + Σ_i h_i(x_i) with every b ≥ 0.

Bonds between equal values are drawn, each with probability 1 - exp(-scale·b), and sites that are
bound to each other move as one.

Wolff: one cluster grows from a random site and turns from its value u to another value w.  Growing
it takes care of the bonds, and the fields decide whether it turns, with probability
min(1, exp(scale·Σ_{i in cluster} (h_i(w) - h_i(u)))).

Swendsen–Wang: all bonds are drawn, and every cluster draws its value anew from
exp(scale·Σ_{i in cluster} h_i(v)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Doubles, Ints, PairwiseArrays, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.random import UNIT, advance, load_stream, pick, store_stream, thresholds

TAKEN = np.uint8(255)
"""In place of the value of a site that belongs to a cluster already."""


class ClusterModel(NamedTuple):
    """``bond`` (scales, levels) holds the threshold of drawing a bond at each different scale and
    for each different strength; ``row`` (chains,) and ``level`` (2m,) say which."""

    start: Ints
    neighbours: Ints
    level: Ints
    bond: Words
    row: Ints
    scale: Doubles  # (chains,)
    fields: Doubles  # (d, v)
    has_fields: bool


def cluster_model(model: PairwiseArrays, scale: Doubles) -> ClusterModel:
    """The arrays the moves need, for chains at ``scale`` (chains,)."""
    if model.agreement is None:
        raise ValueError("couplings are not of the form a + b·[u = v]: cluster moves need that")
    if (model.agreement < 0).any():
        raise ValueError(
            f"a coupling is antiferromagnetic, b = {model.agreement.min():.6g}: "
            "expected every b >= 0 in a + b·[u = v]"
        )
    strengths, level = model.levels
    scales, row = np.unique(scale, return_inverse=True)
    return ClusterModel(
        model.start, model.neighbours, level, thresholds(-np.expm1(-np.outer(scales, strengths))),
        row.astype(np.int32), scale, model.fields, model.has_fields,
    )  # fmt: skip


@jit(nogil=True)
def wolff_moves(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_moves: int, model: Any
) -> None:
    """Wolff moves of chains first..stop-1 of x (chains, d).  counts (2, chains): clusters turned,
    and sites in them."""
    d, v = model.fields.shape
    queue = np.empty(d + 1, np.int32)
    for chain in range(first, stop):
        state = load_stream(streams, chain)
        for _ in range(num_moves):
            where, state = advance(state)
            seed = pick(where, d)
            old = x[chain, seed]
            u, state = advance(state)
            new = (old + 1 + pick(u, v - 1)) % v
            size, state = _grow_cluster(chain, x, state, seed, queue, model)
            turns = True
            if model.has_fields:
                gain = 0.0
                for member in queue[:size]:
                    gain += model.fields[member, new] - model.fields[member, old]
                u, state = advance(state)
                turns = u < UNIT * math.exp(min(model.scale[chain] * gain, 0.0))
            for member in queue[:size]:
                x[chain, member] = new if turns else old
            counts[0, chain] += turns
            counts[1, chain] += size * turns
        store_stream(state, streams, chain)


@jit(nogil=True)
def swendsen_wang_moves(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_moves: int, model: Any
) -> None:
    """Swendsen–Wang moves.  counts (2, chains): clusters, and sites that changed."""
    d, v = model.fields.shape
    queue, drawn, logits = np.empty(d + 1, np.int32), np.empty(d, np.uint8), np.zeros(v)
    for chain in range(first, stop):
        state = load_stream(streams, chain)
        for _ in range(num_moves):
            for seed in range(d):
                old = x[chain, seed]
                if old == TAKEN:
                    continue
                size, state = _grow_cluster(chain, x, state, seed, queue, model)
                if model.has_fields:
                    logits[:] = 0.0
                    for member in queue[:size]:
                        for value in range(v):
                            logits[value] += model.scale[chain] * model.fields[member, value]
                u, state = advance(state)
                new = _draw_value(logits, u) if model.has_fields else pick(u, v)
                for member in queue[:size]:
                    drawn[member] = new
                counts[0, chain] += 1
                counts[1, chain] += size * (new != old)
            for site in range(d):
                x[chain, site] = drawn[site]
        store_stream(state, streams, chain)


@jit(forceinline=True)
def _grow_cluster(chain: int, x: Bytes, state: Any, seed: int, queue: Ints, model: Any) -> Any:
    """The sites bound to ``seed``, in queue[:size], with TAKEN in their place in x.

    A bond is tried from the end that is reached first; from the other end, the first is TAKEN.
    Whether a site joins is a coin toss that no processor foresees, hence no branch on it.
    """
    old, row = x[chain, seed], model.row[chain]
    queue[0], x[chain, seed], head, size = seed, TAKEN, 0, 1
    while head < size:
        site = queue[head]
        head += 1
        for entry in range(model.start[site], model.start[site + 1]):
            other = model.neighbours[entry]
            there = x[chain, other]
            u, state = advance(state)
            joins = (there == old) & (u < model.bond[row, model.level[entry]])
            x[chain, other] = TAKEN if joins else there
            queue[size] = other  # stays only if the size grows: the queue has one place to spare
            size += joins
    return size, state


@jit()
def _draw_value(logits: Doubles, u: Any) -> int:
    """A value with probability ∝ exp(logits)."""
    peak, total = logits.max(), 0.0
    for value in range(len(logits)):
        total += math.exp(logits[value] - peak)
    left = (u + 0.5) / UNIT * total
    for value in range(len(logits) - 1):
        left -= math.exp(logits[value] - peak)
        if left <= 0:
            return value
    return len(logits) - 1
