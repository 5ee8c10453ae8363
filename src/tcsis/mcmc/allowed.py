"""States that a target with hard constraints allows, where uniform noise hardly ever is.

A black box says of a forbidden state that it is forbidden, and no more.  So states of several kinds
are tried: those that the target was made with, uniform ones, ones where most sites have the same
value, and ones that have every value equally often.  Factors say more: what they allow is itself a
factor model, of which states are drawn exactly where that is quick; elsewhere sweeps go where fewer
and fewer factors are broken.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tcsis.exact import elimination
from tcsis.mcmc.posterior import sweep_walkers
from tcsis.targets.base import MAX_CHUNK_TOKENS, Target
from tcsis.targets.factors import Factors

NUM_UNIFORM, NUM_SPARSE, BATCH = 2**18, 64, 2**14
NUM_ROUNDS, NUM_SWEEPS = 20, 10
"""Of sweeps that mend broken factors."""


def allowed_states(target: Target, n: int, generator: torch.Generator) -> Tensor:
    """n allowed states (n, d), some of them more than once where few are found."""
    found: list[Tensor] = []
    for x in candidates(target, n, generator):
        found.append(x[target.log_density(x) > -torch.inf])
        if sum(map(len, found)) >= n:
            break
    states = torch.cat(found)
    if not len(states):
        raise ValueError(
            f"{target} forbids every state that was tried, uniform ones and ones with few changes "
            "from a constant: expected some allowed state; pass a few as from_callable(..., "
            "allowed=states)"
        )
    chosen = torch.randperm(len(states), device=states.device, generator=generator)
    return states[chosen.repeat(-(-n // len(states)))[:n]]


def mended(target: Factors, n: int, generator: torch.Generator) -> Iterator[Tensor]:
    """States (n, d) of factors that forbid some: drawn evenly from all that are allowed, or uniform
    ones that sweeps lead inside."""
    allows = target.scaled(0)
    if elimination.quick(allows):
        drawn = elimination.Elimination(allows).draw(n, generator)
        yield drawn.long().to(target.device)
        return
    x = uniform_states(target, n, generator)
    nothing = torch.zeros(target.num_sites, target.num_values, device=target.device)
    for _ in range(NUM_ROUNDS):
        x = sweep_walkers(target, nothing, x, NUM_SWEEPS, generator)
        yield x


def uniform_states(target: Target, n: int, generator: torch.Generator) -> Tensor:
    """States (n, d) with every value that a site can have equally likely, on the generator's
    device."""
    shape, device = (n, target.num_sites), generator.device
    if target.possible is None:
        return torch.randint(target.num_values, shape, device=device, generator=generator)
    possible = target.possible.to(device)
    counts = possible.sum(1)
    if not bool(counts.all()):
        site = int((counts == 0).nonzero()[0])
        raise ValueError(
            f"{target} forbids every value of site {site}: expected some state to be allowed; look "
            "at its factors, or at what is given"
        )
    values = possible.long().argsort(dim=1, descending=True, stable=True)  # those that can be first
    u = torch.rand(shape, dtype=torch.float64, device=device, generator=generator)
    return values.expand(n, -1, -1).gather(-1, (u * counts).long()[..., None]).squeeze(-1)


def candidates(target: Target, n: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of states (b, d) to try: n uniform ones, and many more where some are forbidden."""
    d, v, device = target.num_sites, target.num_values, target.device
    batch = max(NUM_SPARSE, min(BATCH, MAX_CHUNK_TOKENS // d))

    def uniform(size: int = batch) -> Tensor:
        return uniform_states(target, size, generator)

    def keys() -> Tensor:
        return torch.rand(batch, d, device=device, generator=generator)

    if target.allowed is not None:
        yield target.allowed.to(device)
        return
    yield uniform(n)
    yield uniform()
    if isinstance(target, Factors):
        yield from mended(target, n, generator)
        return
    share = torch.linspace(0, 1, batch, device=device)[:, None]
    for value in range(min(v, NUM_SPARSE)):
        yield uniform().where(keys() < share, value)
    yield keys().argsort(1) % v
    for _ in range(NUM_UNIFORM // batch):
        yield uniform()
