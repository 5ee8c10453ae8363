"""LEAPS (Holderrieth, Albergo & Jaakkola, 2025), from the mathematics of the paper.

A continuous-time Markov chain is trained to carry uniform noise to the target along
log ρ̄_t = t·log p̄, and every draw has a weight.  ``path`` has the mathematics, ``model``
the networks and ``training`` the training.

    model = leaps.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

from tcsis.basics.checks import check_integer
from tcsis.draws import Draws
from tcsis.peers.leaps.model import LeapsConfig, LeapsModel, default_calls, make_model
from tcsis.peers.leaps.path import (
    Weigh,
    continuous_weights,
    discrete_weights,
    log_volume,
    sample,
)
from tcsis.peers.leaps.training import LeapsLoss
from tcsis.peers.peer import Peer, load_peer
from tcsis.peers.training import train_peer
from tcsis.targets.base import Target

__all__ = ["Leaps", "LeapsConfig", "continuous_weights", "discrete_weights", "load", "train"]

NUM_INTEGRATED = 1_001
"""Times at which the slope of log Z_t is evaluated for its integral."""


class Leaps(Peer[LeapsConfig, LeapsModel]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class = LeapsConfig
    new_model = staticmethod(make_model)
    new_loss = LeapsLoss

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        calls: int | None = None,
        generator: torch.Generator | None = None,
        batch_size: int = 2_000,
        stir: float = 0.0,
        resample_below: float = 0.0,
        weigh: Weigh = continuous_weights,
    ) -> Draws:
        """n draws with their weights, by ``calls`` steps of time.

        ``weigh`` is ``continuous_weights``, as in the paper, which hold for many steps; or
        ``discrete_weights``, which hold for any number if ``stir``, the rate at which sites draw
        anew from their conditionals, is above zero (1, say).  Where the effective share of a batch
        falls below ``resample_below`` it is resampled on the way; then its draws are no longer
        independent.
        """
        calls = self.num_calls if calls is None else check_integer("calls", calls)
        if not 0 <= resample_below <= 1:
            raise ValueError(f"resample_below is {resample_below}: expected a share from 0 to 1")
        if not 0 <= stir < math.inf:
            raise ValueError(f"stir is {stir}: expected a rate of 0 or more")

        def draw(n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
            return sample(
                self.module.rates, self.target.free, n, calls, generator=generator, stir=stir,
                resample_below=resample_below, weigh=weigh,
            )  # fmt: skip

        return self.collect(
            n, draw, seed=seed, generator=generator, batch_size=batch_size, calls=calls + 1
        )

    @property
    def num_calls(self) -> int:
        """The steps of ``sample`` where none are asked for."""
        return self.config.num_calls or default_calls(self.target.free)

    @property
    @torch.no_grad()
    def free_energy_log_z(self) -> float:
        """d·log V + ∫ f(t) dt, log Z as the second network has it."""
        t = torch.linspace(0, 1, NUM_INTEGRATED, dtype=torch.float64, device=self.target.device)
        rise = torch.trapezoid(self.module.slope(t).double(), t)
        return log_volume(self.target.free) + float(rise)


def train(
    target: Target,
    *,
    config: LeapsConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Leaps:
    """Train LEAPS for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    return train_peer(
        Leaps, target, config or LeapsConfig(), seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Leaps:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Leaps, folder, target)
