"""The two-point correlation of a law, as the paper has it, connected and written for any V:

    C_ij = V/(V-1)·Σ_v [P(x_i = v, x_j = v) - P(x_i = v)·P(x_j = v)]

which for V = 2 is E[s_i s_j] - E[s_i]E[s_j] of the spins; G(r) is its mean over all sites i and
over the axes, with j the site at distance r from i along the axis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tcsis.targets.lattice import Lattice


def connected(same: Tensor, marginals_i: Tensor, marginals_j: Tensor) -> Tensor:
    """C_ij from P(x_i = x_j) (...) and the marginals of both sites (..., v)."""
    v = marginals_i.shape[-1]
    return (same - (marginals_i * marginals_j).sum(-1)) * (v / (v - 1))


def lattice_correlation(
    same: Callable[[Tensor, Tensor], Tensor], marginals: Tensor, lattice: Lattice
) -> Tensor:
    """G(r) for r = 0..max_distance from ``same(i, j)`` = P(x_i = x_j) and (d, v) marginals."""
    g = []
    for r in range(lattice.max_distance + 1):
        i, j = lattice.pairs(r).T
        g.append(connected(same(i, j), marginals[i], marginals[j]).mean())
    return torch.stack(g)
