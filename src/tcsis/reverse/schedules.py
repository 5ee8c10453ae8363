"""Schedules: which site is at which time at each step of the reverse process.

A schedule is the sequence of time vectors from all noise (t = 1) to all known (t = 0):

    parallel     all sites share t
    sequential   sites go from 1 to 0 one by one: an autoregressive model, in any order
    blockwise    groups of sites go from 1 to 0 together, one group a step
    coloured     as either of the two, but the last colour class is left out and drawn exactly

Sites that move in the same step are drawn independently of each other.  That is the only error a
perfect denoiser leaves, so the fewer correlated sites move together, the better: far-apart sites
first (``farthest_point``), and larger groups only once known sites screen them from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from tcsis.noise import UniformNoise
from tcsis.targets.base import Target
from tcsis.targets.lattice import Lattice

Sites = Tensor | Sequence[int]


@dataclass(frozen=True)
class Schedule:
    """``times`` (num_steps + 1, d) float64, falling at every site from 1 to 0.

    ``last`` (k,) names the sites drawn exactly from the target once all others are known; they
    keep their time until then, so at the end of ``times`` they alone are above 0.
    """

    times: Tensor
    last: Tensor | None = None

    def __post_init__(self) -> None:
        times = torch.as_tensor(self.times, dtype=torch.float64)
        object.__setattr__(self, "times", times)
        if times.ndim != 2:
            raise ValueError(f"times has shape {tuple(times.shape)}: expected (num_steps + 1, d)")
        if len(times) < 2:
            raise ValueError(f"times has {len(times)} rows: expected at least one step, two rows")
        if not bool(((times >= 0) & (times <= 1)).all()):
            raise ValueError(
                f"times ranges from {times.min():.6g} to {times.max():.6g}: expected 0 <= t <= 1"
            )
        self._check_steps(times)
        self._check_ends(times)

    def _check_steps(self, times: Tensor) -> None:
        rising = (times[1:] > times[:-1]).nonzero()
        if len(rising):
            step, site = rising[0].tolist()
            raise ValueError(
                f"times rises at step {step} for site {site}, from {times[step, site]:.6g} to "
                f"{times[step + 1, site]:.6g}: expected s <= t at every site"
            )
        idle = (times[1:] == times[:-1]).all(-1).nonzero()
        if len(idle):
            raise ValueError(f"times moves no site at step {int(idle[0])}: leave that step out")

    def _check_ends(self, times: Tensor) -> None:
        if bool((times[0] != 1).any()):
            site = int((times[0] != 1).nonzero()[0])
            raise ValueError(f"times starts at {times[0, site]:.6g} for site {site}: expected 1")
        last = torch.zeros(0, dtype=torch.long) if self.last is None else self.last
        unfinished = times[-1] > 0
        unfinished[last] = False
        if bool(unfinished.any()):
            site = int(unfinished.nonzero()[0])
            raise ValueError(
                f"times ends at {times[-1, site]:.6g} for site {site}: expected 0, or the site "
                "among the last ones"
            )
        if bool((times[-1, last] == 0).any()):
            raise ValueError("last names a site that times brings to 0 already: expected t > 0")

    @property
    def num_sites(self) -> int:
        return self.times.shape[1]

    @property
    def num_calls(self) -> int:
        """Steps, each with one denoiser call unless the step itself makes more."""
        return len(self.times) - 1


# -- schedules -----------------------------------------------------------------------------------


def parallel(num_sites: int, grid: Tensor | Sequence[float]) -> Schedule:
    """All sites at the same time, which falls along ``grid`` (num_calls + 1,) from 1 to 0."""
    grid = torch.as_tensor(grid, dtype=torch.float64)
    if grid.ndim != 1:
        raise ValueError(f"grid has shape {tuple(grid.shape)}: expected (num_calls + 1,)")
    return Schedule(grid[:, None].expand(-1, num_sites))


def sequential(order: Sites) -> Schedule:
    """Sites from t = 1 to t = 0 one by one; ``order`` is a permutation of all sites."""
    return blockwise([[int(site)] for site in order])


def blockwise(blocks: Sequence[Sites]) -> Schedule:
    """Groups of sites from t = 1 to t = 0, one group a step; together a permutation of all."""
    order = torch.cat([torch.as_tensor(block).long().flatten() for block in blocks])
    check_permutation(order, len(order))
    return Schedule(block_times(blocks, len(order)))


def coloured(target: Target, blocks: Sequence[Sites] | None = None) -> Schedule:
    """``blocks`` of all sites outside ``last_class(target)``, then that class from the target.

    The default takes the other sites one by one, far-apart ones first.
    """
    last = last_class(target)
    others = remaining(target.num_sites, last)
    if blocks is None:
        blocks = singles(farthest_point(target, others))
    sites = torch.cat([torch.as_tensor(block).long().flatten() for block in blocks])
    if not torch.equal(sites.sort().values, others):
        raise ValueError(
            f"blocks holds sites {sites.tolist()}: expected each of {others.tolist()} once, "
            "all sites outside the last colour class"
        )
    return Schedule(block_times(blocks, target.num_sites), last)


def last_class(target: Target) -> Tensor:
    """The largest colour class of the target, (k,): given all other sites it is independent."""
    if target.colouring is None:
        raise ValueError(
            f"{target} has no colouring: expected a sparse target; use sequential or blockwise"
        )
    colour = torch.bincount(target.colouring).argmax()
    return (target.colouring.cpu() == colour).nonzero().squeeze(-1)


def last_sites(target: Target) -> Tensor | None:
    """Sites that can be drawn from the target itself once all others are known, (k,): the largest
    colour class, or one site where there is no colouring; None where that would be all."""
    if target.colouring is not None:
        return last_class(target)
    return torch.tensor([target.num_sites - 1]) if target.num_sites > 1 else None


def remaining(num_sites: int, sites: Tensor) -> Tensor:
    """All sites but these, in order."""
    kept = torch.ones(num_sites, dtype=torch.bool)
    kept[sites] = False
    return kept.nonzero().squeeze(-1)


def block_times(blocks: Sequence[Sites], num_sites: int) -> Tensor:
    """Times (num_blocks + 1, d) where block k is known from row k + 1 on."""
    times = torch.ones(len(blocks) + 1, num_sites, dtype=torch.float64)
    for step, block in enumerate(blocks):
        times[step + 1 :, torch.as_tensor(block).long()] = 0
    return times


# -- orders and blocks ---------------------------------------------------------------------------


def farthest_point(where: Lattice | Target, sites: Tensor | None = None) -> Tensor:
    """Sites, each as far as possible from those before it, (d,) or a permutation of ``sites``.

    Distance is Euclidean on a lattice (round the torus if periodic) and counts edges on a graph; a
    target without either has all sites equally far.  Ties go to the site least crowded by the
    earlier ones (Σ 1/distance²), then to the first.
    """
    distance = distances(where)
    sites = torch.arange(len(distance)) if sites is None else torch.as_tensor(sites).long()
    distance = distance[sites][:, sites]
    crowding = 1 / distance.square().fill_diagonal_(1)
    nearest, order = distance[0].clone(), [0]
    for _ in range(len(sites) - 1):
        nearest[order[-1]] = -1
        tied = (nearest > nearest.max() - 1e-9).nonzero().squeeze(1)
        crowded = crowding[tied[:, None], torch.tensor(order)].sum(1)
        order.append(int(tied[crowded.argmin()]))
        nearest = torch.minimum(nearest, distance[order[-1]])
    return sites[order]


def distances(where: Lattice | Target) -> Tensor:
    """Distance between every two sites, (d, d) float64; unconnected sites are d apart."""
    lattice = where if isinstance(where, Lattice) else where.lattice
    if lattice is not None:
        place = torch.stack(torch.unravel_index(torch.arange(lattice.num_sites), lattice.shape), -1)
        apart = (place[:, None] - place).abs().double()
        if lattice.periodic:
            apart = torch.minimum(apart, torch.tensor(lattice.shape) - apart)
        return apart.square().sum(-1).sqrt()
    if isinstance(where, Target) and where.pairs is not None:
        d, edges = where.num_sites, where.pairs.cpu().numpy()
        graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(d, d))
        hops = torch.from_numpy(shortest_path(graph.tocsr(), directed=False, unweighted=True))
        return hops.where(hops.isfinite(), torch.tensor(float(d), dtype=torch.float64))
    return 1 - torch.eye(where.num_sites, dtype=torch.float64)


def singles(order: Sites) -> list[Tensor]:
    """One site a block."""
    return list(torch.as_tensor(order).long().split(1))


# -- time grids of parallel schedules ------------------------------------------------------------


def uniform_grid(noise: UniformNoise, num_calls: int) -> Tensor:
    """Times (num_calls + 1,) from 1 to 0 at which α rises in equal steps."""
    check_calls(num_calls)
    return grid_at(noise, torch.linspace(0, 1, num_calls + 1, dtype=torch.float64))


def grid_at(noise: UniformNoise, progress: Tensor) -> Tensor:
    """Times from 1 to 0 at which α has come this share of its way, (k,) from 0 to 1 -> (k,)."""
    low, high = noise.schedule.alpha(torch.tensor([1.0, 0.0], dtype=torch.float64))
    grid = noise.schedule.time(low + (high - low) * progress)
    grid[0], grid[-1] = 1, 0  # exactly, whatever rounding the inverse brings
    return grid


# -- checks --------------------------------------------------------------------------------------


def check_permutation(order: Tensor, num_sites: int) -> None:
    if not torch.equal(order.sort().values, torch.arange(num_sites)):
        raise ValueError(
            f"order is {order.tolist()}: expected each site 0..{num_sites - 1} exactly once"
        )


def check_calls(num_calls: int, most: int | None = None) -> None:
    if not isinstance(num_calls, int) or num_calls < 1:
        raise ValueError(f"num_calls is {num_calls!r}: expected an integer, at least 1")
    if most is not None and num_calls > most:
        raise ValueError(f"num_calls is {num_calls} for {most} sites: expected at most one a site")
