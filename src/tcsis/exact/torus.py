"""Spins without field on a periodic 2-D lattice, with any couplings: four Kac–Ward determinants.

On a flat torus straight bonds turn as they do in the plane, but a loop once around it turns by zero
and comes with the wrong sign.  With Z_ab the sum over even sets of bonds that wind a times (mod 2)
around one way and b times around the other, and t → -t on the bonds of a seam across either way,

    √det        = Z_00 - Z_10 - Z_01 - Z_11,      one seam:    Z_00 + Z_10 - Z_01 + Z_11,
    both seams:   Z_00 + Z_10 + Z_01 - Z_11,      the other:   Z_00 - Z_10 + Z_01 + Z_11,

so that Z is half the sum of the last three less half the first (P. W. Kasteleyn, Physica 27, 1209
(1961)).  Of a frustrated model any of the four can be negative.  The determinant tells its size,
and the signs come from the open lattice, whose root is positive: the bonds of both seams are turned
on there one after the other, each with its factor 1 + t·u (``tcsis.exact.response``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from tcsis.exact import kac_ward
from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES, Numbers, turned_on
from tcsis.exact.kac_ward import KacWardResult, Planar, coupled_spins, in_numbers_that_do, tanh
from tcsis.exact.planar import Embedding
from tcsis.exact.response import Response
from tcsis.targets import Target
from tcsis.targets.physics import Ising

TOLERATED = 1e-6
"""The most that the seams and the determinants may differ about the logarithm of a root."""

NEGLIGIBLE = -30.0
"""The logarithm of a root, beside the largest, that adds nothing to Z."""

TWISTS, SIGNS = ((), (0,), (1,), (0, 1)), np.array([-1.0, 1.0, 1.0, 1.0])
"""The seams that are turned around in each of the four roots, and the sign of the root in 2Z."""


class FlatTorus(Embedding):
    """A periodic lattice of straight bonds: right, up, left and down have the ranks 0 to 3."""

    @property
    def sign(self) -> np.ndarray:
        """τ_h is 1 for directions θ_h of π and more."""
        return np.where(self.rank >= 2, 1, -1)


@dataclass(frozen=True, eq=False)
class Torus:
    """A model on the flat torus, and the bonds of its two seams."""

    model: Planar
    seams: tuple[np.ndarray, np.ndarray]


def read(target: Target) -> Torus | None:
    """The model on the torus; None where it does not have all bonds between nearest neighbours of a
    periodic 2-D lattice with sides of 3 or more, and no other, is not of spins, or has a field."""
    spins, lattice = coupled_spins(target), target.lattice
    if spins is None or lattice is None or not lattice.periodic or len(lattice.shape) != 2:
        return None
    if min(lattice.shape) < 3 or len(spins.beta) != 2 * target.num_sites:
        return None
    shape = np.array(lattice.shape)
    first, second = (np.stack(np.divmod(end, shape[1]), axis=1) for end in spins.edges.T)
    step = (second - first + 1) % shape - 1  # (m, 2): one down or right, or minus one
    if (np.abs(step).sum(1) != 1).any():
        return None
    direction = np.where(step[:, 0] == 0, 1 - step[:, 1], 2 + step[:, 0])
    rank = np.stack([direction, (direction + 2) % 4], axis=1).ravel()
    over = np.abs(second - first) > 1
    graph = FlatTorus(target.num_sites, spins.edges, rank)
    seams = over[:, 0].nonzero()[0], over[:, 1].nonzero()[0]
    return Torus(Planar(graph, spins.beta, spins.constant), seams)


def solve_torus(torus: Torus) -> KacWardResult:
    """log Z, mean energy and the correlation of every bond."""
    return in_numbers_that_do(lambda numbers: solve_in(torus, numbers), torus.model.beta)


def solve_in(torus: Torus, numbers: Numbers) -> KacWardResult:
    model = torus.model
    twists = [twisted(model.beta, torus.seams, flips) for flips in TWISTS]
    roots = [kac_ward.solve_in(replace(model, beta=beta), numbers) for beta in twists]
    log_root = np.array([root.log_z for root in roots])
    if not np.isfinite(log_root).all():
        return replace(roots[0], error=np.inf)
    sign = signs(torus, twists, log_root, numbers) * SIGNS
    terms = sign * np.exp(log_root - log_root.max()) / 2
    total = float(terms.sum())
    if not total > 0:
        return replace(roots[0], error=np.inf)
    share = terms / total
    # derivatives by the coupling itself, not by the one that is turned around
    slopes = np.stack([root.correlations for root in roots])
    slopes = slopes * np.where(np.stack(twists) == model.beta, 1, -1)
    correlations = share @ slopes
    # the terms may cancel, and then the last digits of their logarithms count
    errors = [root.error + DOUBLES.rounding * abs(root.log_z) for root in roots]
    return KacWardResult(
        log_z=float(log_root.max() + np.log(total)),
        mean_energy=-float(model.beta @ correlations) - model.constant,
        correlations=correlations,
        error=float(np.abs(share) @ errors),
    )


def correlation(target: Ising) -> Tensor:
    """G(r), r = 0..max_distance, of a lattice without field that is the same everywhere."""
    torus, lattice = read(target), target.lattice
    assert torus is not None and lattice is not None
    rows, columns = lattice.shape
    steps = [(columns, rows), (1, columns)]  # what a site's number grows by, and the way around
    g = np.ones((lattice.max_distance + 1, len(steps)))
    if target.beta == 0:  # where t → 1/t leads nowhere
        g[1:] = 0
        return torch.from_numpy(g.mean(1))
    for axis, (step, around) in enumerate(steps):
        path = [bond_between(torus, k * step, (k + 1) * step) for k in range(around // 2)]
        along = correlation_along(torus, np.array(path[: lattice.max_distance]))
        g[1:, axis] = along
    return torch.from_numpy(g.mean(1))


def bond_between(torus: Torus, i: int, j: int) -> int:
    found = (np.sort(torus.model.graph.edges, axis=1) == sorted((i, j))).all(1).nonzero()[0]
    return int(found[0])


def correlation_along(torus: Torus, path: np.ndarray) -> np.ndarray:
    """E[s_0 s_r] of the first site of a path of bonds, none of them in a seam, and the ends of its
    first r bonds, r = 1..k, (k,) -> (k,)."""
    model, seam = torus.model, np.union1d(*torus.seams)
    chosen = np.r_[seam, path]
    opened = model.beta.copy()
    opened[chosen] = 0.0
    sigma = Response(model.graph).of(opened, np.arange(len(opened)), chosen, DOUBLE_DOUBLES)
    z = np.array([partition(torus, sigma, chosen, len(seam), r) for r in range(len(path) + 1)])
    log_t = np.log(np.tanh(np.abs(model.beta[path]))).cumsum()
    sign = np.sign(model.beta[path]).cumprod() * np.sign(z[1:, 0] * z[0, 0])
    return sign * np.exp(z[1:, 1] - z[0, 1] + log_t)


def partition(
    torus: Torus, sigma: tuple[np.ndarray, np.ndarray], chosen: np.ndarray, first: int, r: int
) -> tuple[float, float]:
    """Sign and logarithm of Z, but for a factor, with t → 1/t on ``chosen[first : first + r]``."""
    terms = []
    for flips in TWISTS:
        beta = twisted(torus.model.beta, torus.seams, flips)[chosen]
        t, t_low = tanh(beta)
        inverted = slice(first, first + r)
        t[inverted], t_low[inverted] = inverse(t[inverted], t_low[inverted])
        terms.append(turned_on(DOUBLE_DOUBLES, sigma[0].copy(), sigma[1].copy(), t, t_low))
    sign, log_size = np.array(terms).T
    total = float(SIGNS * sign @ np.exp(log_size - log_size.max()))
    return float(np.sign(total)), float(log_size.max() + np.log(np.abs(total)))


def inverse(t: np.ndarray, t_low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/t of a sum of two doubles, as one of two doubles."""
    high = 1 / t
    exact = [Fraction(1) / (Fraction(a) + Fraction(b)) for a, b in zip(t, t_low, strict=True)]
    low = [float(x - Fraction(y)) for x, y in zip(exact, high, strict=True)]
    return high, np.array(low)


def twisted(
    beta: np.ndarray, seams: tuple[np.ndarray, np.ndarray], flips: tuple[int, ...]
) -> np.ndarray:
    """The couplings with those across some seams turned around."""
    beta = beta.copy()
    for which in flips:
        beta[seams[which]] *= -1
    return beta


def signs(
    torus: Torus, twists: list[np.ndarray], log_root: np.ndarray, numbers: Numbers
) -> np.ndarray:
    """The signs of the four roots, (4,), from the open lattice with its seams turned on; their
    ratios have to be those of the determinants, ``log_root``, or the sign is NaN."""
    model, chosen = torus.model, np.union1d(*torus.seams)
    opened = model.beta.copy()
    opened[chosen] = 0.0
    response = Response(model.graph)
    high, low = response.of(opened, np.arange(len(opened)), chosen, numbers)
    sign, log_ratio = np.ones(4), np.zeros(4)
    for k, beta in enumerate(twists):
        t, t_low = tanh(beta[chosen])
        sign[k], log_ratio[k] = turned_on(numbers, high.copy(), low.copy(), t, t_low)
    largest = int(log_root.argmax())
    off = np.abs((log_ratio - log_ratio[largest]) - (log_root - log_root[largest]))
    sure = off <= TOLERATED
    return np.where(sure | (log_root < log_root[largest] + NEGLIGIBLE), sign, np.nan)
