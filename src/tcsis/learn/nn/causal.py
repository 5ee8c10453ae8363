"""One small network a site, each reading the sites before it: an autoregressive model.

With the sites in the order they are drawn, site k has weights of its own,

    a_k = silu(W1_k z_<k + b1_k),    h_k = a_k + silu(W2_k a_k + b2_k),
    logits_k = C_k h_k + A_k z_<k + c_k,

so that all conditionals of a batch of whole states come from a few batched products, and one more
site of a draw costs the products of that site alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu


class Causal(nn.Module):
    """z (b, n, c) -> logits (b, n, v), where row k depends on z[:, :k] only."""

    def __init__(self, num_sites: int, in_width: int, num_values: int, width: int):
        super().__init__()
        n, c, v, h = num_sites, in_width, num_values, width
        self.in_width = in_width
        fan_in = c * torch.arange(n).clamp_min(1)[:, None, None]
        self.w1 = nn.Parameter(torch.randn(n, n * c, h) / (2 * fan_in.sqrt()))
        self.b1 = nn.Parameter(torch.zeros(n, 1, h))
        self.w2 = nn.Parameter(torch.randn(n, h, h) / h**0.5)
        self.b2 = nn.Parameter(torch.zeros(n, 1, h))
        self.readout = nn.Parameter(torch.zeros(n, h, v))
        self.linear = nn.Parameter(torch.zeros(n, n * c, v))
        self.bias = nn.Parameter(torch.zeros(n, 1, v))
        before = torch.ones(n, n).tril(-1).repeat_interleave(c, dim=1)  # (n, n·c)
        self.register_buffer("before", before[..., None], persistent=False)
        self.before: Tensor

    def forward(self, z: Tensor) -> Tensor:
        """All sites at once, (b, n, c) -> (b, n, v)."""
        a = silu(self.read(self.w1, z).contiguous() + self.b1)
        h = a + silu(torch.baddbmm(self.b2, a, self.w2))
        logits = torch.baddbmm(self.bias, h, self.readout)
        return (logits + self.read(self.linear, z)).transpose(0, 1)

    def linear_part(self, z: Tensor) -> Tensor:
        """c_k + A_k z_<k alone, (b, n, c) -> (b, n, v)."""
        return (self.bias + self.read(self.linear, z)).transpose(0, 1)

    def read(self, weights: Tensor, z: Tensor) -> Tensor:
        """W_k z_<k of all sites k by one product, (n, n·c, w) and (b, n, c) -> (n, b, w)."""
        known, width = z.flatten(1), weights.shape[-1]
        side_by_side = (weights * self.before).transpose(0, 1).reshape(known.shape[1], -1)
        return (known @ side_by_side).reshape(len(known), -1, width).transpose(0, 1)

    def site(self, k: int, z: Tensor) -> Tensor:
        """The logits of site k from the sites before it, (b, k, c) -> (b, v)."""
        known = z.flatten(1)
        read = known.shape[1]
        a = silu(torch.addmm(self.b1[k], known, self.w1[k, :read]))
        h = a + silu(torch.addmm(self.b2[k], a, self.w2[k]))
        logits = torch.addmm(self.bias[k], h, self.readout[k])
        return torch.addmm(logits, known, self.linear[k, :read])
