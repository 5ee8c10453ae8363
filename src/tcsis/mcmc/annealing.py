"""From uniform noise to the target along p̄^λ, λ from 0 to 1, with log Z on the way.

Annealed importance sampling carries one chain per draw and weighs it,

    log w = d·log V + Σ_k (λ_k - λ_{k-1})·log p̄(x_k),        E[w] = Z exactly,

x_k being the state just before λ is raised to λ_k.  Population annealing weighs a whole population
at each rung and resamples it, so the weights never degenerate; log Z is the sum of the logs of the
mean weights of the rungs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.draws import Draws, systematic_resample
from tcsis.mcmc.chains import Chains
from tcsis.targets.base import Target, counting

Start = Callable[[Tensor], Chains]


@dataclass(frozen=True)
class Population:
    """Equally weighted ``draws``, x (replica, draw, site), and what the way to them says of log Z.

    ``num_families`` of the first population have descendants in the last; ``log_z_error`` is
    √(Σ_f n_f²)/n over their sizes n_f, an estimate of the standard error of log Z that is good
    while many families are alive and honest about it when few are.  ``family`` (replica,) names the
    state of the first population from which a replica comes: those of one family are alike.
    """

    draws: Draws
    log_z: float
    log_z_error: float
    num_families: int
    family: Tensor


def annealed_importance_sampling(
    target: Target, ladder: Tensor, steps_per_rung: int, x: Tensor, start: Start
) -> Draws:
    """Weighted draws from uniform states x (n, d), one per chain, with E[exp(log_weight)] = Z."""
    begin = time.perf_counter()
    with counting(target) as cost:
        chains = start(x)
        log_weight = torch.full((len(x),), log_num_states(target), dtype=torch.float64)
        for before, after in zip(ladder[:-1].tolist(), ladder[1:].tolist(), strict=True):
            log_weight += (after - before) * target.log_density(chains.x).double().cpu()
            check_some_allowed(target, log_weight)
            chains.place(chains.x, torch.full((len(x),), after, device=x.device))
            chains.advance(steps_per_rung)
    return Draws(
        chains.x.cpu().to(torch.uint8), log_weight,
        seconds=time.perf_counter() - begin, num_density_calls=cost.densities,
    )  # fmt: skip


def population_annealing(
    target: Target,
    ladder: Tensor,
    steps_per_rung: int,
    x: Tensor,
    start: Start,
    generator: torch.Generator,
    num_draws: int,
    log_volume: float,
) -> Population:
    """A population from states x (n, d), uniform among as many as ``log_volume`` is the logarithm
    of, resampled and moved at every rung, and observed ``num_draws`` times at the last one,
    ``steps_per_rung`` steps apart."""
    begin = time.perf_counter()
    n, log_z = len(x), log_volume
    family = torch.arange(n)
    with counting(target) as cost:
        chains = start(x)
        if math.isnan(log_volume):  # what is said to be uniform is made so
            chains.place(x, torch.zeros(n, device=x.device))
            chains.advance(steps_per_rung)
        for before, after in zip(ladder[:-1].tolist(), ladder[1:].tolist(), strict=True):
            log_weight = (after - before) * target.log_density(chains.x).double().cpu()
            check_some_allowed(target, log_weight)
            log_z += float(log_weight.logsumexp(0)) - math.log(n)
            survivors = systematic_resample(log_weight, generator)
            family = family[survivors]
            moved = chains.x[survivors.to(chains.x.device)]
            chains.place(moved, torch.full((n,), after, device=x.device))
            chains.advance(steps_per_rung)
        kept = [chains.x.cpu().to(torch.uint8)]
        for _ in range(num_draws - 1):
            chains.advance(steps_per_rung)
            kept.append(chains.x.cpu().to(torch.uint8))
    sizes = torch.bincount(family, minlength=n).double()
    draws = Draws(
        torch.stack(kept, dim=1),
        seconds=time.perf_counter() - begin,
        num_density_calls=cost.densities,
    )
    error = float(sizes.square().sum().sqrt()) / n
    return Population(draws, log_z, error, int((sizes > 0).sum()), family)


def check_some_allowed(target: Target, log_weight: Tensor) -> None:
    if bool(log_weight.isneginf().all()):
        raise ValueError(
            f"{target} forbids all {len(log_weight)} states of the population: expected some "
            "uniform states to be allowed; use more of them, or start from allowed ones by init"
        )


def log_num_states(target: Target) -> float:
    """log of the number of states with values that sites can have, which is log Z at λ = 0."""
    if target.possible is None:
        return target.num_sites * math.log(target.num_values)
    return float(target.possible.sum(1).double().log().sum())
