"""LU of a sparse matrix, in doubles or double-doubles, and its inverse on its own pattern.

SuperLU finds the order of the pivots in plain doubles; with that order fixed, B = L·D·U is worked
out on the symmetric closure of the pattern of B, where row k of U and column k of L have the same
places.  The inverse X is known on those places from the last pivot back to the first (Takahashi):

    X_ij = -Σ_(k>j) X_ik·L_kj  (i > j),      X_jj = 1/D_j - Σ_(k>j) U_jk·X_kj,
    X_ji = -Σ_(k>j) U_jk·X_ki,

for all that the sums ask for is on the pattern too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from tcsis.exact.compiled import Numbers, factor, filled, select


@dataclass(frozen=True, eq=False)
class Inverse:
    """``log_det`` is log|det B|; ``value`` + ``value_low`` are the entries of B⁻¹ at the transposed
    places of the entries that B was given by, in their order.  ``sensitivity`` is the sum of
    |B'_ij·X_ji| over all places, B' what elimination has made of B there when it is done with it:
    times a rounding error, what one rounding at each place does to log det."""

    log_det: float
    sensitivity: float
    value: np.ndarray
    value_low: np.ndarray


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a matrix (n, n) with the given entries has non-zeros once its pivots are in order.

    Column j of L, and row j of U, has the places ``index[start[j]:start[j + 1]]``, all above j;
    an entry of the matrix stands on the diagonal, below it or above it, at its ``place``.
    """

    n: int
    start: np.ndarray
    index: np.ndarray
    diagonal: np.ndarray  # entries on the diagonal, and so on
    below: np.ndarray
    above: np.ndarray
    place: np.ndarray


def find_pattern(n: int, row: np.ndarray, column: np.ndarray, value: np.ndarray) -> Pattern:
    """The pattern with the pivots that SuperLU takes for these entries."""
    matrix = csc_array((value, (row, column)), shape=(n, n))
    pivots = splu(matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    i = pivots.perm_r[row].astype(np.int64)
    j = pivots.perm_c[column].astype(np.int64)
    both = csc_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), shape=(n, n))
    both.sort_indices()
    start, index = filled(n, both.indptr.astype(np.int64), both.indices.astype(np.int64))
    low, high = np.minimum(i, j), np.maximum(i, j)
    place = np.where(i == j, i, 0)
    off = i != j
    key = np.repeat(np.arange(n), np.diff(start)) * n + index
    place[off] = np.searchsorted(key, low[off] * n + high[off])
    return Pattern(
        n, start, index,
        np.flatnonzero(i == j), np.flatnonzero(i > j), np.flatnonzero(i < j), place,
    )  # fmt: skip


@np.errstate(divide="ignore", invalid="ignore")  # a zero pivot makes the sensitivity NaN
def invert(pattern: Pattern, value: np.ndarray, value_low: np.ndarray, numbers: Numbers) -> Inverse:
    """log|det B| and B⁻¹ on the pattern of B, whose entries are value + value_low."""
    shape = 3, max(pattern.n, len(pattern.index))  # diagonal, L, U
    high, low = np.zeros(shape), np.zeros(shape)
    for part, entries in enumerate((pattern.diagonal, pattern.below, pattern.above)):
        np.add.at(high[part], pattern.place[entries], value[entries])
        np.add.at(low[part], pattern.place[entries], value_low[entries])
    factor(numbers, pattern.start, pattern.index, high, low)
    log_det = float(np.log(np.abs(high[0, : pattern.n])).sum())
    sizes = np.abs(high)
    sizes[1:, : len(pattern.index)] *= np.repeat(sizes[0, : pattern.n], np.diff(pattern.start))
    select(numbers, pattern.start, pattern.index, high, low)
    found, found_low = np.empty_like(value), np.empty_like(value)
    for part, entries in enumerate((pattern.diagonal, pattern.above, pattern.below)):
        place = pattern.place[entries]  # transposed: L and U swapped
        found[entries], found_low[entries] = high[part, place], low[part, place]
    sensitivity = float((sizes * np.abs(high[[0, 2, 1]])).sum())  # transposed as well
    return Inverse(log_det, sensitivity, found, found_low)
