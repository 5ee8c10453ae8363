"""The models of statistical physics, as pairwise targets on lattices and complete graphs."""

from __future__ import annotations

import math
from typing import Any

import torch

from tcsis.basics.checks import check_integer, check_num_values, make_generator
from tcsis.basics.memory import check_fits
from tcsis.targets.lattice import Lattice
from tcsis.targets.pairwise import SPINS, Pairwise, as_parameter, check_beta

DISORDER = ("bimodal", "gaussian")

SPIN_PRODUCT = torch.outer(SPINS, SPINS)


class Ising(Pairwise):
    """log p̄(x) = β·(Σ_<ij> s_i s_j + field·Σ_i s_i), spins ±1, each lattice bond once.

    ``side`` is an integer for a square lattice or a tuple for any box: (4, 6), (4, 4, 4).
    Token 0 is spin -1 and token 1 is spin +1.  The infinite square lattice is critical at
    β = log(1 + √2)/2 = 0.4407.
    """

    def __init__(
        self,
        side: int | tuple[int, ...],
        beta: float,
        field: float = 0.0,
        boundary: str = "periodic",
        **placement: Any,
    ):
        lattice = fitting(Lattice.of(side, boundary), 2)
        self.beta = check_beta(beta)
        self.field = float(as_parameter("field", field))
        bonds = lattice.bonds()
        super().__init__(
            bonds,
            (self.beta * SPIN_PRODUCT).expand(len(bonds), 2, 2),
            (self.beta * self.field * SPINS).expand(lattice.num_sites, 2),
            lattice=lattice,
            **placement,
        )

    def __repr__(self) -> str:
        field = f", field={self.field}" if self.field else ""
        return f"Ising({describe(self.lattice)}, beta={self.beta}{field})"


class Potts(Pairwise):
    """log p̄(x) = β·Σ_<ij> [x_i = x_j], each lattice bond once.

    The infinite square lattice is critical at β = log(1 + √V).
    """

    def __init__(
        self,
        side: int | tuple[int, ...],
        num_values: int,
        beta: float,
        boundary: str = "periodic",
        **placement: Any,
    ):
        num_values = check_num_values(num_values)
        lattice = fitting(Lattice.of(side, boundary), num_values)
        self.beta = check_beta(beta)
        bonds = lattice.bonds()
        same = torch.eye(num_values, dtype=torch.float64)
        super().__init__(
            bonds,
            (self.beta * same).expand(len(bonds), num_values, num_values),
            torch.zeros(lattice.num_sites, num_values),
            lattice=lattice,
            **placement,
        )

    def __repr__(self) -> str:
        return f"Potts({describe(self.lattice)}, num_values={self.num_values}, beta={self.beta})"


class SpinGlass(Pairwise):
    """Edwards–Anderson glass: log p̄(x) = β·Σ_<ij> J_ij s_i s_j with random J drawn from ``seed``.

    ``disorder`` is "bimodal" (J = ±1 with equal odds) or "gaussian" (mean 0, variance 1).
    """

    def __init__(
        self,
        side: int | tuple[int, ...],
        beta: float,
        disorder: str = "bimodal",
        seed: int = 0,
        boundary: str = "periodic",
        **placement: Any,
    ):
        if disorder not in DISORDER:
            raise ValueError(f"disorder is {disorder!r}: expected one of {', '.join(DISORDER)}")
        lattice = fitting(Lattice.of(side, boundary), 2)
        self.beta, self.disorder, self.seed = check_beta(beta), disorder, seed
        bonds = lattice.bonds()
        strength = torch.randn(
            len(bonds), dtype=torch.float64, generator=make_generator(seed, "couplings")
        )
        strength = strength.sign() if disorder == "bimodal" else strength
        super().__init__(
            bonds,
            self.beta * strength[:, None, None] * SPIN_PRODUCT,
            torch.zeros(lattice.num_sites, 2),
            lattice=lattice,
            **placement,
        )

    def __repr__(self) -> str:
        return (
            f"SpinGlass({describe(self.lattice)}, beta={self.beta}, "
            f"disorder={self.disorder!r}, seed={self.seed})"
        )


class SherringtonKirkpatrick(Pairwise):
    """log p̄(x) = β·Σ_{i<j} J_ij s_i s_j on the complete graph, J_ij normal of variance 1/d."""

    def __init__(self, num_sites: int, beta: float, seed: int = 0, **placement: Any):
        num_sites = check_integer("num_sites", num_sites, least=2)
        check_fits("the number of pairs", num_sites * (num_sites - 1) // 2, pair_size(2))
        self.beta, self.seed = check_beta(beta), seed
        edges = torch.combinations(torch.arange(num_sites))
        strength = torch.randn(
            len(edges), dtype=torch.float64, generator=make_generator(seed, "couplings")
        )
        super().__init__(
            edges,
            self.beta / math.sqrt(num_sites) * strength[:, None, None] * SPIN_PRODUCT,
            torch.zeros(num_sites, 2),
            **placement,
        )

    def __repr__(self) -> str:
        return (
            f"SherringtonKirkpatrick(num_sites={self.num_sites}, beta={self.beta}, "
            f"seed={self.seed})"
        )


def fitting(lattice: Lattice, num_values: int) -> Lattice:
    """The lattice, unless its pairs do not fit into memory."""
    each = len(lattice.shape) * pair_size(num_values)
    check_fits("the number of sites", lattice.num_sites, each)
    return lattice


def pair_size(num_values: int) -> float:
    """Bytes of memory that a pair takes while its target is made, as measured for 2 and 10 values:
    540 and 6,400."""
    return 300.0 + 60.0 * num_values**2


def describe(lattice: Lattice | None) -> str:
    """The lattice as constructor arguments, for ``repr``."""
    assert lattice is not None
    square = len(lattice.shape) == 2 and lattice.shape[0] == lattice.shape[1]
    side = lattice.shape[0] if square else lattice.shape
    return f"side={side}" + ("" if lattice.periodic else ", boundary='open'")
