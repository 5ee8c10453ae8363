"""Parallel tempering: copies of each chain at several temperatures that trade scales.

A copy at scale λ samples p̄^λ.  Neighbours on the ladder swap their scales now and then, as
``compiled.swaps`` decides from their log densities, whatever engine moves them.  The copies that
are at scale 1 are the draws; the hot ones carry them over the barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsis.basics.checks import check_integer, derive_seed
from tcsis.mcmc.chains import Copies
from tcsis.mcmc.compiled import make_streams, swap_neighbours


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
    either the even or the odd neighbours of the ladder, or the only two."""

    def __init__(
        self,
        scales: tuple[float, ...],
        x: Tensor,
        seed: int,
        start: Callable[[Tensor], Copies],
        steps_per_swap: int = 1,
    ):
        self.ladder, self.steps_per_swap, self.round = np.array(scales), steps_per_swap, 0
        self.streams = make_streams(derive_seed(seed, "swaps"), len(x))
        self.copies = start(x.repeat_interleave(len(scales), 0))
        self._keep_in_order(len(x))

    @property
    def x(self) -> Tensor:
        x = self.copies.x
        return x[torch.from_numpy(self.rows[:, -1]).to(x.device)]

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        if scale is not None:
            raise ValueError("scale is given: tempered chains have a ladder of their own")
        self.copies.place(x.repeat_interleave(len(self.ladder), 0))
        self._keep_in_order(len(x))

    def advance(self, num_steps: int) -> float:
        """Moves, and returns the share of swaps accepted."""
        accepted = tried = 0
        for _ in range(num_steps):
            self.copies.advance(self.steps_per_swap)
            log_density = self.copies.log_density().cpu().numpy()
            first = self.round % min(2, len(self.ladder) - 1)
            accepted += swap_neighbours(first, self.ladder, log_density, self.rows, self.streams)
            tried += len(self.rows) * ((len(self.ladder) - first) // 2)
            self.round += 1
            self._temper()
        return accepted / tried

    def _keep_in_order(self, num_chains: int) -> None:
        """Copy k of every chain at scale k."""
        self.rows = np.arange(num_chains * len(self.ladder)).reshape(num_chains, -1)
        self._temper()

    def _temper(self) -> None:
        scale = np.empty(self.rows.size)
        scale[self.rows] = self.ladder
        self.copies.temper(torch.from_numpy(scale))
