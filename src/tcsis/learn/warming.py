"""States that follow p̄^β while β rises from 0 to 1, and the model is trained along.

    β(progress) = min(1, progress / warm)

States start as noise, which the model learns at once.  When β rises they are resampled by their
weights p̄^Δβ, which takes no evaluation, for the densities of states in the buffer are known.  What
moves them is the model: of its draws, that are evaluated to be learned from, each replaces a state
with the odds of their weights (``exchanged``).  Beside that come ``num_steps`` steps of ``kernel``,
a few densities each, so that states move where no draw is taken yet.

So a step of training costs a density for every draw of the model's, and now and then a few more,
whatever d and V are.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis.basics.frozen import Positive
from tcsis.learn.buffers import SampleModel, Source, new_seed, some
from tcsis.mcmc import start_chains
from tcsis.mcmc.allowed import allowed_states
from tcsis.targets.base import Target


class Warming(Source):
    """``size`` states, ``num_moved`` of which make ``num_steps`` steps of ``kernel`` at a refresh,
    while β rises over the first share ``warm`` of training."""

    follows_target: ClassVar[bool] = True
    divided: ClassVar[tuple[str, ...]] = ("size", "num_moved")

    kind: Literal["warming"] = "warming"
    size: Positive = 4_096
    every: Positive = 4
    warm: Annotated[float, Field(gt=0, le=1)] = 0.5
    kernel: str = "whole-metropolis"
    num_moved: Positive = 64
    num_steps: Positive = 1

    def scale(self, progress: float) -> float:
        return min(1.0, progress / self.warm)

    def start(self, target: Target, generator: torch.Generator) -> Tensor:
        return allowed_states(target, self.size, generator)

    def refresh(
        self, target: Target, x: Tensor, model: SampleModel, generator: torch.Generator
    ) -> Tensor:
        moved = some(len(x), min(self.num_moved, len(x)), generator)
        chains = start_chains(target, self.kernel, x[moved], new_seed(generator))
        chains.advance(self.num_steps)
        return x.index_copy(0, moved, chains.x.to(x))
