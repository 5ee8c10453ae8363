"""Do the buffer and the model agree on how much of the target lies where?

Both are cut in two across the direction in which all states together differ most, their first
principal component: where the target has modes, between the two farthest parts of them.  A mode
that one of the two has lost, or has too much of, shows as different shares on the same side.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.draws import Draws

DISAGREEMENT = 0.1
"""A difference of shares from which on it is said."""
FEWEST = 500
"""Independent draws from which on shares can be told to that."""
NUM_ROUNDS = 20


def shares(buffer: Tensor, draws: Draws, num_values: int) -> tuple[float, float] | None:
    """The share of buffer states (m, d), and of draws by weight, on the same side of the cut; None
    where the draws are worth too few."""
    weight = draws.weights
    if weight is None or not (draws.ess or 0.0) * len(weight) >= FEWEST:
        return None
    x = torch.cat([buffer.cpu(), draws.flat.x.cpu().long()])
    mass = torch.cat([torch.full((len(buffer),), 0.5 / len(buffer)), weight.cpu().float() / 2])
    z = one_hot(x, num_values).flatten(1).float()
    z = z - mass @ z
    side = (z @ principal(z, mass)) > 0
    return float(side[: len(buffer)].double().mean()), float(
        weight.cpu() @ side[len(buffer) :].double()
    )


def principal(z: Tensor, mass: Tensor) -> Tensor:
    """The direction in which centred z (n, k) of the given mass (n,) differ most, (k,)."""
    direction = torch.randn(z.shape[1], generator=torch.Generator().manual_seed(0))
    for _ in range(NUM_ROUNDS):
        direction = torch.nn.functional.normalize((mass * (z @ direction)) @ z, dim=0)
    return direction


def warning(buffer: float, model: float) -> str | None:
    """A sentence where the shares differ by much."""
    if abs(buffer - model) < DISAGREEMENT:
        return None
    return (
        f"buffer and model disagree: {buffer:.0%} of the training states lie on one side of where "
        f"they differ most, and {model:.0%} of the model's draws by weight; a mode may be lost or "
        "overrated: train longer, or with a larger buffer, and compare seeds"
    )
