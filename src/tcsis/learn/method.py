"""What a method is: a frozen value that knows its own model, loss and sampler.

    model(target)                          a module with first weights
    prepare(model, target, buffer, ...)    what is fitted once before training, if anything
    loss(model, target, buffer)            a batch x_0 -> a scalar, and the states to put back
    sampler(model, target)                 draws with their weights

The training loop and a trained model call these and know no method by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from tcsis.basics.frozen import Frozen
from tcsis.basics.threads import num_worthwhile
from tcsis.draws import Draws
from tcsis.learn.buffers import Buffer, Source
from tcsis.noise import UniformNoise
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Denoiser, Step
from tcsis.targets.base import Target
from tcsis.targets.known import KnownSites

WEIGHED_TOGETHER = 1_024
"""States at a time, for the sake of memory."""

Loss = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""States x_0 (b, d) of the buffer -> a scalar, and the states (b, d) to put back."""

ScorePairs = tuple[Tensor, Tensor]
"""What a model says of some moves and what is true of them, (k,) each."""


@dataclass(frozen=True)
class How:
    """How draws are to be made, where a method leaves that free; None stands for its own way."""

    calls: int | None = None
    schedule: Schedule | None = None
    step: Step | None = None
    batch_size: int | None = None


class ModelSampler(Protocol):
    """Draws of a trained model, and the reverse process that they go by."""

    @property
    def target(self) -> Target: ...

    @property
    def noise(self) -> UniformNoise: ...

    @property
    def denoiser(self) -> Denoiser:
        """log P(x_0^i = v | x_t), (b, d) and (b, d) -> (b, d, v)."""

    @property
    def step(self) -> Step:
        """The reverse step that ``sample`` takes."""

    def schedule(self, calls: int | None = None) -> Schedule:
        """The schedule that ``sample`` goes by."""

    def draw(self, n: int, generator: torch.Generator, how: How) -> Draws:
        """n independent draws, each with its path weight."""

    def weigh(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """log weights (b,) of states given, (b, d): of a path to each of them, drawn by the
        noise."""

    def given(self, known: KnownSites) -> ModelSampler:
        """The same given the values of some sites, where the method serves evidence without
        training; else a ``ValueError``."""

    def score_pairs(self, seed: int) -> ScorePairs:
        """What the model learned beside the truth, on a target that can be enumerated."""


def weigh_states(
    sampler: ModelSampler, target: Target, sites: Tensor, x: Tensor, generator: torch.Generator
) -> Tensor:
    """log weights (n,) of whole states x (n, d) of a target, by a sampler of some of its
    ``sites``; -inf where x contradicts what is known."""
    x = target.check(x.to(target.device))
    inside = x[:, sites.to(x.device)].split(WEIGHED_TOGETHER)
    log_weight = torch.cat([sampler.weigh(part, generator) for part in inside])
    agrees = (target.complete(x[:, target.free_sites.to(x.device)]) == x).all(1)
    return log_weight.where(agrees, -torch.inf)


def refuse_unless_alike(model: nn.Module, start: nn.Module) -> None:
    """Refuse weights of another form."""
    ours, theirs = shapes(model), shapes(start)
    if ours != theirs:
        differing = next(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        raise ValueError(
            f"start has {theirs.get(differing, 'no')} weights {differing} where the model has "
            f"{ours.get(differing, 'none')}: expected a model of the same method and widths, on "
            "a target of as many values and of the same size or, for the any-time method, on a "
            "smaller periodic lattice"
        )


def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights.shape) for name, weights in module.named_parameters()}


def serves_no_evidence(kind: str) -> ValueError:
    return ValueError(
        f"the model is of the method {kind}, which serves no evidence without training: train on "
        'target.given(...), or train a model with method="any-time" for any evidence'
    )


Model = TypeVar("Model", bound=nn.Module)


class Method(Frozen, ABC, Generic[Model]):
    """A distinct algorithm with its settings; ``kind`` is its name."""

    kind: str

    @abstractmethod
    def model(self, target: Target) -> Model:
        """The model; its first weights come from torch's default generator."""

    def prepare(
        self, model: Model, target: Target, buffer: Buffer, generator: torch.Generator
    ) -> None:
        """Fit what has to be fitted before training: nothing, unless a method says otherwise."""

    def check_start(self, model: Model, start: nn.Module) -> None:
        """Refuse a model whose weights ``carry`` could not take."""
        refuse_unless_alike(model, start)

    def carry(self, model: Model, start: nn.Module, buffer: Buffer) -> None:
        """Begin with the weights of another trained model, in place of ``prepare``."""
        model.load_state_dict(start.state_dict())

    @abstractmethod
    def loss(self, model: Model, target: Target, buffer: Buffer) -> Loss:
        """``buffer`` holds all training states as they are at the time of a batch."""

    def asked(self, target: Target) -> Target:
        """The target as training asks it."""
        return target

    def buffer(self, source: Source, target: Target) -> Buffer:
        """Where training states are kept."""
        return Buffer(source, target)

    def looked(
        self, model: Model, target: Target, n: int, generator: torch.Generator
    ) -> dict[str, float]:
        """What an evaluation by about n more draws records beside those of the target."""
        return {}

    def tell(self, record: Mapping[str, float]) -> str:
        """The same in words."""
        return ""

    def at(
        self, model: Model, target: Target, values: Mapping[str, float]
    ) -> tuple[Target, Method[Any], nn.Module]:
        """Another target that the model serves without training, with its method and module."""
        raise ValueError(
            f"the model is of the method {self.kind}, which knows one target: expected a model of "
            "tcsis.train_range for others"
        )

    def parts(self, model: Model) -> list[list[nn.Parameter]]:
        """Weights whose gradients are clipped together: all, unless the loss is a sum of losses of
        which each has weights of its own, and one would have the others cut."""
        return [list(model.parameters())]

    def moved(self, model: Model) -> list[Tensor]:
        """What the loss itself changes in the model, such as running means: nothing, unless a
        method says otherwise."""
        return []

    @abstractmethod
    def sampler(self, model: Model, target: Target) -> ModelSampler: ...

    def num_products(self, model: Model, target: Target) -> float:
        """About how many products of numbers one state takes: those of every weight at every site,
        unless a method says otherwise."""
        return float(target.num_sites * sum(weights.numel() for weights in model.parameters()))

    def num_threads(self, model: Model, target: Target, num_states: int) -> int:
        """How many threads so many states at once are worth.  Of what a black box does nothing is
        known: it has them all."""
        known = target.sketch
        if known.ratios_cost > known.num_sites:
            return torch.get_num_threads()
        return num_worthwhile(num_states * self.num_products(model, target))

    @abstractmethod
    def tiny(self) -> Method[Model]:
        """The same with a network that trains in seconds, for tests and first looks."""
