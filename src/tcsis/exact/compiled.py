"""The inner loops of planar models, on doubles or on double-doubles.

A double-double is an unevaluated sum of two doubles, of 106 bits together (T. J. Dekker, Numer.
Math. 18, 224 (1971)).  Arrays of them are two arrays, ``high`` and ``low``; with plain doubles the
second stays zero.  Which of both a loop computes with is the type of its first argument, and each
is compiled for itself.  All that is compiled stands in this one file, for numba keeps machine code
until the file of a function changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

SPLITTER = 134217729.0  # 2^27 + 1


class Doubles(NamedTuple):
    rounding: float


class DoubleDoubles(NamedTuple):
    rounding: float


Numbers = Doubles | DoubleDoubles

DOUBLES = Doubles(2.0**-53)
DOUBLE_DOUBLES = DoubleDoubles(2.0**-104)


# -- arithmetic ------------------------------------------------------------------------------


@numba.njit(inline="always")
def two_product(a: float, b: float) -> tuple[float, float]:
    """a·b and its rounding error."""
    p = a * b
    c = SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def less_product(
    numbers: Numbers, x: float, x_low: float, a: float, a_low: float, b: float, b_low: float
) -> tuple[float, float]:
    """x - a·b, in compiled code only."""
    raise NotImplementedError


def quotient(
    numbers: Numbers, a: float, a_low: float, b: float, b_low: float
) -> tuple[float, float]:
    """a/b, in compiled code only."""
    raise NotImplementedError


@overload(less_product, inline="always")
def less_product_of_type(
    numbers: Any, x: Any, x_low: Any, a: Any, a_low: Any, b: Any, b_low: Any
) -> Callable[..., Any]:
    def of_doubles(numbers: Any, x: Any, x_low: Any, a: Any, a_low: Any, b: Any, b_low: Any) -> Any:
        return x - a * b, 0.0

    def of_double_doubles(
        numbers: Any, x: Any, x_low: Any, a: Any, a_low: Any, b: Any, b_low: Any
    ) -> Any:
        p, p_low = two_product(a, b)
        p_low += a * b_low + a_low * b
        total = x - p
        back = total - x
        low = ((x - (total - back)) - (p + back)) + (x_low - p_low)
        high = total + low
        return high, low - (high - total)

    return of_doubles if numbers.instance_class is Doubles else of_double_doubles


@overload(quotient, inline="always")
def quotient_of_type(numbers: Any, a: Any, a_low: Any, b: Any, b_low: Any) -> Callable[..., Any]:
    def of_doubles(numbers: Any, a: Any, a_low: Any, b: Any, b_low: Any) -> Any:
        return a / b, 0.0

    def of_double_doubles(numbers: Any, a: Any, a_low: Any, b: Any, b_low: Any) -> Any:
        first = a / b
        rest, rest_low = less_product(numbers, a, a_low, first, 0.0, b, b_low)
        second = (rest + rest_low) / b
        high = first + second
        return high, second - (high - first)

    return of_doubles if numbers.instance_class is Doubles else of_double_doubles


# -- sparse matrices -------------------------------------------------------------------------


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


@numba.njit(cache=True, error_model="numpy")
def factor(
    numbers: Numbers, start: np.ndarray, index: np.ndarray, high: np.ndarray, low: np.ndarray
) -> None:
    """In place: D in part 0, L in part 1 and U, both with unit diagonal, in part 2."""
    n = len(start) - 1
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
            a, a_low = less_product(numbers, 0.0, 0.0, -high[1, at], -low[1, at], d, d_low)
            b, b_low = less_product(numbers, 0.0, 0.0, -high[2, at], -low[2, at], d, d_low)
            high[0, j], low[0, j] = less_product(
                numbers, high[0, j], low[0, j], a, a_low, high[2, at], low[2, at]
            )
            for p in range(at + 1, start[k + 1]):
                q = slot[index[p]]
                high[1, q], low[1, q] = less_product(
                    numbers, high[1, q], low[1, q], high[1, p], low[1, p], b, b_low
                )
                high[2, q], low[2, q] = less_product(
                    numbers, high[2, q], low[2, q], high[2, p], low[2, p], a, a_low
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
                    numbers, high[part, p], low[part, p], high[0, j], low[0, j]
                )
        if start[j] < start[j + 1]:
            row = index[start[j]]
            following[j] = waiting[row]
            waiting[row] = j


@numba.njit(cache=True, error_model="numpy")
def select(
    numbers: Numbers, start: np.ndarray, index: np.ndarray, high: np.ndarray, low: np.ndarray
) -> None:
    """In place: D, L and U become the diagonal of X, what is below it and what is above."""
    n = len(start) - 1
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
                numbers, x[0, a], x_low[0, a], high[0, k], low[0, k], column[a], column_low[a]
            )
            x[1, a], x_low[1, a] = less_product(
                numbers, x[1, a], x_low[1, a], high[0, k], low[0, k], row[a], row_low[a]
            )
            for p in range(start[k], start[k + 1]):
                b = slot[index[p]]
                if b < 0:
                    continue
                # below is X_ik and above X_ki, where i is place b of column j
                below, below_low = high[1, p], low[1, p]
                above, above_low = high[2, p], low[2, p]
                x[0, b], x_low[0, b] = less_product(
                    numbers, x[0, b], x_low[0, b], below, below_low, column[a], column_low[a]
                )
                x[0, a], x_low[0, a] = less_product(
                    numbers, x[0, a], x_low[0, a], above, above_low, column[b], column_low[b]
                )
                x[1, b], x_low[1, b] = less_product(
                    numbers, x[1, b], x_low[1, b], above, above_low, row[a], row_low[a]
                )
                x[1, a], x_low[1, a] = less_product(
                    numbers, x[1, a], x_low[1, a], below, below_low, row[b], row_low[b]
                )
        d, d_low = quotient(numbers, 1.0, 0.0, high[0, j], low[0, j])
        for a in range(size):
            d, d_low = less_product(numbers, d, d_low, row[a], row_low[a], x[0, a], x_low[0, a])
            slot[index[first + a]] = -1
        high[0, j], low[0, j] = d, d_low
        high[1, first:last], low[1, first:last] = x[0], x_low[0]
        high[2, first:last], low[2, first:last] = x[1], x_low[1]


@numba.njit(cache=True)
def add_up(
    n: int, group: np.ndarray, factor: np.ndarray, value: np.ndarray, value_low: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ factor·(value + value_low) over the members of each group, (n,), in double-doubles."""
    total, total_low = np.zeros(n), np.zeros(n)
    for k, g in enumerate(group):
        total[g], total_low[g] = less_product(
            DOUBLE_DOUBLES, total[g], total_low[g], -factor[k], 0.0, value[k], value_low[k]
        )
    return total, total_low


# -- draws -----------------------------------------------------------------------------------


@numba.njit(cache=True)
def odds(numbers: Numbers, t: float, t_low: float, u: float, u_low: float) -> tuple[float, float]:
    """1 - E and 1 + E for E = t + (1 - t²)·u: (1 + t)·(1 + (1 - t)·u), and with -t and -u."""
    rest, rest_low = less_product(numbers, 1.0, 0.0, 1.0, 0.0, t, t_low)
    up, _ = less_product(numbers, 1.0, 0.0, -rest, -rest_low, u, u_low)
    rest, rest_low = less_product(numbers, 1.0, 0.0, -1.0, 0.0, t, t_low)
    down, _ = less_product(numbers, 1.0, 0.0, rest, rest_low, u, u_low)
    return max(0.0, ((1 - t) - t_low) * down), max(0.0, ((1 + t) + t_low) * up)


@numba.njit(cache=True, error_model="numpy")
def condition(
    numbers: Numbers, high: np.ndarray, low: np.ndarray, a: int, sign: float, t: float, t_low: float
) -> None:
    """Set the bond of rows a and a + 1 of Σ to ``sign``."""
    delta, delta_low = less_product(numbers, sign, 0.0, 1.0, 0.0, t, t_low)
    change(numbers, high, low, a, delta, delta_low)


@numba.njit(cache=True, error_model="numpy")
def change(
    numbers: Numbers, high: np.ndarray, low: np.ndarray, a: int, delta: float, delta_low: float
) -> float:
    """Add δ to the t of the bond of rows a and a + 1 of Σ, of which only what is right of both and
    above the diagonal is kept up; returns the factor of √det."""
    b, size = a + 1, len(high)
    ratio, ratio_low = less_product(numbers, 1.0, 0.0, -delta, -delta_low, high[a, b], low[a, b])
    rate, rate_low = quotient(numbers, delta, delta_low, ratio, ratio_low)
    for p in range(b + 1, size):
        one, one_low = less_product(numbers, 0.0, 0.0, -rate, -rate_low, high[a, p], low[a, p])
        other, other_low = less_product(numbers, 0.0, 0.0, rate, rate_low, high[b, p], low[b, p])
        for q in range(p + 1, size):
            x, x_low = less_product(
                numbers, high[p, q], low[p, q], one, one_low, high[b, q], low[b, q]
            )
            high[p, q], low[p, q] = less_product(
                numbers, x, x_low, other, other_low, high[a, q], low[a, q]
            )
    return ratio


@numba.njit(cache=True, error_model="numpy")
def turned_on(
    numbers: Numbers, high: np.ndarray, low: np.ndarray, t: np.ndarray, t_low: np.ndarray
) -> tuple[float, float]:
    """Sign and logarithm of the factor of √det as the bonds of Σ, from t = 0, get their t."""
    sign, log_size = 1.0, 0.0
    for k in range(len(t)):
        ratio = change(numbers, high, low, 2 * k, t[k], t_low[k])
        sign *= np.sign(ratio)
        log_size += np.log(np.abs(ratio))
    return sign, log_size


@numba.njit(cache=True, error_model="numpy")
def walk(
    numbers: Numbers,
    uniform: np.ndarray,
    root: int,
    first: np.ndarray,
    known: np.ndarray,
    ends: np.ndarray,
    t: np.ndarray,
    t_low: np.ndarray,
    start: np.ndarray,
    sigma: np.ndarray,
    sigma_low: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Spins (n, d) and the log probability of each draw, (n,), from uniform numbers (n, d) and a
    ``tcsis.exact.planar_draws.Plan``."""
    n, d = uniform.shape
    spins = np.zeros((n, d), np.int8)
    log_q = np.full(n, -np.log(2.0))
    for sample in range(n):
        spin = spins[sample]
        spin[root] = 1 if uniform[sample, root] < 0.5 else -1
        for k in range(len(known)):
            size, bonds = 2 * (first[k + 1] - first[k]), ends[first[k] : first[k + 1]]
            high = sigma[start[k] : start[k + 1]].copy().reshape(size, size)
            low = sigma_low[start[k] : start[k + 1]].copy().reshape(size, size)
            for bond in range(len(bonds)):
                i, j = bonds[bond]
                a, at = 2 * bond, first[k] + bond
                if bond >= known[k]:
                    down, up = odds(numbers, t[at], t_low[at], high[a, a + 1], low[a, a + 1])
                    same = uniform[sample, j] * (down + up) < up
                    spin[j] = spin[i] if same else -spin[i]
                    log_q[sample] += np.log((up if same else down) / (down + up))
                sign = float(spin[i] * spin[j])
                condition(numbers, high, low, a, sign, t[at], t_low[at])
    return spins, log_q
