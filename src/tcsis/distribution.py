"""A target as a distribution of torch: ``sample`` and ``log_prob`` of p itself.

    log p(x) = log p̄(x) - log Z

Log Z is exact where it can be, and else the estimate of a model, which says so.  A model knows the
log probability q(x) of what it draws too, but q is not what the target says, so it is not asked:
draws of a model are chosen by their weights p̄/q from several times as many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution as TorchDistribution
from torch.distributions import constraints

from tcsis import exact
from tcsis.basics.checks import derive_seed
from tcsis.draws import Draws, concatenate
from tcsis.targets.base import Target

NUM_ESTIMATED = 10_000
"""Draws of a model for its log Z."""
TIMES, FEWEST = 4, 1_000
"""Effective draws among which each is chosen, and in all."""
MOST_DRAWN = 2**20


class Model(Protocol):
    """A sampler that knows its target, such as ``tcsis.train`` gives."""

    @property
    def target(self) -> Target: ...

    def sample(self, n: int, *, seed: int = 0) -> Draws: ...


class Distribution(TorchDistribution):
    """p of a target that has exact draws, or of a trained model.

    ``log_z`` is what ``log_prob`` is normalised by, ``log_z_error`` its standard error, 0 where it
    is exact, and ``normalised`` says where it comes from.  Every call of ``sample`` gives other
    draws; the same calls after the same ``seed`` give the same ones.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(self, source: Target | Model, *, seed: int = 0):
        if not isinstance(source, Target) and not hasattr(source, "target"):
            raise ValueError(
                f"source is a {type(source).__name__}: expected a target or a trained model"
            )
        self.sampler: Model = exact.sampler(source) if isinstance(source, Target) else source
        self.target, self.seed = self.sampler.target, seed
        self._num_calls = 0
        super().__init__(event_shape=torch.Size([self.target.num_sites]), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(
            constraints.integer_interval(0, self.target.num_values - 1), 1
        )

    # -- log Z ------------------------------------------------------------------------------------

    @cached_property
    def truth(self) -> exact.Exact | None:
        """The exact answers, where they take no long time and it is not too cold for them."""
        with suppress(exact.TooColdError):
            return exact.solve(self.target) if exact.affordable(self.target) else None
        return None

    @cached_property
    def estimate(self) -> Draws:
        """The draws of a model from which its log Z is taken, for want of exact answers."""
        return self.weighted(NUM_ESTIMATED, derive_seed(self.seed, "log Z"))

    def weighted(self, n: int, seed: int) -> Draws:
        draws = self.sampler.sample(n, seed=seed)
        if draws.log_weight is None:
            raise ValueError(
                f"{type(self.sampler).__name__} gives draws without weights: expected a sampler "
                "whose weights have the mean Z, such as a trained model"
            )
        return draws

    @property
    def log_z(self) -> float:
        if self.truth is not None:
            return self.truth.log_z
        assert self.estimate.log_z is not None
        return self.estimate.log_z

    @property
    def log_z_error(self) -> float:
        if self.truth is not None:
            return 0.0
        assert self.estimate.log_z_error is not None
        return self.estimate.log_z_error

    @property
    def normalised(self) -> str:
        if self.truth is not None:
            return f"by the exact log Z, from {self.truth.method}"
        return f"by log Z = {self.log_z:.4f} ± {self.log_z_error:.1g}, from {NUM_ESTIMATED:,} draws"

    # -- what torch calls -------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """log p̄(x) - log Z, (..., d) -> (...)."""
        return self.target.log_density(value) - self.log_z

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Tokens, int64 (*sample_shape, d)."""
        n = math.prod(sample_shape)
        seed = derive_seed(self.seed, f"call {self._num_calls}")
        self._num_calls += 1
        x = self.draw(n, seed).x if n else torch.zeros(0, self.target.num_sites)
        return x.long().reshape(*sample_shape, self.target.num_sites)

    def draw(self, n: int, seed: int) -> Draws:
        """n draws of p: those of a sampler whose weights are all equal, or n chosen by weight from
        several times as many."""
        first = self.weighted(max(n, FEWEST), seed)
        assert first.log_weight is not None and first.ess is not None
        if bool((first.log_weight == first.log_weight[0]).all()):
            return first[:n]
        wanted = min(MOST_DRAWN, math.ceil(TIMES * len(first) / first.ess)) - len(first)
        more = self.weighted(max(1, wanted), derive_seed(seed, "more"))
        return concatenate([first, more]).resample(n, seed=seed)

    def entropy(self) -> Tensor:
        """E[-log p] = log Z + E[-log p̄], where it is exact."""
        if self.truth is None:
            raise ValueError(
                f"the entropy of {self.target} is not known exactly: estimate it by the weighted "
                "mean of -log_prob over draws"
            )
        return torch.tensor(self.truth.log_z + self.truth.mean_energy, dtype=torch.float64)

    def __repr__(self) -> str:
        return f"Distribution({self.target})"
