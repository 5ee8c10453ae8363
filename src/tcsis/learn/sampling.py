"""Draws of a learned diffusion: the reverse process with its denoiser, in any number of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from tcsis import exact, reverse
from tcsis.basics.checks import check_integer, make_generator
from tcsis.basics.frozen import Named
from tcsis.draws import Draws
from tcsis.judging.weights import eubo
from tcsis.learn.method import How, ScorePairs, serves_no_evidence
from tcsis.noise import UniformNoise
from tcsis.reverse.compiled import CompiledTrapezoidal
from tcsis.reverse.schedules import Schedule, parallel, uniform_grid
from tcsis.reverse.steps import Denoiser, Step, euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.targets.base import Target
from tcsis.targets.known import KnownSites

BATCH_SIZE = 512
NUM_NOISED = 64
"""Exact draws at whose noised states scores are compared with exact ones."""

# -- which step -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepChoice:
    """A reverse step, and the calls that it takes of a state on average."""

    make: Callable[[Target], Step]
    calls: float = 1.0


def second_order(target: Target) -> Trapezoidal:
    """With compiled loops where there are any."""
    return (CompiledTrapezoidal if target.device.type == "cpu" else Trapezoidal)(target)


EULER, TWEEDIE = StepChoice(lambda target: euler), StepChoice(lambda target: tweedie)
SECOND_ORDER = StepChoice(second_order, 1.15)
"""A correction takes another call at the states that it changes, about one in ten."""
AnyStep = Annotated[
    StepChoice, Named({"euler": EULER, "tweedie": TWEEDIE, "trapezoidal": SECOND_ORDER})
]

# -- draws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffusionSampler:
    """From noise to draws by a denoiser for any times, all sites together unless told otherwise."""

    target: Target
    denoiser: Denoiser
    noise: UniformNoise
    choice: StepChoice
    num_calls: int

    def draw(self, n: int, generator: torch.Generator, how: How) -> Draws:
        if how.calls is not None and how.schedule is not None:
            raise ValueError("calls and schedule exclude each other: a schedule has its own calls")
        return reverse.sample(
            self.target, self.denoiser, self.noise, how.schedule or self.schedule(how.calls),
            how.step or self.step, n, generator=generator, batch_size=how.batch_size or BATCH_SIZE,
        )  # fmt: skip

    def weigh(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return eubo(
            self.target, self.denoiser, self.noise, self.schedule(), self.step, x,
            generator=generator,
        ).log_weight  # fmt: skip

    def given(self, known: KnownSites) -> DiffusionSampler:
        raise serves_no_evidence("self-normalized or unbiased")

    @property
    def step(self) -> Step:
        return self.choice.make(self.target)

    def schedule(self, calls: int | None = None) -> Schedule:
        calls = check_integer("calls", self.num_calls if calls is None else calls)
        grid = uniform_grid(self.noise, max(1, round(calls / self.choice.calls)))
        return parallel(self.target.num_sites, grid)

    @torch.no_grad()
    def score_pairs(self, seed: int) -> ScorePairs:
        """Log-scores at states noised to times spread evenly over the model's own schedule."""
        noise, target = self.noise, self.target
        x_0 = exact.draw(target, NUM_NOISED, seed=seed).x.long()
        times = self.schedule().times[:-1, 0]
        t = times[torch.linspace(0, len(times) - 1, NUM_NOISED).long()]
        t = t[:, None].expand(x_0.shape)
        x_t = noise.draw(x_0, t, generator=make_generator(seed, "scores"))
        learned = noise.log_score_from_denoiser(self.denoiser(x_t, t).double(), x_t, t)
        truth = exact.score(target, noise, x_t, t)
        moves = x_t[..., None] != torch.arange(target.num_values)
        return learned[moves], truth[moves]
