"""Parallel tempering: copies of each chain at several temperatures that trade places.

A copy at scale λ samples p̄^λ.  Neighbours i, j on the ladder swap their states with probability
min(1, exp((λ_i - λ_j)·(log p̄(x_j) - log p̄(x_i)))), which leaves the product of all of them
invariant.  The copies at scale 1 are the draws; the hot ones carry them over the barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tcsis.basics.checks import check_integer, make_generator
from tcsis.mcmc.chains import Chains
from tcsis.mcmc.kernel import decide
from tcsis.targets.base import Target


@dataclass(frozen=True)
class ParallelTempering:
    """``kernel`` (a name or a value) run at each of ``scales``, which end with 1, for
    ``steps_per_swap`` of its steps between swaps."""

    kernel: Any = "gibbs"
    scales: tuple[float, ...] = tuple(i / 10 for i in range(1, 11))
    steps_per_swap: int = 1

    def __post_init__(self) -> None:
        check_integer("steps_per_swap", self.steps_per_swap)
        if isinstance(self.kernel, ParallelTempering) or self.kernel == "tempering":
            raise ValueError("kernel is parallel tempering itself: expected another kernel")
        rising = all(a < b for a, b in zip(self.scales, self.scales[1:], strict=False))
        if len(self.scales) < 2 or not rising or self.scales[0] < 0 or self.scales[-1] != 1:
            raise ValueError(
                f"scales is {list(self.scales)}: expected at least two rising numbers from 0 or "
                "more to 1"
            )


class TemperedChains:
    """Chains whose ``x`` are the copies at scale 1; one step moves all copies, then swaps
    either the even or the odd neighbours of the ladder."""

    def __init__(
        self,
        target: Target,
        scales: tuple[float, ...],
        x: Tensor,
        seed: int,
        start: Callable[[Tensor], Chains],
        steps_per_swap: int = 1,
    ):
        self.target, self.num_chains, self.steps_per_swap = target, len(x), steps_per_swap
        self.ladder = torch.tensor(scales, dtype=torch.float64, device=x.device)
        self.generator = make_generator(seed, "swaps", x.device)
        self.copies = start(x.repeat_interleave(len(scales), 0))
        self.place(x)
        self.round = 0

    @property
    def x(self) -> Tensor:
        return self.copies.x.reshape(self.num_chains, len(self.ladder), -1)[:, -1]

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        if scale is not None:
            raise ValueError("scale is given: tempered chains have a ladder of their own")
        self._place_copies(x.repeat_interleave(len(self.ladder), 0))

    def _place_copies(self, x: Tensor) -> None:
        self.copies.place(x, self.ladder.repeat(self.num_chains))

    def advance(self, num_steps: int) -> float:
        """Moves, and returns the share of swaps accepted."""
        accepted = 0.0
        for _ in range(num_steps):
            self.copies.advance(self.steps_per_swap)
            accepted += self._swap(self.round % 2)
            self.round += 1
        return accepted / num_steps

    def _swap(self, first: int) -> float:
        """Swap copies first and first + 1, first + 2 and first + 3, ... of every chain."""
        x = self.copies.x.reshape(self.num_chains, len(self.ladder), -1)
        log_density = self.target.log_density(x).double()  # (n, copies)
        low = torch.arange(first, len(self.ladder) - 1, 2, device=x.device)
        if not len(low):
            return 1.0
        swapped = decide(log_swap(self.ladder, log_density, low).clamp_max(0), self.generator)
        order = torch.arange(len(self.ladder), device=x.device).expand(log_density.shape).clone()
        order[:, low] = torch.where(swapped, low + 1, low)
        order[:, low + 1] = torch.where(swapped, low, low + 1)
        x = x.gather(1, order[..., None].expand_as(x))
        self._place_copies(x.reshape(-1, x.shape[-1]))
        return float(swapped.double().mean())


def log_swap(ladder: Tensor, log_density: Tensor, low: Tensor) -> Tensor:
    """log of the ratio in favour of swapping copies low and low + 1, (n, copies) -> (n, k)."""
    return (ladder[low] - ladder[low + 1]) * (log_density[:, low + 1] - log_density[:, low])
