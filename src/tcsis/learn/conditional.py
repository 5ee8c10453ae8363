"""A trained model given the values of some sites, without training: ``model.given({3: 1})``.

Its draws are whole states with these values in place and weights w with E[w] = Z(evidence), the sum
of p̄ over the states that agree, so that log P(evidence) = log Z(evidence) - log Z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts, make_generator
from tcsis.draws import Draws
from tcsis.learn.method import How, ModelSampler, weigh_states
from tcsis.targets.base import Target
from tcsis.targets.given import Given


@dataclass(frozen=True)
class LogEvidence:
    """An estimate of log P(evidence), and its standard ``error``."""

    log_p: float
    error: float

    def __str__(self) -> str:
        return f"log P(evidence) = {self.log_p:.4f} ± {self.error:.1g}"


@dataclass(frozen=True)
class Conditional:
    """Draws of ``target`` from a model of ``whole``, the target without the evidence; ``kind`` is
    the name of its method, and ``seconds`` and ``num_density_calls`` are those of its training."""

    kind: str
    target: Given
    whole: Target
    given: ModelSampler
    unconditional: ModelSampler
    seconds: float = 0.0
    num_density_calls: float = 0.0

    def sample(
        self, n: int, *, seed: int = 0, generator: torch.Generator | None = None,
        calls: int | None = None, batch_size: int | None = None,
    ) -> Draws:  # fmt: skip
        """n independent draws, (n, d), each with its weight; ``calls`` as for the model."""
        check_counts(n=n, batch_size=batch_size or 1)
        generator = generator or make_generator(seed, "reverse", self.target.device)
        how = How(calls=calls, batch_size=batch_size)
        draws = self.given.draw(n, generator, how).completed(self.whole)
        assert draws.log_weight is not None
        if bool(draws.log_weight.isneginf().all()):
            raise ValueError(
                f"none of {n} draws of {self.target} is a state that it allows: expected evidence "
                "that is possible, or more draws; tcsis.train on the given target looks for "
                "allowed states"
            )
        return draws

    def weigh(
        self, x: Tensor, *, seed: int = 0, generator: torch.Generator | None = None
    ) -> Tensor:
        """log weights (n,) of states that are given, (n, d), as for the model."""
        generator = generator or make_generator(seed, "weighing", self.target.device)
        return weigh_states(self.given, self.target, self.whole.free_sites, x, generator)

    def log_evidence(
        self, n: int = 10_000, *, seed: int = 0, calls: int | None = None
    ) -> LogEvidence:
        """log P(evidence) from n draws with the evidence and n others without."""
        with_it = self.sample(n, seed=seed, calls=calls)
        generator = make_generator(seed, "without evidence", self.target.device)
        without = self.unconditional.draw(n, generator, How(calls=calls))
        error = math.hypot(with_it.log_z_error or 0.0, without.log_z_error or 0.0)
        return LogEvidence((with_it.log_z or 0.0) - (without.log_z or 0.0), error)
