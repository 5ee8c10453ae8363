"""Hollow convolutions: features of every site of a lattice that never read the site itself.

Layer k convolves the input once more, with a kernel of its own size, and mixes that with what the
same site knows already:

    h <- h + silu(FiLM_t(W_k h + conv_k(z)))

No layer reads the features of another site, which would know this one; and no tap of a kernel reads
the site it is centred on, neither in its middle nor, on a small torus, all the way around.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from tcsis.learn.nn.dit import zero_init
from tcsis.learn.nn.features import box_positions, time_features

TIME_WIDTH = 32
MOST_DIMENSIONS = 3


class HollowLattice(nn.Module):
    """z (b, d, c) and α (b, d) -> features (b, d, width), sites in row-major order.

    Time is the mean α of a state.  ``sites`` gives every site gains of its own, for couplings that
    differ from place to place.
    """

    table: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        in_width: int,
        width: int = 20,
        kernel_sizes: Sequence[int] = (3, 5, 7, 9),
        *,
        periodic: bool = True,
        sites: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(shape, kernel_sizes)
        self.width, depth = width, len(kernel_sizes)
        table = taps(shape, max(kernel_sizes), periodic)
        self.register_buffer("table", table, persistent=False)
        fans_in = [in_width * size ** len(shape) for size in kernel_sizes]
        self.kernels = nn.ParameterList(torch.randn(fan, width) / fan**0.5 for fan in fans_in)
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.film = nn.ModuleList(zero_init(nn.Linear(TIME_WIDTH, 2 * width)) for _ in range(depth))
        self.gains = nn.ParameterList(
            torch.zeros(prod(shape), width) for _ in range(depth if sites else 0)
        )

    def forward(self, z: Tensor, alpha: Tensor) -> Tensor:
        time = time_features(alpha.mean(1), TIME_WIDTH)
        around = self.around(z)
        h = z.new_zeros(*z.shape[:2], self.width)
        for number, kernel in enumerate(self.kernels):
            seen = around[..., : len(kernel)] @ kernel
            new = silu(modulate(self.mix[number](h) + seen, self.film[number](time)))
            h = h + self.localise(new, number)
        return h

    def around(self, z: Tensor) -> Tensor:
        """What the taps of each site read, nearest first, (b, d, c) -> (b, d, taps·c)."""
        read = pad(z, (0, 0, 0, 1)).index_select(1, self.table.flatten())
        return read.reshape(*z.shape[:2], -1)

    def localise(self, h: Tensor, number: int) -> Tensor:
        return h * (1 + self.gains[number]) if self.gains else h


def modulate(h: Tensor, scale_and_shift: Tensor) -> Tensor:
    """h·(1 + scale) + shift: (b, d, w) and (b, 2w) -> (b, d, w)."""
    scale, shift = scale_and_shift[:, None].chunk(2, -1)
    return torch.addcmul(shift, h, 1 + scale)


def taps(shape: Sequence[int], size: int, periodic: bool) -> Tensor:
    """The site that each tap of a kernel reads, (d, size^k).

    The number d, which is no site, stands for nothing: outside an open box, and at the site itself.
    Taps are sorted by distance, so that the first ones make up every smaller kernel.
    """
    offsets = box_positions([size] * len(shape)) - size // 2
    offsets = offsets[offsets.abs().amax(1).argsort(stable=True)]
    sides = torch.tensor(list(shape))
    there = box_positions(shape)[:, None] + offsets  # (d, taps, k)
    outside = ((there < 0) | (there >= sides)).any(-1)
    strides = torch.tensor([prod(shape[axis + 1 :]) for axis in range(len(shape))])
    read = (there % sides * strides).sum(-1)
    nothing = read == torch.arange(prod(shape))[:, None]
    return read.masked_fill(nothing if periodic else nothing | outside, prod(shape))


def check_sizes(shape: Sequence[int], kernel_sizes: Sequence[int]) -> None:
    if not 1 <= len(shape) <= MOST_DIMENSIONS:
        raise ValueError(f"shape is {tuple(shape)}: expected a lattice of one to three dimensions")
    if not kernel_sizes or any(size < 3 or size % 2 == 0 for size in kernel_sizes):
        raise ValueError(
            f"kernel_sizes is {tuple(kernel_sizes)}: expected odd sizes of at least 3, one a layer"
        )
