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

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from tcsis.learn.nn.features import time_features

TIME_WIDTH, GATE_WIDTH = 32, 64
NUM_ENDS = 3
"""Gates of what the features are the sum of."""


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
        gates, shifts = self.opened(alpha.mean(1))
        *inner, from_u, from_a, from_h = gates
        u = (z.flatten(1) @ self.first()).unflatten(1, (-1, self.width))  # (b, d, h)
        # in place where nothing is lost: fresh memory costs more than the arithmetic
        a = h = torch.addcmul(shifts[0], u, inner[0]).sigmoid_()
        for mix, gate, shift in zip(self.mix, inner[1:], shifts[1:], strict=True):
            h = centred_product(h, gate, mix, shift).sigmoid_()
        features = torch.addcmul(-(from_a + from_h) / 2, u, from_u)
        return features.addcmul_(a, from_a).addcmul_(h, from_h)

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


def centred_product(h: Tensor, gate: Tensor, mix: Tensor, shift: Tensor) -> Tensor:
    """(g·(h - ½)) M + s, (b, d, h): a gate that all states share goes to the weights, which are
    fewer, and the ½ to the shift."""
    weights = gate.transpose(1, 2) * mix  # (n, h, h)
    shift = shift - weights.sum(1, keepdim=True) / 2
    if len(gate) == 1:
        return torch.addmm(shift[0], h.flatten(0, 1), weights[0]).unflatten(0, h.shape[:2])
    return torch.baddbmm(shift, h, weights)
