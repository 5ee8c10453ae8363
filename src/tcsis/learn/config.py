"""A whole training run as a frozen value that a TOML or JSON file can hold.

``Config`` has what all runs share, and ``method`` everything else: each method has just the
settings that it reads, and refuses all others.
"""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from torch import nn

from tcsis.basics.frozen import Frozen, Positive, merge, parse
from tcsis.learn.any_time import AnyTime
from tcsis.learn.autoregressive import Autoregressive
from tcsis.learn.buffers import Chains, ModelAndNoise, PopulationAnnealing, Uniform
from tcsis.learn.descent import first_weights
from tcsis.learn.method import Method
from tcsis.learn.ranged import Ranged
from tcsis.learn.self_normalized import SelfNormalized
from tcsis.learn.unbiased import Unbiased
from tcsis.learn.warming import Warming
from tcsis.targets.base import Target
from tcsis.targets.spec import DTYPES

AnyMethod = Annotated[
    Autoregressive | AnyTime | Ranged | SelfNormalized | Unbiased, Field(discriminator="kind")
]

AnySource = Annotated[
    Uniform | Chains | ModelAndNoise | PopulationAnnealing | Warming, Field(discriminator="kind")
]


class Optimisation(Frozen):
    """AdamW with warm-up, then cosine decay to ``final`` of the rate, and an average of weights."""

    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    warmup: Annotated[int, Field(ge=0)] = 100
    final: Annotated[float, Field(ge=0, le=1)] = 0.02
    batch_size: Annotated[int, Field(ge=2)] = 128
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    max_norm: Annotated[float, Field(gt=0)] = 5.0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999


class Config(Frozen):
    """A training run of ``num_steps`` steps, with ``num_evaluations`` looks at ``num_evaluated``
    draws on the way.  ``grows`` are shapes of smaller lattices that come before, each trained with
    the weights of the one before it.  Batch and buffer are cut into ``shards``, which are shared
    out among the ranks of a run; what is learned depends on the shards and not on the ranks."""

    method: AnyMethod
    buffer: AnySource
    optimisation: Optimisation = Optimisation()
    dtype: Literal["float32", "float64"] = "float32"
    num_steps: Positive
    grows: tuple[tuple[Positive, ...], ...] = ()
    num_evaluations: Annotated[int, Field(ge=0)] = 5
    num_evaluated: Positive = 2_000
    shards: Positive = 1

    @model_validator(mode="after")
    def check_grows(self) -> Config:
        shapes = [list(shape) for shape in self.grows]
        if shapes and not isinstance(self.method, AnyTime):
            raise ValueError(
                f"grows is {shapes} and the method {self.method.kind}: expected [], as any-time "
                "alone takes weights of a smaller lattice"
            )
        for before, after in pairwise(self.grows):
            if len(before) != len(after) or any(map(operator.gt, before, after)):
                raise ValueError(
                    f"grows is {shapes}: expected as many sides in each as in the one before, "
                    "and none of them shorter"
                )
        return self

    @model_validator(mode="after")
    def check_shards(self) -> Config:
        sizes = {"batch_size": self.optimisation.batch_size, "size of the buffer": self.buffer.size}
        for what, size in sizes.items():
            if size % self.shards or (self.shards > 1 and size < 2 * self.shards):
                raise ValueError(
                    f"shards is {self.shards} and the {what} {size}: expected shards of the same "
                    "size, of two states at least"
                )
        return self

    def over(self, num_ranks: int) -> Config:
        """The same on so many ranks: a shard for each, unless there are several already."""
        return self.changed(shards=num_ranks) if self.shards == 1 else self

    def changed(self, **changes: Any) -> Config:
        """The same run with some settings changed, tables by entry:
        ``config.changed(num_steps=400, method={"width": 16})``."""
        return parse(Config, merge(self.model_dump(), changes))

    def new_model(self, target: Target, seed: int) -> nn.Module:
        """The model with its first weights, which depend on the seed alone."""
        method: Method[Any] = self.method
        with first_weights(seed):
            model: nn.Module = method.model(target)
        return model.to(target.device, DTYPES[self.dtype])
