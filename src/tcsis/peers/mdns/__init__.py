"""MDNS, the masked diffusion neural sampler (Zhu et al., 2025), from its mathematics.

Sites become known one after the other in a random order; a network says what each of them is, and
is trained on its own draws by their weights.  ``paths`` has the mathematics, ``objectives`` what is
minimised and ``model`` the network.

    model = mdns.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tcsis.basics.checks import check_integer
from tcsis.draws import Draws
from tcsis.peers.mdns.model import MdnsConfig, Unmasker, make_model
from tcsis.peers.mdns.objectives import (
    CrossEntropy,
    DenoisingCrossEntropy,
    LogVariance,
    Own,
    RelativeEntropy,
)
from tcsis.peers.mdns.paths import draw, even_sizes
from tcsis.peers.peer import Peer, load_peer
from tcsis.peers.training import train_peer
from tcsis.targets.base import Target

__all__ = [
    "CrossEntropy",
    "DenoisingCrossEntropy",
    "LogVariance",
    "Mdns",
    "MdnsConfig",
    "RelativeEntropy",
    "load",
    "train",
]


class MdnsLoss:
    """The objective of the config at the inverse temperature of the moment."""

    def __init__(
        self, model: Unmasker, target: Target, config: MdnsConfig, generator: torch.Generator
    ) -> None:
        self.config = config
        self.loss = config.objective.new_loss(Own(model, target, generator))

    def __call__(self, step: int, progress: float) -> Tensor:
        warm = min(1.0, progress / self.config.warm_share)
        return self.loss(step, self.config.first_beta + warm * (1 - self.config.first_beta))


class Mdns(Peer[MdnsConfig, Unmasker]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class = MdnsConfig
    new_model = staticmethod(make_model)
    new_loss = MdnsLoss

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        calls: int | None = None,
        generator: torch.Generator | None = None,
        batch_size: int = 1_000,
    ) -> Draws:
        """n draws with their weights, each in an order of its own: one site a step, or by so many
        ``calls`` of the network, with several sites a step.  E[w] = Z either way."""
        free = self.target.free
        calls = free.num_sites if calls is None else check_integer("calls", calls)
        if calls > free.num_sites:
            raise ValueError(
                f"calls is {calls}: expected at most one a site, {free.num_sites} of them"
            )
        sizes = even_sizes(free.num_sites, calls)

        def draw_batch(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            paths = draw(self.module, free, n, sizes, generator)
            return paths.x, paths.log_weight()

        return self.collect(
            n, draw_batch, seed=seed, generator=generator, batch_size=batch_size, calls=calls
        )


def train(
    target: Target,
    *,
    config: MdnsConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Mdns:
    """Train MDNS for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    return train_peer(
        Mdns, target, config, seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Mdns:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Mdns, folder, target)
