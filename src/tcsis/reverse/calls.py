"""The denoiser as the reverse process sees it: counted, checked, its answers handed along the path.

An answer belongs to its states and times, and goes with them from step to step.  So nothing is
asked twice, and a denoiser that carries a state, such as walkers, has none but that of its answers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tcsis.noise import log_sum

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""log P(x_0^i = v | x_t), (b, d) and (b, d) -> (b, d, v)."""
State = tuple[Tensor, ...]
"""Tensors with one row for each state of an answer."""

NORMALISED = 1e-3
"""How far the log-sum of a denoiser's probabilities may be from zero; they are normalised after."""


@dataclass(frozen=True)
class Answer:
    """What a denoiser says of the states ``x`` (b, d) at the times ``t``, (b, d) or shared (1, d):
    ``log_d`` (b, d, v) float64, normalised, and the ``state`` to go on from, if it carries any."""

    x: Tensor
    t: Tensor
    log_d: Tensor
    state: State = ()

    def __getitem__(self, rows: Tensor) -> Answer:
        """The answer on some of the states."""
        t = self.t[rows] if len(self.t) > 1 else self.t
        return Answer(self.x[rows], t, self.log_d[rows], tuple(part[rows] for part in self.state))

    def with_rows(self, rows: Tensor, new: Answer) -> Answer:
        """This answer with some of its rows from another, of shared times if this one has them."""

        def put(old: Tensor, new: Tensor) -> Tensor:
            return old.index_copy(0, rows, new)

        t = put(self.t, new.t) if len(self.t) > 1 else new.t
        state = tuple(put(*parts) for parts in zip(self.state, new.state, strict=True))
        return Answer(put(self.x, new.x), t, put(self.log_d, new.log_d), state)


class Carrier(ABC):
    """A denoiser with a state that goes along the path; called as a function, it starts anew."""

    @abstractmethod
    def follow(self, x: Tensor, t: Tensor, before: Answer | None) -> tuple[Tensor, State]:
        """log_d and the state at (x, t), (b, d) each, from an answer before on the same paths."""

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        return self.follow(x, t, None)[0]


class Calls:
    """A denoiser that counts the states it is asked about, and checks what it says of them."""

    def __init__(self, denoiser: Denoiser, num_values: int):
        self.denoiser = denoiser
        self.num_values = num_values
        self.count = 0

    def ask(self, x: Tensor, t: Tensor, before: Answer | None = None) -> Answer:
        """The answer at x (b, d) and t, (b, d) or (1, d); a state it carries follows ``before``."""
        self.count += len(x)
        times = t.expand(x.shape)
        if isinstance(self.denoiser, Carrier):
            log_d, state = self.denoiser.follow(x, times, before)
        else:
            log_d, state = self.denoiser(x, times), ()
        return Answer(x, t, normalised(log_d, x, self.num_values), state)

    def ask_changed(self, x: Tensor, beside: Answer, before: Answer | None = None) -> Answer:
        """The answer at x from one ``beside`` it, at the same times: only the states that differ
        are asked about, and what they carry follows ``before`` as that of the others did."""
        changed = (beside.x != x).any(-1).nonzero().squeeze(-1)
        if not len(changed):
            return beside
        start = None if before is None else before[changed]
        return beside.with_rows(changed, self.ask(x[changed], beside[changed].t, start))


def normalised(log_d: Tensor, x: Tensor, num_values: int) -> Tensor:
    """What a denoiser returned for x, (b, d, v), in float64 and normalised exactly, or an error."""
    if not isinstance(log_d, Tensor) or log_d.shape != (*x.shape, num_values):
        came = tuple(log_d.shape) if isinstance(log_d, Tensor) else type(log_d).__name__
        raise ValueError(
            f"denoiser returned {came} for x of shape {tuple(x.shape)}: "
            f"expected {(*x.shape, num_values)}"
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
