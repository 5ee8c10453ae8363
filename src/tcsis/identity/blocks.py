"""What the estimators share: checked input, blocks of states, draws from the kernel, log weights.

States are worked off in blocks.  A block's size follows from the shape of the problem alone, and
each block has a generator of its own, seeded by the caller's, so that how many states are
evaluated at a time, a matter of memory, does not change which numbers a state receives.

Log densities are taken in float64 whatever the target computes in: a float32 near 1e4 knows its
value to 1e-3 only, and weights are differences of such values.  What comes after the subtraction
is small, and goes on in the target's precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts
from tcsis.noise import Time, UniformNoise, per_site
from tcsis.targets.base import Target

MAX_ENTRIES = 2**20
"""At most this many numbers, states × draws × d × v, are worked on at a time (8 MB in float64),
but always one state.  A keyword ``max_entries`` lowers the bound and changes no result; walkers,
which draw as they go, run a block at a time."""

Evaluate = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x_t (n, d), log k_t(x_t^i | u) (n, d, v) and draws x_0 (n, k, d) -> an estimate a state."""


@torch.no_grad()
def one_shot(
    target: Target,
    noise: UniformNoise,
    x_t: Tensor,
    t: Time,
    evaluate: Evaluate,
    *,
    num_samples: int,
    generator: torch.Generator,
    max_entries: int,
) -> Tensor:
    """``evaluate`` on ``num_samples`` draws x_0 ~ k_t(· | x_t) of every state."""
    check_counts(num_samples=num_samples, max_entries=max_entries)
    x_t, t = check_states(target, noise, x_t, t)
    entries = num_samples * target.num_sites * target.num_values
    at_once = max(1, max_entries // entries)
    parts = []
    for rows, own in blocks(x_t, entries, generator):
        x_0 = draw(noise, x_t[rows], t[rows], num_samples, own)
        log_kernel = noise.log_kernel(x_t[rows], t[rows]).to(target.dtype)
        chunks = zip(*(y.split(at_once) for y in (x_t[rows], log_kernel, x_0)), strict=True)
        parts += [evaluate(*chunk) for chunk in chunks]
    return torch.cat(parts)


def blocks(
    x_t: Tensor, entries: int, generator: torch.Generator
) -> Iterator[tuple[slice, torch.Generator]]:
    """Blocks of states that need ``entries`` numbers each, and the generator of each block."""
    size = max(1, MAX_ENTRIES // entries)
    starts = range(0, len(x_t), size)
    seeds = torch.randint(2**62, (len(starts),), device=generator.device, generator=generator)
    for start, seed in zip(starts, seeds.tolist(), strict=True):
        yield slice(start, start + size), torch.Generator(x_t.device).manual_seed(seed)


def draw(
    noise: UniformNoise, x_t: Tensor, t: Tensor, num_samples: int, generator: torch.Generator
) -> Tensor:
    """x_0 ~ k_t(· | x_t), (n, d) -> (n, k, d)."""
    repeated = x_t[:, None].expand(-1, num_samples, -1)
    return noise.draw(repeated, t[:, None], generator=generator)


def log_density(target: Target, x: Tensor) -> Tensor:
    """log p̄ in float64, (..., d) -> (...)."""
    return target.to(dtype=torch.float64).log_density(x).double()


def log_mean(log_weight: Tensor, dim: int) -> Tensor:
    """log of the mean of exp(log_weight) along ``dim``."""
    return log_weight.logsumexp(dim) - math.log(log_weight.shape[dim])


# -- checks ------------------------------------------------------------------------------------


def check_states(
    target: Target, noise: UniformNoise, x_t: Tensor, t: Time
) -> tuple[Tensor, Tensor]:
    """Tokens (b, d) and times laid out as (b, 1), shared by the sites, or (b, d)."""
    if noise.num_values != target.num_values:
        raise ValueError(
            f"noise has {noise.num_values} values and {target} has {target.num_values}: "
            "expected the same number"
        )
    x_t = target.check(x_t)
    return x_t, lay_out(t, x_t)


def lay_out(t: Time, x_t: Tensor) -> Tensor:
    """Times of the states x_t (b, d) as (b, 1) or (b, d), which read site by site in any batch."""
    if x_t.ndim != 2 or not len(x_t):
        raise ValueError(f"x_t has shape {tuple(x_t.shape)}: expected (b, d) with b at least 1")
    if not isinstance(t, Tensor):
        t = torch.tensor(t, dtype=torch.float64)
    return per_site("t", t.to(x_t.device), x_t).expand(len(x_t), -1)


def check_allowed(x_t: Tensor, log_weight: Tensor) -> None:
    """Refuse states x_t (n, d) to which no draw gives weight, log_weight (n, m)."""
    bad = ~(log_weight > -torch.inf).any(1) | log_weight.isnan().any(1)
    if bool(bad.any()):
        state = x_t[int(bad.nonzero()[0])].tolist()
        raise ValueError(
            f"the log density is -inf (or NaN) on all draws of x_t = {state}: "
            "use more draws, or warm with an allowed x_0"
        )
