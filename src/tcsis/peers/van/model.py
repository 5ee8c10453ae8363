"""The network of VAN: a masked dense network, which gives all conditionals of a state at once.

    q(x) = Π_i q(x_i | x_<i),      sites in raster order

Every site has ``width`` units in every hidden layer.  Those of the first read the sites before
their own, those of the others the units of their own site and of those before (MADE, Germain et al.
2015, with direct connections):

    h_1 = silu(W_1 z + b_1),   h_l = h_{l-1} + silu(W_l h_{l-1} + b_l),   logits = R h + A z + c
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu

from tcsis.basics.frozen import Positive
from tcsis.learn.descent import first_weights
from tcsis.noise import draw_categorical
from tcsis.peers.peer import PeerConfig
from tcsis.peers.values import channels, num_channels
from tcsis.targets.base import Target


class VanConfig(PeerConfig):
    """A training run of VAN.

    Every step draws ``batch_size`` states.  The target is heated at first, to the inverse
    temperature β = 1 - exp(-annealing·progress): 20 is 1 - 0.998^k over 10,000 steps.
    """

    kind: Literal["van"] = "van"
    width: Positive = 8
    depth: Positive = 2
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    batch_size: Annotated[int, Field(ge=2)] = 512
    annealing: Annotated[float, Field(gt=0)] = 20.0
    num_steps: Positive = 3_000


class Masked(nn.Module):
    """A linear map (b, d·n) -> (b, d·m) by which a site reads only those before it, and itself too
    if ``itself`` is so."""

    mask: Tensor

    def __init__(self, num_sites: int, n: int, m: int, *, itself: bool, scale: float) -> None:
        super().__init__()
        may = torch.ones(num_sites, num_sites).triu(0 if itself else 1)  # from row to column
        self.register_buffer("mask", torch.kron(may, torch.ones(n, m)), persistent=False)
        fan_in = self.mask.sum(0).clamp_min(1)
        self.weight = nn.Parameter(scale * torch.randn(self.mask.shape) / fan_in.sqrt())
        self.bias = nn.Parameter(torch.zeros(num_sites * m))
        self.n, self.m, self.itself = n, m, itself

    def forward(self, z: Tensor) -> Tensor:
        return torch.addmm(self.bias, z, self.weight * self.mask)

    def site(self, k: int, z: Tensor) -> Tensor:
        """What site k reads alone, (b, d·n) -> (b, m)."""
        rows, columns = (k + self.itself) * self.n, slice(k * self.m, (k + 1) * self.m)
        return torch.addmm(self.bias[columns], z[:, :rows], self.weight[:rows, columns])


class Made(nn.Module):
    """q of whole states."""

    def __init__(self, num_sites: int, num_values: int, width: int, depth: int) -> None:
        super().__init__()
        d, c, v = num_sites, num_channels(num_values), num_values
        self.num_sites, self.num_values = d, v
        self.first = Masked(d, c, width, itself=False, scale=1.0)
        self.hidden = nn.ModuleList(
            Masked(d, width, width, itself=True, scale=1.0) for _ in range(depth - 1)
        )
        self.readout = Masked(d, width, v, itself=True, scale=0.0)
        self.direct = Masked(d, c, v, itself=False, scale=0.0)

    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x), (b, d) -> (b,)."""
        logits = self.logits(channels(x, self.num_values, self.direct.weight.dtype).flatten(1))
        return logits.log_softmax(-1).gather(-1, x[..., None]).squeeze(-1).sum(-1)

    def logits(self, z: Tensor) -> Tensor:
        """(b, d·c) -> (b, d, v)."""
        h = silu(self.first(z))
        for layer in self.hidden:
            h = h + silu(layer(h))
        return (self.readout(h) + self.direct(z)).unflatten(1, (self.num_sites, -1))

    @torch.no_grad()
    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """n states (n, d) and log q of each (n,).  Units are kept from site to site, so that all
        sites together cost one pass."""
        v, weight = self.num_values, self.direct.weight
        x = torch.empty(n, self.num_sites, dtype=torch.long, device=weight.device)
        z = weight.new_zeros(n, self.num_sites * self.first.n)
        units = [weight.new_zeros(n, self.first.bias.numel()) for _ in range(1 + len(self.hidden))]
        log_q = torch.zeros(n, dtype=torch.float64, device=weight.device)
        for k in range(self.num_sites):
            here = slice(k * self.first.m, (k + 1) * self.first.m)
            units[0][:, here] = silu(self.first.site(k, z))
            for number, layer in enumerate(self.hidden):
                assert isinstance(layer, Masked)
                below = units[number]
                units[number + 1][:, here] = below[:, here] + silu(layer.site(k, below))
            logits = self.readout.site(k, units[-1]) + self.direct.site(k, z)
            x[:, k] = draw_categorical(logits, generator=generator)
            log_q += logits.log_softmax(-1).gather(1, x[:, k : k + 1]).squeeze(1)
            told = channels(x[:, k : k + 1], v, weight.dtype)
            z[:, k * self.first.n : (k + 1) * self.first.n] = told[:, 0]
        return x, log_q


class Symmetrised(nn.Module):
    """(q(x) + q(-x))/2, for spins that may all be turned."""

    def __init__(self, made: Made) -> None:
        super().__init__()
        self.made = made

    def log_prob(self, x: Tensor) -> Tensor:
        both = self.made.log_prob(torch.cat([x, 1 - x]))
        return torch.logaddexp(*both.chunk(2)) - math.log(2)

    @torch.no_grad()
    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, log_q = self.made.draw(n, generator)
        turned = torch.randint(2, (n, 1), device=x.device, generator=generator)
        turned_log_q = self.made.log_prob(1 - x).double()
        return x ^ turned, torch.logaddexp(log_q, turned_log_q) - math.log(2)


Law = Made | Symmetrised


def make_model(config: VanConfig, target: Target, seed: int) -> Law:
    """The model with its first weights, which depend on the seed alone; symmetrised where the
    target may be turned."""
    with first_weights(seed):
        made = Made(target.num_sites, target.num_values, config.width, config.depth)
    law: Law = Symmetrised(made) if target.symmetries.flip else made
    return law.to(target.device)
