"""DNFS, discrete neural flow samplers (Ou, Zhang & Li, 2025), from the mathematics of the paper.

A continuous-time Markov chain carries uniform noise to the target along log ρ̄_t = t·log p̄, as that
of LEAPS does (``tcsis.peers.path``).  Its rates are a locally equivariant transformer (``model``),
trained on the Kolmogorov equation over the model's own paths (``training``): no walkers, and no
network for the slope of log Z_t.

    model = dnfs.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

from pathlib import Path

from tcsis.peers.dnfs.model import DnfsConfig, EquivariantTransformer, make_model
from tcsis.peers.dnfs.training import DnfsLoss
from tcsis.peers.flow import Flow
from tcsis.peers.path import Rates, continuous_weights, discrete_weights
from tcsis.peers.peer import load_peer
from tcsis.peers.training import train_peer
from tcsis.targets.base import Target

__all__ = ["Dnfs", "DnfsConfig", "continuous_weights", "discrete_weights", "load", "train"]


class Dnfs(Flow[DnfsConfig, EquivariantTransformer]):
    """A trained model with its target; ``history`` holds a record of every evaluation.

    Its draws are stirred and weighed by the steps as they are taken, so that E[w] = Z;
    ``sample(stir=0, weigh=continuous_weights)`` has the weights of the paper.
    """

    config_class = DnfsConfig
    new_model = staticmethod(make_model)
    new_loss = DnfsLoss
    stir = 1.0
    weigh = staticmethod(discrete_weights)

    @property
    def rates(self) -> Rates:
        return self.module


def train(
    target: Target,
    *,
    config: DnfsConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Dnfs:
    """Train DNFS for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    return train_peer(
        Dnfs, target, config, seed=seed, steps=steps, time_budget=time_budget,
        progress=progress,
    )  # fmt: skip


def load(folder: str | Path, target: Target | None = None) -> Dnfs:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    return load_peer(Dnfs, folder, target)
