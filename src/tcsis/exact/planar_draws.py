"""Independent exact draws of planar Ising models without field, part by part.

Bonds whose spins s_i·s_j are known to be σ have t = σ: the weight exp(β s_i s_j) is proportional to
1 + t·s_i·s_j, and 1 + σ·s_i·s_j is zero for the other value.

A draw is a walk along a tree of bonds: E[s_i s_j] = t + (1 - t²)·u given all before it, a value σ
for it, a change of t by σ - t (``tcsis.exact.response``), and on.  A part of
``tcsis.exact.separators`` knows the rest of the graph by its boundary alone: its own bonds, those
of a tree on the boundary, which start from t = 0 and are set to what has been drawn, and those of
the tree to its next sites are all that Σ is needed for.  Bonds of either tree need not be bonds of
the model: with t = 0 they change nothing.

The probabilities of the choices multiply to that of the draw, which is known otherwise:
log p̄ - log Z.  Draws in which the two differ by more than ``TOLERATED`` are made again in
double-doubles, and refused if that does not help.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES, Numbers, walk
from tcsis.exact.kac_ward import Planar, TooColdError, amount, tanh
from tcsis.exact.planar import triangulated
from tcsis.exact.response import Response
from tcsis.exact.separators import Part, dissect

TOLERATED = 1e-6
"""The most that log of a draw's probability may be off."""

UNIFORMS = 2**22
"""Random numbers made at a time."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is the same for all draws: for every part its Σ, one after the other.

    Part k has the bonds ``ends[first[k]:first[k + 1]]``, of which ``known[k]`` are boundary; of the
    others the site that is drawn stands second.  ``t`` are their tanh β.  ``sigma`` has the rows of
    each part, from ``start[k]`` on, with rows and columns of second halves multiplied by τ.  Of the
    numbers t and Σ the lower halves stand apart.
    """

    numbers: Numbers
    root: int
    first: np.ndarray
    known: np.ndarray
    ends: np.ndarray
    t: np.ndarray
    t_low: np.ndarray
    start: np.ndarray
    sigma: np.ndarray
    sigma_low: np.ndarray

    def draw(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Spins (n, d) and the log probability of each draw, (n,), from uniform numbers (n, d)."""
        return walk(
            self.numbers, uniform, self.root, self.first, self.known, self.ends,
            self.t, self.t_low, self.start, self.sigma, self.sigma_low,
        )  # fmt: skip


class Planner:
    """The parts of a model, and what their Σ are made from."""

    def __init__(self, model: Planar):
        self.graph = triangulated(model.graph)
        self.num_bonds = len(model.beta)
        self.beta = np.zeros(len(self.graph.edges))
        self.beta[: self.num_bonds] = model.beta
        self.parts = dissect(self.graph)
        self.response = Response(self.graph)
        ordered, start = self.graph.around
        self.half = [ordered[a:b] for a, b in pairwise(start)]

    def plan(self, numbers: Numbers) -> Plan:
        edges, parts = self.graph.edges, self.parts
        t, t_low = tanh(self.beta)
        unknown = [[False] * len(part.boundary) + [True] * len(part.tree) for part in parts]
        bonds = np.array([bond for part in parts for bond in part.boundary + part.tree], dtype=int)
        free = np.array([flag for flags in unknown for flag in flags], dtype=bool)
        ends = edges[bonds].reshape(-1, 2)
        second = np.array([site for part in parts for site in part.sites], dtype=int)
        ends[free] = np.stack([ends[free].sum(1) - second, second], axis=1)
        (root,) = np.setdiff1d(np.arange(self.graph.num_sites), second)
        sigmas = [self.sigma(part, numbers) for part in parts]
        empty = np.zeros(0)
        return Plan(
            numbers, int(root),
            np.cumsum([0] + [len(flags) for flags in unknown]),
            np.array([len(part.boundary) for part in parts], dtype=np.int64),
            ends, np.where(free, t[bonds], 0.0), np.where(free, t_low[bonds], 0.0),
            np.cumsum([0] + [high.size for high, _ in sigmas]),
            np.concatenate([empty, *(high.ravel() for high, _ in sigmas)]),
            np.concatenate([empty, *(low.ravel() for _, low in sigmas)]),
        )  # fmt: skip

    def sigma(self, part: Part, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
        """Σ of the bonds of both trees in the graph of the part, where those of the boundary have
        t = 0."""
        trees = np.array(part.boundary + part.tree)
        near = np.unique(np.concatenate([self.half[site] for site in part.region]) // 2)
        beta = self.beta.copy()
        beta[part.boundary] = 0.0
        bonds = np.union1d(near[near < self.num_bonds], trees)
        return self.response.of(beta, bonds, trees, numbers)


def draw(model: Planar, log_z: float, n: int, generator: torch.Generator) -> torch.Tensor:
    """``n`` independent exact draws, (n, d) uint8.  Those that rounding has spoilt are made again
    in double-doubles, from the same random numbers."""
    planner, d = Planner(model), model.graph.num_sites
    made, drawn = planner.plan(DOUBLES), []
    finer: Plan | None = None
    for chunk in torch.arange(n).split(max(1, UNIFORMS // d)):
        random = torch.rand(
            len(chunk), d, dtype=torch.float64, generator=generator, device=generator.device
        )
        uniform = random.cpu().numpy()
        spins, log_q = made.draw(uniform)
        spoilt = ~(errors(model, log_z, spins, log_q) <= TOLERATED)
        if spoilt.any():
            finer = planner.plan(DOUBLE_DOUBLES) if finer is None else finer
            spins[spoilt], log_q[spoilt] = finer.draw(uniform[spoilt])
            off = float(errors(model, log_z, spins, log_q).max())
            if not off <= TOLERATED:
                raise TooColdError(
                    f"the couplings, up to {np.abs(model.beta).max():.3g}, are too cold for exact "
                    f"draws: rounding moves the log probability of one {amount(off)}; lower beta"
                )
        drawn.append(torch.from_numpy((spins > 0).astype(np.uint8)))
    return torch.cat(drawn)


def errors(model: Planar, log_z: float, spins: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """|log p - log q| of draws (n, d), (n,)."""
    i, j = model.graph.edges.T
    log_density = model.constant + (spins[:, i] * spins[:, j]) @ model.beta
    return np.abs(log_density - log_q - log_z)
