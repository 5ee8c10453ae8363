"""SDDS, scalable discrete diffusion samplers (Sanokowski et al., 2025), from the mathematics of the
paper.

A chain of T steps turns uniform noise into draws, back along a chain of random flips (``chain``).
Its network (``model``) is trained by the reverse or the forward KL of whole paths (``objectives``),
both on paths of the model's own (``training``).

    model = sdds.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tcsis.draws import Draws
from tcsis.peers.peer import Peer, load_peer
from tcsis.peers.sdds.chain import draw
from tcsis.peers.sdds.model import ReverseNetwork, SddsConfig, make_model
from tcsis.peers.sdds.objectives import ForwardKL, ReverseKL
from tcsis.peers.sdds.training import SddsLoss
from tcsis.peers.training import train_peer
from tcsis.targets.base import Target

__all__ = ["ForwardKL", "ReverseKL", "Sdds", "SddsConfig", "load", "train"]


class Sdds(Peer[SddsConfig, ReverseNetwork]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class = SddsConfig
    new_model = staticmethod(make_model)
    new_loss = SddsLoss

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        generator: torch.Generator | None = None,
        batch_size: int = 2_000,
    ) -> Draws:
        """n independent draws with their weights, by the T steps that the model was trained for."""
        noise = self.module.noise

        def draw_some(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            return draw(self.module, noise, self.target.free, n, generator)

        return self.collect(
            n, draw_some, seed=seed, generator=generator, batch_size=batch_size,
            calls=noise.num_steps,
        )  # fmt: skip


def train(
    target: Target,
    *,
    config: SddsConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Sdds:
    """Train SDDS for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    return train_peer(
        Sdds, target, config, seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Sdds:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Sdds, folder, target)
