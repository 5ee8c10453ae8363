"""A light network for lattices: convolutions that wrap, with a pooled feature and time FiLM.

    h <- h + FiLM(silu(conv(h)) + map(pool(h)))

A 3^k convolution sees the neighbourhood, the pooled feature the whole state, and the FiLM scales
and shifts every channel by functions of the mean α.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from tcsis.learn.nn.dit import zero_init
from tcsis.learn.nn.features import time_features

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TIME_WIDTH = 32


class LatticeNet(nn.Module):
    """z (b, d, c) and α (b, d) -> features (b, d, width), sites in row-major order.

    ``sites`` gives every site gains of its own, for couplings that differ from place to place.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        in_width: int,
        width: int = 24,
        depth: int = 4,
        *,
        periodic: bool = True,
        sites: bool = False,
    ):
        super().__init__()
        if len(shape) not in CONVOLUTIONS:
            raise ValueError(f"shape is {shape}: expected a lattice of one to three dimensions")
        self.shape, self.width = shape, width
        self.periodic = periodic
        widths = [in_width] + [width] * depth
        convolution = CONVOLUTIONS[len(shape)]
        self.convolutions = nn.ModuleList(convolution(c, width, 3, bias=False) for c in widths[:-1])
        self.pooled = nn.ModuleList(nn.Linear(c + in_width, width) for c in widths[:-1])
        self.film = nn.ModuleList(zero_init(nn.Linear(TIME_WIDTH, 2 * width)) for _ in range(depth))
        self.gains = nn.ParameterList(
            torch.zeros(1, width, *shape) for _ in range(depth if sites else 0)
        )

    def forward(self, z: Tensor, alpha: Tensor) -> Tensor:
        h = z.transpose(1, 2).reshape(len(z), -1, *self.shape)
        over = tuple(range(2, h.ndim))
        once = h.mean(over)  # the pooled input is given to every layer
        time = time_features(alpha.mean(1), TIME_WIDTH)
        for number, convolution in enumerate(self.convolutions):
            everywhere = self.pooled[number](torch.cat([h.mean(over), once], 1))
            scale, shift = self.film[number](time).chunk(2, 1)
            everywhere = torch.addcmul(shift, everywhere, 1 + scale)
            new = convolution(self.padded(h))
            new = silu(torch.addcmul(broadcast(everywhere, h), new, broadcast(1 + scale, h)))
            new = self.localise(new, number)
            h = h + new if number else new
        return h.reshape(len(z), self.width, prod(self.shape)).transpose(1, 2)

    def localise(self, h: Tensor, number: int) -> Tensor:
        return h * (1 + self.gains[number]) if self.gains else h

    def padded(self, h: Tensor) -> Tensor:
        """One more site at each end of each axis: the opposite one, or nothing."""
        if not self.periodic:
            return pad(h, (1, 1) * len(self.shape))
        for axis in range(2, h.ndim):  # quicker than circular padding by torch
            h = torch.cat([h.narrow(axis, h.shape[axis] - 1, 1), h, h.narrow(axis, 0, 1)], axis)
        return h


def broadcast(feature: Tensor, like: Tensor) -> Tensor:
    """(b, c) -> (b, c, 1, ...) to add everywhere."""
    return feature.reshape(*feature.shape, *[1] * (like.ndim - 2))
