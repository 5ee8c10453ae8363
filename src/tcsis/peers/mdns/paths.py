"""The paths of MDNS: sites of which nothing is known, made known in a random order σ.

The model says what each unknown site is, s_θ(x)[i, v] ≈ P(x_i = v | known sites of x), and a path
has, given its order, the probability

    log q(x | σ) = Σ_k log s_θ(x with σ(<k) known)[σ(k), x_σ(k)]

The reference makes sites known in the same random order with uniform values, and carried to the
target by the factor p̄/V^-d it is the path measure that the model is to be.  The order has the same
law in both, so that the weight of a path is log w = log p̄(x) - log q(x | σ), and E[w] = Z for every
order, whatever the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tcsis.noise import draw_categorical
from tcsis.targets.base import Target


class Conditionals(Protocol):
    """log s_θ of states x (b, d), of which only the sites ``known`` (b, d) are read."""

    def __call__(self, x: Tensor, known: Tensor) -> Tensor:
        """At every site, (b, d, v)."""

    def at(self, x: Tensor, known: Tensor, site: Tensor) -> Tensor:
        """At one site a state alone, (b,) -> (b, v)."""


@dataclass(frozen=True)
class Paths:
    """States x (n, d), the order in which their sites became known (n, d), log q(x | σ) (n,) and
    log p̄(x) (n,)."""

    x: Tensor
    order: Tensor
    log_q: Tensor
    log_density: Tensor

    def log_weight(self, beta: float = 1.0) -> Tensor:
        """For the target at the inverse temperature β, (n,)."""
        return beta * self.log_density - self.log_q


@torch.no_grad()
def draw(
    model: Conditionals, target: Target, n: int, sizes: Sequence[int], generator: torch.Generator
) -> Paths:
    """n paths along which as many sites become known in a step as ``sizes`` say, independent of
    each other given those before; log q is that of the steps as they are taken."""
    d = target.num_sites
    order = torch.rand(n, d, device=target.device, generator=generator).argsort(1)
    x = torch.zeros(n, d, dtype=torch.long, device=target.device)
    known = torch.zeros(n, d, dtype=torch.bool, device=target.device)
    log_q = torch.zeros(n, dtype=torch.float64, device=target.device)
    for sites in order.split(list(sizes), 1):  # (n, size)
        log_s = ask(model, x, known, sites)
        values = draw_categorical(log_s, generator=generator)
        log_q += log_s.gather(-1, values[..., None]).sum((1, 2))
        x.scatter_(1, sites, values)
        known.scatter_(1, sites, True)
    return Paths(x, order, log_q, target.log_density(x).double())


def ask(model: Conditionals, x: Tensor, known: Tensor, sites: Tensor) -> Tensor:
    """log s_θ at some sites, (b, size) -> (b, size, v); of a single one it costs a fraction."""
    if sites.shape[1] == 1:
        return model.at(x, known, sites[:, 0])[:, None]
    log_s = model(x, known)
    return log_s.gather(1, sites[..., None].expand(-1, -1, log_s.shape[-1]))


def log_path(model: Conditionals, x: Tensor, order: Tensor) -> Tensor:
    """log q(x | σ) of paths one site a step, all steps at once, (b, d) and (b, d) -> (b,)."""
    b, d = x.shape
    rank = order.argsort(1)  # when a site becomes known
    known = rank[:, None] < torch.arange(d, device=x.device)[:, None]  # (b, step, d)
    log_s = model.at(x.repeat_interleave(d, 0), known.flatten(0, 1), order.flatten())
    return log_s.gather(1, x.gather(1, order).reshape(-1, 1)).reshape(b, d).sum(1)


def even_sizes(num_sites: int, calls: int) -> list[int]:
    """As many parts as there are calls, which differ by one at most."""
    whole, more = divmod(num_sites, calls)
    return [whole + 1] * more + [whole] * (calls - more)
