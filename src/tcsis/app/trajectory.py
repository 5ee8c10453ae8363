"""What a trained model does on the way, for the eye: one path from noise, and its scores."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tcsis import reverse
from tcsis.basics.checks import make_generator
from tcsis.learn.learned import Learned
from tcsis.learn.method import ScorePairs
from tcsis.noise import UniformNoise
from tcsis.reverse.calls import Answer, Calls
from tcsis.reverse.steps import Generator, Move, Step
from tcsis.targets.base import Target

MAX_ENUMERATED = 2**16
"""States of a target whose scores are still enumerated in seconds."""

Frame = tuple[Tensor, Tensor]
"""Times () or (d,), and tokens (d,)."""


@dataclass
class Filmed:
    """A step that keeps what the first path looks like after it."""

    step: Step
    frames: list[Frame] = field(default_factory=list)

    def reverse(
        self, calls: Calls, noise: UniformNoise, at_t: Answer, s: Tensor, generator: Generator
    ) -> Move:
        if not self.frames:
            self.keep(at_t.t, at_t.x)
        move = self.step.reverse(calls, noise, at_t, s, generator)
        self.keep(s, move.x)
        return move

    def forward(
        self, calls: Calls, noise: UniformNoise, x_s: Tensor, at_s: Answer | None,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Move:  # fmt: skip
        return self.step.forward(calls, noise, x_s, at_s, t, s, generator)

    def keep(self, times: Tensor, x: Tensor) -> None:
        self.frames.append((times[0].cpu(), x[0].cpu()))


def film(model: Learned, seed: int = 0) -> list[Frame]:
    """One reverse trajectory of the model, noise first and the finished draw last; what is known
    is there from the start."""
    sampler, schedule, target = model.sampler, model.schedule(), model.target
    step = Filmed(sampler.step)
    draws = reverse.sample(
        sampler.target, sampler.denoiser, sampler.noise, schedule, step, 1,
        generator=make_generator(seed, "film", target.device),
    )  # fmt: skip
    if schedule.last is not None:
        step.frames.append((torch.zeros(schedule.num_sites), draws.x[0].cpu().long()))
    shared = all(bool((times == times[0]).all()) for times, _ in step.frames)
    return [
        (times[0] if shared else at_free_sites(times, target), target.complete(x))
        for times, x in step.frames
    ]


def at_free_sites(times: Tensor, target: Target) -> Tensor:
    """Times of all sites from those of the free ones, (d_free,) -> (d,); known ones are at 0."""
    return times.new_zeros(target.num_sites).index_copy(0, target.free_sites, times)


def score_pairs(model: Learned, seed: int = 0) -> ScorePairs | None:
    """What the model learned beside the truth; None where states cannot be enumerated."""
    target = model.sampler.target
    if target.num_values**target.num_sites > MAX_ENUMERATED or target.device.type != "cpu":
        return None
    return model.sampler.score_pairs(seed)
