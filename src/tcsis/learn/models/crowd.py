"""What p_t looks like in the noise: a mixture over a crowd of states x_m of the target.

    log m_t(x) = log Z + log (1/M) Σ_m k_t(x | x_m)

With states of the target it is right as t → 1, where all that is left of a state is which of the
great valleys it came from, and useless as t → 0, where log p̄ is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.learn.models.skips import Skip
from tcsis.noise import UniformNoise

LEAST = 1e-6
"""Least 1 - α: without noise, other states would have no part in the mixture."""
FEWEST = 1e-12
"""Least share of the crowd that has a value at a site."""


class Crowd(Skip):
    """``states`` (m, d) and ``log_z``, which training sets, and their relabellings ``forms``."""

    states: Tensor
    log_z: Tensor

    def __init__(
        self, noise: UniformNoise, num_sites: int, size: int, forms: Sequence[Sequence[int]]
    ):
        super().__init__()
        self.noise, self.forms = noise, forms
        self.register_buffer("states", torch.zeros(size, num_sites, dtype=torch.long))
        self.register_buffer("log_z", torch.zeros(()))

    def gather(self, x: Tensor, log_z: float) -> None:
        """Take the states from x (m, d), and what log Z they were drawn with."""
        self.states.copy_(x)
        self.log_z.fill_(log_z)

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        """log m_t(x), (b, d) and (b, d) -> (b,)."""
        log_k = self.log_kernels(x, alpha, self.one_hot(alpha.dtype))
        return self.log_z + log_k.logsumexp(1) - math.log(log_k.shape[1])

    def cavity(self, x: Tensor, alpha: Tensor) -> Tensor:
        """What the other sites say on x_0^i through the crowd, up to a constant, (b, d, v):
        log Σ_m k_t(x^{-i} | x_m^{-i})·[x_m^i = u]."""
        hot = self.one_hot(alpha.dtype)
        weight = self.log_kernels(x, alpha, hot).softmax(1)
        held = (weight @ hot).reshape(*x.shape, self.noise.num_values)
        return (held + FEWEST).log() - self.noise.log_kernel_at(x, alpha.clamp_max(1 - LEAST))

    def log_kernels(self, x: Tensor, alpha: Tensor, hot: Tensor) -> Tensor:
        """log k_t(x | x_m) for all of the crowd, (b, d) -> (b, f·m)."""
        stay, move = self.noise.log_stay_move(alpha.clamp_max(1 - LEAST))
        mine = one_hot(x, self.noise.num_values) * (stay - move)[..., None]
        return mine.flatten(1) @ hot.T + move.sum(1, keepdim=True)

    def one_hot(self, dtype: torch.dtype) -> Tensor:
        """The crowd in all its forms, (f·m, d·v)."""
        return one_hot(self.in_all_forms(self.states), self.noise.num_values).flatten(1).to(dtype)

    def in_all_forms(self, states: Tensor) -> Tensor:
        """(m, d) -> (f·m, d)."""
        orders = torch.tensor(self.forms, device=states.device)
        return orders[:, states].flatten(0, 1)
