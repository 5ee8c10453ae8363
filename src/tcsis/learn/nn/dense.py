"""One layer over all sites, then layers at every site by itself, with gates that depend on time.

    u   = Σ_{j≠i} W_{j-i} z_j                                    all other sites, in one product
    a   = σ(g₀·u + s₀) - ½
    h_n = σ((g_n·h_{n-1}) M_n + s_n) - ½,   h_0 = a              n = 1 .. depth
    features = g'·u + g''·a + g'''·h_depth

Gates g and shifts s are functions of the mean α; σ(2h) - ½ is tanh(h)/2, at a tenth of the cost of
torch's tanh.  W belongs to the place of j as seen from i: with translations, to the displacement.
No site reads itself, so that the features are those of a cavity: what the others say on a site does
not depend on its own noisy value.  Without shifts they are odd in z.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from tcsis.learn.nn.features import time_features

TIME_WIDTH, GATE_WIDTH = 32, 64
NUM_ENDS = 3
"""Gates of what the features are the sum of."""


@dataclass(frozen=True)
class Layers:
    """W as one matrix, (d·c, d·h), and what every site does by itself."""

    first: Tensor
    inner: Inner


@dataclass(frozen=True)
class Inner:
    """The gate and shift of ``a``, (n, 1, h); for every mix its weights with the gate of what it
    reads, (n, h, h), and its shift less their part of the ½, (n, 1, h); and the gates of what the
    features are the sum of.  n is 1 at shared times."""

    gate: Tensor
    shift: Tensor
    mixes: list[tuple[Tensor, Tensor]]
    ends: list[Tensor]


class DenseNet(nn.Module):
    """z (b, d, c) and α (b, d), or (1, d) shared by all states -> features (b, d, width).

    ``slots`` (d, d) names the weights with which a site reads another; those of the diagonal are
    not used.
    """

    slots: Tensor

    def __init__(
        self, slots: Tensor, in_width: int, width: int = 64, depth: int = 2, *, odd: bool = False
    ):
        super().__init__()
        d, rows = len(slots), int(slots.max()) + 1
        self.width, self.odd = width, odd
        none = slots.clone().fill_diagonal_(rows)  # a row of zeros after all others
        self.num_sites = d
        self.register_buffer("slots", none.T.flatten(), persistent=False)  # what j says to i
        self.read = nn.Parameter(torch.randn(rows, in_width * width) / (d * in_width) ** 0.5)
        self.mix = nn.ParameterList(
            2 * torch.randn(width, width) / width**0.5 for _ in range(depth)
        )
        self.hidden = nn.Linear(TIME_WIDTH, GATE_WIDTH)
        self.gates = nn.Linear(GATE_WIDTH, (depth + 1 + NUM_ENDS) * width)
        self.shifts = None if odd else nn.Linear(GATE_WIDTH, (depth + 1) * width)
        for layer in (self.gates, self.shifts):
            if layer is not None:
                nn.init.zeros_(layer.weight)
                nn.init.constant_(layer.bias, 0.0)
        nn.init.constant_(self.gates.bias, 2.0)

    def forward(self, z: Tensor, alpha: Tensor) -> Tensor:
        return through(z, self.layers(alpha))

    def at(self, z: Tensor, alpha: Tensor, site: Tensor) -> Tensor:
        """Features of one site a state alone, of the site (b,) -> (b, width)."""
        d, h = self.num_sites, self.width
        slots = self.slots.reshape(d, d).index_select(1, site).T  # (b, d)
        w = pad(self.read, (0, 0, 0, 1))[slots].reshape(len(z), -1, h)  # (b, d·c, h)
        return onward(z.flatten(1)[:, None] @ w, self.inner(alpha)).squeeze(1)

    def layers(self, alpha: Tensor) -> Layers:
        """The weights of every layer at these times, which parts of a batch may share."""
        return Layers(self.first(), self.inner(alpha))

    def inner(self, alpha: Tensor) -> Inner:
        gates, shifts = self.opened(alpha.mean(1))
        inner, ends = gates[: len(self.mix) + 1], gates[len(self.mix) + 1 :]
        mixes = []
        for mix, gate, shift in zip(self.mix, inner[1:], shifts[1:], strict=True):
            weights = gate.transpose(1, 2) * mix  # (n, h, h)
            mixes.append((weights, shift - weights.sum(1, keepdim=True) / 2))
        return Inner(inner[0], shifts[0], mixes, ends)

    def first(self) -> Tensor:
        """W as one matrix from all inputs to all sites, (d·c, d·h)."""
        d, h = self.num_sites, self.width
        w = pad(self.read, (0, 0, 0, 1)).index_select(0, self.slots)
        return w.reshape(d, d, -1, h).transpose(1, 2).reshape(-1, d * h)

    def opened(self, alpha: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Gates and shifts at the mean α, (n,) -> (n, 1, h) each."""
        inner = silu(self.hidden(time_features(alpha, TIME_WIDTH)))[:, None]
        gates = list(self.gates(inner).split(self.width, -1))
        if self.shifts is None:
            return gates, [inner.new_zeros(1)] * (len(self.mix) + 1)
        return gates, list(self.shifts(inner).split(self.width, -1))


def through(z: Tensor, layers: Layers) -> Tensor:
    """Features of every site, (b, d, c) -> (b, d, h)."""
    u = (z.flatten(1) @ layers.first).unflatten(1, (-1, layers.inner.gate.shape[-1]))
    return onward(u, layers.inner)


def onward(u: Tensor, inner: Inner) -> Tensor:
    """Features from what the sites have read, (b, n, h) -> (b, n, h)."""
    # in place where nothing is lost: fresh memory costs more than the arithmetic
    a = h = torch.addcmul(inner.shift, u, inner.gate).sigmoid_()
    for weights, shift in inner.mixes:
        h = product(h, weights, shift).sigmoid_()
    from_u, from_a, from_h = inner.ends
    features = torch.addcmul(-(from_a + from_h) / 2, u, from_u)
    return features.addcmul_(a, from_a).addcmul_(h, from_h)


def product(h: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """h M + s, (b, d, h), with one M for all states or one a state."""
    if len(weights) == 1:
        return torch.addmm(shift[0], h.flatten(0, 1), weights[0]).unflatten(0, h.shape[:2])
    return torch.baddbmm(shift, h, weights)
