"""Locally equivariant networks, after LEAPS (Holderrieth et al., 2025) and DNFS (Ou et al., 2025).

A function G of a state and of a change to one site, i to v, is locally equivariant if undoing the
change costs what making it gained:

    G(x)[i, v] = -G(x with i set to v)[i, x_i]

as holds for every log-ratio of a density.  With features H_i that do not read site i it holds by
construction:  G(x)[i, v] = (e_v - e_{x_i})·H_i / √width,  for then both sides see the same H_i.
One pass gives all d·V changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tcsis.learn.nn.dit import Block, TimeEmbedding


class Hollow(nn.Module):
    """Features that never read their own site: (b, d, c), (b, d) -> (b, d, width).

    Two causal transformers, of the sites before i and of those after it, and a map of both at i.
    Nothing may attend after the two have met: the other sites' features do know site i.
    """

    def __init__(
        self, num_sites: int, in_width: int, width: int = 64, depth: int = 3, heads: int = 4
    ) -> None:
        super().__init__()
        self.width = width
        self.time = TimeEmbedding(width)
        self.before = CausalStream(num_sites, in_width, width, depth, heads)
        self.after = CausalStream(num_sites, in_width, width, depth, heads)
        self.meet = nn.Sequential(
            nn.LayerNorm(2 * width), nn.Linear(2 * width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width),
        )  # fmt: skip

    def forward(self, z: Tensor, alpha: Tensor) -> Tensor:
        time = self.time(alpha)
        before = self.before(z, time)
        after = self.after(z.flip(1), time).flip(1)
        return self.meet(torch.cat([before, after], dim=-1))


class CausalStream(nn.Module):
    """A transformer whose output at i has read the sites before i only: (b, d, c) -> (b, d, width).

    Inputs move one place on behind a learned start, and attention looks back from there.  Places
    are added after the move: the output at i knows that it is about i.
    """

    mask: Tensor

    def __init__(self, num_sites: int, in_width: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Linear(in_width, width)
        self.start = nn.Parameter(torch.empty(width))
        self.place = nn.Parameter(torch.empty(num_sites, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.turn = nn.Identity()  # places are learned
        up_to = torch.ones(num_sites, num_sites, dtype=torch.bool).tril()
        self.register_buffer("mask", up_to, persistent=False)
        nn.init.normal_(self.start, std=width**-0.5)
        nn.init.normal_(self.place, std=width**-0.5)

    def forward(self, z: Tensor, time: Tensor) -> Tensor:
        start = self.start.expand(len(z), 1, -1)
        h = torch.cat([start, self.embed(z[:, :-1])], dim=1) + self.place
        for block in self.blocks:
            h = block(h, time, self.turn, self.mask)
        return h


def antisymmetric(h: Tensor, embed: Tensor, x: Tensor) -> Tensor:
    """(e_v - e_{x_i})·H_i / √width: h (b, d, width), embed (v, width), x (b, d) -> (b, d, v)."""
    scores = h @ embed.T / h.shape[-1] ** 0.5
    return scores - scores.gather(-1, x[..., None])
