"""Unbiased TCSIS: the marginal p̄_t of a diffusion, learned through the identity without bias.

The divergence between an estimate p̂_t and the model is linear in p̂, so that noise in the estimate
averages out.  Scores are ratios of the marginal, or come from a second head that is trained beside
it on joint estimates; draws go back from noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from tcsis.basics.frozen import Frozen, Positive
from tcsis.identity.blocks import log_mean
from tcsis.learn import losses
from tcsis.learn.buffers import Buffer
from tcsis.learn.estimators import AnyUnbiasedEstimator
from tcsis.learn.method import Loss, Method
from tcsis.learn.models import marginal
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.networks import AnyTrunk
from tcsis.learn.preconditioning import AnyPreconditioning, DensityTerm
from tcsis.learn.sampling import AnyStep, DiffusionSampler, TweedieStep
from tcsis.learn.times import shared_times
from tcsis.noise import LogLinear, UniformNoise
from tcsis.reverse.steps import Denoiser
from tcsis.targets.base import Target

NUM_FITTED, NUM_FITS, NUM_SITES = 8_192, 2, 4
"""States of a fit before training, how often it is repeated, and sites of each that it looks at."""

# -- divergences ----------------------------------------------------------------------------------


class ItakuraSaito(Frozen):
    """p̂/p - log(p̂/p), which weighs all states alike."""

    kind: Literal["itakura-saito"] = "itakura-saito"

    def divergence(self, model: MarginalModel) -> losses.Divergence:
        return losses.itakura_saito


class MarginalScoreEntropy(Frozen):
    """The paper's p - p̂·log p, which weighs a state by its probability."""

    kind: Literal["score-entropy"] = "score-entropy"

    def divergence(self, model: MarginalModel) -> losses.Divergence:
        return losses.scaled(model)


# -- ways to the denoiser -------------------------------------------------------------------------


class Route(Frozen, ABC):
    kind: str

    @abstractmethod
    def denoiser(self, model: MarginalModel) -> Denoiser: ...


class SecondHead(Route):
    """A head on the same features, trained beside the marginal: one call."""

    kind: Literal["learned"] = "learned"

    def denoiser(self, model: MarginalModel) -> Denoiser:
        return partial(marginal.learned, model)


class TaylorRoute(Route):
    """Ratios to first order from one gradient."""

    kind: Literal["taylor"] = "taylor"

    def denoiser(self, model: MarginalModel) -> Denoiser:
        return partial(marginal.taylor, model)


class Assembled(Route):
    """The marginal of every neighbour, the paper's: d·(V-1) + 1 calls."""

    kind: Literal["assembled"] = "assembled"

    def denoiser(self, model: MarginalModel) -> Denoiser:
        return partial(marginal.assembled, model)


# -- the method -----------------------------------------------------------------------------------


class Unbiased(Method[MarginalModel]):
    """``scores`` says where a draw has its scores from, ``preconditioning`` what is known of the
    marginal without learning; the rest as in ``SelfNormalized``."""

    kind: Literal["unbiased"] = "unbiased"
    objective: Annotated[ItakuraSaito | MarginalScoreEntropy, Field(discriminator="kind")] = (
        ItakuraSaito()
    )
    network: AnyTrunk
    estimator: AnyUnbiasedEstimator
    preconditioning: AnyPreconditioning = DensityTerm()
    scores: Annotated[SecondHead | TaylorRoute | Assembled, Field(discriminator="kind")] = (
        SecondHead()
    )
    symmetric: bool = True
    noise_eps: Annotated[float, Field(ge=0, lt=1)] = 0.0
    step: AnyStep = TweedieStep()
    num_calls: Positive = 64

    @model_validator(mode="after")
    def check_scores(self) -> Unbiased:
        if isinstance(self.scores, SecondHead) and not self.estimator.trains_denoiser:
            raise ValueError(
                f"scores is learned, and the estimator {self.estimator.kind} trains the marginal "
                "alone: expected a joint estimator, such as joint_annealed, or scores taylor or "
                "assembled"
            )
        return self

    def model(self, target: Target) -> MarginalModel:
        trunk = self.network.trunk(target, target.num_values + 1)
        alike = self.symmetric and target.symmetries.value_permutation and target.num_values <= 3
        forms = (marginal.all_relabellings if alike else marginal.one_form)(target.num_values)
        noise = UniformNoise(target.num_values, LogLinear(eps=self.noise_eps))
        skips, fields = self.preconditioning.terms(target, noise, forms)
        return MarginalModel(noise, trunk, self.network.width, forms, skips, fields)

    def prepare(
        self, model: MarginalModel, target: Target, buffer: Buffer, generator: torch.Generator
    ) -> None:
        """Set the crowd, and then the coefficients of the skip terms at every time from one large
        batch of estimates."""
        states = buffer.all
        x_0 = states[torch.arange(NUM_FITTED, device=states.device) % len(states)]
        self.preconditioning.fill(model, target, generator)
        t = shared_times(x_0, generator)
        x_t = model.noise.draw(x_0, t, generator=generator)
        check_all_allowed(target, x_t)
        estimate = self.estimator.estimate(model, target, buffer)
        fit = fit_both if self.estimator.trains_denoiser else fit_marginal
        for _ in range(NUM_FITS):  # what the first fit says may guide the estimates of the next
            fit(model, x_t, t, estimate(x_t, t, x_0, generator)[0], generator)

    def loss(self, model: MarginalModel, target: Target, buffer: Buffer) -> Loss:
        divergence = self.objective.divergence(model)
        compare = (
            losses.joints(model, divergence, self.num_calls)
            if self.estimator.trains_denoiser
            else losses.marginals(model, divergence)
        )
        estimate = self.estimator.estimate(model, target, buffer)
        return losses.denoising(model.noise, shared_times, estimate, compare)

    def sampler(self, model: MarginalModel, target: Target) -> DiffusionSampler:
        denoiser = self.scores.denoiser(model)
        return DiffusionSampler(target, denoiser, model.noise, self.step, self.num_calls)

    def tiny(self) -> Unbiased:
        network = self.network.model_copy(update={"width": 8, "depth": 2})
        return self.model_copy(
            update={"network": network, "preconditioning": self.preconditioning.tiny()}
        )


# -- the fit before training ----------------------------------------------------------------------


def fit_marginal(
    model: MarginalModel, x_t: Tensor, t: Tensor, log_p_hat: Tensor, generator: torch.Generator
) -> None:
    """The skip terms to estimates of the marginal, (b,)."""
    model.fit_skips(x_t, t, log_p_hat)


def fit_both(
    model: MarginalModel, x_t: Tensor, t: Tensor, joint: Tensor, generator: torch.Generator
) -> None:
    """Skip terms and fields to joint estimates, (b, d, v)."""
    shape = (len(x_t), NUM_SITES)
    sites = torch.randint(x_t.shape[1], shape, device=x_t.device, generator=generator)
    chosen = joint.gather(1, sites[..., None].expand(-1, -1, joint.shape[-1]))
    log_p_hat = log_mean(joint.logsumexp(-1), 1)
    model.fit_skips(x_t, t, log_p_hat)
    if len(model.fields) == 2:
        model.fit_fields(x_t, t, sites, chosen)
        model.fit_skips(x_t, t, log_p_hat)


def check_all_allowed(target: Target, x: Tensor) -> None:
    """Refuse a target that forbids states, for a marginal on which log p̄ is a skip term."""
    forbidden = target.log_density(x).isneginf()
    if bool(forbidden.any()):
        raise ValueError(
            f"log p̄ is -inf at x = {x[int(forbidden.nonzero()[0])].tolist()}, which the unbiased "
            "method cannot have: expected a finite log p̄; use the autoregressive or the "
            "self-normalized method"
        )
