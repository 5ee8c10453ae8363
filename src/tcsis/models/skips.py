"""Skip terms of the unbiased model: functions close to log p̄_t that need no learning.

    Density      log p̄(x)                                                   right as t → 0
    FirstOrder   log p̄(x) + Σ_i log Σ_u k_t(x^i | u)·p̄(x with x^i = u)/p̄(x)  and to first order in t
    Crowd        log (1/M) Σ_m k_t(x | x_m), in ``tcsis.models.crowd``          right as t → 1

A model takes their sum with coefficients that depend on time, ``Knots``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tcsis.noise import UniformNoise, log_sum
from tcsis.targets.base import Target

CHUNK = 4_096
"""States evaluated at once when all neighbours are asked for."""

RESTRAINT, SMOOTHNESS, TINY = 1.0, 10.0, 1e-6
"""Of the squares of coefficients less their start, and of their second differences, in units of one
state of a fit; the last keeps an empty knot solvable."""


class Skip(nn.Module):
    """A function of state and times, (b, d) and (b, d) -> (b,)."""

    def ratios(self, x: Tensor, alpha: Tensor) -> Tensor:
        """Its value at every neighbour less that at x, (b, d, v)."""
        raise NotImplementedError


class Nothing(Skip):
    """Zero: a model without preconditioning."""

    def __init__(self, num_values: int):
        super().__init__()
        self.num_values = num_values

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        return alpha.new_zeros(len(x))

    def ratios(self, x: Tensor, alpha: Tensor) -> Tensor:
        return alpha.new_zeros(*x.shape, self.num_values)


class Density(Skip):
    """log p̄(x) itself, the paper's preconditioning."""

    def __init__(self, target: Target):
        super().__init__()
        self.target = target

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        return self.target.log_density(x).to(alpha.dtype)

    def ratios(self, x: Tensor, alpha: Tensor) -> Tensor:
        return self.target.log_ratios(x).to(alpha.dtype)


class FirstOrder(Skip):
    """log p̄(x) and, as if the sites did not interact, what the noise adds to it from every site."""

    def __init__(self, target: Target, noise: UniformNoise):
        super().__init__()
        self.target, self.noise = target, noise

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        stay, move = self.noise.log_stay_move(alpha)
        ratios = self.target.log_ratios(x).to(alpha.dtype)
        # the present value has the ratio 0, and every other one the kernel's other value
        log_kernel = move[..., None].expand_as(ratios).scatter(-1, x[..., None], stay[..., None])
        return self.target.log_density(x).to(alpha.dtype) + log_sum(ratios + log_kernel).sum(-1)

    def ratios(self, x: Tensor, alpha: Tensor) -> Tensor:
        y = all_neighbours(x, self.noise.num_values)  # (b, d, v, d)
        times = alpha[:, None, None].expand(y.shape)
        parts = zip(y.flatten(0, 2).split(CHUNK), times.flatten(0, 2).split(CHUNK), strict=True)
        there = torch.cat([self(states, own) for states, own in parts])
        return there.reshape(y.shape[:3]) - self(x, alpha)[:, None, None]


def all_neighbours(x: Tensor, num_values: int) -> Tensor:
    """x with every site set to every value, (b, d) -> (b, d, v, d)."""
    b, d = x.shape
    here = torch.eye(d, dtype=torch.bool, device=x.device)[:, None]  # (d, 1, d)
    values = torch.arange(num_values, device=x.device)[:, None]  # (v, 1)
    return torch.where(here, values, x[:, None, None]).expand(b, d, num_values, d)


# -- coefficients ---------------------------------------------------------------------------------


class Knots(nn.Module):
    """c_0(α) + Σ_n c_n(α)·term_n, with coefficients that are linear in α between knots.

    At α = 1 they are held: the first term alone is left there.
    """

    start: Tensor

    def __init__(self, num_knots: int, num_terms: int):
        """To begin with, the first term counts α⁴ and the last, if there are others, 1 - α⁴."""
        super().__init__()
        alpha = torch.linspace(0, 1, num_knots)
        start = torch.zeros(num_knots, num_terms + 1)
        start[:, num_terms] = 1 - alpha.pow(4)
        start[:, 1] = alpha.pow(4)
        self.values = nn.Parameter(start[:-1].clone())
        self.register_buffer("start", start)

    def forward(self, alpha: Tensor, terms: Tensor) -> Tensor:
        """(b,) and (b, ..., n) -> (b, ...)."""
        values = torch.cat([self.values, self.start[-1:]])
        c = hat_functions(alpha, len(values)) @ values
        c = c.reshape(len(c), *[1] * (terms.ndim - 2), -1)
        return c[..., 0] + (c[..., 1:] * terms).sum(-1)

    @torch.no_grad()
    def fit(self, alpha: Tensor, terms: Tensor, gap: Tensor, weight: Tensor) -> None:
        """Add what brings the sum closest to one that is larger by ``gap``: (b,), (b, n), (b,) and
        weights (b,), by least squares that wants coefficients smooth in α and not far from where
        they started."""
        k, n = self.values.shape
        terms, weight = terms.double(), weight.double()
        centre, scale = terms.mean(0), terms.std(0).clamp_min(1e-6)
        ones = torch.ones_like(terms[:, :1])
        units = torch.cat([ones, (terms - centre) / scale], 1)  # all of the size of 1
        hats = hat_functions(alpha.double(), k + 1)[:, :k]
        design = (hats[:, :, None] * units[:, None]).flatten(1)  # (b, k·n)
        bend = torch.eye(k + 1).to(terms)[:, :k].diff(2, dim=0)
        smooth = SMOOTHNESS * torch.kron(bend.T @ bend, torch.eye(n).to(terms))
        restraint = torch.tensor([TINY] + [RESTRAINT] * (n - 1)).to(terms).repeat(k)
        to_units = torch.cat([ones[0], scale])
        moved = ((self.values - self.start[:-1]) * to_units).flatten()
        normal = design.T @ (weight[:, None] * design) + smooth + restraint.diag()
        wanted = design.T @ (weight * gap) - restraint * moved
        solved = torch.linalg.solve(normal, wanted).reshape(k, n) / to_units
        solved[:, 0] -= solved[:, 1:] @ centre
        self.values.add_(solved)


def hat_functions(alpha: Tensor, num_knots: int) -> Tensor:
    """How much each knot counts at α, (b,) -> (b, k)."""
    place = torch.arange(num_knots, device=alpha.device)
    return (1 - (alpha[:, None] * (num_knots - 1) - place).abs()).clamp_min(0)
