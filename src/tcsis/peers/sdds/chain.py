"""The two chains of SDDS (Sanokowski et al., 2025) and the weight of a path.

Noise flips every site by itself, at step t of T with probability β_t:

    p(x_t | x_{t-1}) = Π_i ( β_t if site i flips, else 1 - β_t ),      β_t = 1/(T - t + 2)

Of x_0 a share α_t = Π (1 - 2β_s) = (T-t)(T-t+1)/(T(T+1)) is left after t steps, and nothing after
T.  The learned chain goes back from uniform x_T, its sites independent of each other in a step:

    q(x_{t-1} | x_t) = Π_i Bernoulli(x_{t-1}^i; logit_i(x_t, t))

A path has the weight  log w = log p̄(x_0) + Σ log p(x_t | x_{t-1}) - log U(x_T)
- Σ log q(x_{t-1} | x_t),  and E[w] = Z whatever the logits are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tcsis.targets.base import Target

Reverse = Callable[[Tensor, Tensor], Tensor]
"""logit of x_{t-1}^i = 1: states x_t (b, d) and steps t (b,), or (1,) for all -> (b, d)."""


@dataclass(frozen=True)
class FlipNoise:
    """p(x_t | x_{t-1}) for t = 1 .. T, T being ``num_steps``."""

    num_steps: int

    def flip(self, t: Tensor) -> Tensor:
        """β_t."""
        return 1 / (self.num_steps - t + 2)

    def alpha(self, t: Tensor) -> Tensor:
        """α_t, for t = 0 .. T."""
        left = self.num_steps - t
        return left * (left + 1) / (self.num_steps * (self.num_steps + 1))

    def log_prob(self, x_t: Tensor, x_before: Tensor, t: Tensor) -> Tensor:
        """log p(x_t | x_{t-1}), (b, d), (b, d) and t (b,) or (1,) -> (b,)."""
        flips = (x_t != x_before).sum(-1)
        beta = self.flip(t.double())
        return flips * torch.log(beta) + (x_t.shape[-1] - flips) * torch.log1p(-beta)


@dataclass(frozen=True)
class Step:
    """One step back of n paths: x_t and x_{t-1} (n, d), log q(x_{t-1} | x_t) and
    log p(x_t | x_{t-1}) (n,)."""

    x_t: Tensor
    x_before: Tensor
    log_q: Tensor
    log_p: Tensor


@dataclass(frozen=True)
class Paths:
    """n whole paths.  Row t - 1 of x_t and x_before (T, n, d), log_q and log_p (T, n) is of step t;
    log p̄(x_0) (n,)."""

    x_t: Tensor
    x_before: Tensor
    log_q: Tensor
    log_p: Tensor
    log_density: Tensor

    @property
    def log_weight(self) -> Tensor:
        """log w, (n,)."""
        return path_weight(self.log_density, self.log_p - self.log_q, self.x_t.shape[-1])

    @property
    def reward_to_go(self) -> Tensor:
        """R_t = log p̄(x_0) + Σ_{s≤t} log p(x_s | x_{s-1}) - log q(x_{s-1} | x_s), (T, n)."""
        return self.log_density + (self.log_p - self.log_q).cumsum(0)


def path_weight(log_density: Tensor, log_ratios: Tensor, num_sites: int) -> Tensor:
    """log p̄ (n,) and log p - log q of all steps (T, n) -> log w (n,); log U = -d·log 2."""
    return log_density.double() + log_ratios.sum(0) + num_sites * math.log(2)


def log_bernoulli(logits: Tensor, x: Tensor) -> Tensor:
    """log Π_i Bernoulli(x_i; logit_i), (b, d) and (b, d) -> (b,)."""
    return logsigmoid(torch.where(x == 1, logits, -logits)).sum(-1).double()


def walk(
    reverse: Reverse, noise: FlipNoise, x: Tensor, generator: torch.Generator
) -> Iterator[Step]:
    """The steps from x_T (n, d) back to x_0, t = T first."""
    for number in range(noise.num_steps, 0, -1):
        t = torch.tensor([number], device=x.device)
        logits = reverse(x, t)
        u = torch.rand(x.shape, dtype=logits.dtype, device=x.device, generator=generator)
        before = (u < logits.sigmoid()).long()
        log_q, log_p = log_bernoulli(logits, before), noise.log_prob(x, before, t)
        yield Step(x, before, log_q, log_p)
        x = before


@torch.no_grad()
def draw_paths(
    reverse: Reverse, noise: FlipNoise, target: Target, n: int, generator: torch.Generator
) -> Paths:
    """n paths with all their steps."""
    steps = list(walk(reverse, noise, uniform(target, n, generator), generator))[::-1]
    return Paths(
        torch.stack([step.x_t for step in steps]),
        torch.stack([step.x_before for step in steps]),
        torch.stack([step.log_q for step in steps]),
        torch.stack([step.log_p for step in steps]),
        target.log_density(steps[0].x_before).double(),
    )


@torch.no_grad()
def draw(
    reverse: Reverse, noise: FlipNoise, target: Target, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The ends x_0 of n paths and their log weights, (n, d) and (n,)."""
    rise = torch.zeros(n, dtype=torch.float64, device=target.device)
    for step in walk(reverse, noise, uniform(target, n, generator), generator):
        rise = rise + step.log_p - step.log_q
    x = step.x_before
    return x, path_weight(target.log_density(x), rise[None], target.num_sites)


def uniform(target: Target, n: int, generator: torch.Generator) -> Tensor:
    return torch.randint(2, (n, target.num_sites), device=target.device, generator=generator)
