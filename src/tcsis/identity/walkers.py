"""Estimates from walkers that are led from the kernel to the posterior.

A population of x_0 starts at k_t(· | x_t) and follows p̄(x_0)^λ·k_t(x_t | x_0), λ = 0..1 in equal
steps, by Gibbs sweeps.  Its weights,

    log w = Σ_j (λ_j - λ_{j-1})·log p̄(x_0),      x_0 as it is just before λ is raised to λ_j,

are those of annealed importance sampling.  Where the effective share of a state's walkers falls
below 1/2 they are resampled to equal weights; the mean weight lost by that is kept, and so the
estimate of p̄_t(x_t) has exactly the right mean.

Other ways to the posterior are in ``tcsis.identity.paths``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts
from tcsis.draws import systematic_resample
from tcsis.identity.blocks import (
    blocks,
    check_allowed,
    check_states,
    draw,
    log_density,
    log_mean,
)
from tcsis.identity.paths import FromKernel, Path
from tcsis.mcmc.posterior import sweep_walkers
from tcsis.noise import Time, UniformNoise, log_normalise
from tcsis.targets.base import Target
from tcsis.targets.transformed import Tilted

LEAST_SHARE = 0.5
"""Walkers are resampled when their effective number is below this share of their number."""


@dataclass(frozen=True)
class Walkers:
    """``x_0`` (n, k, d) with ``log_weight`` (n, k), and the log of the mean weights that earlier
    resampling has taken out, ``log_taken`` (n,)."""

    x_0: Tensor
    log_weight: Tensor
    log_taken: Tensor

    @property
    def log_marginal(self) -> Tensor:
        """log p̂_t, (n,)."""
        return self.log_taken + log_mean(self.log_weight, 1)


def annealed(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_chains: int,
    num_rungs: int,
    sweeps_per_rung: int = 1,
    generator: torch.Generator,
) -> Tensor:
    """The denoiser, log-probabilities (b, d) -> (b, d, v): the weighted mean of the site
    conditionals of the walkers, which have walked at λ = 1 as well.

    Costs num_chains·num_rungs densities and num_chains·num_rungs·sweeps_per_rung sweeps.
    """
    return joint_annealed(
        target, noise, x_t, t, num_chains=num_chains, num_rungs=num_rungs,
        sweeps_per_rung=sweeps_per_rung, generator=generator,
    ).log_softmax(-1).to(target.dtype)  # fmt: skip


@torch.no_grad()
def joint_annealed(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_chains: int,
    num_rungs: int,
    sweeps_per_rung: int = 1,
    generator: torch.Generator,
) -> Tensor:
    """log p̂(x_t, x_0^i = u), unnormalised, (b, d) -> (b, d, v) float64: the mean of the walkers'
    weights times their site conditionals, of which E[p̂] is exact."""
    check_counts(num_chains=num_chains, num_rungs=num_rungs, sweeps_per_rung=sweeps_per_rung)
    x_t, t = check_states(target, noise, x_t, t)
    starts = kernel_starts(target, noise, x_t, t, num_chains, generator)
    parts = [joint_along(target, *start, num_rungs, sweeps_per_rung, own) for start, own in starts]
    return torch.cat(parts)


def kernel_starts(
    target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, num_chains: int,
    generator: torch.Generator,
) -> Iterator[tuple[tuple[Tensor, FromKernel, Tensor], torch.Generator]]:  # fmt: skip
    """For every block its x_t (n, d), path and walkers x_0 (n, k, d) from the kernel, and its
    generator."""
    for rows, own in blocks(x_t, num_chains * target.num_sites * target.num_values, generator):
        fields = noise.log_kernel(x_t[rows], t[rows]).to(target.dtype)[:, None]
        x_0 = draw(noise, x_t[rows], t[rows], num_chains, own)
        yield (x_t[rows], FromKernel(fields), x_0), own


def joint_along(
    target: Target, x_t: Tensor, path: Path, x_0: Tensor, num_rungs: int, sweeps_per_rung: int,
    generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """log p̂(x_t, x_0^i = u) from walkers x_0 (n, k, d) at the start of a path, (n, d, v)."""
    walkers = climb(target, x_t, path, x_0, num_rungs, sweeps_per_rung, generator)
    x_0 = sweep_walkers(target, path.fields, walkers.x_0, sweeps_per_rung, generator)
    conditionals = mean_conditionals(Tilted(target, path.fields), x_0, walkers.log_weight)
    return walkers.log_marginal[:, None, None] + conditionals


@torch.no_grad()
def log_marginal_annealed(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_chains: int,
    num_rungs: int,
    sweeps_per_rung: int = 1,
    generator: torch.Generator,
) -> Tensor:
    """log p̂_t(x_t) from the weights of the walkers, (b, d) -> (b,) float64; E[p̂_t] is exact."""
    check_counts(num_chains=num_chains, num_rungs=num_rungs, sweeps_per_rung=sweeps_per_rung)
    x_t, t = check_states(target, noise, x_t, t)
    starts = kernel_starts(target, noise, x_t, t, num_chains, generator)
    walkers = (climb(target, *start, num_rungs, sweeps_per_rung, own) for start, own in starts)
    return torch.cat([walked.log_marginal for walked in walkers])


@torch.no_grad()
def warm(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    x_0: Tensor,
    *,
    num_sweeps: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The denoiser (b, d, v) from ``num_sweeps`` posterior sweeps that start at the given x_0,
    (b, d) or (b, k, d), and the x_0 they end at, of the same shape and type.

    The mean of the site conditionals after each sweep, over sweeps and walkers.  If x_t was drawn
    from k_t(· | x_0) and x_0 follows p, then x_0 is a posterior draw, and both the mean and the
    moved x_0 are right from the first sweep on.  Costs a density to check x_0 and, for each sweep
    and walker, the sweep and one ``log_ratios``.
    """
    check_counts(num_sweeps=num_sweeps)
    x_t, t = check_states(target, noise, x_t, t)
    if x_0.ndim not in (2, 3) or len(x_0) != len(x_t):
        raise ValueError(
            f"x_0 has shape {tuple(x_0.shape)} for x_t of shape {tuple(x_t.shape)}: "
            "expected (b, d) or (b, k, d)"
        )
    walkers = target.check(x_0).reshape(len(x_t), -1, target.num_sites)  # (b, k, d)
    entries = walkers.shape[1] * target.num_sites * target.num_values
    denoisers, moved = [], []
    for rows, own in blocks(x_t, entries, generator):
        fields = noise.log_kernel(x_t[rows], t[rows]).to(target.dtype)[:, None]
        posterior, x = Tilted(target, fields), walkers[rows]
        check_starts(posterior, x_t[rows], x)
        means = []
        for _ in range(num_sweeps):
            x = sweep_walkers(target, fields, x, 1, own)
            means.append(mean_conditionals(posterior, x, torch.zeros_like(x[..., 0]).double()))
        denoisers.append(log_mean(torch.stack(means), 0).log_softmax(-1))
        moved.append(x)
    return torch.cat(denoisers), torch.cat(moved).reshape(x_0.shape).to(x_0.dtype)


def climb(
    target: Target,
    x_t: Tensor,
    path: Path,
    x_0: Tensor,
    num_rungs: int,
    sweeps_per_rung: int,
    generator: torch.Generator,
) -> Walkers:
    """Walkers x_0 (n, k, d) from the start of a path, weighed up to λ = 1 and moved up to the rung
    before."""
    zeros = torch.zeros(x_0.shape[:2], dtype=torch.float64, device=x_0.device)
    walkers = Walkers(x_0, zeros, zeros[:, 0])
    for rung in range(num_rungs):
        if rung:
            walkers = resample(walkers, generator)
            x_0 = sweep_walkers(
                target, path.fields_at(rung / num_rungs), walkers.x_0, sweeps_per_rung, generator,
                path.power_at(rung / num_rungs),
            )  # fmt: skip
        log_weight = walkers.log_weight + path.gain(target, x_0) / num_rungs
        check_allowed(x_t, log_weight)
        walkers = Walkers(x_0, log_weight, walkers.log_taken)
    return walkers


def resample(walkers: Walkers, generator: torch.Generator) -> Walkers:
    """Systematic resampling of the states whose effective share of walkers is too low."""
    survivors = systematic_resample(walkers.log_weight, generator)
    share = walkers.log_weight.softmax(1)  # (n, k)
    low = 1 / share.square().sum(1) < LEAST_SHARE * share.shape[1]  # (n,)
    chosen = walkers.x_0.gather(1, survivors[..., None].expand_as(walkers.x_0))
    return Walkers(
        torch.where(low[:, None, None], chosen, walkers.x_0),
        walkers.log_weight.masked_fill(low[:, None], 0.0),
        torch.where(low, walkers.log_marginal, walkers.log_taken),
    )


def mean_conditionals(posterior: Target, x_0: Tensor, log_weight: Tensor) -> Tensor:
    """log Σ_n w_n·P(x_0^i = u | the rest of x_0ⁿ), w normalised; (n, k, d) -> (n, d, v)."""
    conditionals = log_normalise(posterior.log_ratios(x_0))
    weight = log_weight.log_softmax(1)[..., None, None]
    # a walker outside the support has weight zero and no conditionals
    weighted = (weight.to(conditionals) + conditionals).where(weight > -torch.inf, -torch.inf)
    return weighted.logsumexp(1).log_softmax(-1)


def check_starts(posterior: Target, x_t: Tensor, x_0: Tensor) -> None:
    """Refuse a start where p̄(x_0)·k_t(x_t | x_0) is zero: no conditional is defined there."""
    forbidden = log_density(posterior, x_0).isneginf()
    if bool(forbidden.any()):
        row, walker = forbidden.nonzero()[0].tolist()
        raise ValueError(
            f"x_0 = {x_0[row, walker].tolist()} is forbidden, by the target or because "
            f"x_t = {x_t[row].tolist()} cannot come from it: expected a possible x_0"
        )
