"""VAN, variational autoregressive networks (Wu, Wang & Zhang, 2019), from their mathematics.

A network that draws site after site in raster order is trained to the least free energy; its
probabilities are known, and so every draw has the weight p̄(x)/q(x).  ``model`` has the network and
``training`` the loss.

    model = van.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tcsis.draws import Draws
from tcsis.peers.peer import Peer, load_peer
from tcsis.peers.training import train_peer
from tcsis.peers.van.model import Law, VanConfig, make_model
from tcsis.peers.van.training import VanLoss
from tcsis.targets.base import Target

__all__ = ["Van", "VanConfig", "load", "train"]


class Van(Peer[VanConfig, Law]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class = VanConfig
    new_model = staticmethod(make_model)
    new_loss = VanLoss

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        generator: torch.Generator | None = None,
        batch_size: int = 2_000,
    ) -> Draws:
        """n draws with log w = log p̄ - log q, E[w] = Z."""

        def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            x, log_q = self.module.draw(n, generator)
            return x, self.target.free.log_density(x).double() - log_q

        calls = self.target.free.num_sites
        return self.collect(
            n, draw, seed=seed, generator=generator, batch_size=batch_size, calls=calls
        )


def train(
    target: Target,
    *,
    config: VanConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Van:
    """Train VAN for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    return train_peer(
        Van, target, config, seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Van:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Van, folder, target)
