"""LU of a sparse matrix in double-double numbers, and the entries of its inverse on its pattern.

SuperLU finds the order of the pivots in plain doubles; with that order fixed, B = L·D·U is worked
out on the symmetric closure of the pattern of B, where row k of U and column k of L have the same
places.  The inverse X is known on those places from the last pivot back to the first (Takahashi):

    X_ij = -Σ_(k>j) X_ik·L_kj  (i > j),   X_ji = -Σ_(k>j) U_jk·X_ki,   X_jj = 1/D_j - Σ_(k>j) U_jk·X_kj,

for all that the sums ask for is on the pattern too.

A double-double is an unevaluated sum of two doubles, of 106 bits together (T. J. Dekker, Numer.
Math. 18, 224 (1971)).  The same loops run on plain doubles, whose second half stays zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

SPLITTER = 134217729.0  # 2^27 + 1


@dataclass(frozen=True)
class Arithmetic:
    """x - a·b and a/b on pairs of doubles, and the size of a rounding error."""

    less_product: Callable[..., Any]
    quotient: Callable[..., Any]
    rounding: float


@numba.njit(inline="always")
def two_product(a: float, b: float) -> tuple[float, float]:
    p = a * b
    c = SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@numba.njit(inline="always")
def double_less_product(
    x: float, x_low: float, a: float, a_low: float, b: float, b_low: float
) -> tuple[float, float]:
    p, p_low = two_product(a, b)
    p_low += a * b_low + a_low * b
    total = x - p
    back = total - x
    low = ((x - (total - back)) - (p + back)) + (x_low - p_low)
    high = total + low
    return high, low - (high - total)


@numba.njit(inline="always")
def double_quotient(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    first = a / b
    rest, rest_low = double_less_product(a, a_low, first, 0.0, b, b_low)
    second = (rest + rest_low) / b
    high = first + second
    return high, second - (high - first)


@numba.njit(inline="always")
def plain_less_product(
    x: float, x_low: float, a: float, a_low: float, b: float, b_low: float
) -> tuple[float, float]:
    return x - a * b, 0.0


@numba.njit(inline="always")
def plain_quotient(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    return a / b, 0.0


PLAIN = Arithmetic(plain_less_product, plain_quotient, 2.0**-53)
DOUBLE_DOUBLE = Arithmetic(double_less_product, double_quotient, 2.0**-104)


@dataclass(frozen=True, eq=False)
class Inverse:
    """``log_det`` is log|det B|; ``value`` + ``value_low`` are the entries of B⁻¹ at the transposed
    places of the entries that B was given by, in their order."""

    log_det: float
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


def invert(
    pattern: Pattern, value: np.ndarray, value_low: np.ndarray, arithmetic: Arithmetic
) -> Inverse:
    """log|det B| and B⁻¹ on the pattern of B, whose entries are value + value_low."""
    factor, select = loops(arithmetic)
    shape = 3, max(pattern.n, len(pattern.index))  # diagonal, L, U
    high, low = np.zeros(shape), np.zeros(shape)
    for part, entries in enumerate((pattern.diagonal, pattern.below, pattern.above)):
        np.add.at(high[part], pattern.place[entries], value[entries])
        np.add.at(low[part], pattern.place[entries], value_low[entries])
    factor(pattern.n, pattern.start, pattern.index, high, low)
    log_det = float(np.log(np.abs(high[0, : pattern.n])).sum())
    select(pattern.n, pattern.start, pattern.index, high, low)
    found, found_low = np.empty_like(value), np.empty_like(value)
    for part, entries in enumerate((pattern.diagonal, pattern.above, pattern.below)):
        place = pattern.place[entries]  # transposed: L and U swapped
        found[entries], found_low[entries] = high[part, place], low[part, place]
    return Inverse(log_det, found, found_low)


@numba.njit(cache=True)
def add_up(
    n: int, group: np.ndarray, factor: np.ndarray, value: np.ndarray, value_low: np.ndarray
) -> np.ndarray:
    """Σ factor·(value + value_low) over the members of each group, (n,), in double-doubles."""
    total, total_low = np.zeros(n), np.zeros(n)
    for k, g in enumerate(group):
        total[g], total_low[g] = double_less_product(
            total[g], total_low[g], -factor[k], 0.0, value[k], value_low[k]
        )
    return total


@numba.njit(cache=True)
def filled(n: int, start: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the Cholesky factor of a symmetric pattern, without the diagonal."""
    mark = np.full(n, -1)
    child, sibling = np.full(n, -1), np.full(n, -1)
    out_start = np.zeros(n + 1, np.int64)
    out = np.empty(4 * len(index) + n, np.int64)
    count = 0
    for j in range(n):
        if count + n > len(out):
            longer = np.empty(2 * len(out) + n, np.int64)
            longer[:count] = out[:count]
            out = longer
        mark[j] = j
        for p in range(start[j], start[j + 1]):
            i = index[p]
            if i > j and mark[i] != j:
                mark[i] = j
                out[count] = i
                count += 1
        k = child[j]
        while k >= 0:
            for p in range(out_start[k], out_start[k + 1]):
                i = out[p]
                if mark[i] != j and i > j:
                    mark[i] = j
                    out[count] = i
                    count += 1
            k = sibling[k]
        out_start[j + 1] = count
        column = out[out_start[j] : count]
        column.sort()
        if len(column):
            sibling[j] = child[column[0]]
            child[column[0]] = j
    return out_start, out[:count].copy()


@cache
def loops(arithmetic: Arithmetic) -> tuple[Callable[..., None], Callable[..., None]]:
    """The factorisation and the selected inverse, compiled for one kind of numbers."""
    less_product, quotient = arithmetic.less_product, arithmetic.quotient

    @numba.njit
    def factor(
        n: int, start: np.ndarray, index: np.ndarray, high: np.ndarray, low: np.ndarray
    ) -> None:
        """In place: D in part 0, L in part 1 and U, both with unit diagonal, in part 2."""
        waiting, following = np.full(n, -1), np.full(n, -1)
        reached = start[:-1].copy()
        slot = np.zeros(n, np.int64)
        for j in range(n):
            for p in range(start[j], start[j + 1]):
                slot[index[p]] = p
            k = waiting[j]
            while k >= 0:
                after = following[k]
                at = reached[k]
                d, d_low = high[0, k], low[0, k]
                # L_jk·D_k and D_k·U_kj, of the finished column and row k
                a, a_low = less_product(0.0, 0.0, -high[1, at], -low[1, at], d, d_low)
                b, b_low = less_product(0.0, 0.0, -high[2, at], -low[2, at], d, d_low)
                high[0, j], low[0, j] = less_product(
                    high[0, j], low[0, j], a, a_low, high[2, at], low[2, at]
                )
                for p in range(at + 1, start[k + 1]):
                    q = slot[index[p]]
                    high[1, q], low[1, q] = less_product(
                        high[1, q], low[1, q], high[1, p], low[1, p], b, b_low
                    )
                    high[2, q], low[2, q] = less_product(
                        high[2, q], low[2, q], high[2, p], low[2, p], a, a_low
                    )
                reached[k] = at + 1
                if at + 1 < start[k + 1]:
                    row = index[at + 1]
                    following[k] = waiting[row]
                    waiting[row] = k
                k = after
            for p in range(start[j], start[j + 1]):
                for part in (1, 2):
                    high[part, p], low[part, p] = quotient(
                        high[part, p], low[part, p], high[0, j], low[0, j]
                    )
            if start[j] < start[j + 1]:
                row = index[start[j]]
                following[j] = waiting[row]
                waiting[row] = j

    @numba.njit
    def select(
        n: int, start: np.ndarray, index: np.ndarray, high: np.ndarray, low: np.ndarray
    ) -> None:
        """In place: D, L and U become the diagonal of X, what is below it and what is above."""
        slot = np.full(n, -1)
        for j in range(n - 1, -1, -1):
            first, last = start[j], start[j + 1]
            size = last - first
            column, column_low = high[1, first:last].copy(), low[1, first:last].copy()
            row, row_low = high[2, first:last].copy(), low[2, first:last].copy()
            x, x_low = np.zeros((2, size)), np.zeros((2, size))
            for a in range(size):
                slot[index[first + a]] = a
            for a in range(size):
                k = index[first + a]
                x[0, a], x_low[0, a] = less_product(
                    x[0, a], x_low[0, a], high[0, k], low[0, k], column[a], column_low[a]
                )
                x[1, a], x_low[1, a] = less_product(
                    x[1, a], x_low[1, a], high[0, k], low[0, k], row[a], row_low[a]
                )
                for p in range(start[k], start[k + 1]):
                    b = slot[index[p]]
                    if b < 0:
                        continue
                    # below is X_ik and above X_ki, where i is place b of column j
                    below, below_low = high[1, p], low[1, p]
                    above, above_low = high[2, p], low[2, p]
                    x[0, b], x_low[0, b] = less_product(
                        x[0, b], x_low[0, b], below, below_low, column[a], column_low[a]
                    )
                    x[0, a], x_low[0, a] = less_product(
                        x[0, a], x_low[0, a], above, above_low, column[b], column_low[b]
                    )
                    x[1, b], x_low[1, b] = less_product(
                        x[1, b], x_low[1, b], above, above_low, row[a], row_low[a]
                    )
                    x[1, a], x_low[1, a] = less_product(
                        x[1, a], x_low[1, a], below, below_low, row[b], row_low[b]
                    )
            d, d_low = quotient(1.0, 0.0, high[0, j], low[0, j])
            for a in range(size):
                d, d_low = less_product(d, d_low, row[a], row_low[a], x[0, a], x_low[0, a])
                slot[index[first + a]] = -1
            high[0, j], low[0, j] = d, d_low
            high[1, first:last], low[1, first:last] = x[0], x_low[0]
            high[2, first:last], low[2, first:last] = x[1], x_low[1]

    return factor, select
