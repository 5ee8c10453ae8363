"""Batches of chains on one of two engines: torch for any target, compiled loops for pairs and
factors.

Both move the same kernels in the same units of a step, so the rest of the code does not know which
it has.  ``scale`` tempers each chain by itself: chain c samples p̄^scale[c].
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from tcsis.basics.checks import derive_seed, make_generator
from tcsis.mcmc.compiled import CompiledKernel, arrays_of, log_densities
from tcsis.mcmc.kernel import Kernel, State
from tcsis.targets.base import Target


class Chains(Protocol):
    """Chains that can be read, moved on, and put somewhere else."""

    @property
    def x(self) -> Tensor:
        """The present states, (n, d)."""

    def advance(self, num_steps: int) -> float:
        """Move every chain on, and return the share of proposals accepted."""

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        """Put the chains at x (n, d), from now on at ``scale`` (n,)."""


class Copies(Chains, Protocol):
    """Chains that can trade their scales."""

    def log_density(self) -> Tensor:
        """log p̄ of the present states at scale 1, (n,) float64."""

    def temper(self, scale: Tensor) -> None:
        """Leave the chains where they are, from now on at ``scale`` (n,)."""


class TorchChains:
    """Any kernel, any target, any device."""

    def __init__(self, target: Target, kernel: Kernel, x: Tensor, seed: int):
        self.target, self.kernel = target, kernel
        self.generator = make_generator(seed, "moves", target.device)
        self.place(x)

    @property
    def x(self) -> Tensor:
        return self.state.x

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        self.tempered = self.target if scale is None else self.target.scaled(scale)
        self.state: State = self.kernel.init(self.tempered, x.long())

    def temper(self, scale: Tensor) -> None:
        self.place(self.x, scale)

    def log_density(self) -> Tensor:
        return self.target.log_density(self.x).double()

    def advance(self, num_steps: int) -> float:
        accepted = 0.0
        for _ in range(num_steps):
            self.state, share = self.kernel.step(self.tempered, self.state, self.generator)
            accepted += float(share.mean())
        return accepted / num_steps


class CompiledChains:
    """The kernels that have a compiled form, on pairs and factors, on the CPU."""

    def __init__(self, target: Target, kernel: CompiledKernel, x: Tensor, seed: int):
        self.target, self.cost = target, kernel.cost(target)
        self.run = kernel.prepare(target, len(x), derive_seed(seed, "moves"))
        self.arrays = arrays_of(target)
        self.place(x)

    @property
    def x(self) -> Tensor:
        return self.tokens

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        self.tokens = x.to("cpu", torch.uint8, copy=True).contiguous()
        self.temper(torch.ones(len(x)) if scale is None else scale)

    def temper(self, scale: Tensor) -> None:
        self.scale = scale.to("cpu", torch.float64).contiguous()

    def log_density(self) -> Tensor:
        self.target.count(len(self.tokens))
        return torch.from_numpy(log_densities(self.arrays, self.tokens.numpy()))

    def advance(self, num_steps: int) -> float:
        self.target.count(num_steps * len(self.tokens) * self.cost)
        return self.run(self.tokens.numpy(), self.scale.numpy(), num_steps)
