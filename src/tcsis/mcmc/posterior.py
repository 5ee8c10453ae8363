"""Gibbs sweeps of walkers that each have a field of their own, such as x_0 given x_t.

Torch moves any target; pairs and factors on the CPU go to the compiled loops, which are some two
orders of magnitude faster.  Both leave p̄(x)^scale·exp(Σ_i fields[i, x_i]) invariant.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tcsis.mcmc.compiled import arrays_of, compiles, make_streams
from tcsis.mcmc.compiled.tilted import sweep_tilted
from tcsis.mcmc.gibbs import SweepGibbs
from tcsis.mcmc.kernel import State
from tcsis.targets.base import Target
from tcsis.targets.transformed import Scaled, Tilted


def sweep_walkers(
    target: Target,
    fields: Tensor,
    x: Tensor,
    num_sweeps: int,
    generator: torch.Generator,
    scale: float = 1.0,
) -> Tensor:
    """x (..., d) after ``num_sweeps`` sweeps in ``fields`` (..., d, v), which broadcast to it."""
    if compiles(target):
        return sweep_compiled(target, fields, x, num_sweeps, generator, scale)
    tempered = target if scale == 1 else Scaled(target, scale)
    state = State(x)
    for _ in range(num_sweeps):
        state, _ = SweepGibbs().step(Tilted(tempered, fields), state, generator)
    return state.x


def sweep_compiled(
    target: Target,
    fields: Tensor,
    x: Tensor,
    num_sweeps: int,
    generator: torch.Generator,
    scale: float,
) -> Tensor:
    """The same by compiled loops; every call draws new streams from the generator."""
    flat = x.reshape(-1, target.num_sites).to(torch.uint8, copy=True).numpy()
    wide = fields.expand(*x.shape, target.num_values).reshape(*flat.shape, -1)
    seed = int(torch.randint(2**62, (), generator=generator))
    target.count(num_sweeps * len(flat) * target.ratios_cost)
    sweep_tilted(
        arrays_of(target), flat, make_streams(seed, len(flat)), num_sweeps,
        wide.to(torch.float32).numpy(), np.float64(scale),
    )  # fmt: skip
    return torch.from_numpy(flat).reshape(x.shape).to(x.dtype)
