"""Unbiased TCSIS: the marginal p̄_t of a diffusion, learned through the identity without bias.

The divergence between an estimate p̂_t and the model is linear in p̂, so that noise in the estimate
averages out.  Scores are ratios of the marginal, or come from a second head that is trained beside
it on joint estimates; draws go back from noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from tcsis.basics.frozen import Named, Positive
from tcsis.identity.blocks import log_mean
from tcsis.learn import losses
from tcsis.learn.buffers import Buffer
from tcsis.learn.estimators import AnyUnbiasedEstimator, Estimated, Noised
from tcsis.learn.method import Loss, Method
from tcsis.learn.models import marginal
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.skips import RunningMean
from tcsis.learn.networks import AnyTrunk
from tcsis.learn.preconditioning import AnyPreconditioning, DensityTerm
from tcsis.learn.sampling import TWEEDIE, AnyStep, DiffusionSampler
from tcsis.learn.times import shared_times
from tcsis.noise import LogLinear, UniformNoise
from tcsis.targets.base import Target

NUM_FITTED, NUM_FITS, NUM_SITES = 8_192, 2, 4
"""States of a fit before training, how often it is repeated, and sites of each that it looks at."""

DIVERGENCES = {
    "itakura-saito": losses.unscaled,  # weighs all states alike
    "score-entropy": losses.scaled,  # the paper's, weighs a state by its probability
}
ROUTES = {
    "learned": marginal.learned,  # a head of its own: one call
    "assembled": marginal.assembled,  # the paper's: the marginal of every neighbour
}
"""Ways from the marginal to the denoiser."""


class Unbiased(Method[MarginalModel]):
    """``scores`` says where a draw has its scores from, ``preconditioning`` what is known of the
    marginal without learning; the rest as in ``SelfNormalized``, but that ``symmetric`` takes the
    mean over all relabellings, up to V = 3."""

    kind: Literal["unbiased"] = "unbiased"
    objective: Annotated[Callable[[MarginalModel], losses.Divergence], Named(DIVERGENCES)] = (
        losses.unscaled
    )
    network: AnyTrunk
    estimator: AnyUnbiasedEstimator
    preconditioning: AnyPreconditioning = DensityTerm()
    scores: Annotated[Callable[[MarginalModel, Tensor, Tensor], Tensor], Named(ROUTES)] = (
        marginal.learned
    )
    symmetric: bool = True
    noise_eps: Annotated[float, Field(ge=0, lt=1)] = 0.0
    step: AnyStep = TWEEDIE
    num_calls: Positive = 64

    @model_validator(mode="after")
    def check_scores(self) -> Unbiased:
        if self.scores is marginal.learned and not self.estimator.trains_denoiser:
            raise ValueError(
                f"scores is learned, and the estimator {self.estimator.kind} trains the marginal "
                "alone: expected a joint estimator, such as joint_guided, or scores assembled"
            )
        return self

    def model(self, target: Target) -> MarginalModel:
        target = target.sketch
        alike = self.symmetric and target.symmetries.value_permutation and target.num_values <= 3
        forms = (marginal.all_relabellings if alike else marginal.one_form)(target.num_values)
        noise = UniformNoise(target.num_values, LogLinear(eps=self.noise_eps))
        skips, fields = self.preconditioning.terms(target, noise, forms)
        network = self.network
        heads = network.two_heads if self.estimator.trains_denoiser else network.form_heads
        return MarginalModel(noise, heads(target, forms, fields), skips, fields)

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
        batch = Noised(x_t, t, x_0, generator)
        fit = fit_both if self.estimator.trains_denoiser else fit_marginal
        for _ in range(NUM_FITS):  # what the first fit says may guide the estimates of the next
            fit(model, batch, self.estimator.estimate(model, target, buffer, batch))

    def loss(self, model: MarginalModel, target: Target, buffer: Buffer) -> Loss:
        divergence = self.objective(model)
        compare = (
            losses.joints(model, divergence, self.num_calls)
            if self.estimator.trains_denoiser
            else losses.marginals(model, divergence)
        )

        def estimate(batch: Noised) -> Estimated:
            return self.estimator.estimate(model, target, buffer, batch), batch.x_0

        return losses.denoising(model.noise, shared_times, estimate, compare)

    def parts(self, model: MarginalModel) -> list[list[nn.Parameter]]:
        apart = model.heads.apart()
        own = {id(weights) for weights in apart}
        return [apart, [weights for weights in model.parameters() if id(weights) not in own]]

    def moved(self, model: MarginalModel) -> list[Tensor]:
        """The running scale, and the running means of the heads."""
        means = [part for part in model.modules() if isinstance(part, RunningMean)]
        return [model.log_scale, *(now for part in means for now in part.buffers())]

    def sampler(self, model: MarginalModel, target: Target) -> DiffusionSampler:
        denoiser = partial(self.scores, model)
        return DiffusionSampler(target, denoiser, model.noise, self.step, self.num_calls)

    def tiny(self) -> Unbiased:
        network = self.network.model_copy(update={"width": 8, "depth": 2})
        return self.model_copy(
            update={"network": network, "preconditioning": self.preconditioning.tiny()}
        )


# -- the fit before training ----------------------------------------------------------------------


def fit_marginal(model: MarginalModel, batch: Noised, log_p_hat: Tensor) -> None:
    """The skip terms to estimates of the marginal, (b,)."""
    model.fit_skips(batch.x_t, batch.t, log_p_hat)


def fit_both(model: MarginalModel, batch: Noised, joint: Tensor) -> None:
    """Skip terms and fields to joint estimates, (b, d, v)."""
    x_t, t = batch.x_t, batch.t
    shape = (len(x_t), NUM_SITES)
    sites = torch.randint(x_t.shape[1], shape, device=x_t.device, generator=batch.generator)
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
