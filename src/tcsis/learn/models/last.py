"""The last class: sites that are drawn from the target itself once all others are known.

Each of them is independent of the others given all other sites, so that they are summed out of p̄,
and drawn, at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.noise import UniformNoise, draw_categorical, log_sum
from tcsis.reverse.loop import class_law, class_terms
from tcsis.reverse.steps import at
from tcsis.targets.base import Target


def log_summed(target: Target, x: Tensor, last: Tensor | None) -> Tensor:
    """log of p̄ summed over the last class, (b, d) -> (b,) float64, given the other sites of x:
    p̄(x)·Π_{i in last} Σ_v p̄(x with i set to v)/p̄(x)."""
    if last is None:
        return target.log_density(x).double()
    return log_sum(class_terms(target, x, last)).sum(1) + target.class_rest(x, last)


def last_law(target: Target, x: Tensor, last: Tensor) -> Tensor:
    """log p(x_i = v | the others) at the sites of the last class, (b, d) -> (b, k, v)."""
    noise = torch.ones(x.shape[1], dtype=torch.float64, device=x.device)
    return class_law(target, UniformNoise(target.num_values), x, noise, last)


def complete(
    target: Target, x: Tensor, last: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The sites of the last class drawn given all others, (b, d), and their log law, (b,)."""
    if last is None:
        return x, torch.zeros(len(x), dtype=torch.float64, device=x.device)
    log_p = last_law(target, x, last)
    x = x.index_copy(1, last, draw_categorical(log_p, generator=generator))
    return x, at(log_p, x[:, last])


def log_last(target: Target, x: Tensor, last: Tensor | None) -> Tensor:
    """log p of the last class of x given its other sites, (b, d) -> (b,)."""
    if last is None:
        return torch.zeros(len(x), dtype=torch.float64, device=x.device)
    return at(last_law(target, x, last), x[:, last])
