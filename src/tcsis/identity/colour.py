"""Estimates that sum a whole colour class out exactly.

Sites of one colour do not interact.  Given draws x_0 of the other sites from the kernel, the sum
over the values of a class C factorises into sums over its sites, with ``log_ratios`` taken at x_0:

    W_C(x_0) = p̄(x_0)·Π_{i∈C} Σ_u k_t(x_t^i | u)·exp(log_ratios[i, u])

which does not depend on the values that x_0 has on C.  The mean of W_C is p̄_t(x_t), and the sites
of C follow their conditionals under these weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.identity.blocks import MAX_ENTRIES, log_density, log_mean, one_shot
from tcsis.noise import Time, UniformNoise, log_sum
from tcsis.targets.base import Target


def coloured(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """The denoiser, log-probabilities (b, d) -> (b, d, v): the sites of each class in turn by
    their conditionals under W_C, all classes with the same draws.

    Exact as t → 0.  Costs k densities and k ``log_ratios``.
    """
    return joint_coloured(
        target, noise, x_t, t,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    ).log_softmax(-1).to(target.dtype)  # fmt: skip


def joint_coloured(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """log p̂(x_t, x_0^i = u), unnormalised, (b, d) -> (b, d, v) float64: the mean over the draws of
    W_C times the site conditional, C the class of site i; E[p̂] is exact."""
    colour = colour_of_sites(target)

    def evaluate(x_t: Tensor, log_kernel: Tensor, x_0: Tensor) -> Tensor:
        conditionals, log_weight = sum_out_classes(target, colour, log_kernel, x_0)
        return log_mean(conditionals + log_weight[..., colour, None], 1)

    return one_shot(
        target, noise, x_t, t, evaluate,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip


def log_marginal_coloured(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int = MAX_ENTRIES,
) -> Tensor:
    """log of the mean of W_C over the draws and over the largest classes C, (b, d) -> (b,).

    The smaller classes are left out: their weights spread more, and would drown the others.
    Costs k densities and k ``log_ratios``.
    """
    colour = colour_of_sites(target)
    sizes = torch.bincount(colour)
    largest = (sizes == sizes.max()).nonzero().squeeze(1)

    def evaluate(x_t: Tensor, log_kernel: Tensor, x_0: Tensor) -> Tensor:
        _, log_weight = sum_out_classes(target, colour, log_kernel, x_0)
        return log_mean(log_weight[..., largest].flatten(1), 1)

    return one_shot(
        target, noise, x_t, t, evaluate,
        num_samples=num_samples, generator=generator, max_entries=max_entries,
    )  # fmt: skip


def sum_out_classes(
    target: Target, colour: Tensor, log_kernel: Tensor, x_0: Tensor
) -> tuple[Tensor, Tensor]:
    """For draws x_0 (n, k, d) the log conditionals of the sites given the other classes,
    (n, k, d, v), and log W_C for every class, (n, k, c) in float64."""
    here = log_density(target, x_0)
    if bool(here.isneginf().any()):
        state = x_0[here.isneginf()][0].tolist()
        raise ValueError(
            f"{target} forbids the draw x_0 = {state}; summing out a colour class needs a density "
            "without zeros: use marginalised and log_marginal"
        )
    joint = log_kernel[:, None] + target.log_ratios(x_0)
    site_sums = log_sum(joint)  # (n, k, d)
    class_sums = site_sums.new_zeros(*here.shape, int(colour.max()) + 1, dtype=torch.float64)
    class_sums.index_add_(-1, colour, site_sums.double())
    return joint - site_sums[..., None], here[..., None] + class_sums


def colour_of_sites(target: Target) -> Tensor:
    """Colours 0..c-1 of the sites, (d,)."""
    if target.colouring is None:
        raise ValueError(
            f"{target} has no colouring, which the coloured estimators need: use marginalised, "
            "or log_marginal and log_marginal_annealed"
        )
    return target.colouring.to(target.device).unique(return_inverse=True)[1]
