"""Training of LEAPS: walkers near ρ_t, and the loss E[(K_t(x) - f(t))²] on them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from tcsis.basics.checks import make_generator
from tcsis.draws import Draws
from tcsis.learn.descent import DivergedError, move_average, rate_share
from tcsis.mcmc.gibbs import SweepGibbs
from tcsis.mcmc.kernel import State
from tcsis.peers.leaps.model import LeapsConfig, default_calls, make_model
from tcsis.peers.leaps.path import Rates, jump, look, noise, sample
from tcsis.targets.base import Target

FIRST_SWEEPS = 30
"""Of Gibbs moves that bring the first walkers from noise to their own times."""
RENEWED = 4
"""A refresh renews one walker in so many."""
WARMUP = 99
EMA = 0.999
MAX_NORM = 5.0
WEIGHT_DECAY = 1e-4
FINAL = 0.02
"""Share of the learning rate that is left at the end."""


class Walkers:
    """States x (n, d) with times t (n,), each near its own ρ_t."""

    def __init__(self, target: Target, config: LeapsConfig, generator: torch.Generator) -> None:
        self.target, self.config, self.generator = target, config, generator
        n = config.num_walkers
        self.x = noise(target, n, generator)
        refuse_forbidden_noise(target, self.x)
        self.t = torch.rand(n, dtype=target.dtype, device=target.device, generator=generator)
        for share in torch.linspace(0, 1, FIRST_SWEEPS).tolist():
            self.x = sweep(target, self.x, share * self.t, generator)
        self.oldest = 0

    def renew(self, rates: Rates) -> None:
        """Trajectories of the present model in place of the oldest walkers, then sweeps of all."""
        n, num_times = len(self.x), self.config.num_times
        num_paths = max(1, n // RENEWED // num_times)
        paths = trajectories(rates, self.target, num_paths, num_times, self.generator)
        x, t = (part[-n:] for part in paths)
        places = (self.oldest + torch.arange(len(x), device=x.device)) % n
        self.x[places], self.t[places] = x, t
        self.oldest = (self.oldest + len(x)) % n
        for _ in range(self.config.num_sweeps):
            self.x = sweep(self.target, self.x, self.t, self.generator)

    def choose(self) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(
            len(self.x), (self.config.batch_size,), device=self.x.device, generator=self.generator
        )
        return self.x[chosen], self.t[chosen]


def sweep(target: Target, x: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
    """One sweep of Gibbs moves that leave every state's own ρ_t invariant."""
    state, _ = SweepGibbs().step(target.scaled(t), State(x), generator)
    return state.x


@torch.no_grad()
def trajectories(
    rates: Rates, target: Target, num_paths: int, num_times: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """All points of paths, (num_paths·num_times, d) and their times.

    The grid of each path is shifted at random, so that together they meet all times alike.
    """
    x = noise(target, num_paths, generator)
    t = torch.zeros(num_paths, dtype=target.dtype, device=target.device)
    shift = torch.rand(t.shape, dtype=t.dtype, device=t.device, generator=generator)
    states, times = [], []
    for number in range(num_times):
        s = (number + shift) / num_times
        x, t = jump(look(rates, target, x, t), s - t, generator), s
        states.append(x)
        times.append(t)
    return torch.cat(states), torch.cat(times)


def refuse_forbidden_noise(target: Target, x: Tensor) -> None:
    if bool(target.log_density(x).isneginf().any()):
        raise ValueError(
            f"{target} has log density -inf at states of uniform noise, where LEAPS starts: "
            "expected a target without forbidden states"
        )


class Run:
    """The state of a training run, and its loop."""

    def __init__(
        self, target: Target, config: LeapsConfig, seed: int, time_budget: float | None
    ) -> None:
        self.target, self.config, self.seed = target, config, seed
        self.time_budget = time_budget or math.inf
        self.model = make_model(config, target, seed)
        self.average = deepcopy(self.model).eval().requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), weight_decay=WEIGHT_DECAY, fused=True
        )
        self.generator = make_generator(seed, "training", target.device)
        self.step, self.seconds, self.last_loss = 0, 0.0, math.nan
        self.history: list[dict[str, float]] = []

    def steps(self) -> Iterator[int]:
        """Train to the end, yielding after every step."""
        began = time.perf_counter()
        walkers = Walkers(self.target, self.config, self.generator)
        self.calibrate(walkers)
        while self.progress < 1:
            if self.step % self.config.refresh_every == 0 and self.step:
                walkers.renew(self.model.rates)
            self.make_step(*walkers.choose())
            self.seconds = time.perf_counter() - began
            if self.due():
                self.evaluate()
                self.seconds = time.perf_counter() - began
            yield self.step

    @torch.no_grad()
    def calibrate(self, walkers: Walkers) -> None:
        """Start f from the mean of K under the rates before training, which is right for any."""
        point = look(self.model.rates, self.target, walkers.x, walkers.t)
        self.model.slope.fit(walkers.t, point.slope)
        self.average.load_state_dict(self.model.state_dict())

    def make_step(self, x: Tensor, t: Tensor) -> None:
        """One batch; the straight line of the method."""
        gap = look(self.model.rates, self.target, x, t).slope - self.model.slope(t)
        loss = gap.square().mean()
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.last_loss = float(loss.detach())
        if not math.isfinite(self.last_loss) or not bool(norm.isfinite()):
            raise DivergedError(
                f"the loss is {self.last_loss} at step {self.step}: lower learning_rate (now "
                f"{self.config.learning_rate:.2g}) or check the density"
            )
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate()
        self.optimiser.step()
        self.step += 1
        move_average(self.average, self.model, self.step, EMA)

    @property
    def progress(self) -> float:
        """From 0 to 1, by steps or by the clock."""
        return max(self.step / self.config.num_steps, self.seconds / self.time_budget)

    def learning_rate(self) -> float:
        return self.config.learning_rate * rate_share(self.step, self.progress, WARMUP, FINAL)

    def due(self) -> bool:
        """Evaluations are spread evenly over training, and the last comes at the end."""
        return int(min(1.0, self.progress) * self.config.num_evaluations) > len(self.history)

    def evaluate(self) -> None:
        """A record of how good the averaged model is."""
        generator = make_generator(self.seed, "evaluation", self.target.device)
        x, log_weight = sample(
            self.average.rates, self.target, self.config.num_evaluated,
            self.config.num_calls or default_calls(self.target), generator=generator,
        )  # fmt: skip
        draws = Draws(x, log_weight)
        record = {
            "step": self.step, "seconds": round(self.seconds, 3), "loss": self.last_loss,
            "learning_rate": self.learning_rate(), "ess": draws.ess, "elbo": draws.elbo,
        }  # fmt: skip
        self.history.append({k: x for k, x in record.items() if x is not None and math.isfinite(x)})
