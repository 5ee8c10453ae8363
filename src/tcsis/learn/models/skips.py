"""Skip terms of the unbiased model: functions close to log p̄_t that need no learning.

    Density      log p̄(x)                                                   right as t → 0
    FirstOrder   log p̄(x) + Σ_i log Σ_u k_t(x^i | u)·p̄(x with x^i = u)/p̄(x)  and to first order in t
    Bethe        belief propagation, in ``tcsis.learn.models.bethe``                  up to loops
    Crowd        a mixture over states, in ``tcsis.learn.models.crowd``               right as t → 1

A model takes their sum with coefficients that depend on time, ``Knots``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from tcsis.noise import UniformNoise, log_sum
from tcsis.targets.base import Target

NUM_KNOTS = 17
"""Times between which coefficients are interpolated."""
SMOOTHNESS, TINY = 10.0, 1e-6
"""What second differences of coefficients count in a fit, in units of one state; and what keeps an
empty knot solvable."""


class Skip(nn.Module, ABC):
    """A function of state and times, (b, d) and (b, d) -> (b,)."""

    @abstractmethod
    def forward(self, x: Tensor, alpha: Tensor) -> Tensor: ...


class Density(Skip):
    """log p̄(x) itself, the paper's preconditioning."""

    def __init__(self, target: Target):
        super().__init__()
        self.target = target

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        return self.target.log_density(x).to(alpha.dtype)


class FirstOrder(Skip):
    """log p̄(x) and, as if the sites did not interact, what the noise adds to it from every site."""

    def __init__(self, target: Target, noise: UniformNoise):
        super().__init__()
        self.target, self.noise = target, noise

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        ratios = self.target.log_ratios(x).to(alpha.dtype)
        noise = log_sum(ratios + self.noise.log_kernel_at(x, alpha)).sum(-1)
        return self.target.log_density(x).to(alpha.dtype) + noise


# -- coefficients ---------------------------------------------------------------------------------


def fading(num_knots: int, num_terms: int) -> Tensor:
    """Coefficients to start with, (k, 1 + n), the constant first: one term fades out in the noise
    as 1 - (1 - α²)², and of two the second takes over as (1 - α²)⁶."""
    start, alpha = torch.zeros(num_knots, 1 + num_terms), torch.linspace(0, 1, num_knots)
    if num_terms == 1:
        start[:, 1] = 1 - (1 - alpha.square()).pow(2)
    else:
        start[:, 2] = (1 - alpha.square()).pow(6)
        start[:, 1] = 1 - start[:, 2]
    return start


def taking_over(shares: Tensor) -> Tensor:
    """Coefficients of two terms of which the second has these shares, (k,) -> (k, 2)."""
    return torch.stack([1 - shares, shares], 1)


class Knots(nn.Module):
    """c_0(α) + Σ_n c_n(α)·term_n, with coefficients that are linear in α between knots.

    At α = 1 they are held: the first term alone is left there.
    """

    start: Tensor

    def __init__(self, start: Tensor):
        """``start`` (k, 1 + n), the constant first."""
        super().__init__()
        self.values = nn.Parameter(start[:-1].clone())
        self.register_buffer("start", start)

    def forward(self, alpha: Tensor, terms: Tensor) -> Tensor:
        """(b,) and (b, ..., n) -> (b, ...)."""
        values = torch.cat([self.values, self.start[-1:]])
        c = hat_functions(alpha, len(values)) @ values
        c = c.reshape(len(c), *[1] * (terms.ndim - 2), -1)
        return c[..., 0] + (c[..., 1:] * terms).sum(-1)

    @torch.no_grad()
    def begin_at(self, coefficients: Tensor) -> None:
        """Start again with these coefficients of the terms, (k, n), but for the last knot."""
        self.start[:-1, 1:] = coefficients[:-1]
        self.values.copy_(self.start[:-1])

    @torch.no_grad()
    def fit(
        self, alpha: Tensor, terms: Tensor, gap: Tensor, weight: Tensor, restraint: float
    ) -> None:
        """Add what brings the sum closest to one that is larger by ``gap``: (b,), (b, n), (b,) and
        weights (b,), by least squares that wants coefficients smooth in α and, as if ``restraint``
        states of weight 1 said so, where they started."""
        terms, weight = torch.cat([ones(terms), terms], 1).double(), weight.double()
        hats = hat_functions(alpha.double(), len(self.start))[:, :-1]  # (b, k)
        centre, scale = local_moments(hats, terms)
        centre[:, 0], scale[:, 0] = 0, 1  # the constant
        units = hats[:, :, None] * (terms[:, None] - centre) / scale
        design = units.flatten(1)  # (b, k·n)
        moved = ((self.values - self.start[:-1]) * scale).flatten()
        # in noise the terms hardly differ, and nothing but this keeps their coefficients in bounds
        held = restraint * (1 + scale.square().reciprocal())
        held[:, 0] = TINY  # the constant is free
        penalty = held.flatten().diag() + SMOOTHNESS * roughness(scale)
        normal = design.T @ (weight[:, None] * design) + penalty
        wanted = design.T @ (weight * gap) - held.flatten() * moved
        solved = torch.linalg.solve(normal, wanted).reshape(scale.shape) / scale
        solved[:, 0] -= (solved * centre).sum(1)
        self.values.add_(solved)


class RunningMean(nn.Module):
    """The mean features of a site at every time, (k, width), as training has seen them of late.

    A head that sums over the sites is trained on features less this mean: otherwise a small step of
    its weights moves the level of all states by d times as much, and nothing else is learned.
    """

    mean: Tensor
    seen: Tensor

    def __init__(self, num_knots: int, width: int, rate: float = 0.05):
        super().__init__()
        self.rate = rate
        self.register_buffer("mean", torch.zeros(num_knots, width))
        self.register_buffer("seen", torch.zeros(num_knots))

    def forward(self, h: Tensor, alpha: Tensor) -> Tensor:
        """(b, d, width) and (b,) -> (b, width)."""
        hats = hat_functions(alpha, len(self.mean))
        if self.training and torch.is_grad_enabled():
            self.follow(h.detach().mean(1), hats)
        return hats @ self.mean

    def follow(self, features: Tensor, hats: Tensor) -> None:
        """Towards the means of a batch (b, width), at once where none has been seen yet."""
        there = hats.sum(0)
        self.seen += there
        now = hats.T @ features / there.clamp_min(TINY)[:, None]
        rate = (there / self.seen.clamp_min(TINY)).clamp_min(self.rate) * (there > 0)
        self.mean.lerp_(now, rate[:, None])


def falling(losses: Tensor) -> Tensor:
    """The choices at k knots that never rise and have the least sum of losses (k, c), (k,): by
    dynamic programming from the last knot on."""
    best, origins = losses[-1], []
    for row in losses.flip(0)[1:]:
        least, origin = best.cummin(0)
        origins.append(origin)
        best = row + least
    chosen = [int(best.argmin())]
    for origin in reversed(origins):
        chosen.append(int(origin[chosen[-1]]))
    return torch.tensor(chosen)


def ones(terms: Tensor) -> Tensor:
    return torch.ones_like(terms[:, :1])


def local_moments(hats: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the terms around every knot, (b, k) and (b, n) -> (k, n)
    each."""
    share = hats / hats.sum(0).clamp_min(TINY)
    centre = share.T @ terms
    scale = (share.T @ terms.square() - centre.square()).clamp_min(TINY).sqrt()
    return centre, scale


def local_variance(alpha: Tensor, values: Tensor, num_knots: int) -> Tensor:
    """The variance of values (b,) among those of about the same α (b,), for each of them."""
    hats = hat_functions(alpha.double(), num_knots)
    _, scale = local_moments(hats, values.double()[:, None])
    return hats @ scale.square().squeeze(1)


def roughness(scale: Tensor) -> Tensor:
    """The matrix of the sum of squared second differences in time of n coefficients at k knots, in
    units of 1/scale, (k, n) -> (k·n, k·n).  Beyond the last knot nothing changes."""
    k, n = scale.shape
    bend = torch.eye(k + 1).to(scale)[:, :k].diff(2, dim=0)  # (k - 1, k)
    rough = scale.new_zeros(k, n, k, n)
    for term in range(n):
        own = scale[1:, term, None] * bend / scale[:, term]
        rough[:, term, :, term] = own.T @ own
    return rough.reshape(k * n, k * n)


def hat_functions(alpha: Tensor, num_knots: int) -> Tensor:
    """How much each knot counts at α, (b,) -> (b, k)."""
    place = torch.arange(num_knots, device=alpha.device)
    return (1 - (alpha[:, None] * (num_knots - 1) - place).abs()).clamp_min(0)
