"""Symmetries of the target built into a network that maps tokens to logits (b, d) -> (b, d, v).

``averaged`` takes the mean over both signs, for V = 2; ``sorted_values`` renames the values of
every state by how many sites hold them, which works for any V at no cost, but makes the model jump
where two values are equally common.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Logits = Callable[[Tensor, Tensor], Tensor]
"""x (b, d) and α (b, d) -> logits (b, d, v)."""

Symmetrise = Callable[[Logits, Tensor, Tensor, int], Tensor]


def of_values(num_values: int) -> Symmetrise:
    """What fits V values that the target does not tell apart."""
    return averaged if num_values == 2 else sorted_values


def as_it_is(logits: Logits, x: Tensor, alpha: Tensor, num_values: int) -> Tensor:
    return logits(x, alpha)


def averaged(logits: Logits, x: Tensor, alpha: Tensor, num_values: int) -> Tensor:
    """The mean over x and its flip, for V = 2; one call with twice the batch."""
    both = logits(torch.cat([x, 1 - x]), torch.cat([alpha, alpha]))
    here, flipped = both.chunk(2)
    return (here + flipped.flip(-1)) / 2


def sorted_values(logits: Logits, x: Tensor, alpha: Tensor, num_values: int) -> Tensor:
    """The logits of x with its values renamed by how common they are, named back."""
    name = names_by_count(x, alpha, num_values)
    renamed = logits(name.gather(1, x), alpha)
    return renamed.gather(-1, name[:, None].expand_as(renamed))


def names_by_count(x: Tensor, alpha: Tensor, num_values: int) -> Tensor:
    """A new name for each value, the one with the largest total α first, (b, d) -> (b, v)."""
    held = (x[..., None] == torch.arange(num_values, device=x.device)) * alpha[..., None]
    return (-held.sum(1)).argsort(dim=1, stable=True).argsort(1)
