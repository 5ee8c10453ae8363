"""What every peer is: a trained model with its target, its weights on every draw, its files.

A peer writes a config with its ``kind``, its model, its loss of a batch and its way to draw:

    class Mine(Peer[MineConfig, MineModel]):
        config_class = MineConfig
        new_model = staticmethod(make_model)
        new_loss = MineLoss
        def sample(self, n, *, seed=0, ...): return self.collect(n, ...)

and ``training`` does the rest: ``train_peer(Mine, target, config, ...)``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.checks import check_counts, make_generator
from tcsis.basics.frozen import Frozen, Positive, parse
from tcsis.basics.locks import sole_writer
from tcsis.draws import Draws
from tcsis.learn import checkpoint
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.learned import load_weights, matching_target, tensors_of
from tcsis.targets.base import Target, counting

Drawn = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
"""Of a number and a generator: states of the free sites (n, d) and their log weights (n,)."""


class PeerConfig(Frozen):
    """What every training run reads; a peer adds its ``kind`` and its own settings."""

    kind: str
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    num_steps: Positive = 5_000
    num_evaluations: Annotated[int, Field(ge=0)] = 5
    num_evaluated: Positive = 250


class BatchLoss(Protocol):
    """The loss of the next batch after ``step`` steps, at a ``progress`` from 0 to 1.  What is kept
    between steps, walkers or a buffer, is its own."""

    def __call__(self, step: int, progress: float) -> Tensor: ...


Config = TypeVar("Config", bound=PeerConfig)
Model = TypeVar("Model", bound=nn.Module)


@dataclass
class Peer(ABC, Generic[Config, Model]):
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    config_class: ClassVar[type[PeerConfig]]

    target: Target
    config: Config
    module: Model
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    num_density_calls: float = 0.0

    @property
    def kind(self) -> str:
        """The name that it goes by."""
        return self.config.kind

    @staticmethod
    @abstractmethod
    def new_model(config: Any, target: Target, seed: int) -> Any:
        """The model with its first weights, which depend on the seed alone."""

    @staticmethod
    @abstractmethod
    def new_loss(model: Any, target: Target, config: Any, generator: torch.Generator) -> BatchLoss:
        """The loss of a run; whatever is fitted before training is fitted here."""

    @abstractmethod
    def sample(self, n: int, *, seed: int = 0, generator: torch.Generator | None = None) -> Draws:
        """n draws with their weights, E[w] = Z; in continuous time, as the steps become many."""

    def collect(
        self, n: int, draw: Drawn, *, seed: int, generator: torch.Generator | None,
        batch_size: int, calls: int,
    ) -> Draws:  # fmt: skip
        """n draws in batches, counted and timed; each of them calls the network ``calls`` times."""
        check_counts(n=n, batch_size=batch_size)
        generator = generator or make_generator(seed, "reverse", self.target.device)
        began = time.perf_counter()
        with counting(self.target) as cost:
            parts = [
                draw(min(batch_size, n - first), generator) for first in range(0, n, batch_size)
            ]
        x, log_weight = (torch.cat(part) for part in zip(*parts, strict=True))
        return Draws(
            x.to(torch.uint8), log_weight, time.perf_counter() - began, cost.densities,
            num_network_calls=n * calls,
        ).completed(self.target)  # fmt: skip

    def save(self, folder: str | Path) -> Path:
        """Write the model and its target into a folder, for the ``load`` of its kind."""
        tensors, described = tensors_of(self.module, self.target)
        record = {
            self.config.kind: self.config.model_dump(mode="json"), "target": described,
            "history": self.history, "seconds": self.seconds,
            "num_density_calls": self.num_density_calls,
        }  # fmt: skip
        with sole_writer(Path(folder)):
            return checkpoint.save(folder, tensors, record)


Kind = TypeVar("Kind", bound=Peer[Any, Any])


def load_peer(made: type[Kind], folder: str | Path, target: Target | None = None) -> Kind:
    """A model of its kind that ``save`` wrote."""
    tensors, data = checkpoint.load(folder)
    kind = made.config_class.model_fields["kind"].default
    if not {kind, "target", "history", "seconds", "num_density_calls"} <= data.keys():
        raise CheckpointError(
            f"this checkpoint holds no model of {kind.upper()}: expected one it has saved"
        )
    target = matching_target(tensors, data["target"], target)
    config = parse(made.config_class, data[kind])
    module = made.new_model(config, target.free, 0)
    load_weights(module, tensors, "model/")
    return made(
        target, config, module.eval(), data["history"], data["seconds"], data["num_density_calls"]
    )
