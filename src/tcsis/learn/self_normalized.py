"""Self-normalized TCSIS: the denoiser, or the score, of a diffusion, learned through the identity.

x_0 is noised to x_t at some times, the identity estimates what the sites of x_0 were, and a network
for any times learns that.  Draws go back from noise along any schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tcsis.basics.frozen import Named, Positive
from tcsis.learn import losses
from tcsis.learn.buffers import Buffer
from tcsis.learn.estimators import (
    AnyDenoiserEstimator,
    DenoiserEstimator,
    Estimated,
    Noised,
)
from tcsis.learn.losses import Compare
from tcsis.learn.method import Loss, Method
from tcsis.learn.models.diffusion import (
    DenoiserModel,
    DiffusionModel,
    ScoreModel,
    known_field,
    no_field,
)
from tcsis.learn.networks import AnyTrunk
from tcsis.learn.sampling import TWEEDIE, AnyStep, DiffusionSampler
from tcsis.learn.times import DrawTimes, mixed, shared
from tcsis.noise import LogLinear, UniformNoise
from tcsis.targets.base import Target

# -- what is minimised ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Objective:
    """What the network stands for, what is estimated, and how the two are compared; steps of
    1/``num_calls`` where steps are."""

    model: type[DiffusionModel]
    estimate: Callable[[DenoiserEstimator, Target, UniformNoise, Noised], Estimated]
    compare: Callable[[DiffusionModel, int], Compare]


PATH = Objective(DenoiserModel, lambda estimator, *batch: estimator.denoiser(*batch), losses.paths)
CROSS_ENTROPY = replace(PATH, compare=lambda model, _: losses.denoisers(model))
SCORE_ENTROPY = Objective(
    ScoreModel,
    lambda estimator, *batch: estimator.log_score(*batch),
    lambda model, _: losses.scores(model),
)
"""Eq. (6) of the paper."""

# -- the method -----------------------------------------------------------------------------------


class SelfNormalized(Method[DiffusionModel]):
    """``num_calls`` is how many network calls a draw takes by default, and ``step`` how it goes.
    With ``preconditioned`` the field that the other sites exert is a skip term, and with
    ``symmetric`` the symmetry of the values is built in; ``noise_eps`` is the α left at t = 1."""

    kind: Literal["self-normalized"] = "self-normalized"
    objective: Annotated[
        Objective,
        Named({"path": PATH, "cross-entropy": CROSS_ENTROPY, "score-entropy": SCORE_ENTROPY}),
    ] = PATH
    network: AnyTrunk
    estimator: AnyDenoiserEstimator
    times: Annotated[Callable[[Target], DrawTimes], Named({"shared": shared, "mixed": mixed})] = (
        shared
    )
    symmetric: bool = True
    preconditioned: bool = True
    noise_eps: Annotated[float, Field(ge=0, lt=1)] = 0.0
    step: AnyStep = TWEEDIE
    num_calls: Positive = 64

    @model_validator(mode="after")
    def check_some_signal(self) -> SelfNormalized:
        if self.objective == SCORE_ENTROPY and self.noise_eps == 0:
            raise ValueError(
                "noise_eps is 0, and in pure noise a score says nothing: expected noise_eps above "
                "0, such as 0.001, with the objective score-entropy"
            )
        return self

    def noise(self, target: Target) -> UniformNoise:
        return UniformNoise(target.num_values, LogLinear(eps=self.noise_eps))

    def model(self, target: Target) -> DiffusionModel:
        field = known_field(target) if self.preconditioned else no_field(target)
        alike = self.symmetric and target.symmetries.value_permutation
        return self.objective.model(
            self.noise(target), self.network.sites(target, field, alike=alike)
        )

    def loss(self, model: DiffusionModel, target: Target, buffer: Buffer) -> Loss:
        return losses.denoising(
            model.noise,
            self.times(target),
            partial(self.objective.estimate, self.estimator, target, model.noise),
            self.objective.compare(model, self.num_calls),
        )

    def sampler(self, model: DiffusionModel, target: Target) -> DiffusionSampler:
        return DiffusionSampler(target, model.denoiser, model.noise, self.step, self.num_calls)

    def tiny(self) -> SelfNormalized:
        network = self.network.model_copy(update={"width": 8, "depth": 2})
        return self.model_copy(update={"network": network})
