"""At which times a batch is noised: those that the schedules of a draw will meet."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tcsis.reverse.schedules import farthest_point, last_class, remaining
from tcsis.targets.base import Target

DrawTimes = Callable[[Tensor, torch.Generator], Tensor]
"""Times for a batch of states, (b, d) -> (b, d)."""


def shared_times(x: Tensor, generator: torch.Generator) -> Tensor:
    """A uniform time for each state, one in each of b equal intervals, (b, d) -> (b, d)."""
    b = len(x)
    jitter = torch.rand(b, device=x.device, generator=generator)
    place = torch.randperm(b, device=x.device, generator=generator)
    return ((place + jitter) / b)[:, None].expand(x.shape)


def mixed_times(order: Tensor) -> DrawTimes:
    """For half of the states a shared time; for a quarter each, sites known or not at random, and
    the first few of ``order`` known: what every kind of schedule meets, (b, d) -> (b, d)."""
    rank = order.argsort()

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        t = shared_times(x, generator)
        kind = torch.rand(len(x), 1, device=x.device, generator=generator)
        scatter = torch.rand(x.shape, device=x.device, generator=generator)
        at_random = (scatter < t).to(t)
        in_order = (rank.to(x.device) + 1 > (1 - t) * len(rank)).to(t)  # 0 to d - 1 are known
        return torch.where(kind < 0.5, t, torch.where(kind < 0.75, at_random, in_order))

    return draw


def shared(target: Target) -> DrawTimes:
    """One time for all sites of a state: the parallel schedules of the paper."""
    return shared_times


def mixed(target: Target) -> DrawTimes:
    """Shared times, and sites known or not besides: for a model that serves every schedule, planned
    blocks above all."""
    return mixed_times(last_class_last(target))


def last_class_last(target: Target) -> Tensor:
    """Sites outside the last class first, where there is one, each part far-apart ones first."""
    if target.colouring is None:
        return farthest_point(target)
    last = last_class(target)
    first = farthest_point(target, remaining(target.num_sites, last))
    return torch.cat([first, farthest_point(target, last)])
