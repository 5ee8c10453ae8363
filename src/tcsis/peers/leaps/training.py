"""Training of LEAPS: walkers near ρ_t, and the loss E[(K_t(x) - f(t))²] on them."""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.mcmc.gibbs import SweepGibbs
from tcsis.mcmc.kernel import State
from tcsis.peers.leaps.model import LeapsConfig, LeapsModel
from tcsis.peers.path import Rates, jump, look, noise, refuse_forbidden
from tcsis.targets.base import Target

FIRST_SWEEPS = 30
"""Of Gibbs moves that bring the first walkers from noise to their own times."""
RENEWED = 4
"""A refresh renews one walker in so many."""


class Walkers:
    """States x (n, d) with times t (n,), each near its own ρ_t."""

    def __init__(self, target: Target, config: LeapsConfig, generator: torch.Generator) -> None:
        self.target, self.config, self.generator = target, config, generator
        n = config.num_walkers
        self.x = noise(target, n, generator)
        refuse_forbidden(target, target.log_density(self.x))
        self.t = torch.rand(n, dtype=target.dtype, device=target.device, generator=generator)
        for share in torch.linspace(0, 1, FIRST_SWEEPS).tolist():
            self.x = sweep(target, self.x, share * self.t, generator)
        self.oldest = 0

    def renew(self, rates: Rates) -> None:
        """Trajectories of the present model in place of the oldest walkers, then sweeps of all."""
        n, num_times = len(self.x), self.config.num_times
        num_paths = max(1, n // RENEWED // num_times)
        paths = trajectories(rates, self.target, num_paths, num_times, self.generator)
        x, t = (part[-n:] for part in paths)
        places = (self.oldest + torch.arange(len(x), device=x.device)) % n
        self.x[places], self.t[places] = x, t
        self.oldest = (self.oldest + len(x)) % n
        for _ in range(self.config.num_sweeps):
            self.x = sweep(self.target, self.x, self.t, self.generator)

    def choose(self) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(
            len(self.x), (self.config.batch_size,), device=self.x.device, generator=self.generator
        )
        return self.x[chosen], self.t[chosen]


def sweep(target: Target, x: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
    """One sweep of Gibbs moves that leave every state's own ρ_t invariant."""
    state, _ = SweepGibbs().step(target.scaled(t), State(x), generator)
    return state.x


@torch.no_grad()
def trajectories(
    rates: Rates, target: Target, num_paths: int, num_times: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """All points of paths, (num_paths·num_times, d) and their times.

    The grid of each path is shifted at random, so that together they meet all times alike.
    """
    x = noise(target, num_paths, generator)
    t = torch.zeros(num_paths, dtype=target.dtype, device=target.device)
    shift = torch.rand(t.shape, dtype=t.dtype, device=t.device, generator=generator)
    states, times = [], []
    for number in range(num_times):
        s = (number + shift) / num_times
        x, t = jump(look(rates, target, x, t), s - t, generator), s
        states.append(x)
        times.append(t)
    return torch.cat(states), torch.cat(times)


class LeapsLoss:
    """E[(K_t(x) - f(t))²] of a batch of walkers, which are renewed every few steps."""

    def __init__(
        self, model: LeapsModel, target: Target, config: LeapsConfig, generator: torch.Generator
    ) -> None:
        self.model, self.target, self.refresh_every = model, target, config.refresh_every
        self.walkers = Walkers(target, config, generator)
        self.calibrate()

    @torch.no_grad()
    def calibrate(self) -> None:
        """Start f from the mean of K under the rates before training, which is right for any."""
        point = look(self.model.rates, self.target, self.walkers.x, self.walkers.t)
        self.model.slope.fit(self.walkers.t, point.slope)

    def __call__(self, step: int, progress: float) -> Tensor:
        if step % self.refresh_every == 0 and step:
            self.walkers.renew(self.model.rates)
        x, t = self.walkers.choose()
        gap = look(self.model.rates, self.target, x, t).slope - self.model.slope(t)
        return gap.square().mean()
