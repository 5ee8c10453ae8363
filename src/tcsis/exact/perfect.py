"""Independent exact draws of ferromagnets of any size: coupling from the past, on the bonds.

    log p̄(x) = Σ_e b_e·[x_i = x_j] + constant,      b_e ≥ 0

is the law of colours given to the clusters of the random-cluster law (C. M. Fortuin and
P. W. Kasteleyn, Physica 57, 536 (1972)) of open bonds ω,

    P(ω) ∝ Π_e p_e^ω_e (1 - p_e)^(1 - ω_e) · V^clusters(ω),      p_e = 1 - exp(-b_e).

Given all others, a bond is open with probability p_e where its ends are joined without it, and with
p_e/(p_e + V·(1 - p_e)) where they are not.  The first is the larger, so chains that use the same
numbers keep their order, and those from all open and from all closed bonds enclose every other.
Started far enough in the past they have met by now, and what they have met in is a draw (J. G.
Propp and D. B. Wilson, Random Struct. Algorithms 9, 223 (1996)).  For V = 2 they meet soon at every
temperature; for many values not where the transition is of first order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

FIRST_DOUBLING, LAST_DOUBLING = 3, 14
"""The past begins 2^3 sweeps of all bonds ago, then 2^4, and so on to 2^14."""


@dataclass(frozen=True, eq=False)
class Ferromagnet:
    """``edges`` (m, 2) and the probabilities (m,) that a bond is open where its ends are ``joined``
    without it, or ``apart``.  The bonds at a site are ``bonds[first[i] : first[i + 1]]``."""

    num_sites: int
    num_values: int
    edges: np.ndarray
    joined: np.ndarray
    apart: np.ndarray
    first: np.ndarray
    bonds: np.ndarray


def applies(target: Target) -> bool:
    """Whether ``target`` is a pairwise ferromagnet that does not tell its values apart."""
    return read(target) is not None


def read(target: Target) -> Ferromagnet | None:
    """The ferromagnet; None where a pair repels, values are told apart, or there is no pair."""
    if not isinstance(target, Pairwise) or not target.symmetries.value_permutation:
        return None
    tables = target.couplings.cpu().numpy()
    b = tables[:, 0, 0] - tables[:, 0, 1]
    if not len(b) or (b < 0).any():
        return None
    edges = target.edges.cpu().numpy()
    joined, closed = -np.expm1(-b), np.exp(-b)
    degree = np.bincount(edges.ravel(), minlength=target.num_sites)
    return Ferromagnet(
        target.num_sites, target.num_values, edges, joined,
        apart=joined / (joined + target.num_values * closed),
        first=np.r_[0, degree.cumsum()], bonds=edges.ravel().argsort(kind="stable") // 2,
    )  # fmt: skip


def draw(model: Ferromagnet, n: int, generator: torch.Generator) -> Tensor:
    """n independent draws, (n, d) uint8."""
    seed = int(torch.randint(2**62, (), generator=generator))
    x = np.empty((n, model.num_sites), np.uint8)
    for k in range(n):
        numbers = np.random.Generator(np.random.Philox(key=[seed, k]))
        is_open = settle(model, numbers)
        i, j = model.edges[is_open].T
        graph = coo_array((np.ones(len(i)), (i, j)), shape=(model.num_sites,) * 2)
        _, cluster = connected_components(graph, directed=False)
        x[k] = numbers.integers(model.num_values, size=model.num_sites, dtype=np.uint8)[cluster]
    return torch.from_numpy(x)


def settle(model: Ferromagnet, numbers: np.random.Generator) -> np.ndarray:
    """The open bonds of one draw, (m,) bool: where chains from both ends of the order have met."""
    m = len(model.edges)
    past: list[np.ndarray] = []  # uniform numbers (sweeps, m), the latest first
    for doubling in range(FIRST_DOUBLING, LAST_DOUBLING + 1):
        sweeps = 2**doubling - sum(map(len, past))
        past.append(numbers.random((sweeps, m)))
        upper, lower = np.ones(m, np.bool_), np.zeros(m, np.bool_)
        for uniform in reversed(past):
            advance(
                uniform, upper, lower, model.edges, model.joined, model.apart, model.first,
                model.bonds,
            )  # fmt: skip
        if (upper == lower).all():
            return upper
    raise ValueError(
        f"chains from all open and all closed bonds have not met after {2**LAST_DOUBLING:,} "
        "sweeps, as near a transition of first order: use tcsis.mcmc.sample for draws"
    )


# -- compiled -------------------------------------------------------------------------------------


@numba.njit(cache=True)
def advance(
    uniform: np.ndarray, upper: np.ndarray, lower: np.ndarray, edges: np.ndarray,
    joined: np.ndarray, apart: np.ndarray, first: np.ndarray, bonds: np.ndarray,
) -> None:  # fmt: skip
    """Sweeps of all bonds of both chains with the same numbers, (sweeps, m)."""
    size = len(first) - 1
    mark, queue, clock = np.zeros(size, np.int64), np.empty((2, size), np.int64), 0
    for sweep in range(len(uniform)):
        for e in range(len(edges)):
            u = uniform[sweep, e]
            if u < apart[e] or u >= joined[e]:
                upper[e] = lower[e] = u < apart[e]
                continue
            clock += 2
            upper[e] = are_joined(e, upper, edges, first, bonds, mark, queue, clock)
            clock += 2
            # what is joined below is joined above
            lower[e] = upper[e] and are_joined(e, lower, edges, first, bonds, mark, queue, clock)


@numba.njit(cache=True)
def are_joined(
    e: int, is_open: np.ndarray, edges: np.ndarray, first: np.ndarray, bonds: np.ndarray,
    mark: np.ndarray, queue: np.ndarray, clock: int,
) -> bool:  # fmt: skip
    """Whether the ends of bond e are joined by other open bonds: searched from both ends in turn,
    until the searches meet or one of them has seen all of its cluster.  A site that was seen from
    one end is marked ``clock``, from the other ``clock`` + 1."""
    last, done = np.ones(2, np.int64), np.zeros(2, np.int64)
    for side in range(2):
        queue[side, 0] = edges[e, side]
        mark[edges[e, side]] = clock + side
    while True:
        for side in range(2):
            if done[side] == last[side]:
                return False
            i = queue[side, done[side]]
            done[side] += 1
            for k in range(first[i], first[i + 1]):
                bond = bonds[k]
                if bond == e or not is_open[bond]:
                    continue
                j = edges[bond, 0] + edges[bond, 1] - i
                if mark[j] == clock + 1 - side:
                    return True
                if mark[j] != clock + side:
                    mark[j] = clock + side
                    queue[side, last[side]] = j
                    last[side] += 1
