"""States of several targets at once, the levels of a range, each with a population of its own.

The one nearest to zero is annealed from noise, and where the range crosses zero one on either side
of it.  The states of the others come from those of their neighbour on its side: resampled by their
weights p̄_after/p̄_before, and moved on.  So cold ones start from warm ones, and both signs of a
field from none: from one sign to the other, a cold population would stay behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.draws import Draws, systematic_resample
from tcsis.learn.buffers import FEWEST_RUNGS, Buffer, PopulationAnnealing, SampleModel, Source
from tcsis.targets.base import Target


@dataclass
class LevelBuffer(Buffer):
    """States (levels, n, d) of all ``members``, of which training sees those of one ``level`` at a
    time: another at random whenever the source is due, moved on when its turn comes.  Those that
    come ``first``, one or two neighbours, are annealed from noise."""

    members: Sequence[Target] = ()
    first: tuple[int, ...] = (0,)
    level: int = 0

    def within(self, seconds: float) -> tuple[Source, float]:
        """Beside the rungs to each first level, each other one takes the sweeps of a rung."""
        first, source = len(self.first), self.source
        others = len(self.members) - first
        assert isinstance(source, PopulationAnnealing)
        for num_rungs in (source.num_rungs, FEWEST_RUNGS):  # fewer where time is short
            smaller, needed = super().within(seconds / (first + others / num_rungs))
            assert isinstance(smaller, PopulationAnnealing)
            needed *= first + others / smaller.num_rungs
            if needed <= seconds:
                break
        return smaller, needed

    def start(self, generator: torch.Generator) -> None:
        assert isinstance(self.source, PopulationAnnealing)
        source = self.source.model_copy(update={"num_moved": None})
        found = {n: source.start(self.members[n], generator) for n in self.first}
        up, down = range(self.first[-1] + 1, len(self.members)), range(self.first[0] - 1, -1, -1)
        for number, neighbour in [(n, n - 1) for n in up] + [(n, n + 1) for n in down]:
            before, after = self.members[neighbour], self.members[number]
            x = found[neighbour]
            log_weight = after.log_density(x).double() - before.log_density(x).double()
            x = x[systematic_resample(log_weight, generator)]
            for _ in range(source.steps_per_rung):
                x = source.refresh(after, x, no_model, generator)
            found[number] = x
        self.states = torch.stack([found[n] for n in sorted(found)]).to(torch.uint8)

    def refresh(
        self, step: int, progress: float, model: SampleModel, generator: torch.Generator
    ) -> None:
        if step % self.source.every == 0:
            device = generator.device
            number = torch.randint(len(self.members), (), device=device, generator=generator)
            self.level = int(number)
            moved = self.source.refresh(self.law, self.all.long(), model, generator)
            self.all.copy_(moved)

    @property
    def law(self) -> Target:
        """What the states of the level follow."""
        return self.members[self.level]

    @property
    def all(self) -> Tensor:
        """Those of the level, (n, d) uint8; what is written into them stays."""
        return self.levels[self.level]

    @property
    def levels(self) -> Tensor:
        """Those of all levels, (levels, n, d)."""
        return self.held

    @property
    def of_target(self) -> Tensor:
        """States of the last member, which the run is of."""
        return self.levels[-1].long()

    def tensors(self) -> dict[str, Tensor]:
        return {"buffer": self.levels, "level": torch.tensor(self.level)}

    def place(self, tensors: dict[str, Tensor]) -> None:
        self.states = tensors["buffer"].to(self.target.device).clone()
        self.level = int(tensors["level"])


def no_model(n: int, generator: torch.Generator) -> Draws:
    raise AssertionError("a population is moved on without the model")
