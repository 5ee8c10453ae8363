"""The same law on another lattice, where all sites see the others alike: couplings go by steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tcsis.targets.base import Target
from tcsis.targets.lattice import Lattice
from tcsis.targets.pairwise import Pairwise

FEWEST, SHORTEST = 64, 4
"""Sites, and those along a side, of the smallest lattice that tells much of a larger one."""


def halvings(target: Target) -> tuple[tuple[int, ...], ...]:
    """Shapes of smaller lattices, each side about half of the next, from the smallest on: none of
    fewer than ``FEWEST`` sites, or on which couplings would meet themselves the other way round."""
    if not isinstance(target, Pairwise) or not target.symmetries.translations:
        return ()
    assert target.lattice is not None
    farthest = int(around_origin(target)[0].abs().max()) if len(target.edges) else 0
    shapes: list[tuple[int, ...]] = []
    shape = half(target.lattice.shape)
    while math.prod(shape) >= FEWEST and min(shape) >= max(SHORTEST, 2 * farthest + 1):
        shapes.insert(0, shape)
        shape = half(shape)
    return tuple(shapes)


def half(shape: tuple[int, ...]) -> tuple[int, ...]:
    """About half of every side, and even: two colours close around the lattice then."""
    return tuple(2 * round(side / 4) for side in shape)


def on_lattice(target: Target, shape: Sequence[int]) -> Pairwise:
    """The same couplings, by displacement, and fields on another periodic lattice."""
    if not isinstance(target, Pairwise) or not target.symmetries.translations:
        raise ValueError(
            f"{target} is not a pairwise model with translations: expected grows = () where "
            "sites do not all see the others alike"
        )
    assert target.lattice is not None
    before, lattice = target.lattice, Lattice(tuple(shape))
    if len(shape) != len(before.shape) or any(map(int.__gt__, lattice.shape, before.shape)):
        raise ValueError(
            f"grows has {list(shape)} for a lattice of shape {list(before.shape)}: expected as "
            "many sides, none of them longer"
        )
    steps, tables = around_origin(target)
    sites = torch.arange(lattice.num_sites)
    place = torch.stack(torch.unravel_index(sites, lattice.shape), -1)  # (d, axes)
    there = (place[:, None] + steps) % torch.tensor(lattice.shape)  # (d, degree, axes)
    other = lattice.sites[tuple(there.unbind(-1))]
    edges = torch.stack([sites[:, None].expand_as(other), other], -1).flatten(0, 1)
    couplings = tables.repeat(len(sites), 1, 1) / 2  # every pair is met from both of its ends
    fields = target.fields[:1].expand(len(sites), -1)
    return Pairwise(
        edges, couplings, fields, lattice=lattice, device=target.device, dtype=target.dtype
    )


def around_origin(target: Pairwise) -> tuple[Tensor, Tensor]:
    """The steps from site 0 to those that it is coupled to, the shorter way round, (degree, axes),
    and the tables, its own value first, (degree, v, v)."""
    assert target.lattice is not None
    first, second = ((target.edges == 0).T[k] for k in (0, 1))
    neighbours = torch.cat([target.edges[first, 1], target.edges[second, 0]])
    tables = torch.cat([target.couplings[first], target.couplings[second].transpose(1, 2)])
    shape = torch.tensor(target.lattice.shape)
    place = torch.stack(torch.unravel_index(neighbours, target.lattice.shape), -1)
    return torch.where(place > shape // 2, place - shape, place), tables
