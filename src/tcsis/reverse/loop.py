"""The reverse loop: from noise to draws of the target, each with its path weight.

    log w = log p̄(x_end) + Σ log k(x_t|x_s) - log U(x_start) - Σ log p_θ(x_s|x_t)

E[w] = Z exactly, whatever the denoiser, the schedule and the step, for the sum of w times its
probability over all paths is Z times the total probability of the noise process run from p.
"""

from __future__ import annotations

import math
import time
from itertools import pairwise

import torch
from torch import Tensor

from tcsis.draws import Draws
from tcsis.noise import UniformNoise, draw_categorical
from tcsis.reverse.calls import Answer, Calls, Denoiser
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Generator, Step, at, tweedie
from tcsis.targets.base import Target, counting


def sample(
    target: Target,
    denoiser: Denoiser,
    noise: UniformNoise,
    schedule: Schedule,
    step: Step = tweedie,
    n: int = 1,
    *,
    seed: int | None = None,
    generator: Generator = None,
    batch_size: int | None = None,
) -> Draws:
    """n draws with their path weights, counting every denoiser and density evaluation."""
    check_sizes(target, noise, schedule, n, batch_size)
    if generator is None:
        generator = torch.Generator(target.device)
        generator.manual_seed(0 if seed is None else seed)
    calls = Calls(denoiser, noise.num_values)
    begin = time.perf_counter()
    sizes = [len(part) for part in torch.arange(n).split(batch_size or n)]
    with counting(target) as cost, torch.no_grad():
        walks = [run(target, calls, noise, schedule, step, size, generator) for size in sizes]
    return Draws(
        x=torch.cat([x for x, _ in walks]).to(torch.uint8),
        log_weight=torch.cat([log_weight for _, log_weight in walks]),
        seconds=time.perf_counter() - begin,
        num_density_calls=cost.densities,
        num_network_calls=calls.count,
    )


def run(
    target: Target, calls: Calls, noise: UniformNoise, schedule: Schedule, step: Step, n: int,
    generator: Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One batch: states (n, d) and log weights (n,)."""
    v, d = noise.num_values, target.num_sites
    x = torch.randint(v, (n, d), device=target.device, generator=generator)
    log_weight = torch.full((n,), d * math.log(v), dtype=torch.float64, device=target.device)
    times = schedule.times.to(target.device)
    at_t: Answer | None = None
    answer: Answer | None = None
    for t, s in pairwise(times[:, None]):  # (1, d) each
        at_t = calls.ask(x, t, at_t) if answer is None else answer
        move = step.reverse(calls, noise, at_t, s, generator)
        x, log_weight, answer = move.x, log_weight + move.log_ratio, move.answer
    if schedule.last is not None:
        x, log_ratio = draw_class(target, noise, x, times[-1], schedule.last, generator)
        log_weight = log_weight + log_ratio
    return x, log_weight + end_density(target, x)


# -- the last colour class -----------------------------------------------------------------------


def draw_class(
    target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, sites: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Sites of one colour class from t to 0 given all others: x_0 and its log ratio."""
    log_p = class_law(target, noise, x_t, t, sites)
    x_0 = x_t.index_copy(1, sites, draw_categorical(log_p, generator=generator))
    return x_0, class_log_ratio(noise, log_p, x_t, x_0, t, sites)


def class_law(target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, sites: Tensor) -> Tensor:
    """log p(x_0^i = v | all known sites, x_t^i), (b, k, v): the target's conditional times the
    likelihood of the noisy value, which says nothing at α = 0.  Where the target is sketched the
    sketch gives it: a law like any other, with weights to match."""
    kernel = noise.log_kernel(x_t, t.expand(x_t.shape))[:, sites]
    log_p = (class_terms(target.sketch, x_t, sites) + kernel).log_softmax(-1)
    # where the target forbids all values any law will do: the draw has no weight
    return log_p.where(~log_p.isnan().any(-1, keepdim=True), -math.log(noise.num_values))


def class_terms(target: Target, x: Tensor, sites: Tensor) -> Tensor:
    """``Target.class_terms``, once they are known to be numbers, or -inf for what is forbidden."""
    terms = target.class_terms(x, sites)
    unforbidden = terms.where(~terms.isneginf(), 0.0)
    check_states("the log ratios of the target are", x, unforbidden.flatten(1))
    return terms


def class_log_ratio(
    noise: UniformNoise, log_p: Tensor, x_t: Tensor, x_0: Tensor, t: Tensor, sites: Tensor
) -> Tensor:
    kernel = noise.log_prob(x_t[:, sites], x_0[:, sites], t[sites].expand(len(x_t), -1))
    return kernel - at(log_p, x_0[:, sites])


def end_density(target: Target, x: Tensor) -> Tensor:
    """log p̄ of finished draws, (b,); a forbidden state is a draw of weight zero."""
    log_density = target.log_density(x).double()
    unforbidden = log_density.where(~log_density.isneginf(), 0.0)
    check_states("the log density of the target is", x, unforbidden[:, None])
    return log_density


def check_states(what: str, x: Tensor, values: Tensor) -> None:
    """Refuse values (b, ...) that are not finite, naming the first state that has one."""
    bad = (~values.isfinite()).any(-1).nonzero()
    if len(bad):
        row = int(bad[0])
        value = values[row][~values[row].isfinite()][0]
        raise ValueError(f"{what} {value} at the state {x[row].tolist()}: expected finite numbers")


# -- checks ---------------------------------------------------------------------------------------


def check_sizes(
    target: Target, noise: UniformNoise, schedule: Schedule, n: int, batch_size: int | None
) -> None:
    if schedule.num_sites != target.num_sites:
        raise ValueError(
            f"schedule has {schedule.num_sites} sites and the target {target.num_sites}: "
            "expected the same"
        )
    if noise.num_values != target.num_values:
        raise ValueError(
            f"noise has {noise.num_values} values and the target {target.num_values}: "
            "expected the same"
        )
    if n < 1:
        raise ValueError(f"n is {n}: expected at least 1")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: expected at least 1")
