"""The Kac–Ward determinant: planar Ising models without field, of any size, with any couplings.

For log p̄(x) = Σ_e β_e s_i s_j on a planar graph of d sites, with t_e = tanh β_e,

    Z = 2^d·Π_e cosh β_e·√det(1 - ΘT),

a matrix on half-edges: Θ has t_e in the two rows of bond e, T is as in ``tcsis.exact.planar``.  The
determinant is a square, of the sum of Π t_e over all even sets of bonds.  Its logarithm has the
derivatives

    ∂ log √det/∂t_e = u_e = -(T·(1 - ΘT)⁻¹)_hh,     E[s_i s_j] = t_e + (1 - t_e²)·u_e,

h either half of e, for which the inverse is needed on the pattern of the matrix alone.

In a cold frustrated model the terms of the sum nearly cancel and the matrix is close to singular,
for couplings ±β by about exp(-4β).  A change of an entry B_ij moves log Z by X_ji/2 times it, X the
inverse, and this for the roundings of all steps of the elimination adds up to an estimate of the
error (``tcsis.exact.selected_inverse``).  Where doubles do not hold it below ``WANTED``,
double-doubles take over; where even they do not hold it below ``TOLERATED``, the model is refused.

M. Kac and J. C. Ward, Phys. Rev. 88, 1332 (1952); proof for any planar graph in M. Lis,
J. Stat. Phys. 165, 72 (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES, Numbers, add_up
from tcsis.exact.planar import Embedding, embed
from tcsis.exact.selected_inverse import find_pattern, invert
from tcsis.targets import Pairwise, Target

WANTED, WANTED_DIGITS = 1e-11, 1e-14
"""Double-doubles are used where the error of log Z is above both this and this part of it."""

TOLERATED = 1e-7
"""The error of log Z above which a model is refused."""

PIVOT_BETA = 3.0
"""Pivots are those of the model with couplings cut off here, where doubles can still tell."""

MAX_DEGREE = 1000
"""The most bonds a site may have: all that meet at a site make a dense block of the matrix."""

NO_FIELD = 1e-12
"""Fields that add up to less than this are rounding, and move log Z by no more."""


class TooColdError(ValueError):
    """Rounding leaves nothing of an exact answer."""


@dataclass(frozen=True, eq=False)
class Planar:
    """log p̄ = Σ_e β_e s_i s_j + constant on a graph in the plane, ``beta`` (m,)."""

    graph: Embedding
    beta: np.ndarray
    constant: float = 0.0


@dataclass(frozen=True)
class KacWardResult:
    """``correlations`` (m,) are E[s_i s_j] of the bonds, ``error`` is an estimate for log Z."""

    log_z: float
    mean_energy: float
    correlations: np.ndarray
    error: float


def applies(target: Target) -> bool:
    """Whether ``target`` is a planar pairwise model of spins without field."""
    return read(target) is not None


@lru_cache(maxsize=4)  # whether there is an answer is asked before the answer
def read(target: Target) -> Planar | None:
    """The model in the plane; None where it is not planar, not of spins, has a field or a hub."""
    spins = coupled_spins(target)
    if spins is None or len(spins.beta) > max(1, 3 * target.num_sites - 6):
        return None
    if np.bincount(spins.edges.ravel(), minlength=1).max() > MAX_DEGREE:
        return None
    graph = embed(target.num_sites, spins.edges)
    return None if graph is None else Planar(graph, spins.beta, spins.constant)


@dataclass(frozen=True, eq=False)
class CoupledSpins:
    """log p̄ = Σ_e β_e s_i s_j + constant on any graph, ``edges`` (m, 2) and ``beta`` (m,)."""

    edges: np.ndarray
    beta: np.ndarray
    constant: float


def coupled_spins(target: Target) -> CoupledSpins | None:
    """A pairwise target of two values without field, whatever its tables; None for any other."""
    if not isinstance(target, Pairwise) or target.num_values != 2:
        return None
    beta, field, constant = target.spin_form
    if float(field.abs().sum()) > NO_FIELD:
        return None
    return CoupledSpins(target.edges.numpy(), beta.numpy(), constant)


def solve(model: Planar) -> KacWardResult:
    """log Z, mean energy and the correlation of every bond."""
    return in_numbers_that_do(lambda numbers: solve_in(model, numbers), model.beta)


def in_numbers_that_do(
    solve_in: Callable[[Numbers], KacWardResult], beta: np.ndarray
) -> KacWardResult:
    """The result in doubles where these are enough, else in double-doubles."""
    result = solve_in(DOUBLES)
    if not result.error <= max(WANTED, WANTED_DIGITS * abs(result.log_z)):
        result = solve_in(DOUBLE_DOUBLES)
    if not result.error <= TOLERATED:
        raise TooColdError(
            f"the couplings, up to {np.abs(beta).max():.3g}, are too cold for the Kac-Ward "
            f"determinant: rounding moves log Z {amount(result.error)}; lower beta"
        )
    return result


def amount(error: float) -> str:
    """An error in words; one that is no number leaves nothing."""
    return f"by about {error:.1g}" if error < 1 else "beyond recognition"


@np.errstate(divide="ignore", invalid="ignore")  # a zero pivot makes the error NaN
def solve_in(model: Planar, numbers: Numbers) -> KacWardResult:
    graph, beta = model.graph, model.beta
    d, size = graph.num_sites, np.abs(beta)
    scale = d * math.log(2) + float((size + np.log1p(np.exp(-2 * size)) - math.log(2)).sum())
    if not len(beta):
        return KacWardResult(scale + model.constant, -model.constant, np.zeros(0), 0.0)
    t, t_low = tanh(beta)
    row, column, turn = transitions(graph)
    n = 2 * len(beta)
    rows, columns = np.r_[:n, row], np.r_[:n, column]
    warm = np.tanh(beta.clip(-PIVOT_BETA, PIVOT_BETA))
    pattern = find_pattern(n, rows, columns, np.r_[np.ones(n), -warm[row // 2] * turn])
    value = np.r_[np.ones(n), -t[row // 2] * turn]
    value_low = np.r_[np.zeros(n), -t_low[row // 2] * turn]
    inverse = invert(pattern, value, value_low, numbers)
    sums, _ = add_up(n, row, turn, inverse.value[n:], inverse.value_low[n:])
    slope = -sums.reshape(-1, 2).mean(1)
    flat = (2 * np.exp(-size) / (1 + np.exp(-2 * size))) ** 2  # 1 - t², 1/cosh²β
    correlations = t + flat * slope
    return KacWardResult(
        log_z=scale + inverse.log_det / 2 + model.constant,
        mean_energy=-float(beta @ correlations) - model.constant,
        correlations=correlations,
        error=numbers.rounding * inverse.sensitivity,
    )


def transitions(graph: Embedding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of T: half-edges h and h' with h' at the far end of h, h' ≠ h̄, and T(h, h')."""
    ordered, first = graph.around
    into = np.arange(len(graph.site)) ^ 1  # h̄, where h arrives
    degree = graph.degree[graph.site[into]]
    h = np.repeat(np.arange(len(into)), degree)
    step = np.arange(len(h)) - np.repeat(degree.cumsum() - degree, degree)
    onward = ordered[first[graph.site[into]].repeat(degree) + step]
    turns = onward != into[h]
    h, onward = h[turns], onward[turns]
    return h, onward, graph.sign[h] * np.sign(graph.rank[onward] - graph.rank[into[h]])


def tanh(beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """tanh β as the sum of two doubles: sign(β)·(1 - 2/(exp(2|β|) + 1))."""
    faint = np.exp(-2 * np.abs(beta))  # which, unlike its inverse, does not overflow
    below = 2 * faint / (1 + faint)
    high = 1 - below
    low = (1 - high) - below
    small = np.abs(beta) < 0.25  # there one double is as good, for nothing cancels
    high, low = np.where(small, np.tanh(np.abs(beta)), high), np.where(small, 0.0, low)
    return np.sign(beta) * high, np.sign(beta) * low


def site_marginals(num_sites: int) -> torch.Tensor:
    """One half each, (d, 2), for nothing tells a state from its mirror image."""
    return torch.full((num_sites, 2), 0.5, dtype=torch.float64)
