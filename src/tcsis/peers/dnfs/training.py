"""Training of DNFS: the Kolmogorov residual on paths of the model's own.

The chain carries ρ_t along if and only if K_t(x) = d/dt log Z_t at all states x, with K_t as in
``tcsis.peers.path``.  The right side is the mean of K_t under ρ_t whatever the rates are: the term
that they add to log p̄ has mean zero and is a control variate, by which the variance falls to zero
as the rates become right.  So the loss is

    E_t E_x[ (K_t(x) - c_t)² ],      c_t = the mean of K_t over the batch's states at t, held fixed
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tcsis.peers.dnfs.model import DnfsConfig, EquivariantTransformer
from tcsis.peers.path import Rates, jump, look, noise, refuse_forbidden
from tcsis.targets.base import Target


class Replay:
    """Sets of paths: states x (sets, times, paths, d) at times t (sets, times).

    It starts with one set, for the first rates are soon others, and grows to ``num_kept``.
    """

    def __init__(
        self, rates: Rates, target: Target, config: DnfsConfig, generator: torch.Generator
    ) -> None:
        self.target, self.config, self.generator = target, config, generator
        refuse_forbidden(target, target.log_density(noise(target, config.num_paths, generator)))
        x, t = self.draw(rates)
        self.x, self.t = x[None], t[None]

    def renew(self, rates: Rates) -> None:
        """A new set, in place of the oldest where there are ``num_kept``."""
        x, t = self.draw(rates)
        younger = max(0, len(self.x) - self.config.num_kept + 1)
        self.x = torch.cat([self.x[younger:], x[None]])
        self.t = torch.cat([self.t[younger:], t[None]])

    @torch.no_grad()
    def draw(self, rates: Rates) -> tuple[Tensor, Tensor]:
        """A set of Euler chains of the present rates, (times, paths, d) and (times,).

        The grid is shifted at random, so that the sets together meet all times alike.
        """
        n, num_times = self.config.num_paths, self.config.num_times
        x = noise(self.target, n, self.generator)
        kind: dict[str, Any] = {"dtype": self.target.dtype, "device": x.device}
        last, shift = torch.zeros(n, **kind), torch.rand((), **kind, generator=self.generator)
        times = (torch.arange(num_times, device=x.device) + shift) / num_times
        states = []
        for s in times:
            here = look(rates, self.target, x, last)
            refuse_forbidden(self.target, here.log_density)
            x = jump(here, s - last, self.generator)
            last = s.expand(n)
            states.append(x)
        return torch.stack(states), times

    def choose(self) -> tuple[Tensor, Tensor]:
        """States of a few times, (times, states, d) and (times,)."""
        k, b = self.config.times_a_batch, self.config.states_a_time
        on: dict[str, Any] = {"device": self.x.device, "generator": self.generator}
        which = torch.randint(self.t.numel(), (k,), **on)
        paths = torch.rand(k, self.x.shape[2], **on).argsort(1)[:, :b]
        x = self.x.flatten(0, 1)[which[:, None], paths]
        return x, self.t.flatten()[which]


class DnfsLoss:
    """The residual of a batch of the replay buffer, a set of which is renewed every few steps."""

    def __init__(
        self,
        model: EquivariantTransformer,
        target: Target,
        config: DnfsConfig,
        generator: torch.Generator,
    ) -> None:
        self.model, self.target, self.refresh_every = model, target, config.refresh_every
        self.replay = Replay(model, target, config, generator)

    def __call__(self, step: int, progress: float) -> Tensor:
        if step % self.refresh_every == 0 and step:
            self.replay.renew(self.model)
        return residual(self.model, self.target, *self.replay.choose())


def residual(rates: Rates, target: Target, x: Tensor, t: Tensor) -> Tensor:
    """The mean of (K_t - c_t)², states (times, n, d) and times (times,) -> ()."""
    times = t[:, None].expand(x.shape[:2])
    slope = look(rates, target, x.flatten(0, 1), times.flatten()).slope.reshape(x.shape[:2])
    return (slope - slope.detach().mean(1, keepdim=True)).square().mean()
