"""Estimates that training compares models with, each a setting that makes a function.

    x_t, t, x_0, generator -> estimate, x_0

All rest on the identity (``tcsis.identity``).  A ``DenoiserEstimator`` gives
log P̂(x_0^i = v | x_t) or the log-score that belongs to it; an ``UnbiasedEstimator`` log p̂_t(x_t),
or log p̂(x_t, x_0^i = u), from which both heads of the unbiased model are trained.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from tcsis import identity
from tcsis.basics.frozen import Frozen, Positive
from tcsis.learn.buffers import Buffer
from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.marginal import MarginalModel, learned
from tcsis.noise import UniformNoise
from tcsis.targets.base import Target

Estimate = Callable[[Tensor, Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""x_t (b, d), t (b, d) and the x_0 (b, d) it came from -> an estimate, and an x_0 to put back."""

GUIDE_NOISE = 0.05
"""Share of noise in the laws that walkers start from."""
BUFFER_RUNGS = 4
"""Rungs for walkers that start at states of the target: there is little left to climb."""


class Estimator(Frozen, ABC):
    """``settings`` are the keyword arguments of the function of ``tcsis.identity``."""

    kind: str

    @property
    def settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"kind"})

    def from_noise(
        self, function: Callable[..., Tensor], target: Target, noise: UniformNoise
    ) -> Estimate:
        """An estimate that needs x_t alone."""
        settings = self.settings

        def estimate(
            x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            return function(target, noise, x_t, t, generator=generator, **settings), x_0

        return estimate


# -- of the denoiser ------------------------------------------------------------------------------


class DenoiserEstimator(Estimator):
    """Estimates for the self-normalised method."""

    @abstractmethod
    def denoiser(self, target: Target, noise: UniformNoise) -> Estimate:
        """log P̂(x_0^i = v | x_t), (b, d, v)."""

    def log_score(self, target: Target, noise: UniformNoise) -> Estimate:
        """log ŝ, (b, d, v): the score that belongs to the estimated denoiser."""
        denoiser = self.denoiser(target, noise)

        def estimate(
            x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            log_d, x_0 = denoiser(x_t, t, x_0, generator)
            # without noise this is 0/0; the score is that of the target by then
            return noise.log_score_from_denoiser(log_d, x_t, t.clamp_min(1e-4)), x_0

        return estimate


class Warm(DenoiserEstimator):
    """Posterior sweeps that start at x_0, which moves on."""

    kind: Literal["warm"] = "warm"
    num_sweeps: Positive = 1

    def denoiser(self, target: Target, noise: UniformNoise) -> Estimate:
        def estimate(
            x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            return identity.warm(target, noise, x_t, t, x_0, generator=generator, **self.settings)

        return estimate


class FromKernel(DenoiserEstimator):
    """Estimates that need x_t alone."""

    function: ClassVar[Callable[..., Tensor]]

    def denoiser(self, target: Target, noise: UniformNoise) -> Estimate:
        return self.from_noise(type(self).function, target, noise)


class Naive(FromKernel):
    """Eq. (5) of the paper: ``num_samples`` fresh draws for every neighbour."""

    function = staticmethod(identity.naive)
    kind: Literal["naive"] = "naive"
    num_samples: Positive

    def log_score(self, target: Target, noise: UniformNoise) -> Estimate:
        return self.from_noise(identity.naive_log_score, target, noise)


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


class Taylor(FromKernel):
    """As marginalised, by one gradient, for costly densities."""

    function = staticmethod(identity.taylor)
    kind: Literal["taylor"] = "taylor"
    num_samples: Positive


class Annealed(FromKernel):
    """Walkers led from the kernel to the posterior."""

    function = staticmethod(identity.annealed)
    kind: Literal["annealed"] = "annealed"
    num_chains: Positive
    num_rungs: Positive
    sweeps_per_rung: Positive = 1


AnyDenoiserEstimator = Annotated[
    Warm | Naive | Shared | Marginalised | Coloured | Taylor | Annealed, Field(discriminator="kind")
]

# -- of the marginal ------------------------------------------------------------------------------


class UnbiasedEstimator(Estimator):
    """Estimates for the unbiased method, linear in p̄: log p̂_t (b,), or, where they train the
    denoiser too, log p̂(x_t, x_0^i = u) (b, d, v)."""

    trains_denoiser: ClassVar[bool] = False

    @abstractmethod
    def estimate(self, model: MarginalModel, target: Target, buffer: Buffer) -> Estimate: ...


class UnbiasedFromKernel(UnbiasedEstimator):
    """Those that need x_t alone."""

    function: ClassVar[Callable[..., Tensor]]

    def estimate(self, model: MarginalModel, target: Target, buffer: Buffer) -> Estimate:
        return self.from_noise(type(self).function, target, model.noise)


class LogMarginal(UnbiasedFromKernel):
    """Eq. (8) of the paper: the mean of p̄ over ``num_samples`` draws."""

    function = staticmethod(identity.log_marginal)
    kind: Literal["log_marginal"] = "log_marginal"
    num_samples: Positive


class LogMarginalColoured(UnbiasedFromKernel):
    """The same with a colour class summed out."""

    function = staticmethod(identity.log_marginal_coloured)
    kind: Literal["log_marginal_coloured"] = "log_marginal_coloured"
    num_samples: Positive


class LogMarginalAnnealed(UnbiasedFromKernel):
    """The weights of walkers led to the posterior."""

    function = staticmethod(identity.log_marginal_annealed)
    kind: Literal["log_marginal_annealed"] = "log_marginal_annealed"
    num_chains: Positive
    num_rungs: Positive
    sweeps_per_rung: Positive = 1


class JointColoured(UnbiasedFromKernel):
    """Draws from the kernel, with a colour class summed out."""

    trains_denoiser: ClassVar[bool] = True
    function = staticmethod(identity.joint_coloured)
    kind: Literal["joint_coloured"] = "joint_coloured"
    num_samples: Positive


class JointAnnealed(UnbiasedFromKernel):
    """Walkers led from the kernel to the posterior."""

    trains_denoiser: ClassVar[bool] = True
    function = staticmethod(identity.joint_annealed)
    kind: Literal["joint_annealed"] = "joint_annealed"
    num_chains: Positive
    num_rungs: Positive
    sweeps_per_rung: Positive = 1


class JointGuided(UnbiasedEstimator):
    """Walkers that start from what the model takes for the denoiser; in the noise they start at the
    buffer, if that is a population of the target and there is a crowd whose log Z goes with it."""

    trains_denoiser: ClassVar[bool] = True
    kind: Literal["joint_guided"] = "joint_guided"
    num_chains: Positive
    num_rungs: Positive

    def estimate(self, model: MarginalModel, target: Target, buffer: Buffer) -> Estimate:
        guided = self.guided(model, target)
        if not buffer.source.follows_target or model.crowd is None:
            return guided
        from_buffer = self.from_buffer(target, model.noise, buffer, model.crowd)
        return by_noise(model.noise, guided, from_buffer)

    def guided(self, model: MarginalModel, target: Target) -> Estimate:
        """From the second head, with a little of noise so that nothing is impossible."""
        floor = math.log(GUIDE_NOISE / target.num_values)

        def estimate(
            x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                log_d = learned(model, x_t, t).double() + math.log1p(-GUIDE_NOISE)
            log_start = torch.logaddexp(log_d, torch.full_like(log_d, floor))
            joint = identity.joint_guided(
                target, model.noise, x_t, t, log_start, generator=generator, **self.settings
            )
            return joint, x_0

        return estimate

    def from_buffer(
        self, target: Target, noise: UniformNoise, buffer: Buffer, crowd: Crowd
    ) -> Estimate:
        """From the other states of the buffer and their relabellings.  The log Z is that of the
        crowd; what it is off by is the same for all states."""

        def estimate(
            x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            joint = identity.joint_from_population(
                target, noise, x_t, t, crowd.in_all_forms(buffer.all), float(crowd.log_z), x_0,
                num_chains=self.num_chains, num_rungs=BUFFER_RUNGS, generator=generator,
            )  # fmt: skip
            return joint, x_0

        return estimate


AnyUnbiasedEstimator = Annotated[
    LogMarginal
    | LogMarginalColoured
    | LogMarginalAnnealed
    | JointColoured
    | JointAnnealed
    | JointGuided,
    Field(discriminator="kind"),
]


def by_noise(noise: UniformNoise, clear: Estimate, noisy: Estimate) -> Estimate:
    """One estimate where ᾱ > 1/2, another elsewhere."""

    def estimate(
        x_t: Tensor, t: Tensor, x_0: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        is_clear = noise.alpha(x_t, t).expand(x_t.shape).mean(1) > 0.5
        rows = [part.nonzero().squeeze(1) for part in (is_clear, ~is_clear)]
        answers = [
            own(x_t[part], t[part], x_0[part], generator)
            for own, part in zip((clear, noisy), rows, strict=True)
            if len(part)
        ]
        back = torch.cat(rows).argsort()
        hat, x_0 = (torch.cat(parts)[back] for parts in zip(*answers, strict=True))
        return hat, x_0

    return estimate
