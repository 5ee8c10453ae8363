"""In which order to sum sites out of a factor model, and what that costs.

Summing a site out joins all that shared a factor with it.  A *clique* is the site and these; its
table has as many entries as they have states together, and the order decides how large that gets.
The best order is hard to find.  Here the next site is always the one that looks cheapest, by one of
two measures,

    fill      the entries of the tables of the pairs that are joined anew
    size      the entries of the clique

and of several orders the one with the least work is taken.  Chance, from fixed seeds, breaks ties,
so that more tries find better orders, and the same ones every time.  Where none of them fits into
memory there is the *sweep* from one end of the graph to the other, which suits what is long and
narrow: around a torus of 100×8 sites its cliques have 17 sites, those of the others 24 and more.
Leaves come first: no order can avoid their tables.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

MAX_CORE = 2**13
"""Sites that are left once leaves are gone: their graph is kept as a matrix of bytes."""

FILL, SIZE, SWEEP = 0, 1, 2

WAYS = ((FILL, 0.0), (SIZE, 0.0), (FILL, 0.5), (FILL, 1.0), (SIZE, 0.1), (FILL, 2.0))
"""Measures, and what chance adds to each as a share of it, in turn."""

MOST_TRIES, MOST_SITES_TRIED = 60, 2**15
"""Orders that are tried, and sites of all of them."""

CHEAP = 2**18
"""Entries of all cliques together below which no further order is tried."""

TIES = 1e-6
"""Chance that breaks ties, and nothing else."""


@dataclass(frozen=True)
class Plan:
    """The sites in the ``order`` in which they are summed out and, for each, the ``later`` ones
    that it is joined to by then, in that order too."""

    order: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]
    cardinalities: tuple[int, ...]

    @cached_property
    def messages(self) -> Doubles:
        """Entries of what every clique sends on, (d,)."""
        log_2 = np.log2(self.cardinalities)
        return np.exp2([log_2[list(others)].sum() for others in self.later])

    @cached_property
    def work(self) -> float:
        """Entries of all cliques together."""
        return float(self.messages @ np.array(self.cardinalities)[list(self.order)])

    @property
    def width(self) -> float:
        """log2 of the entries of the largest clique."""
        counts = np.array(self.cardinalities)[list(self.order)]
        return float(np.log2((self.messages * counts).max()))

    @property
    def num_bytes(self) -> float:
        """Of the messages of all cliques, up and down, and four of the largest to work in."""
        return 8 * float(2 * self.messages.sum() + 4 * self.messages.max())


class Wide(Exception):  # noqa: N818
    """No order was found whose cliques have at most 2^limit entries; ``width`` is what the largest
    would have at least, as far as is known."""

    def __init__(self, width: float):
        super().__init__(width)
        self.width = width


def find_plan(scopes: Iterable[Sequence[int]], cardinalities: Sequence[int], limit: float) -> Plan:
    """The cheapest order found with cliques of at most 2^limit entries, or ``Wide``; where all its
    tables together do not fit into as many either, the one that takes the least memory."""
    near = neighbours_of(scopes, len(cardinalities))
    log_2 = np.log2(cardinalities)
    bound = least_width(near, log_2)
    if bound > limit + 1e-9:
        raise Wide(bound)
    leaves, rest = peel(near)
    core = np.array(rest, np.int64)
    if len(core) > MAX_CORE:
        raise Wide(bound)
    matrix, weights = adjacency(near, rest), log_2[core]
    best, least_work, widths = None, math.inf, []
    for attempt in range(max(len(WAYS), min(MOST_TRIES, MOST_SITES_TRIED // max(1, len(core))))):
        measure, share = WAYS[attempt % len(WAYS)]
        noise = (share + TIES) * np.random.default_rng(attempt).random(len(core))
        order, work, width = greedy(matrix.copy(), weights, noise, measure, limit, least_work)
        widths.append(width)
        if len(order) == len(core):
            best, least_work = order, work
        if least_work < CHEAP or (best is None and attempt + 1 == len(WAYS)):
            break
    plans = [] if best is None else [plan_of(near, [*leaves, *core[best].tolist()], cardinalities)]
    if not plans or plans[0].num_bytes > 8 * 2**limit:
        places = sweep(matrix)
        order, _, width = greedy(matrix, weights, places, SWEEP, limit, math.inf)
        widths.append(width)
        if len(order) == len(core):
            plans.append(plan_of(near, [*leaves, *core[order].tolist()], cardinalities))
    if not plans:
        raise Wide(min(widths))
    return min(plans, key=lambda plan: plan.num_bytes)


def sweep(matrix: Bools) -> Doubles:
    """The place of each site, (n,), in the order of Cuthill and McKee: by distance from an end."""
    place = np.empty(len(matrix))
    place[reverse_cuthill_mckee(csr_array(matrix), symmetric_mode=True)] = np.arange(len(matrix))
    return place


# -- graphs --------------------------------------------------------------------------------------


def neighbours_of(scopes: Iterable[Sequence[int]], d: int) -> list[set[int]]:
    """The sites that each shares a factor with."""
    near: list[set[int]] = [set() for _ in range(d)]
    for scope in scopes:
        for site in scope:
            near[site].update(scope)
    for site, others in enumerate(near):
        others.discard(site)
    return near


def least_width(near: list[set[int]], log_2: Doubles) -> float:
    """log2 of the entries that the largest clique has in every order: at least what the first site
    to go of any subgraph is joined to, for the subgraphs that are left when the site that is joined
    to least goes, again and again."""
    joined = [float(log_2[[site, *others]].sum()) for site, others in enumerate(near)]
    queue = [(size, site) for site, size in enumerate(joined)]
    heapq.heapify(queue)
    gone, bound = [False] * len(near), 0.0
    while queue:
        size, site = heapq.heappop(queue)
        if gone[site] or size > joined[site]:
            continue  # since then it has lost neighbours, and stands elsewhere in the queue
        gone[site], bound = True, max(bound, size)
        for other in near[site]:
            if not gone[other]:
                joined[other] -= float(log_2[site])
                heapq.heappush(queue, (joined[other], other))
    return bound


def peel(near: list[set[int]]) -> tuple[list[int], list[int]]:
    """Leaves in an order in which they always are, and the sites left over."""
    degree = [len(others) for others in near]
    gone = [False] * len(near)
    leaves = [site for site, count in enumerate(degree) if count <= 1]
    for site in leaves:  # which grows on the way
        gone[site] = True
        for other in near[site]:
            degree[other] -= 1
            if degree[other] == 1 and not gone[other]:
                leaves.append(other)
    leaves = list(dict.fromkeys(leaves))
    return leaves, [site for site in range(len(near)) if not gone[site]]


def adjacency(near: list[set[int]], sites: list[int]) -> Bools:
    """Which of some sites are joined, (n, n)."""
    place = {site: k for k, site in enumerate(sites)}
    matrix = np.zeros((len(sites), len(sites)), dtype=np.bool_)
    for site, k in place.items():
        matrix[k, [place[other] for other in near[site] if other in place]] = True
    return matrix


def plan_of(near: list[set[int]], order: list[int], cardinalities: Sequence[int]) -> Plan:
    rank = {site: k for k, site in enumerate(order)}
    near = [set(others) for others in near]
    later = []
    for site in order:
        others = sorted(near[site], key=rank.__getitem__)
        later.append(tuple(others))
        for other in others:
            near[other].update(others)
            near[other] -= {site, other}
    return Plan(tuple(order), tuple(later), tuple(cardinalities))


# -- greedy --------------------------------------------------------------------------------------


@njit(cache=True)
def greedy(
    joined: Bools, log_2: Doubles, noise: Doubles, measure: int, limit: float, most: float
) -> tuple[NDArray[np.int64], float, float]:
    """An order of n sites from their graph (n, n), which is used up, the entries of all cliques and
    log2 of those of the largest.  It ends early where a clique would have more than 2^limit
    entries, or all together ``most``."""
    n = len(joined)
    order, left = np.empty(n, np.int64), np.ones(n, np.bool_)
    score, size = np.empty(n), np.empty(n)
    near, stale = np.empty(n, np.int64), np.ones(n, np.bool_)
    work, width = 0.0, 0.0
    for step in range(n):
        best = -1
        for site in range(n):
            if not left[site]:
                continue
            if stale[site]:
                size[site], score[site] = _measure(joined, log_2, site, near, measure, limit)
                score[site] *= 1 + noise[site]
                stale[site] = False
            if best < 0 or score[site] < score[best]:
                best = site
        width = max(width, size[best])
        work += 2.0 ** size[best]
        if size[best] > limit or work >= most:
            return order[:step], work, width
        order[step], left[best] = best, False
        count = 0
        for other in range(n):
            if joined[best, other]:
                joined[other, best] = False
                near[count] = other
                count += 1
        for a in range(count):
            for b in range(count):
                if a != b:
                    joined[near[a], near[b]] = True
        for a in range(count):
            stale[near[a]] = True
            for other in range(n):
                if joined[near[a], other]:
                    stale[other] = True
    return order, work, width


@njit(cache=True)
def _measure(
    joined: Bools, log_2: Doubles, site: int, near: NDArray[np.int64], measure: int, limit: float
) -> tuple[float, float]:
    """log2 of the entries of the clique of a site, and how dear it looks; to a sweep all look the
    same, and noise, which is their place in it, tells them apart."""
    count, size = 0, log_2[site]
    for other in range(len(joined)):
        if joined[site, other]:
            near[count] = other
            count += 1
            size += log_2[other]
    if measure == SWEEP:
        return size, 1.0
    if measure == SIZE or size > limit:
        # those that are too large last, and the least of them first
        return size, size if measure == SIZE else 1e200 * size
    fill = 0.0
    for a in range(count):
        for b in range(a):
            if not joined[near[a], near[b]]:
                fill += 2.0 ** (log_2[near[a]] + log_2[near[b]])
    return size, fill
