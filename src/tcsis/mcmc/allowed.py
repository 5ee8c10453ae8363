"""States that a target with hard constraints allows, where uniform noise hardly ever is.

A black box says of a forbidden state that it is forbidden, and no more.  So states of several kinds
are tried: those that the target was made with, uniform ones, ones where most sites have the same
value, and ones that have every value equally often.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tcsis.targets.base import MAX_CHUNK_TOKENS, Target

NUM_UNIFORM, NUM_SPARSE, BATCH = 2**18, 64, 2**14


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


def candidates(target: Target, n: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of states (b, d) to try: n uniform ones, and many more where some are forbidden."""
    d, v, device = target.num_sites, target.num_values, target.device
    batch = max(NUM_SPARSE, min(BATCH, MAX_CHUNK_TOKENS // d))

    def uniform(size: int = batch) -> Tensor:
        return torch.randint(v, (size, d), device=device, generator=generator)

    def keys() -> Tensor:
        return torch.rand(batch, d, device=device, generator=generator)

    if target.allowed is not None:
        yield target.allowed.to(device)
        return
    yield uniform(n)
    yield uniform()
    share = torch.linspace(0, 1, batch, device=device)[:, None]
    for value in range(min(v, NUM_SPARSE)):
        yield uniform().where(keys() < share, value)
    yield keys().argsort(1) % v
    for _ in range(NUM_UNIFORM // batch):
        yield uniform()
