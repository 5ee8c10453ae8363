"""Diffusion transformers, after Peebles & Xie (2023): time enters by adaptive layer norms.

Every trunk of this package has one contract, ``trunk(z, alpha)``: what is known of each site,
z (b, d, c), and the noise level of each site, alpha (b, d), become features (b, d, width), which a
head turns into an answer.  Blocks are conditioned on the mean α of a state; a site's own α is for
the caller to put among the channels of z.

The constructors below differ in how a site knows its place: ``lattice_dit``, ``chain_dit``,
``set_dit`` and ``graph_dit``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from tcsis.learn.nn.features import (
    box_positions,
    periodic_angles,
    rotary_angles,
    rotate,
    time_features,
)

TIME_FEATURES = 32
MLP_RATIO = 4


class DiT(nn.Module):
    """A transformer over sites: (b, d, c), (b, d) -> (b, d, width).

    ``embed`` maps z to (b, d, width).  ``angles`` (d, width/heads/2) turn queries and keys,
    ``mask`` (d, d) says who may read whom (row reads column).  Registers are tokens of no site,
    which read and are read by all: through them information crosses a sparse mask in two blocks.
    """

    mask: Tensor | None

    def __init__(
        self, embed: nn.Module, width: int, depth: int, heads: int, *,
        angles: Tensor | None = None, mask: Tensor | None = None, num_registers: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.width = width
        self.embed = embed
        self.time = TimeEmbedding(width)
        self.registers = nn.Parameter(torch.empty(num_registers, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        before = num_registers  # registers come first, unturned and seen by all
        self.turn = nn.Identity() if angles is None else Rotary(pad(angles, (0, 0, before, 0)))
        padded = None if mask is None else pad(mask, (before, 0, before, 0), value=True)
        self.register_buffer("mask", padded, persistent=False)
        nn.init.normal_(self.registers)

    def forward(self, z: Tensor, alpha: Tensor) -> Tensor:
        time = self.time(alpha)
        registers = self.registers.expand(len(z), -1, -1)
        h = torch.cat([registers, self.embed(z)], dim=1)  # (b, registers + d, width)
        for block in self.blocks:
            h = block(h, time, self.turn, self.mask)
        return h[:, len(self.registers) :]


class Block(nn.Module):
    """h + γ₁·attention(norm₁ h), then h + γ₂·mlp(norm₂ h), with norms and gates set by time.

    The map from time to scales, shifts and gates starts at zero: a new block changes nothing.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % (2 * heads):
            raise ValueError(
                f"width is {width} for {heads} heads: expected a multiple of {2 * heads}"
            )
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, MLP_RATIO * width), nn.GELU(), nn.Linear(MLP_RATIO * width, width)
        )
        self.modulation = zero_init(nn.Linear(width, 6 * width))

    def forward(
        self, h: Tensor, time: Tensor, turn: Callable[[Tensor], Tensor], mask: Tensor | None
    ) -> Tensor:
        """h (b, n, width), time (b, width), turn on (b, heads, n, w), mask (n, n) -> as h."""
        modulation = self.modulation(time)[:, None]  # (b, 1, 6·width)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation.chunk(6, dim=-1)
        h = h + gate_a * self.attention(self.norm(h) * (1 + scale_a) + shift_a, turn, mask)
        return h + gate_m * self.mlp(self.norm(h) * (1 + scale_m) + shift_m)

    def attention(self, h: Tensor, turn: Callable[[Tensor], Tensor], mask: Tensor | None) -> Tensor:
        split = self.query_key_value(h).unflatten(-1, (3, self.heads, -1))  # (b, n, 3, heads, w)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind()  # (b, heads, n, w) each
        mixed = scaled_dot_product_attention(turn(q), turn(k), v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class TimeEmbedding(nn.Module):
    """What the blocks are told of time: the mean α of a state, (b, d) -> (b, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(TIME_FEATURES, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )

    def forward(self, alpha: Tensor) -> Tensor:
        return self.mlp(time_features(alpha.mean(1), TIME_FEATURES))


class Rotary(nn.Module):
    """``rotate`` by fixed angles (n, w/2)."""

    angles: Tensor

    def __init__(self, angles: Tensor) -> None:
        super().__init__()
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, q: Tensor) -> Tensor:
        return rotate(q, self.angles)


class PlacedLinear(nn.Module):
    """A linear map of each site's channels plus a learned vector per site, (b, d, c) -> (b, d, w).

    Where sites are not alike, this is how they tell themselves apart.
    """

    def __init__(self, num_sites: int, in_width: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_width, width)
        self.place = nn.Parameter(torch.empty(num_sites, width))
        nn.init.normal_(self.place, std=width**-0.5)

    def forward(self, z: Tensor) -> Tensor:
        return self.linear(z) + self.place


def zero_init(linear: nn.Linear) -> nn.Linear:
    """The same layer with weights and bias at zero."""
    nn.init.zeros_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


# -- constructors --------------------------------------------------------------------------------


def lattice_dit(
    shape: Sequence[int], in_width: int, width: int = 64, depth: int = 4, heads: int = 4, *,
    periodic: bool = True,
) -> DiT:  # fmt: skip
    """For a box of sites in row-major order, by rotary angles on its axes.

    On a periodic box the network commutes with every translation.
    """
    positions = box_positions(shape)
    head_width = width // heads
    angles = (
        periodic_angles(positions, shape, head_width)
        if periodic
        else rotary_angles(positions, head_width)
    )
    return DiT(nn.Linear(in_width, width), width, depth, heads, angles=angles)


def chain_dit(
    num_sites: int, in_width: int, width: int = 64, depth: int = 4, heads: int = 4
) -> DiT:
    """For sites in a row with open ends, by rotary angles."""
    return lattice_dit((num_sites,), in_width, width, depth, heads, periodic=False)


def set_dit(num_sites: int, in_width: int, width: int = 64, depth: int = 4, heads: int = 4) -> DiT:
    """For sites without geometry, each with a learned vector: everyone may read everyone."""
    return DiT(PlacedLinear(num_sites, in_width, width), width, depth, heads)


def graph_dit(
    adjacency: Tensor, in_width: int, width: int = 64, depth: int = 4, heads: int = 4, *,
    num_registers: int = 2,
) -> DiT:  # fmt: skip
    """For the sites of a sparse graph, (d, d) bool: each reads its neighbours, itself and the
    registers."""
    num_sites = len(adjacency)
    if adjacency.dtype != torch.bool or adjacency.shape != (num_sites, num_sites):
        raise ValueError(
            f"adjacency is {adjacency.dtype} of shape {tuple(adjacency.shape)}: "
            "expected bool, (d, d)"
        )
    mask = adjacency | torch.eye(num_sites, dtype=torch.bool, device=adjacency.device)
    embed = PlacedLinear(num_sites, in_width, width)
    return DiT(embed, width, depth, heads, mask=mask, num_registers=num_registers)
