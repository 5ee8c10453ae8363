"""Kaufman's formula: log Z and energy of the Ising model on the m×n torus, at any size.

With S = sinh 2β, cosh γ_l = S + 1/S - cos(πl/n) and γ_0 of the sign of S - 1,

    Z = ½·(2S)^(mn/2)·[Π_odd 2cosh(mγ_l/2) + Π_odd 2sinh(mγ_l/2)
                     + Π_even 2cosh(mγ_l/2) + Π_even 2sinh(mγ_l/2)],      l = 0..2n-1.

S and 1/S give the same γ (Kramers–Wannier duality), so all is written in u = min(S, 1/S) ≤ 1 and
in q_l = u·exp(|γ_l|), which stay finite at every β; log Z is analytic along the way, and a complex
step gives its derivative to machine precision.  Every site has a bond forward along either axis,
2mn in all: on a side of length 2 each pair is bound twice.

B. Kaufman, Crystal Statistics II, Phys. Rev. 76, 1232 (1949).
"""

from __future__ import annotations

import math

import numpy as np

from tcsis.targets import Ising, Target

STEP = 1e-20
"""Imaginary step of the derivative; its square vanishes beside 1."""


def applies(target: Target) -> bool:
    """Whether ``target`` is an ``Ising`` without field on a 2-D torus that the formula covers."""
    return (
        isinstance(target, Ising)
        and target.field == 0
        and target.lattice is not None
        and target.lattice.periodic
        and len(target.lattice.shape) == 2
        and (target.beta >= 0 or all(side % 2 == 0 for side in target.lattice.shape))
    )


def log_z(shape: tuple[int, ...], beta: float) -> float:
    """log Σ_x exp(β·Σ_<ij> s_i s_j) on the torus of the given ``shape``."""
    beta = checked_beta(shape, beta)
    return float(log_partition(shape, beta).real) if beta else math.prod(shape) * math.log(2)


def mean_energy(shape: tuple[int, ...], beta: float) -> float:
    """E[-β·Σ_<ij> s_i s_j] = -β·d log Z/dβ."""
    beta = checked_beta(shape, beta)
    return -beta * float(log_partition(shape, beta + STEP * 1j).imag) / STEP if beta else 0.0


def log_partition(shape: tuple[int, ...], beta: complex) -> np.complex128:
    """log Z at complex β near the positive axis."""
    m, n = max(shape), min(shape)
    log_s = 2 * beta + np.log(-np.expm1(-4 * beta + 0j)) - math.log(2)
    ordered = log_s.real >= 0
    log_u = -log_s if ordered else log_s
    u = np.exp(log_u)

    angle = np.pi * np.arange(2 * n) / n
    rise = 2 * np.sin(angle / 2) ** 2  # 1 - cos
    root = np.sqrt((1 - u) ** 2 + u * rise)
    root[0] = 1 - u  # the square root on its analytic branch, where the argument may be zero
    log_q = np.log(1 + u**2 - u + u * rise + root * np.sqrt(1 + u**2 + u * rise))
    decay = np.exp(m * (log_u - log_q))  # exp(-m|γ_l|)

    odd, even = slice(1, None, 2), slice(2, None, 2)  # l = 0 apart, for its sinh may vanish
    odd_scale = m / 2 * log_q[odd].sum()
    even_scale = m / 2 * (log_q[0] + log_q[even].sum())
    scale = max(odd_scale.real, even_scale.real)
    odd_terms = product(1 + decay[odd]) + product(1 - decay[odd])
    even_terms = (1 + decay[0]) * product(1 + decay[even])
    sinh_zero = 1 - decay[0] if ordered else decay[0] - 1
    even_terms += sinh_zero * product(1 - decay[even])
    terms = odd_terms * np.exp(odd_scale - scale) + even_terms * np.exp(even_scale - scale)

    dual = m * n * log_s if ordered else 0.0
    return (m * n / 2 - 1) * math.log(2) + dual + scale + np.log(terms)


def product(factors: np.ndarray) -> np.complex128:
    return np.exp(np.log(factors).sum())


def checked_beta(shape: tuple[int, ...], beta: float) -> float:
    """|β|, where the sign does not matter: flipping every other spin of an even torus undoes it."""
    if len(shape) != 2 or min(shape) < 2:
        raise ValueError(f"shape is {tuple(shape)}: Kaufman's formula needs two sides of 2 or more")
    if not math.isfinite(beta):
        raise ValueError(f"beta is {beta!r}: expected a finite number")
    if beta < 0 and any(side % 2 for side in shape):
        raise ValueError(
            f"beta is {beta}: on the odd torus {tuple(shape)} Kaufman's formula needs beta >= 0"
        )
    return abs(beta)
