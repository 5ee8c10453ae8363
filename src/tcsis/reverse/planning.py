"""Schedules fitted to a denoiser: where a pilot run shows that steps may be long, they are.

Both planners measure, for the draws of a pilot run that takes small steps, how much log-weight
variance a larger step would have added, and spend a given number of calls so that the sum is least.
They ask nothing of the target but its shape, and cost ``n`` short runs of the denoiser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tcsis.noise import UniformNoise, draw_categorical
from tcsis.reverse.calls import Calls, Denoiser
from tcsis.reverse.schedules import Sites, check_calls, farthest_point, grid_at, uniform_grid
from tcsis.reverse.steps import at, tweedie, tweedie_law
from tcsis.targets.base import Target


@dataclass(frozen=True)
class BlockPlan:
    """``blocks`` of consecutive sites of the order; ``variance`` is the log-weight variance that
    drawing each block at once adds, and ``ess`` = exp(-variance) what it leaves of the ESS."""

    blocks: list[Tensor]
    variance: float

    @property
    def ess(self) -> float:
        return math.exp(-self.variance)


def plan_blocks(
    denoiser: Denoiser,
    target: Target,
    num_calls: int,
    *,
    order: Sites | None = None,
    n: int = 512,
    seed: int = 0,
) -> BlockPlan:
    """The division of ``order`` into ``num_calls`` blocks that adds least log-weight variance.

    A pilot draws the sites one by one and notes what the denoiser says, before each of them, on
    all that are still to come.  A block [a, b) drawn at once then changes log w by
    Σ_j [log p(x_j | x_<j) - log p(x_j | x_<a)], whose variance is known for every a and b; the
    best division follows by dynamic programming.  ``order`` may leave out sites, which stay noise:
    for ``coloured``, pass the sites outside ``last_class``.
    """
    order = farthest_point(target) if order is None else torch.as_tensor(order).long()
    check_calls(num_calls, len(order))
    cost = block_variances(pilot_log_p(denoiser, target, order, n, seed))
    ends = best_division(cost, num_calls)
    starts = [0, *ends[:-1]]
    variance = sum(float(cost[a, b]) for a, b in zip(starts, ends, strict=True))
    return BlockPlan([order[a:b] for a, b in zip(starts, ends, strict=True)], variance)


def pilot_log_p(denoiser: Denoiser, target: Target, order: Tensor, n: int, seed: int) -> Tensor:
    """log p(x_j | the first a sites of the order known), (a, j, n), for draws made one by one."""
    generator = torch.Generator(target.device).manual_seed(seed)
    d, device = target.num_sites, target.device
    x = torch.randint(target.num_values, (n, d), device=device, generator=generator)
    t = torch.ones(n, d, dtype=torch.float64, device=device)
    calls, answer = Calls(denoiser, target.num_values), None
    said = []
    for site in order.to(device).split(1):
        answer = calls.ask(x, t, answer)
        said.append(answer.log_d[:, order])
        x = x.index_copy(1, site, draw_categorical(answer.log_d[:, site], generator=generator))
        t = t.index_fill(1, site, 0)
    chosen = x[:, order, None]
    return torch.stack([log_d.gather(-1, chosen).squeeze(-1).T for log_d in said])


def block_variances(log_p: Tensor) -> np.ndarray:
    """Var Σ_{a<=j<b} [log p(x_j|x_<j) - log p(x_j|x_<a)] for all a < b, (d, d + 1)."""
    d = len(log_p)
    own = log_p.diagonal().T  # (d, n): each site given all before it
    cost = np.full((d, d + 1), np.inf)
    for a in range(d):
        excess = (own[a:] - log_p[a, a:]).cumsum(0)
        cost[a, a + 1 :] = excess.var(-1).cpu().numpy()
    return cost


def best_division(cost: np.ndarray, num_parts: int) -> list[int]:
    """Ends of the parts of 0..d that have the least total cost[start, end]."""
    d = len(cost)
    best, origin = cost[0].copy(), []
    for _ in range(num_parts - 1):
        total = best[:d, None] + cost  # (start of the last part, its end)
        origin.append(total.argmin(0))
        best = total.min(0)
    ends = [d]
    for start in reversed(origin):
        ends.append(int(start[ends[-1]]))
    return ends[::-1]


def tuned_grid(
    denoiser: Denoiser,
    noise: UniformNoise,
    num_sites: int,
    num_calls: int,
    *,
    num_intervals: int = 24,
    n: int = 512,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Times (num_calls + 1,) of a parallel schedule whose steps add equal log-weight variance."""
    check_calls(num_calls)
    generator = torch.Generator(device).manual_seed(seed)
    lengths = weight_lengths(denoiser, noise, num_sites, num_intervals, n, generator)
    return equal_lengths(noise, lengths, num_calls)


def weight_lengths(
    denoiser: Denoiser, noise: UniformNoise, num_sites: int, num_intervals: int, n: int,
    generator: torch.Generator,
) -> np.ndarray:  # fmt: skip
    """√(weight variance) of each of ``num_intervals`` equal intervals of α, from noise on.

    A pilot takes two Tweedie steps through each interval.  The variance of log w for these two
    less log w for one step over both is g·Δ² for an interval Δ.
    """
    calls, before = Calls(denoiser, noise.num_values), None
    fine = uniform_grid(noise, 2 * num_intervals).to(generator.device)
    shape = (n, num_sites)
    x = torch.randint(noise.num_values, shape, device=generator.device, generator=generator)
    lengths = []
    for t, m, s in zip(fine[:-2:2], fine[1:-1:2], fine[2::2], strict=True):
        t, m, s = (time.expand(1, num_sites) for time in (t, m, s))
        with torch.no_grad():
            at_t = calls.ask(x, t, before)
            first = tweedie.reverse(calls, noise, at_t, m, generator)
            at_m = calls.ask(first.x, m, at_t)
            second = tweedie.reverse(calls, noise, at_m, s, generator)
        at_once = tweedie_law(noise, at_t.log_d, x, t, s)
        once = noise.log_prob(x, second.x, t, s) - at(at_once, second.x)
        lengths.append(float((first.log_ratio + second.log_ratio - once).std()))
        x, before = second.x, at_m
    return np.array(lengths)


def equal_lengths(noise: UniformNoise, lengths: np.ndarray, num_calls: int) -> Tensor:
    """The grid whose steps have equal shares of the total length, (num_calls + 1,).

    Σ g·Δ² over the steps of a grid is least when all its terms are equal: ∫√g is cut evenly.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(lengths)])
    shares = np.linspace(0, cumulative[-1], num_calls + 1)
    progress = np.interp(shares, cumulative, np.linspace(0, 1, len(cumulative)))
    return grid_at(noise, torch.from_numpy(progress))
