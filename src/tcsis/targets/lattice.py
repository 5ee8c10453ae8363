"""Hypercubic lattices: sites, bonds, colours, in any dimension."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import torch
from torch import Tensor

BOUNDARIES = ("periodic", "open")


@dataclass(frozen=True)
class Lattice:
    """Sites in row-major order on a box of the given ``shape``.

    Every site has one bond forward along every axis.  On a periodic side of length 2 the forward
    bonds of the two sites join the same pair, so that pair is bound twice: this is the torus that
    the transfer matrix and Kaufman's formula describe.
    """

    shape: tuple[int, ...]
    boundary: str = "periodic"

    def __post_init__(self) -> None:
        if not self.shape or any(side < 2 for side in self.shape):
            raise ValueError(f"side is {list(self.shape)}: expected every side to be at least 2")
        if self.boundary not in BOUNDARIES:
            raise ValueError(
                f"boundary is {self.boundary!r}: expected one of {', '.join(BOUNDARIES)}"
            )

    @classmethod
    def of(cls, side: int | tuple[int, ...], boundary: str = "periodic") -> Lattice:
        """A square lattice for an integer ``side``, a box for a tuple of them."""
        sides = tuple(side) if isinstance(side, tuple | list) else (side, side)
        try:
            return cls(tuple(operator.index(length) for length in sides), boundary)
        except TypeError:
            raise ValueError(
                f"side is {side!r}: expected an integer or a tuple of integers"
            ) from None

    @property
    def periodic(self) -> bool:
        return self.boundary == "periodic"

    @property
    def num_sites(self) -> int:
        return math.prod(self.shape)

    @property
    def sites(self) -> Tensor:
        """Site numbers laid out on the lattice, shape ``shape``."""
        return torch.arange(self.num_sites).reshape(self.shape)

    @property
    def max_distance(self) -> int:
        """The largest distance along an axis at which every axis has pairs."""
        return min(self.shape) // 2 if self.periodic else min(self.shape) - 1

    def pairs(self, r: int) -> Tensor:
        """Site pairs (i, i displaced by r along an axis), over all sites and axes, (n, 2)."""
        pairs = []
        for axis, length in enumerate(self.shape):
            kept = length if self.periodic else length - r
            displaced = self.sites.roll(-r, axis)
            pair = torch.stack([self.sites, displaced], dim=-1).narrow(axis, 0, kept)
            pairs.append(pair.reshape(-1, 2))
        return torch.cat(pairs)

    def bonds(self) -> Tensor:
        """The pairs at distance 1: one bond forward along every axis from every site, (m, 2)."""
        return self.pairs(1)

    def colouring(self) -> Tensor:
        """A colour per site, (d,), with no bond between sites of one colour.

        The checkerboard where it closes; else three colours: a sum mod 3 of proper three-colourings
        of each axis is proper, since a step along one axis changes one term only.
        """
        axes = torch.meshgrid(*(torch.arange(side) for side in self.shape), indexing="ij")
        if not self.periodic or all(side % 2 == 0 for side in self.shape):
            return (sum(axes, start=torch.zeros(())) % 2).long().flatten()
        colour = torch.zeros(self.shape, dtype=torch.long)
        for side, axis in zip(self.shape, axes, strict=True):
            odd_end = (axis == side - 1) & (side % 2 == 1)
            colour += torch.where(odd_end, 2, axis % 2)
        return (colour % 3).flatten()
