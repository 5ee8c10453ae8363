"""Exact answers by visiting every state: the ground truth of small systems.

States are numbered in base V with the first site leading, so a distribution over all of them is
also a tensor with one axis of length V per site, and sums over sites fold one axis at a time.  Of a
target that is given some sites, the states of the free ones are visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.noise import Time, UniformNoise, per_site
from tcsis.targets.base import Target

MAX_STATES = 2**22
CHUNK = 2**18


def applies(target: Target) -> bool:
    return target.num_values ** len(target.free_sites) <= MAX_STATES


class Enumeration:
    """Every state of a target with its probability.

    ``log_density`` (N,) is log p̄ of all N = V^d states in float64, ``log_z`` its log-sum,
    ``log_p`` (N,) the normalised log-probabilities; of d sites only the free ones count.
    """

    def __init__(self, target: Target):
        target = self.target = target.to("cpu", torch.float64)
        self.num_sites, self.num_values = target.num_sites, target.num_values
        self.free = target.free_sites
        self.num_states = self.num_values ** len(self.free)
        self.log_density = torch.cat([target.log_density(x) for x in self.chunks()])
        self.log_z = float(self.log_density.logsumexp(0))
        if self.log_z == -torch.inf:
            raise ValueError(f"{target} forbids every state: log density is -inf everywhere")
        self.log_p = self.log_density.log_softmax(0)  # sums to one beside any constant

    def states(self, index: Tensor) -> Tensor:
        """Tokens of numbered states, (...) -> (..., d)."""
        place = self.num_values ** torch.arange(len(self.free) - 1, -1, -1)
        return self.target.complete(index[..., None] // place % self.num_values)

    def chunks(self) -> Iterator[Tensor]:
        """All states in order, a chunk (n, d) at a time."""
        for index in torch.arange(self.num_states).split(CHUNK):
            yield self.states(index)

    # -- the distribution --------------------------------------------------------------------

    @cached_property
    def p(self) -> Tensor:
        """Probabilities, (N,)."""
        return self.log_p.exp()

    @property
    def mean_energy(self) -> float:
        """E[-log p̄]."""
        allowed = self.p > 0
        return -float(self.p[allowed] @ self.log_density[allowed])

    @cached_property
    def pair_marginals(self) -> Tensor:
        """P(x_i = u, x_j = v), (d, v, d, v)."""
        size = self.num_sites * self.num_values
        total = torch.zeros(size, size, dtype=torch.float64)
        for x, p in zip(self.chunks(), self.p.split(CHUNK), strict=True):
            z = one_hot(x, self.num_values).double().flatten(1)
            total += (z * p[:, None]).T @ z
        return total.reshape(self.num_sites, self.num_values, self.num_sites, self.num_values)

    @property
    def site_marginals(self) -> Tensor:
        """P(x_i = v), (d, v)."""
        site = torch.arange(self.num_sites)
        return self.pair_marginals[site, :, site, :].diagonal(dim1=-2, dim2=-1)

    def pair_same(self, i: Tensor, j: Tensor) -> Tensor:
        """P(x_i = x_j) for pairs of sites, (n,) and (n,) -> (n,)."""
        return self.pair_marginals[i, :, j, :].diagonal(dim1=-2, dim2=-1).sum(-1)

    @cached_property
    def magnetisation(self) -> Tensor:
        """P(number of sites with token 1 = n), (d + 1,)."""
        total = torch.zeros(self.num_sites + 1, dtype=torch.float64)
        for x, p in zip(self.chunks(), self.p.split(CHUNK), strict=True):
            total += torch.bincount((x == 1).sum(-1), p, minlength=self.num_sites + 1)
        return total

    @cached_property
    def _cumulative(self) -> Tensor:
        return self.p.cumsum(0)

    def draw_index(self, n: int, generator: torch.Generator) -> Tensor:
        """Numbers of independently drawn states, (n,)."""
        u = torch.rand(n, dtype=torch.float64, generator=generator) * self._cumulative[-1]
        index = torch.searchsorted(self._cumulative, u, right=True)
        return index.clamp_max(self.num_states - 1)

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent draws, (n, d) uint8."""
        return self.states(self.draw_index(n, generator)).to(torch.uint8)

    # -- the noised distribution -------------------------------------------------------------

    def log_marginal(self, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
        """log p_t(x_t) = log Σ_{x_0} p(x_0)·Π_i k_{t_i}(x_t^i | x_0^i), (..., d) -> (...)."""
        kernel = self._kernel(noise, x_t, t)
        parts = []
        for k in kernel[:, self.free].split(max(1, CHUNK * 16 // self.num_states)):
            folded = self.p.reshape(-1, self.num_values) @ k[:, -1].T  # (N/v, n)
            for site in range(len(self.free) - 2, -1, -1):
                folded = folded.reshape(-1, self.num_values, len(k))
                folded = (folded * k[:, site].T).sum(1)
            parts.append(folded[0].log())
        log_p = torch.cat(parts) + self._log_known(kernel)
        return log_p.reshape(x_t.shape[:-1])

    def log_score(self, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
        """log p_t(x_t with site i set to v) - log p_t(x_t), (..., d) -> (..., d, v)."""
        d, v = self.num_sites, self.num_values
        x_t, t = self.target.check(x_t), torch.as_tensor(t, dtype=torch.float64)
        times = per_site("t", t, x_t)[..., None, None, :].expand(*x_t.shape[:-1], d, v, d)
        neighbours = x_t[..., None, None, :].repeat(*[1] * (x_t.ndim - 1), d, v, 1)
        site = torch.arange(d)
        neighbours[..., site, :, site] = torch.arange(v)
        here = self.log_marginal(noise, x_t, t)
        return self.log_marginal(noise, neighbours, times) - here[..., None, None]

    def denoiser(self, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
        """log P(x_0^i = v | x_t), (..., d) -> (..., d, v)."""
        kernel = self._kernel(noise, x_t, t)
        rows_at_once = max(1, CHUNK * 16 // self.num_states)
        log_p = torch.cat([self._log_posteriors(k) for k in kernel.split(rows_at_once)])
        return log_p.reshape(*x_t.shape, self.num_values)

    def _log_posteriors(self, kernel: Tensor) -> Tensor:
        """Log of the site marginals of p(x_0)·Π_i kernel[i, x_0^i], (n, d, v) -> (n, d, v)."""
        joint = torch.ones(len(kernel), 1, dtype=torch.float64)
        for site in self.free:
            joint = (joint[..., None] * kernel[:, site, None, :]).flatten(1)
        folded = joint * self.p
        marginals = one_hot(self.states(torch.tensor(0)), self.num_values).repeat(len(kernel), 1, 1)
        marginals = marginals.to(kernel)  # of known sites; the free ones follow
        for site in self.free.flip(0):
            folded = folded.reshape(len(kernel), -1, self.num_values)
            marginals[:, site] = folded.sum(1)
            folded = folded.sum(-1)
        return marginals.log() - marginals.sum(-1, keepdim=True).log()

    def _log_known(self, kernel: Tensor) -> Tensor:
        """Σ_i log kernel[i, x_0^i] over the known sites, (n, d, v) -> (n,)."""
        known = torch.ones(self.num_sites, dtype=torch.bool).index_fill(0, self.free, False)
        values = self.states(torch.tensor(0))[known]
        return kernel[:, known, values].log().sum(1)

    def _kernel(self, noise: UniformNoise, x_t: Tensor, t: Time) -> Tensor:
        """k_{t_i}(x_t^i | v), (n, d, v) float64."""
        if noise.num_values != self.num_values:
            raise ValueError(
                f"noise has {noise.num_values} values and the target {self.num_values}: "
                "expected the same"
            )
        x_t, t = self.target.check(x_t), torch.as_tensor(t, dtype=torch.float64)
        return noise.log_kernel(x_t, t).exp().reshape(-1, self.num_sites, self.num_values)
