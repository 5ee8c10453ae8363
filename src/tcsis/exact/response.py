"""What a few bonds of a Kac–Ward determinant feel of all others: the matrix Σ.

With A(h, h') = sign(rank(h') - rank(h)) for two half-edges at one site, so that T(h, h') is
τ_h·A(h̄, h'), the matrix Σ = A·(1 - ΘT)⁻¹ is antisymmetric.  A change of the t of one bond by δ
changes it by two rows and two columns, those of the halves h and h̄,

    u = τ_h·Σ_hh̄,      Σ ← Σ + δ/(1 + δ·u)·τ_h·(Σ_·h Σ_h̄· - Σ_·h̄ Σ_h·),

and √det by the factor 1 + δ·u, sign and all.  u is its logarithmic derivative by t.  Here rows and
columns of second halves are multiplied by τ of the first, so that no τ is left in these formulas.
"""

from __future__ import annotations

import numpy as np

from tcsis.exact.compiled import Numbers, add_up
from tcsis.exact.kac_ward import PIVOT_BETA, tanh, transitions
from tcsis.exact.planar import Embedding
from tcsis.exact.selected_inverse import find_pattern, invert


class Response:
    """The entries of T of a graph row by row, from which Σ is made for any bonds of it."""

    def __init__(self, graph: Embedding):
        self.graph = graph
        row, self.column, self.turn = transitions(graph)
        self.first = np.searchsorted(row, np.arange(len(graph.site) + 1))

    def of(
        self, beta: np.ndarray, bonds: np.ndarray, chosen: np.ndarray, numbers: Numbers
    ) -> tuple[np.ndarray, np.ndarray]:
        """Σ (2c, 2c) of the c bonds ``chosen`` in the graph of ``bonds``, which has them among its
        own; the halves of a bond follow each other.  ``beta`` is for all bonds of the graph."""
        half = halves(bonds)
        n, place = len(half), np.full(len(self.graph.site), -1)
        place[half] = np.arange(n)
        row, entry = self.rows(half)
        kept = place[self.column[entry]] >= 0
        row, column, turn = row[kept], place[self.column[entry[kept]]], self.turn[entry[kept]]
        # A·X at rows h and columns g of the chosen needs X from all h' beside h to g
        tree = place[halves(chosen)]
        at = np.full(n, -1)
        at[tree] = np.arange(len(tree))
        beside = (at[row ^ 1] >= 0).nonzero()[0]
        left, right = np.repeat(beside, len(tree)), np.tile(np.arange(len(tree)), len(beside))
        upper = at[row[left] ^ 1]
        strength = beta[half[row] // 2]
        t, t_low = tanh(strength)
        warm = np.tanh(strength.clip(-PIVOT_BETA, PIVOT_BETA))
        ones, nothing, asked = np.ones(n), np.zeros(n), np.zeros(len(left))
        rows, columns = np.r_[:n, row, tree[right]], np.r_[:n, column, column[left]]
        inverse = invert(
            find_pattern(n, rows, columns, np.r_[ones, -turn * warm, asked]),
            np.r_[ones, -turn * t, asked], np.r_[nothing, -turn * t_low, asked], numbers,
        )  # fmt: skip
        sign = self.graph.sign[half[tree]]
        scale = np.where(tree % 2 == 0, 1, -sign)  # τ of the first half on the second
        factor = (-sign * scale)[upper] * scale[right] * turn[left]
        found = slice(n + len(row), None)
        high, low = add_up(
            len(tree) ** 2, upper * len(tree) + right, factor.astype(float),
            inverse.value[found], inverse.value_low[found],
        )  # fmt: skip
        return high.reshape(len(tree), -1), low.reshape(len(tree), -1)

    def rows(self, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The entries of T in the rows of some half-edges: the place of the row, and the entry."""
        count = self.first[half + 1] - self.first[half]
        entry = np.repeat(self.first[half] - (count.cumsum() - count), count)
        return np.repeat(np.arange(len(half)), count), entry + np.arange(len(entry))


def halves(bonds: np.ndarray) -> np.ndarray:
    """Both half-edges of each bond, one after the other, (c,) -> (2c,)."""
    return (2 * bonds[:, None] + [0, 1]).ravel()
