"""The denoiser as the reverse process sees it: checked, counted, and not asked twice."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tcsis.noise import log_sum
from tcsis.reverse.steps import Denoiser

NORMALISED = 1e-3
"""How far the log-sum of a denoiser's probabilities may be from zero; they are normalised after."""


class Calls:
    """A denoiser that counts its evaluations, checks what comes back, and remembers its last two
    answers, so that a state which stayed is not evaluated again."""

    def __init__(self, denoiser: Denoiser, num_values: int):
        self.denoiser = denoiser
        self.num_values = num_values
        self.count = 0
        self.memory: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        """log P(x_0^i = v | x_t), (b, d) and (b, d) or (1, d) -> (b, d, v) float64, normalised."""
        log_d = self.recall(x, t)
        if log_d is None:
            log_d = self.evaluate(x, t)
        self.memory = [*self.memory[-1:], (x.clone(), t.clone(), log_d)]  # callers may write to x
        return log_d

    def recall(self, x: Tensor, t: Tensor) -> Tensor | None:
        """The answer, where it is known for some states at these times; the rest is evaluated."""
        for old_x, old_t, log_d in reversed(self.memory):
            if old_x.shape == x.shape and torch.equal(old_t, t):
                changed = (old_x != x).any(-1).nonzero().squeeze(-1)
                if not len(changed):
                    return log_d
                new = self.evaluate(x[changed], t.expand(x.shape)[changed])
                return log_d.index_copy(0, changed, new)
        return None

    def evaluate(self, x: Tensor, t: Tensor) -> Tensor:
        self.count += len(x)
        log_d = self.denoiser(x, t.expand(x.shape))
        if not isinstance(log_d, Tensor) or log_d.shape != (*x.shape, self.num_values):
            came = tuple(log_d.shape) if isinstance(log_d, Tensor) else type(log_d).__name__
            raise ValueError(
                f"denoiser returned {came} for x of shape {tuple(x.shape)}: "
                f"expected {(*x.shape, self.num_values)}"
            )
        log_d = log_d.double()
        if bool(log_d.isnan().any()):
            row = int(log_d.isnan().flatten(1).any(-1).nonzero()[0])
            raise ValueError(
                f"denoiser returned nan at the state {x[row].tolist()}: expected log-probabilities"
            )
        total = log_sum(log_d)[..., None]
        if not bool((total.abs() < NORMALISED).all()):
            worst = float(total.flatten()[total.abs().argmax()])
            raise ValueError(
                f"denoiser returned probabilities that sum to {math.exp(min(worst, 700)):.6g}: "
                "expected log-probabilities, normalised over the values"
            )
        return log_d - total
