"""Estimates that training compares models with: settings, each with its part of the identity.

A ``DenoiserEstimator`` gives log P̂(x_0^i = v | x_t), or the log-score that belongs to it; an
``UnbiasedEstimator`` log p̂_t(x_t), or log p̂(x_t, x_0^i = u), from which both heads of the unbiased
model are trained.  All are made of functions of ``tcsis.identity`` and take a batch of noised
states; with the estimate they return the x_0 to put back into the buffer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis import identity
from tcsis.basics.frozen import Frozen, Positive
from tcsis.learn.buffers import Buffer
from tcsis.learn.models.marginal import MarginalModel, learned
from tcsis.noise import UniformNoise
from tcsis.targets.base import Target

GUIDE_NOISE = 0.05
"""Share of noise in the laws that walkers start from."""
BUFFER_RUNGS = 4
"""Rungs for walkers that start at states of the target: there is little left to climb."""


@dataclass(frozen=True)
class Noised:
    """States ``x_t`` (b, d) at times ``t`` (b, d), and the ``x_0`` (b, d) that they came from."""

    x_t: Tensor
    t: Tensor
    x_0: Tensor
    generator: torch.Generator

    def __getitem__(self, rows: Tensor) -> Noised:
        return Noised(self.x_t[rows], self.t[rows], self.x_0[rows], self.generator)


Estimated = tuple[Tensor, Tensor]
"""An estimate, and the x_0 (b, d) to put back."""
Estimate = Callable[[Noised], Estimated]


class Estimator(Frozen, ABC):
    """The fields are the keyword arguments of the function."""

    kind: str

    def call(self, function: Callable[..., Any], *given: Any, batch: Noised) -> Any:
        settings = self.model_dump(exclude={"kind"})
        return function(*given, generator=batch.generator, **settings)


# -- of the denoiser ------------------------------------------------------------------------------


class DenoiserEstimator(Estimator):
    """Estimates for the self-normalized method, (b, d, v)."""

    @abstractmethod
    def denoiser(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        """log P̂(x_0^i = v | x_t)."""

    def log_score(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        """log ŝ, the score that belongs to the estimated denoiser."""
        log_d, x_0 = self.denoiser(target, noise, batch)
        # without noise this is 0/0; the score is that of the target by then
        return noise.log_score_from_denoiser(log_d, batch.x_t, batch.t.clamp_min(1e-4)), x_0


class Warm(DenoiserEstimator):
    """Posterior sweeps that start at x_0, which moves on."""

    kind: Literal["warm"] = "warm"
    num_sweeps: Positive = 1

    def denoiser(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        return self.call(identity.warm, target, noise, batch.x_t, batch.t, batch.x_0, batch=batch)


class FromKernel(DenoiserEstimator):
    """Estimates that need x_t alone."""

    function: ClassVar[Callable[..., Tensor]]

    def denoiser(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        function = type(self).function
        return self.call(function, target, noise, batch.x_t, batch.t, batch=batch), batch.x_0


class Naive(FromKernel):
    """Eq. (5) of the paper: ``num_samples`` fresh draws for every neighbour."""

    function = staticmethod(identity.naive)
    kind: Literal["naive"] = "naive"
    num_samples: Positive

    def log_score(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        score = identity.naive_log_score
        return self.call(score, target, noise, batch.x_t, batch.t, batch=batch), batch.x_0


class Shared(FromKernel):
    """Appendix A.2 of the paper: all ratios of a state share ``num_samples`` draws."""

    function = staticmethod(identity.shared)
    kind: Literal["shared"] = "shared"
    num_samples: Positive


class Marginalised(FromKernel):
    """As shared, with each site summed out."""

    function = staticmethod(identity.marginalised)
    kind: Literal["marginalised"] = "marginalised"
    num_samples: Positive


class Coloured(FromKernel):
    """As shared, with a colour class summed out."""

    function = staticmethod(identity.coloured)
    kind: Literal["coloured"] = "coloured"
    num_samples: Positive


class Annealed(FromKernel):
    """Walkers led from the kernel to the posterior."""

    function = staticmethod(identity.annealed)
    kind: Literal["annealed"] = "annealed"
    num_chains: Positive
    num_rungs: Positive
    sweeps_per_rung: Positive = 1


AnyDenoiserEstimator = Annotated[
    Warm | Naive | Shared | Marginalised | Coloured | Annealed, Field(discriminator="kind")
]

# -- of the marginal ------------------------------------------------------------------------------


class UnbiasedEstimator(Estimator):
    """Estimates for the unbiased method, linear in p̄: log p̂_t (b,), or, where they train the
    denoiser too, log p̂(x_t, x_0^i = u) (b, d, v)."""

    trains_denoiser: ClassVar[bool] = False

    @abstractmethod
    def estimate(
        self, model: MarginalModel, target: Target, buffer: Buffer, batch: Noised
    ) -> Tensor: ...


class UnbiasedFromKernel(UnbiasedEstimator):
    """Those that need x_t alone."""

    function: ClassVar[Callable[..., Tensor]]

    def estimate(
        self, model: MarginalModel, target: Target, buffer: Buffer, batch: Noised
    ) -> Tensor:
        function = type(self).function
        return self.call(function, target, model.noise, batch.x_t, batch.t, batch=batch)


class LogMarginal(UnbiasedFromKernel):
    """Eq. (8) of the paper: the mean of p̄ over ``num_samples`` draws."""

    function = staticmethod(identity.log_marginal)
    kind: Literal["log_marginal"] = "log_marginal"
    num_samples: Positive


class JointColoured(UnbiasedFromKernel):
    """Draws from the kernel, with a colour class summed out."""

    trains_denoiser: ClassVar[bool] = True
    function = staticmethod(identity.joint_coloured)
    kind: Literal["joint_coloured"] = "joint_coloured"
    num_samples: Positive


class JointGuided(UnbiasedEstimator):
    """Walkers that start from what the model takes for the denoiser; in the noise, where ᾱ ≤ 1/2,
    at the buffer, if that is a population of the target and there is a crowd whose log Z goes with
    it."""

    trains_denoiser: ClassVar[bool] = True
    kind: Literal["joint_guided"] = "joint_guided"
    num_chains: Positive
    num_rungs: Positive

    def estimate(
        self, model: MarginalModel, target: Target, buffer: Buffer, batch: Noised
    ) -> Tensor:
        if not buffer.source.follows_target or model.crowd is None:
            return self.guided(model, target, buffer, batch)
        clear = model.noise.alpha(batch.x_t, batch.t).expand(batch.x_t.shape).mean(1) > 0.5
        rows = [part.nonzero().squeeze(1) for part in (clear, ~clear)]
        parts = [
            way(model, target, buffer, batch[own])
            for way, own in zip((self.guided, self.from_buffer), rows, strict=True)
            if len(own)
        ]
        return torch.cat(parts)[torch.cat(rows).argsort()]

    def guided(self, model: MarginalModel, target: Target, buffer: Buffer, batch: Noised) -> Tensor:
        """From the second head, with a little of noise so that nothing is impossible."""
        floor = math.log(GUIDE_NOISE / target.num_values)
        with torch.no_grad():
            log_d = learned(model, batch.x_t, batch.t).double() + math.log1p(-GUIDE_NOISE)
        log_start = torch.logaddexp(log_d, torch.full_like(log_d, floor))
        given = (target, model.noise, batch.x_t, batch.t, log_start)
        return self.call(identity.joint_guided, *given, batch=batch)

    def from_buffer(
        self, model: MarginalModel, target: Target, buffer: Buffer, batch: Noised
    ) -> Tensor:
        """From the other states of the buffer and their relabellings.  The log Z is that of the
        crowd; what it is off by is the same for all states."""
        assert model.crowd is not None
        states, log_z = model.crowd.in_all_forms(buffer.all), float(model.crowd.log_z)
        return identity.joint_from_population(
            target, model.noise, batch.x_t, batch.t, states, log_z, batch.x_0,
            num_chains=self.num_chains, num_rungs=BUFFER_RUNGS, generator=batch.generator,
        )  # fmt: skip


AnyUnbiasedEstimator = Annotated[
    LogMarginal | JointColoured | JointGuided, Field(discriminator="kind")
]
