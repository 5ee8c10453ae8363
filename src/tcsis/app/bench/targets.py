"""The families of targets: what is observed of each, and what is known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.app.bench.plan import Truth
from tcsis.basics.checks import make_generator
from tcsis.exact import kaufman, perfect, transfer
from tcsis.judging import metrics
from tcsis.targets.pairwise import Pairwise
from tcsis.targets.physics import Ising, Potts, SpinGlass

CRITICAL = math.log(1 + math.sqrt(2)) / 2
NUM_STARTS, NUM_EXACT = 64, 256
STARTS_SEED = 90_210
"""Of exact draws and ordered states, one that no chain has."""
STEP, WIDE = 1e-4, 1e-2
"""Of the scale at which log Z is differentiated, once and twice: the errors are 1e-6 and 1e-2 of a
standard deviation."""


# -- what they are -------------------------------------------------------------------------------


@dataclass(frozen=True)
class IsingAt:
    beta: float

    def __call__(self, side: int) -> Ising:
        return Ising(side, self.beta)


@dataclass(frozen=True)
class PottsAtTransition:
    """At the transition of the infinite lattice, of first order for V > 4."""

    num_values: int

    def __call__(self, side: int) -> Potts:
        return Potts(side, self.num_values, math.log(1 + math.sqrt(self.num_values)))


@dataclass(frozen=True)
class GlassAt:
    """Periodic, with couplings ±1 of seed 0."""

    beta: float

    def __call__(self, side: int) -> SpinGlass:
        return SpinGlass(side, self.beta)


# -- what is known -------------------------------------------------------------------------------


def ising_truth(target: Pairwise) -> Truth:
    """Kaufman's log Z and energy, and draws by coupling from the past."""
    assert isinstance(target, Ising) and target.lattice is not None
    shape = target.lattice.shape
    ferromagnet = perfect.read(target)
    assert ferromagnet is not None
    draws = perfect.draw(ferromagnet, NUM_EXACT, make_generator(STARTS_SEED, "exact draws"))
    return Truth(
        kaufman.log_z(shape, target.beta), kaufman.mean_energy(shape, target.beta),
        constant_states(target), draws.long(),
    )  # fmt: skip


def potts_truth(target: Pairwise) -> Truth:
    """Nothing but ordered states to start from."""
    return Truth(None, None, constant_states(target), None)


def glass_truth(target: Pairwise) -> Truth:
    """By the transfer matrix.  With E[-log p̄] = -d log Z/dλ of p̄^λ at λ = 1, and the variance of
    log p̄ the second derivative."""
    below, above = (transfer.log_z(target.scaled(1 + sign * STEP)) for sign in (-1, 1))
    draws = transfer.draw(target, NUM_EXACT, make_generator(STARTS_SEED, "exact draws")).long()
    energy, log_z = (float(below) - float(above)) / (2 * STEP), float(transfer.log_z(target))
    far = sum(float(transfer.log_z(target.scaled(1 + sign * WIDE))) for sign in (-1, 1))
    spread = math.sqrt(max(0.0, far - 2 * log_z)) / WIDE
    return Truth(log_z, energy, draws[-NUM_STARTS:], draws, spread)


def constant_states(target: Pairwise) -> Tensor:
    """One value everywhere, every value in turn, (m, d)."""
    values = torch.arange(NUM_STARTS) % target.num_values
    return values[:, None].expand(-1, target.num_sites).contiguous()


# -- what is observed ------------------------------------------------------------------------------


def squared_magnetisation(x: Tensor, truth: Truth) -> Tensor:
    return metrics.magnetisation(x).square()


def sign_of_magnetisation(x: Tensor, truth: Truth) -> Tensor:
    return metrics.magnetisation(x).sign()


@dataclass(frozen=True)
class OrderParameter:
    """(V·share of the leading value - 1)/(V - 1)."""

    num_values: int

    def __call__(self, x: Tensor, truth: Truth) -> Tensor:
        counts = torch.stack([(x == value).sum(-1) for value in range(self.num_values)], -1)
        share = counts.amax(-1).double() / x.shape[-1]
        return (self.num_values * share - 1) / (self.num_values - 1)


@dataclass(frozen=True)
class SquaredOverlap:
    """q² with one of the exact draws, q = Σ_i s_i r_i/d.  Squared, so that turning all spins, which
    anybody can do for nothing, is asked of nobody."""

    number: int

    def __call__(self, x: Tensor, truth: Truth) -> Tensor:
        assert truth.draws is not None
        same = (x == truth.draws[self.number]).double().mean(-1)
        return (2 * same - 1).square()


def observe(target: Pairwise, observables: tuple, truth: Truth, x: Tensor) -> Tensor:
    """The energy and the other observables of states, (n, d) -> (1 + observables, n)."""
    x = x.long()
    energy = -target._log_density(x).double()  # which is no part of what a chain costs
    return torch.stack([energy, *(function(x, truth).double() for _, function in observables)])
