"""The locally equivariant transformer of DNFS: the rates G_t of the chain.

    H_i = meet( sites before i, sites after i, log π_i )
    G_t(x)[i, v] = (1/2 + g·H_i)·drive[i, v] + (e_v - e_{x_i})·H_i / √width

Two causal transformers read the sites from either end, and neither has read site i when it comes
to i; nor does the conditional π_i of the target depend on x_i.  So G is locally equivariant.  The
paper has the last term of G alone; here it starts from half the drive (``tcsis.peers.drive``).
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from tcsis.basics.frozen import Positive
from tcsis.learn.descent import first_weights
from tcsis.learn.nn.dit import TimeEmbedding, zero_init
from tcsis.learn.nn.equivariant import CausalStream, antisymmetric
from tcsis.peers.drive import LARGEST_DRIVE, drive, even_time
from tcsis.peers.flow import FlowConfig
from tcsis.peers.values import channels, num_channels
from tcsis.targets.base import Target


class DnfsConfig(FlowConfig):
    """A training run of DNFS.

    A replay buffer holds ``num_kept`` sets of ``num_paths`` paths at ``num_times`` common times;
    every ``refresh_every`` steps the oldest set is drawn anew.  A batch has ``states_a_time``
    states of each of ``times_a_batch`` times.
    """

    kind: Literal["dnfs"] = "dnfs"
    width: Positive = 16
    depth: Positive = 2
    heads: Positive = 4
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    num_steps: Positive = 1_000
    num_kept: Positive = 16
    num_paths: Annotated[int, Field(ge=2)] = 64
    num_times: Positive = 32
    refresh_every: Positive = 25
    times_a_batch: Positive = 4
    states_a_time: Annotated[int, Field(ge=2)] = 32

    @model_validator(mode="after")
    def check_states(self) -> DnfsConfig:
        if self.states_a_time > self.num_paths:
            raise ValueError(
                f"states_a_time is {self.states_a_time}: expected at most num_paths, "
                f"{self.num_paths}, which are the states of a time"
            )
        return self


class EquivariantTransformer(nn.Module):
    """G_t: states (b, d), times (b,) and their log-ratios (b, d, v) -> (b, d, v)."""

    def __init__(self, num_sites: int, num_values: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        in_width = num_channels(num_values)
        self.time = TimeEmbedding(width)
        self.before = CausalStream(num_sites, in_width, width, depth, heads)
        self.after = CausalStream(num_sites, in_width, width, depth, heads)
        self.meet = nn.Sequential(
            nn.Linear(3 * width + num_values, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(2 * width)
        self.embed = nn.Parameter(torch.zeros(num_values, width))
        self.gain = zero_init(nn.Linear(width, 1))

    def forward(self, x: Tensor, t: Tensor, ratios: Tensor) -> Tensor:
        t = t.to(self.embed.dtype)
        ratios = ratios.to(t.dtype)
        h = self.features(channels(x, len(self.embed), t.dtype), t, ratios)
        return (0.5 + self.gain(h)) * drive(x, t, ratios) + antisymmetric(h, self.embed, x)

    def features(self, z: Tensor, t: Tensor, ratios: Tensor) -> Tensor:
        """H, which does not read its own site: (b, d, c), (b,), (b, d, v) -> (b, d, width)."""
        time = self.time(even_time(t)[:, None])
        streams = [self.before(z, time), self.after(z.flip(1), time).flip(1)]
        # cut when it is normalised: what is cut before would still tell the value of its own site
        conditional = ratios.log_softmax(-1).clamp_min(-LARGEST_DRIVE)
        now = time[:, None].expand(-1, z.shape[1], -1)
        return self.meet(torch.cat([self.norm(torch.cat(streams, -1)), now, conditional], -1))


def make_model(config: DnfsConfig, target: Target, seed: int) -> EquivariantTransformer:
    """The model with its first weights, which depend on the seed alone."""
    with first_weights(seed):
        model = EquivariantTransformer(
            target.num_sites, target.num_values, config.width, config.depth, config.heads
        )
    return model.to(target.device)
