"""The two networks of LEAPS: the rates G_t of the chain, and the slope of log Z_t.

    G_t(x)[i, v] = (1/2 + g·H_i)·drive[i, v] + (e_v - e_{x_i})·H_i / √width

H are hollow features, which do not read their own site.  The network starts from half the drive
(``tcsis.peers.drive``) and learns the rest.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.frozen import Positive
from tcsis.learn.descent import first_weights
from tcsis.learn.nn.dit import zero_init
from tcsis.learn.nn.equivariant import Hollow, antisymmetric
from tcsis.learn.nn.hollow import HollowLattice
from tcsis.peers.drive import drive, even_time
from tcsis.peers.flow import FlowConfig
from tcsis.peers.values import channels, num_channels
from tcsis.targets.base import Target

DEGREE = 6
"""Of the polynomial from which the slope of log Z_t starts."""


class LeapsConfig(FlowConfig):
    """A training run of LEAPS.

    ``num_walkers`` states with times are kept; every ``refresh_every`` steps a quarter of them is
    renewed by paths of ``num_times`` points, and all take ``num_sweeps`` Gibbs sweeps of their ρ_t.
    ``kernel_sizes`` follow from the size of the target where they are None.
    """

    kind: Literal["leaps"] = "leaps"
    width: Positive = 20
    kernel_sizes: tuple[int, ...] | None = None
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    batch_size: Annotated[int, Field(ge=2)] = 128
    num_walkers: Annotated[int, Field(ge=8)] = 4_096
    num_times: Positive = 32
    refresh_every: Positive = 50
    num_sweeps: Positive = 4


class LeapsModel(nn.Module):
    """Rates and slope together, as they are trained and saved."""

    def __init__(self, rates: RateNetwork, slope: FreeEnergy) -> None:
        super().__init__()
        self.rates, self.slope = rates, slope


class RateNetwork(nn.Module):
    """G_t: states (b, d), times (b,) and their log-ratios (b, d, v) -> (b, d, v).

    ``embed`` and ``gain`` start at zero, and so G at half the drive.
    """

    def __init__(self, trunk: HollowLattice | Hollow, num_values: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.embed = nn.Parameter(torch.zeros(num_values, trunk.width))
        self.gain = zero_init(nn.Linear(trunk.width, 1))

    def forward(self, x: Tensor, t: Tensor, ratios: Tensor) -> Tensor:
        t = t.to(self.embed.dtype)
        ratios = ratios.to(t.dtype)
        h = self.trunk(channels(x, len(self.embed), t.dtype), even_time(t)[:, None].expand(x.shape))
        return (0.5 + self.gain(h)) * drive(x, t, ratios) + antisymmetric(h, self.embed, x)


class FreeEnergy(nn.Module):
    """f(t) ≈ d/dt log Z_t, (b,) -> (b,): a polynomial fitted once, and a small network on it."""

    level: Tensor

    def __init__(self, width: int = 200, depth: int = 4) -> None:
        super().__init__()
        widths = [DEGREE + 1] + [width] * depth
        layers = [
            part
            for before, after in pairwise(widths)
            for part in (nn.Linear(before, after), nn.SiLU())
        ]
        self.mlp = nn.Sequential(*layers, zero_init(nn.Linear(width, 1)))
        self.register_buffer("level", torch.zeros(DEGREE + 1))

    def forward(self, t: Tensor) -> Tensor:
        powers = chebyshev(t.to(self.level.dtype))
        return powers @ self.level + self.mlp(powers).squeeze(-1)

    @torch.no_grad()
    def fit(self, t: Tensor, values: Tensor) -> None:
        """Set the polynomial by least squares from values at times, (n,) and (n,)."""
        powers = chebyshev(t.double())
        self.level.copy_(torch.linalg.lstsq(powers, values.double()[:, None]).solution.squeeze(1))


def chebyshev(t: Tensor) -> Tensor:
    """T_0 .. T_DEGREE of 2t - 1, (b,) -> (b, DEGREE + 1)."""
    orders = torch.arange(DEGREE + 1, dtype=t.dtype, device=t.device)
    return torch.cos(orders * torch.arccos((2 * t - 1).clamp(-1, 1))[:, None])


# -- construction ----------------------------------------------------------------------------------


def make_model(config: LeapsConfig, target: Target, seed: int) -> LeapsModel:
    """The model with its first weights, which depend on the seed alone."""
    with first_weights(seed):
        model = LeapsModel(RateNetwork(make_trunk(config, target), target.num_values), FreeEnergy())
    return model.to(target.device)


def make_trunk(config: LeapsConfig, target: Target) -> HollowLattice | Hollow:
    in_width = num_channels(target.num_values)
    lattice = target.lattice
    if lattice is None or len(lattice.shape) > 3:
        return Hollow(target.num_sites, in_width)
    return HollowLattice(
        lattice.shape, in_width, config.width, config.kernel_sizes or default_sizes(lattice.shape),
        periodic=lattice.periodic, sites=not target.symmetries.translations,
    )  # fmt: skip


def default_sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Four layers; on a small lattice every one sees all of it, which is worth far more than its
    price: on 4x4 the effective share is 0.99 with kernels of 5 and 0.45 with kernels of 3."""
    if max(shape) <= 5:
        return (max(shape) // 2 * 2 + 1,) * 4
    return (3, 5, 7, 9) if len(shape) < 3 else (3, 3, 5, 5)
