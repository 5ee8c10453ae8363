"""Values as an autoregressive model reads them: by name, or by appearance if names do not matter.

Where every relabelling of the values leaves the target unchanged, a sequence is told by its
pattern: the first value seen is called 0, the next new one 1, and so on.  All values not yet seen
are equally likely.  A model of patterns is exactly symmetric, and has less to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Labels(Protocol):
    def names(self, y: Tensor) -> Tensor:
        """The label of every value in a row of tokens, (b, n) -> (b, v)."""

    def tie(self, logits: Tensor, seen: Tensor) -> Tensor:
        """Logits (..., v) of labels, made equal where they cannot differ; of the labels ``seen``
        (...) have appeared."""

    def settle(self, label: Tensor, seen: Tensor) -> Tensor:
        """The label that a drawn one stands for, (b,) and (b,) -> (b,)."""

    def values(self, n: int, generator: torch.Generator) -> Tensor:
        """What the labels of n draws mean, (n, v)."""


@dataclass(frozen=True)
class ByName:
    """Every value is its own label."""

    num_values: int

    def names(self, y: Tensor) -> Tensor:
        return torch.arange(self.num_values, device=y.device).expand(len(y), -1)

    def tie(self, logits: Tensor, seen: Tensor) -> Tensor:
        return logits

    def settle(self, label: Tensor, seen: Tensor) -> Tensor:
        return label

    def values(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.arange(self.num_values, device=generator.device).expand(n, -1)


@dataclass(frozen=True)
class ByAppearance:
    """Values are numbered as they appear; those that do not, after all others."""

    num_values: int

    def names(self, y: Tensor) -> Tensor:
        b, n = y.shape
        place = torch.arange(n, device=y.device).expand(b, n)
        never = torch.full((b, self.num_values), n, device=y.device)
        first = never.scatter_reduce(1, y, place, "amin")
        return first.argsort(dim=1, stable=True).argsort(1)

    def tie(self, logits: Tensor, seen: Tensor) -> Tensor:
        index = torch.arange(self.num_values, device=logits.device)
        free = seen.clamp_max(self.num_values - 1)[..., None]
        return logits.gather(-1, torch.minimum(index, free).expand_as(logits))

    def settle(self, label: Tensor, seen: Tensor) -> Tensor:
        return torch.minimum(label, seen)

    def values(self, n: int, generator: torch.Generator) -> Tensor:
        keys = torch.rand(n, self.num_values, device=generator.device, generator=generator)
        return keys.argsort(1)


def num_seen(labels: Tensor) -> Tensor:
    """How many labels have appeared before each site, (b, n) -> (b, n), if they are numbered by
    appearance."""
    seen = labels.cummax(1).values + 1
    return torch.cat([torch.zeros_like(seen[:, :1]), seen[:, :-1]], 1)
