"""Belief propagation in the field of a noised state: p̄_t of a pairwise target, but for its loops.

p̄_t(x) = Σ_{x_0} p̄(x_0)·k_t(x | x_0) is the partition function of the target in the additional
fields log k_t(x^i | u).  Neighbours tell each other what they know from elsewhere,

    m_{j→i}[u] = Σ_w e^{J_ji[w, u]}·c_{j→i}[w]        c_{j→i}[w] = φ_j[w]·Π_{l≠i} m_{l→j}[w]

with φ_j[w] = e^{h_j[w]}·k_t(x^j | w), for a few rounds, and then (Bethe)

    log p̄_t ≈ Σ_i (1 - degree_i)·log Σ_u φ_i[u]·Π_j m_{j→i}[u]
              + Σ_(ij) log Σ_{u,w} c_{i→j}[u]·e^{J_ij[u, w]}·c_{j→i}[w]
    P(x_0^i = u | x) ∝ φ_i[u]·Π_j m_{j→i}[u].

Both are exact on trees that the rounds suffice to cross.  Elsewhere every site of a loop has to
differ from x for the loop to count, so the error is of the order of t to the length of the shortest
one: 4 on a square lattice.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tcsis.learn.models.skips import Skip
from tcsis.noise import UniformNoise
from tcsis.targets.pairwise import Pairwise

NUM_ROUNDS = 8
LEAST_LOG = -200.0
"""Impossible values are taken for this unlikely, so that all log-odds are finite."""


class Bethe(Skip):
    """Messages are kept as log-odds against value 0, (v - 1, d, k, b) for up to k neighbours a
    site: with the states last, what is sent is copied row by row."""

    def __init__(self, target: Pairwise, noise: UniformNoise):
        super().__init__()
        self.noise, self.constant = noise, target.constant
        neighbours, tables = target.neighbour_tables
        paired = neighbours != torch.arange(len(neighbours))[:, None]
        # in the target's precision, whatever the network computes in
        self.couplings = tables.permute(2, 3, 0, 1)[..., None].to(target.device, target.dtype)
        self.contrast = self.couplings[1:] - self.couplings[:1]  # (v - 1, v, d, k, 1), own first
        self.fields = target.fields.T[..., None].to(target.device, target.dtype)  # (v, d, 1)
        self.paired = paired[..., None].to(self.fields)  # (d, k, 1)
        self.back = slots_back(neighbours).to(target.device)

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        fields = self.all_fields(x, alpha)
        messages = with_zero(self.propagate(fields))
        total = fields + messages.sum(2)  # (v, d, b)
        cavity = total[:, :, None] - messages
        pairs = cavity[:, None] + self.sent(cavity)[None] + self.couplings  # (v, v, d, k, b)
        log_pairs = (self.paired * pairs.flatten(0, 1).logsumexp(0)).sum((0, 1)) / 2
        log_sites = (1 - self.paired.sum(1)) * total.logsumexp(0)
        return (log_pairs + log_sites.sum(0) + self.constant).to(alpha.dtype)

    def cavity(self, x: Tensor, alpha: Tensor) -> Tensor:
        """What the other sites say on x_0^i, up to a constant, (b, d) and (b, d) -> (b, d, v)."""
        messages = with_zero(self.propagate(self.all_fields(x, alpha)))
        return (self.fields + messages.sum(2)).permute(2, 1, 0).to(alpha.dtype)

    def all_fields(self, x: Tensor, alpha: Tensor) -> Tensor:
        """log φ_i[u], (v, d, b)."""
        kernel = self.noise.log_kernel_at(x, alpha).clamp_min(LEAST_LOG)
        return kernel.permute(2, 1, 0).to(self.fields) + self.fields

    def propagate(self, fields: Tensor) -> Tensor:
        """What every site hears from its neighbours after some rounds, (v - 1, d, k, b)."""
        odds = fields[1:] - fields[:1]
        v, d, b = fields.shape
        messages = fields.new_zeros(v - 1, d, self.paired.shape[1], b)
        for _ in range(NUM_ROUNDS):
            cavity = (odds + messages.sum(2))[:, :, None] - messages
            said = log_one_plus(cavity[:, None] + self.contrast) + self.couplings[0]  # (v, d, k, b)
            messages = self.sent(said[1:] - said[:1])
        return messages

    def sent(self, said: Tensor) -> Tensor:
        """From where it is said to where it is heard, (v, d, k, b) -> (v, d, k, b)."""
        return said.flatten(1, 2).index_select(1, self.back).reshape(said.shape)


def with_zero(odds: Tensor) -> Tensor:
    """Log-odds with those of value 0, (v - 1, ...) -> (v, ...)."""
    return torch.cat([torch.zeros_like(odds[:1]), odds])


def log_one_plus(odds: Tensor) -> Tensor:
    """log(1 + Σ_u exp odds[u]), (v - 1, ...) -> (...)."""
    return softplus(odds[0], threshold=30) if len(odds) == 1 else with_zero(odds).logsumexp(0)


def slots_back(neighbours: Tensor) -> Tensor:
    """Where in (d, k), flattened, site j has i as its neighbour, for the slots of i that have j;
    slots that are not used lead back to themselves.  (d, k) -> (d·k,)."""
    d, k = neighbours.shape
    here, there = torch.arange(d).repeat_interleave(k), neighbours.flatten()
    order = (here * d + there).argsort(stable=True)
    place = order[torch.searchsorted((here * d + there)[order], there * d + here)]
    return torch.where(here == there, torch.arange(d * k), place)
