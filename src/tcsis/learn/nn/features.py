"""Features of time and of position, with nothing to learn in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

MOST_LOG_ODDS = 12.0
"""Where log-odds are cut off: 1 - α = 1.2e-5, still well resolved in float32."""

BASE = 100.0
"""Ratio of the fastest to the slowest rotary frequency: axes have tens of sites, not thousands."""


def time_features(alpha: Tensor, width: int) -> Tensor:
    """cos(fλ) and sin(fλ) of the log-odds λ = log((1+α)/(1-α)), (b,) -> (b, width).

    λ is about 2α near noise and grows without end towards the target, so that α = 0.99 and 0.999
    are as far apart as 0 and 0.8.  The slowest frequency makes half a turn over the whole range,
    the fastest one a turn per two units.
    """
    if width < 4 or width % 2:
        raise ValueError(f"width is {width}: expected an even number, 4 or more")
    log_odds = (torch.log1p(alpha) - torch.log1p(-alpha)).clamp(-MOST_LOG_ODDS, MOST_LOG_ODDS)
    steps = torch.linspace(0, 1, width // 2, dtype=alpha.dtype, device=alpha.device)
    angles = log_odds[:, None] * (math.pi / MOST_LOG_ODDS * MOST_LOG_ODDS**steps)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def rotary_angles(positions: Tensor, head_width: int) -> Tensor:
    """Angles by which the pairs of a head are turned, (d, k) -> (d, head_width/2).

    The pairs are shared out evenly between the k axes; on its axis, pair j of n turns by
    position·BASE^(-j/n).  Pairs left over are not turned.  Computed in float64.
    """
    num_pairs = pairs_per_axis(positions.shape[1], head_width)
    steps = torch.arange(num_pairs, dtype=torch.float64, device=positions.device) / num_pairs
    return _over_the_pairs(positions.double()[..., None] * BASE**-steps, head_width)


def periodic_angles(positions: Tensor, lengths: Sequence[int], head_width: int) -> Tensor:
    """As ``rotary_angles``, on axes that close after ``lengths``; positions are whole, (d, k).

    The frequencies are m·2π/L with whole m between 1 and L/2, about evenly spaced in log m, so a
    turn around the lattice is a whole number of turns of every pair.
    """
    num_pairs = pairs_per_axis(len(lengths), head_width)
    per_axis = [
        _closed_angles(position, length, num_pairs)
        for position, length in zip(positions.unbind(1), lengths, strict=True)
    ]
    return _over_the_pairs(torch.stack(per_axis, dim=1), head_width)


def rotate(q: Tensor, angles: Tensor) -> Tensor:
    """Turn pair j, the channels 2j and 2j + 1, by its angle: (..., d, w), (d, w/2) -> (..., d, w).

    rotate(q)_i·rotate(k)_j then depends on the positions through their difference only.
    """
    turns = torch.polar(torch.ones_like(angles), angles).to(q.dtype.to_complex())
    pairs = torch.view_as_complex(q.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def box_positions(shape: Sequence[int]) -> Tensor:
    """Coordinates of the sites of a box in row-major order, (d, k) for k axes."""
    axes = torch.meshgrid(*[torch.arange(length) for length in shape], indexing="ij")
    return torch.stack([axis.flatten() for axis in axes], dim=1)


def pairs_per_axis(num_axes: int, head_width: int) -> int:
    """How many pairs of a head each axis gets."""
    if head_width % 2 or head_width < 2 * num_axes:
        raise ValueError(
            f"heads of width {head_width} for {num_axes} axes: expected an even width of at least "
            f"{2 * num_axes}, a pair an axis (width = heads·head width)"
        )
    return head_width // 2 // num_axes


def _closed_angles(position: Tensor, length: int, num_pairs: int) -> Tensor:
    """m·2π·position/L for the frequencies of one axis, (d,) -> (d, num_pairs)."""
    highest = max(length // 2, 1)  # m and L - m are the same frequency
    steps = torch.linspace(0, 1, num_pairs, dtype=torch.float64, device=position.device)
    m = (highest**steps).round().long()
    # reduced while whole, so that positions one turn apart get the same angle to the last bit
    return (position.long()[:, None] * m % length).double() * (2 * math.pi / length)


def _over_the_pairs(angles: Tensor, head_width: int) -> Tensor:
    """(d, k, n) -> (d, head_width/2), with zeros for the pairs left over."""
    flat = angles.flatten(1)
    return pad(flat, (0, head_width // 2 - flat.shape[1]))
