"""TCSIS without learning: the reverse process with an estimate where a network would stand.

``reverse_sampler`` runs the reverse loop on any estimate of the denoiser.  What randomness the
estimate has is drawn from the past of the path alone, so the path weights stay exact: E[w] = Z.
A fresh estimate at every step forgets what the last one found; ``carried_walkers`` keep posterior
walkers from step to step, where they are nearly equilibrated for the next time already.

``JointSampler`` draws all sites of x_0 at once, from the posterior given x_t, and then x_s from the
bridge between the two, so that no step assumes sites to be independent:

    x_0 ~ p(· | x_t)   by sweeps from the x_0 of the step before,      x_s ~ p(· | x_t, x_0).

Both leave p(x_0)·k_t(x_t | x_0) what it is.  At t = 1 the posterior is p itself, so the first x_0
comes from annealing, with its weight, and that weight stays valid: E[w·f(x)] = Z·E_p[f].
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tcsis import identity, mcmc, reverse
from tcsis.basics.checks import check_counts, make_generator
from tcsis.draws import Draws
from tcsis.identity.paths import FromKernel
from tcsis.identity.walkers import Walkers, climb, mean_conditionals, resample
from tcsis.mcmc.posterior import sweep_walkers
from tcsis.noise import UniformNoise
from tcsis.reverse import schedules
from tcsis.reverse.calls import Answer, Carrier, Denoiser, State
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Step, tweedie
from tcsis.targets.base import Target, counting
from tcsis.targets.transformed import Tilted

Estimator = Callable[[Target, UniformNoise, torch.Generator], Denoiser]
"""Makes a denoiser that draws from the generator."""

BATCH_SIZE = 2_048


def fresh(estimate: Callable[..., Tensor], **settings: Any) -> Estimator:
    """An estimate of ``tcsis.identity`` made anew at every step."""

    def start(target: Target, noise: UniformNoise, generator: torch.Generator) -> Denoiser:
        return lambda x_t, t: estimate(target, noise, x_t, t, generator=generator, **settings)

    return start


@dataclass(frozen=True)
class CarriedWalkers(Carrier):
    """A denoiser with ``num_walkers`` posterior walkers x_0 for every path.

    Without an answer before they are annealed.  From one on, they are weighed by
    k_s(x_s | x_0)/k_t(x_t | x_0), which turns the old posterior into the new, resampled where the
    weights have become uneven, and swept; the denoiser is the weighted mean of their conditionals.
    Their state is x_0 (b, k, d) and their log weights (b, k).
    """

    target: Target
    noise: UniformNoise
    generator: torch.Generator
    num_walkers: int
    num_rungs: int
    num_sweeps: int

    def follow(self, x: Tensor, t: Tensor, before: Answer | None) -> tuple[Tensor, State]:
        fields = self.noise.log_kernel(x, t).to(self.target.dtype)[:, None]
        walkers = self.anneal(x, t, fields) if before is None else self.carry(x, t, before)
        x_0 = sweep_walkers(self.target, fields, walkers.x_0, self.num_sweeps, self.generator)
        log_d = mean_conditionals(Tilted(self.target, fields), x_0, walkers.log_weight)
        return log_d, (x_0, walkers.log_weight)

    def anneal(self, x_t: Tensor, t: Tensor, fields: Tensor) -> Walkers:
        """Walkers from the kernel to the posterior, (b, k, d)."""
        wide = (len(x_t), self.num_walkers, self.target.num_sites)
        x_0 = self.noise.draw(
            x_t[:, None].expand(wide), t[:, None].expand(wide), generator=self.generator
        )
        return climb(self.target, x_t, FromKernel(fields), x_0, self.num_rungs, 1, self.generator)

    def carry(self, x_s: Tensor, s: Tensor, before: Answer) -> Walkers:
        """The walkers of the answer before, reweighted and resampled for the posterior at x_s."""
        x_0, log_weight = before.state
        t = before.t.expand(x_s.shape)
        gain = self.log_likelihood(x_s, x_0, s) - self.log_likelihood(before.x, x_0, t)
        log_weight = log_weight + gain
        # a path may take a value that none of its walkers holds: they are put there, and sweep
        lost = log_weight.isneginf().all(1)
        log_weight = log_weight.masked_fill(lost[:, None], 0.0)
        taken = torch.zeros_like(log_weight[:, 0])
        walkers = resample(Walkers(x_0, log_weight, taken), self.generator)
        # so is what is left without weight, to stand where sweeps can move it
        put = torch.where((s == 0)[:, None], x_s[:, None], walkers.x_0)
        return replace(walkers, x_0=put)

    def log_likelihood(self, x: Tensor, x_0: Tensor, t: Tensor) -> Tensor:
        """log k_t(x | x_0) of every walker, (b, d) and (b, k, d) -> (b, k)."""
        wide = x_0.shape
        return self.noise.log_prob(x[:, None].expand(wide), x_0, t[:, None].expand(wide)).double()


def carried_walkers(num_walkers: int = 16, num_rungs: int = 100, num_sweeps: int = 2) -> Estimator:
    """The estimate that carries its walkers along; costs num_walkers·num_sweeps sweeps a step."""
    check_counts(num_walkers=num_walkers, num_rungs=num_rungs, num_sweeps=num_sweeps)

    def start(target: Target, noise: UniformNoise, generator: torch.Generator) -> Denoiser:
        return CarriedWalkers(target, noise, generator, num_walkers, num_rungs, num_sweeps)

    return start


@dataclass(frozen=True)
class ReverseSampler:
    """The reverse loop with an estimate as denoiser; see ``learning_free``."""

    target: Target
    estimator: Estimator
    noise: UniformNoise

    def sample(
        self,
        n: int,
        *,
        schedule: Schedule | None = None,
        step: Step = tweedie,
        seed: int = 0,
        batch_size: int = BATCH_SIZE,
    ) -> Draws:
        """n draws with exact path weights.  The default schedule takes sites one by one, and the
        last colour class, where there is one, exactly from the target."""
        check_counts(n=n, batch_size=batch_size)
        free = self.target.free
        if schedule is None:
            schedule = default_schedule(free)
        generator = make_generator(seed, "reverse", free.device)
        draws = reverse.sample(
            free, self.estimator(free, self.noise, generator), self.noise,
            schedule, step, n, generator=generator, batch_size=batch_size,
        )  # fmt: skip
        return draws.completed(self.target)


@dataclass(frozen=True)
class JointSampler:
    """One joint posterior draw a step; see the head of this module.

    ``num_rungs`` sweeps of annealing make the first x_0, then ``num_steps`` steps uniform in α
    with ``num_sweeps`` posterior sweeps each.
    """

    target: Target
    noise: UniformNoise
    num_rungs: int = 500
    num_steps: int = 32
    num_sweeps: int = 4

    def __post_init__(self) -> None:
        check_counts(num_rungs=self.num_rungs, num_steps=self.num_steps, num_sweeps=self.num_sweeps)

    @torch.no_grad()
    def sample(self, n: int, *, seed: int = 0) -> Draws:
        """n independent draws with log_weight from the annealing."""
        check_counts(n=n)
        begin = time.perf_counter()
        free = self.target.free
        generator = make_generator(seed, "reverse", free.device)
        with counting(free) as cost:
            first = mcmc.annealed_importance_sampling(
                free, num_chains=n, num_rungs=self.num_rungs, seed=seed
            )
            x_0 = first.x.long().to(free.device)
            x_t = torch.randint(free.num_values, x_0.shape, device=x_0.device, generator=generator)
            grid = torch.linspace(0, 1, self.num_steps + 1, dtype=torch.float64)
            times = self.noise.schedule.time(grid.to(x_0.device)).clamp(0, 1)
            for t, s in pairwise(times):
                fields = self.noise.log_kernel(x_t, t)
                x_0 = sweep_walkers(free, fields, x_0, self.num_sweeps, generator)
                x_t = self.noise.draw_bridge(x_t, x_0, s, t, generator=generator)
        draws = replace(
            first, x=x_t.cpu().to(torch.uint8), seconds=time.perf_counter() - begin,
            num_density_calls=cost.densities,
        )  # fmt: skip
        return draws.completed(self.target)


ESTIMATORS: dict[str, Estimator] = {
    "marginalised": fresh(identity.marginalised, num_samples=256),
    "coloured": fresh(identity.coloured, num_samples=256),
    "annealed": fresh(identity.annealed, num_chains=16, num_rungs=16),
    "walkers": carried_walkers(),
}


def learning_free(
    target: Target,
    estimator: str | Estimator = "joint",
    *,
    noise: UniformNoise | None = None,
    **settings: int,
) -> ReverseSampler | JointSampler:
    """A sampler that learns nothing: ``learning_free(target).sample(10_000, seed=0)``.

    ``estimator`` is "joint" (one joint posterior draw a step; ``settings`` are those of
    ``JointSampler``), a name of ``ESTIMATORS``, or what ``fresh`` and ``carried_walkers`` make.
    """
    noise = noise or UniformNoise(target.num_values)
    if estimator == "joint":
        return JointSampler(target, noise, **settings)
    if settings:
        raise ValueError(f"settings {', '.join(settings)} belong to the joint sampler alone")
    if isinstance(estimator, str):
        if estimator not in ESTIMATORS:
            names = ", ".join(["joint", *ESTIMATORS])
            raise ValueError(f"estimator is {estimator!r}: expected one of {names}")
        estimator = ESTIMATORS[estimator]
    return ReverseSampler(target, estimator, noise)


def default_schedule(target: Target) -> Schedule:
    if target.colouring is not None:
        return schedules.coloured(target)
    return schedules.sequential(range(target.num_sites))
