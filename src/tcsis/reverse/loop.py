"""The reverse loop: from noise to draws of the target, each with its path weight.

    log w = log p̄(x_end) + Σ log k(x_t|x_s) - log U(x_start) - Σ log p_θ(x_s|x_t)

E[w] = Z exactly, whatever the denoiser, the schedule and the step, for the sum of w times its
probability over all paths is Z times the total probability of the noise process run from p.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tcsis.draws import Draws, effective_share, systematic_resample
from tcsis.mcmc.kernel import Kernel
from tcsis.noise import UniformNoise, draw_categorical
from tcsis.reverse.calls import Calls
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Denoiser, Generator, Step, at, through_kernel, tweedie
from tcsis.targets.base import Target, counting

Corrector = Callable[[Target, Tensor, Generator], Tensor]
Guess = Callable[[Denoiser, UniformNoise, "Walk", Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Walk:
    """Draws on their way: ``x`` (b, d), ``log_weight`` (b,), the weight so far without any density,
    and ``log_guess`` (b,), what it would be with the marginal density of x at its time."""

    x: Tensor
    log_weight: Tensor
    log_guess: Tensor


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
    corrector: Corrector | None = None,
    resample: Resampling | None = None,
) -> Draws:
    """n draws with their path weights, counting every denoiser and density evaluation.

    ``corrector`` moves the finished draws by a kernel that leaves p invariant.  Their weights stay
    what they are: E[w·f(x)] = Z·E_p[f] for every f, so also for the mean of f after the kernel.
    ``resample`` lets good paths multiply on the way; E[w] = Z still holds for the mean over a
    batch, but draws of one batch are then no longer independent.
    """
    check_sizes(target, noise, schedule, n, batch_size)
    if generator is None:
        generator = torch.Generator(target.device)
        generator.manual_seed(0 if seed is None else seed)
    calls = Calls(denoiser, noise.num_values)
    begin = time.perf_counter()
    sizes = [len(part) for part in torch.arange(n).split(batch_size or n)]
    with counting(target) as cost, torch.no_grad():
        walks = [
            run(target, calls, noise, schedule, step, size, generator, corrector, resample)
            for size in sizes
        ]
    return Draws(
        x=torch.cat([x for x, _ in walks]).to(torch.uint8),
        log_weight=torch.cat([log_weight for _, log_weight in walks]),
        seconds=time.perf_counter() - begin,
        num_density_calls=cost.densities,
        num_network_calls=calls.count,
    )


def run(
    target: Target, denoiser: Denoiser, noise: UniformNoise, schedule: Schedule, step: Step, n: int,
    generator: Generator, corrector: Corrector | None, resample: Resampling | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One batch: states (n, d) and log weights (n,)."""
    v, d = noise.num_values, target.num_sites
    x = torch.randint(v, (n, d), device=target.device, generator=generator)
    nothing = torch.zeros(n, dtype=torch.float64, device=target.device)
    walk = Walk(x, nothing + d * math.log(v), nothing)
    times = schedule.times.to(target.device)
    for t, s in pairwise(times[:, None]):  # (1, d) each
        x_s, log_ratio = step.reverse(denoiser, noise, walk.x, t, s, generator)
        log_weight = walk.log_weight + log_ratio
        if resample is None:
            walk = Walk(x_s, log_weight, nothing)
        else:
            walk = resample(denoiser, noise, walk, Walk(x_s, log_weight, nothing), t, s, generator)
    x, log_weight = walk.x, walk.log_weight
    if schedule.last is not None:
        x, log_ratio = draw_class(target, noise, x, times[-1], schedule.last, generator)
        log_weight = log_weight + log_ratio
    log_weight = log_weight + end_density(target, x)
    return (x if corrector is None else corrector(target, x, generator)), log_weight


# -- the last colour class -----------------------------------------------------------------------


def draw_class(
    target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, sites: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Sites of one colour class from t to 0 given all others, exactly: x_0 and its log ratio."""
    log_p = class_law(target, noise, x_t, t, sites)
    x_0 = x_t.index_copy(1, sites, draw_categorical(log_p, generator=generator))
    return x_0, class_log_ratio(noise, log_p, x_t, x_0, t, sites)


def class_law(target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, sites: Tensor) -> Tensor:
    """log p(x_0^i = v | all known sites, x_t^i), (b, k, v): the target's conditional times the
    likelihood of the noisy value, which says nothing at α = 0."""
    ratios = target.log_ratios(x_t).double()
    check_states("the log ratios of the target are", x_t, ratios.flatten(1))
    return (ratios + noise.log_kernel(x_t, t.expand(x_t.shape)))[:, sites].log_softmax(-1)


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


# -- corrector and resampling --------------------------------------------------------------------


def mcmc_corrector(kernel: Kernel, num_steps: int) -> Corrector:
    """A corrector that makes ``num_steps`` steps of an MCMC kernel on the target."""

    def correct(target: Target, x: Tensor, generator: Generator) -> Tensor:
        state = kernel.init(target, x)
        for _ in range(num_steps):
            state, _ = kernel.step(target, state, generator)
        return state.x

    return correct


@dataclass(frozen=True)
class Resampling:
    """Systematic resampling whenever the guessed weights leave fewer than ``threshold``·n draws.

    ``guess`` says what the weight so far is worth.  Survivors get the mean of the guesses, and
    carry on what their own weight is beyond its guess, so no guess can harm E[w] = Z.
    """

    guess: Guess
    threshold: float = 0.5

    def __call__(
        self, denoiser: Denoiser, noise: UniformNoise, before: Walk, after: Walk,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Walk:  # fmt: skip
        log_guess = self.guess(denoiser, noise, before, after.x, t, s, after.log_weight)
        n = len(log_guess)
        if effective_share(log_guess) >= self.threshold:
            return Walk(after.x, after.log_weight, log_guess)
        chosen = systematic_resample(log_guess, generator)
        level = log_guess.logsumexp(0) - math.log(n)
        beyond = (after.log_weight - log_guess)[chosen]
        return Walk(after.x[chosen], level + beyond, level.expand(n))


def by_marginal(log_marginal: Callable[[Tensor, Tensor], Tensor]) -> Guess:
    """Weigh by an estimate of log p_t(x_t), (b, d) and (b, d) -> (b,), up to a constant in x."""

    def guess(
        denoiser: Denoiser, noise: UniformNoise, before: Walk, x_s: Tensor, t: Tensor, s: Tensor,
        log_weight: Tensor,
    ) -> Tensor:  # fmt: skip
        return log_weight + log_marginal(x_s, s.expand(x_s.shape))

    return guess


def by_scores(
    denoiser: Denoiser, noise: UniformNoise, before: Walk, x_s: Tensor, t: Tensor, s: Tensor,
    log_weight: Tensor,
) -> Tensor:  # fmt: skip
    """Weigh by the denoiser alone, which the next step calls anyway.

    A step's weight is log p_s(x_s)/p_s(x_t) along the sites that moved, less what Tweedie took it
    for at x_t.  The trapezoidal rule takes the mean of both ends for the truth:
    ½·Σ_moved [log-score at x_s - log-score at x_t].  Sites already known (s = 0) are left out.
    """

    def log_score(x: Tensor, tau: Tensor) -> Tensor:
        cavity = denoiser(x, tau) - noise.log_kernel(x, tau)
        score = through_kernel(noise, cavity, noise.alpha(x, s))
        change = score.gather(-1, x_s[..., None]) - score.gather(-1, before.x[..., None])
        return change.squeeze(-1)

    moved = (x_s != before.x) & (s > 0)
    at_t = log_score(before.x, t)  # first, while its denoiser call is remembered
    gain = torch.where(moved, log_score(x_s, s) - at_t, 0.0)
    return before.log_guess + 0.5 * gain.sum(-1)


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
