"""What a trained model does on the way, for the eye: one path from noise, and its scores."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tcsis import exact, reverse
from tcsis.basics.checks import make_generator
from tcsis.learn.assemble import make_noise
from tcsis.learn.learned import Learned
from tcsis.learn.models.sequential import Sequential
from tcsis.noise import UniformNoise
from tcsis.reverse.steps import Denoiser, Generator, Step, tweedie

NUM_NOISED, NUM_PREFIXES = 64, 256
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
        self, denoiser: Denoiser, noise: UniformNoise, x_t: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if not self.frames:
            self.keep(t, x_t)
        x_s, log_ratio = self.step.reverse(denoiser, noise, x_t, t, s, generator)
        self.keep(s, x_s)
        return x_s, log_ratio

    def forward(
        self, denoiser: Denoiser, noise: UniformNoise, x_s: Tensor, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return self.step.forward(denoiser, noise, x_s, t, s, generator)

    def keep(self, times: Tensor, x: Tensor) -> None:
        self.frames.append((times[0].cpu(), x[0].cpu()))


def film(model: Learned, seed: int = 0) -> list[Frame]:
    """One reverse trajectory of the model, noise first and the finished draw last."""
    sequential = isinstance(model.module, Sequential)
    step = Filmed(tweedie if sequential else model.step())
    draws = reverse.sample(
        model.target, model.denoiser, make_noise(model.config, model.target), model.schedule(),
        step, 1, generator=make_generator(seed, "film", model.target.device),
    )  # fmt: skip
    if model.schedule().last is not None:
        step.frames.append((torch.zeros(model.target.num_sites), draws.x[0].cpu().long()))
    shared = all(bool((times == times[0]).all()) for times, _ in step.frames)
    return [(times[0], x) for times, x in step.frames] if shared else step.frames


def score_pairs(model: Learned, seed: int = 0) -> tuple[Tensor, Tensor] | None:
    """Learned and exact log-scores of the same moves; None where states cannot be enumerated.

    A sequential model has no score at the times of others.  What it learns is the law of the next
    site given the known ones, so for it the log-odds of that law take the place of scores.
    """
    target = model.target
    if target.num_values**target.num_sites > MAX_ENUMERATED or target.device.type != "cpu":
        return None
    if isinstance(model.module, Sequential):
        return next_site_pairs(model, model.module, seed)
    return noised_pairs(model, seed)


@torch.no_grad()
def noised_pairs(model: Learned, seed: int) -> tuple[Tensor, Tensor]:
    """At states noised to times spread evenly over the model's own schedule."""
    noise, target = make_noise(model.config, model.target), model.target
    generator = make_generator(seed, "scores")
    x_0 = exact.draw(target, NUM_NOISED, seed=seed).x.long()
    times = model.schedule().times[:-1, 0]
    t = times[torch.linspace(0, len(times) - 1, NUM_NOISED).long()]
    t = t[:, None].expand(x_0.shape)
    x_t = noise.draw(x_0, t, generator=generator)
    learned = noise.log_score_from_denoiser(model.denoiser(x_t, t).double(), x_t, t)
    truth = exact.score(target, noise, x_t, t)
    moves = x_t[..., None] != torch.arange(target.num_values)
    return learned[moves], truth[moves]


@torch.no_grad()
def next_site_pairs(model: Learned, module: Sequential, seed: int) -> tuple[Tensor, Tensor]:
    """log p(x_k = v | x_<k) - log p(x_k = 0 | x_<k) at prefixes of exact draws, v above 0."""
    target = model.target
    noise, table = make_noise(model.config, target), exact.Enumeration(target)
    order, times = module.order, module.schedule.times
    x = exact.draw(target, NUM_PREFIXES, seed=seed).x.long()
    learned, truth = [], []
    for k, rows in enumerate(torch.arange(NUM_PREFIXES).tensor_split(len(order))):
        if not len(rows):
            continue
        log_q = module.next_site(x[rows][:, order[:k]]).double()
        t = times[k].expand(len(rows), -1)
        log_p = table.denoiser(noise, x[rows], t)[:, order[k]]
        learned.append(log_q[:, 1:] - log_q[:, :1])
        truth.append(log_p[:, 1:] - log_p[:, :1])
    return torch.cat(learned), torch.cat(truth)
