"""What the values of sites say to the network of a peer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def channels(x: Tensor, num_values: int, dtype: torch.dtype) -> Tensor:
    """The spin ±1 for two values, else the centred one-hot vector, (b, d) -> (b, d, c)."""
    if num_values == 2:
        return (2 * x - 1).to(dtype)[..., None]
    return one_hot(x, num_values).to(dtype) - 1 / num_values


def num_channels(num_values: int) -> int:
    return 1 if num_values == 2 else num_values
