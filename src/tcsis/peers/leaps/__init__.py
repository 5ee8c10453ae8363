"""LEAPS (Holderrieth, Albergo & Jaakkola, 2025), from the mathematics of the paper.

A continuous-time Markov chain is trained to carry uniform noise to the target along
log ρ̄_t = t·log p̄, and every draw has a weight.  ``tcsis.peers.path`` has the mathematics, ``model``
the networks and ``training`` the training.

    model = leaps.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

from pathlib import Path

import torch

from tcsis.peers.flow import Flow
from tcsis.peers.leaps.model import LeapsConfig, LeapsModel, make_model
from tcsis.peers.leaps.training import LeapsLoss
from tcsis.peers.path import Rates, continuous_weights, discrete_weights, log_volume
from tcsis.peers.peer import load_peer
from tcsis.peers.training import train_peer
from tcsis.targets.base import Target

__all__ = ["Leaps", "LeapsConfig", "continuous_weights", "discrete_weights", "load", "train"]

NUM_INTEGRATED = 1_001
"""Times at which the slope of log Z_t is evaluated for its integral."""


class Leaps(Flow[LeapsConfig, LeapsModel]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class = LeapsConfig
    new_model = staticmethod(make_model)
    new_loss = LeapsLoss

    @property
    def rates(self) -> Rates:
        return self.module.rates

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
        Leaps, target, config, seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Leaps:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Leaps, folder, target)
