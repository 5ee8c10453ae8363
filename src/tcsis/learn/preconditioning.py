"""What is known of marginal and denoiser without learning, as a setting of the unbiased method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, TypeGuard

import torch
from pydantic import Field

from tcsis.basics.frozen import Frozen, Positive
from tcsis.learn.buffers import new_seed
from tcsis.learn.models.bethe import Bethe
from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.diffusion import Field as SiteField
from tcsis.learn.models.diffusion import known_field
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.skips import Density, FirstOrder, Skip
from tcsis.mcmc import population_annealing
from tcsis.noise import UniformNoise
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

MOST_MESSAGES = 128
"""Belief propagation is used up to this many pairs of values that a site has with its neighbours,
degree·V²: beyond, it would cost more than the network."""

Terms = tuple[list[Skip], list[SiteField]]
"""Skip terms of the marginal and, as many, fields of the denoiser."""


class Preconditioning(Frozen, ABC):
    kind: str

    @abstractmethod
    def terms(self, target: Target, noise: UniformNoise, forms: list[list[int]]) -> Terms: ...

    def fill(self, model: MarginalModel, target: Target, generator: torch.Generator) -> None:
        """What has to be drawn before training: nothing, unless a setting says otherwise."""

    def tiny(self) -> Preconditioning:
        return self


class DensityTerm(Preconditioning):
    """log p̄(x), the paper's."""

    kind: Literal["density"] = "density"

    def terms(self, target: Target, noise: UniformNoise, forms: list[list[int]]) -> Terms:
        return [Density(target)], [known_field(target)]


class CrowdTerm(Preconditioning):
    """Belief propagation where it is cheap, else first order in t; and, for the noise, ``size``
    states from an annealed population of their own: what the crowd is asked about are states of
    the buffer, noised."""

    kind: Literal["crowd"] = "crowd"
    size: Positive = 512
    num_rungs: Positive = 50
    steps_per_rung: Positive = 10

    def terms(self, target: Target, noise: UniformNoise, forms: list[list[int]]) -> Terms:
        crowd = Crowd(noise, target.num_sites, self.size, forms)
        if is_sparse(target):
            bethe = Bethe(target, noise)
            return [bethe, crowd], [bethe.cavity, crowd.cavity]
        return [FirstOrder(target, noise), crowd], [known_field(target), crowd.cavity]

    def fill(self, model: MarginalModel, target: Target, generator: torch.Generator) -> None:
        crowd = model.crowd
        assert crowd is not None
        population = population_annealing(
            target, num_replicas=self.size, num_rungs=self.num_rungs,
            steps_per_rung=self.steps_per_rung, seed=new_seed(generator),
        )  # fmt: skip
        crowd.gather(population.draws.x[:, 0].to(crowd.states), population.log_z)

    def tiny(self) -> CrowdTerm:
        return self.model_copy(update={"size": 64, "num_rungs": 10})


AnyPreconditioning = Annotated[DensityTerm | CrowdTerm, Field(discriminator="kind")]


def is_sparse(target: Target) -> TypeGuard[Pairwise]:
    """Whether belief propagation is cheap."""
    if not isinstance(target, Pairwise):
        return False
    return target.degree * target.num_values**2 <= MOST_MESSAGES
