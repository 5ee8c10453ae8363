"""A shard of a run: a share of every batch, the states it comes from, and a generator of its own.

    loss = mean over the shards of the method's own loss on batch/shards states

So no method knows of ranks.  Rank r of R has the shards r, r + R, ... and goes through them one
after the other; the run is the same on any number of ranks that divides the number of shards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tcsis.basics.ranks import Ranks
from tcsis.learn.buffers import Buffer
from tcsis.learn.method import Loss


@dataclass
class Shard:
    """The states of one shard, their loss, which may be another in tests, and the generator of all
    that is random in it."""

    number: int
    buffer: Buffer
    loss: Loss
    generator: torch.Generator

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Places (b,) of random states of the buffer, and the states (b, d)."""
        states = self.buffer.all
        places = torch.randint(len(states), (size,), device=states.device, generator=self.generator)
        return places, states[places]

    @property
    def prefix(self) -> str:
        """Of names in a checkpoint; where there is one shard it has none."""
        return f"shard-{self.number}/" if self.number else ""

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes in training."""
        found = self.buffer.tensors() | {"generator": self.generator.get_state()}
        return {self.prefix + name: value for name, value in found.items()}

    def place(self, tensors: dict[str, Tensor]) -> None:
        """Put back what ``tensors`` gave."""
        start = len(self.prefix)
        own = {name[start:]: x for name, x in tensors.items() if name.startswith(self.prefix)}
        self.buffer.place(own)
        self.generator.set_state(own["generator"].cpu())


def purpose(number: int) -> str:
    """What the generator of a shard is seeded for."""
    return f"training/{number}" if number else "training"


def numbers(shards: int, ranks: Ranks) -> range:
    """Those of a rank."""
    if shards % ranks.size:
        raise ValueError(
            f"shards is {shards} and there are {ranks.size} ranks: expected a number of ranks that "
            "divides the shards"
        )
    return range(ranks.number, shards, ranks.size)


def joined(shards: list[Shard], ranks: Ranks) -> Buffer:
    """At rank 0 a buffer of the states of all shards, in order; at the others an empty one."""
    found: dict[int, Tensor] = {}
    for part in ranks.gathered({shard.number: shard.buffer.held.cpu() for shard in shards}):
        found |= part
    first = shards[0].buffer
    states = torch.cat([found[n] for n in sorted(found)], -2) if found else None
    return replace(first, states=None if states is None else states.to(first.target.device))
