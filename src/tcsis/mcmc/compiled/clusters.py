"""Cluster moves for ferromagnets: log p̄ = Σ_e b_e·[x_i = x_j] + Σ_i h_i(x_i) with every b ≥ 0.

A bond between equal values is drawn with probability 1 - exp(-scale·b), and bound sites move as one.

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
from numba import njit

from tcsis.mcmc.compiled.arrays import Bytes, Counts, Doubles, Ints, PairwiseArrays, Words
from tcsis.mcmc.compiled.random import UNIT, advance, load_stream, pick, store_stream, thresholds


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


@njit(cache=True, nogil=True)
def wolff_moves(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_moves: int, model: Any
) -> None:
    """Wolff moves of chains first..stop-1 of x (chains, d).  counts (2, chains): clusters turned
    and sites in them."""
    queue = np.empty(x.shape[1], np.int32)
    for chain in range(first, stop):
        for _ in range(num_moves):
            size = _turn_cluster(chain, x, streams, queue, model)
            counts[0, chain] += size > 0
            counts[1, chain] += size


@njit(cache=True)
def _turn_cluster(chain: int, x: Bytes, streams: Words, queue: Ints, model: Any) -> int:
    """One Wolff move; the size of the cluster, or zero if the fields forbade it."""
    d, v = model.fields.shape
    state = load_stream(streams, chain)
    u, state = advance(state)
    seed = pick(u, d)
    old = x[chain, seed]
    u, state = advance(state)
    new = np.uint8((old + 1 + pick(u, v - 1)) % v)
    # a site is turned when it joins, so that it does not look like a candidate any more
    queue[0], x[chain, seed], head, size = seed, new, 0, 1
    while head < size:
        site = queue[head]
        head += 1
        for entry in range(model.start[site], model.start[site + 1]):
            other = model.neighbours[entry]
            if x[chain, other] == old:
                u, state = advance(state)
                if u < model.bond[model.row[chain], model.level[entry]]:
                    x[chain, other] = new
                    queue[size] = other
                    size += 1
    if model.has_fields:
        gain = 0.0
        for member in range(size):
            gain += model.fields[queue[member], new] - model.fields[queue[member], old]
        u, state = advance(state)
        if u >= UNIT * math.exp(min(model.scale[chain] * gain, 0.0)):
            for member in range(size):
                x[chain, queue[member]] = old
            size = 0
    store_stream(state, streams, chain)
    return size


@njit(cache=True, nogil=True)
def swendsen_wang_moves(
    first: int, stop: int, x: Bytes, streams: Words, counts: Counts, num_moves: int, model: Any
) -> None:
    """Swendsen–Wang moves.  counts (2, chains): clusters, and sites that changed."""
    d, v = model.fields.shape
    parent = np.empty(d, np.int32)
    sums = np.zeros((d, v))
    for chain in range(first, stop):
        for _ in range(num_moves):
            _join_sites(chain, x, streams, parent, model)
            if model.has_fields:
                _sum_fields(parent, sums, model)
            _draw_clusters(chain, x, streams, parent, sums, counts, model)


@njit(cache=True)
def _join_sites(chain: int, x: Bytes, streams: Words, parent: Ints, model: Any) -> None:
    """Draw the bonds; parent[i] ≤ i leads towards the first site of the cluster of i."""
    state = load_stream(streams, chain)
    for site in range(x.shape[1]):
        parent[site] = site
    for site in range(x.shape[1]):
        for entry in range(model.start[site], model.start[site + 1]):
            other = model.neighbours[entry]
            if other < site and x[chain, other] == x[chain, site]:
                u, state = advance(state)
                if u < model.bond[model.row[chain], model.level[entry]]:
                    a, b = _find(parent, site), _find(parent, other)
                    parent[max(a, b)] = min(a, b)
    store_stream(state, streams, chain)


@njit(cache=True, forceinline=True)
def _find(parent: Ints, site: int) -> int:
    """The first site of a cluster, halving the path to it."""
    while parent[site] != site:
        parent[site] = parent[parent[site]]
        site = parent[site]
    return site


@njit(cache=True)
def _sum_fields(parent: Ints, sums: Doubles, model: Any) -> None:
    """Fields of a cluster, at the place of its first site."""
    sums[:] = 0.0
    for site in range(len(parent)):
        root = _find(parent, site)
        for value in range(sums.shape[1]):
            sums[root, value] += model.fields[site, value]


@njit(cache=True)
def _draw_clusters(
    chain: int, x: Bytes, streams: Words, parent: Ints, sums: Doubles, counts: Counts, model: Any
) -> None:
    state = load_stream(streams, chain)
    for site in range(x.shape[1]):
        root, old = _find(parent, site), x[chain, site]
        if root == site:
            u, state = advance(state)
            if model.has_fields:
                x[chain, site] = _draw_value(sums, site, model.scale[chain], u)
            else:
                x[chain, site] = pick(u, sums.shape[1])
            counts[0, chain] += 1
        else:
            x[chain, site] = x[chain, root]
        counts[1, chain] += x[chain, site] != old
    store_stream(state, streams, chain)


@njit(cache=True, forceinline=True)
def _draw_value(sums: Doubles, site: int, scale: float, u: Any) -> int:
    """A value with probability ∝ exp(scale·sums[site, value])."""
    peak, total = -np.inf, 0.0
    for value in range(sums.shape[1]):
        peak = max(peak, scale * sums[site, value])
    for value in range(sums.shape[1]):
        total += math.exp(scale * sums[site, value] - peak)
    left = (u + 0.5) / UNIT * total
    for value in range(sums.shape[1] - 1):
        left -= math.exp(scale * sums[site, value] - peak)
        if left <= 0:
            return value
    return sums.shape[1] - 1
