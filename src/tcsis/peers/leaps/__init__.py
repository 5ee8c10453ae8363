"""LEAPS (Holderrieth, Albergo & Jaakkola, 2025), from the mathematics of the paper.

A continuous-time Markov chain is trained to carry uniform noise to the target along
log ρ̄_t = t·log p̄, and every draw has a weight.  ``path`` has the mathematics, ``model``
the networks and ``training`` the training.

    model = leaps.train(target, time_budget=60)
    draws = model.sample(10_000, seed=1)
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tcsis.basics.checks import check_counts, check_integer, make_generator
from tcsis.basics.frozen import parse
from tcsis.basics.locks import sole_writer
from tcsis.basics.progress import progress_bar
from tcsis.draws import Draws
from tcsis.learn import checkpoint
from tcsis.learn.budgets import new_budget
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.learned import load_weights, matching_target, tensors_of
from tcsis.learn.trainer import said
from tcsis.peers.leaps.model import LeapsConfig, LeapsModel, default_calls, make_model
from tcsis.peers.leaps.path import (
    Weigh,
    continuous_weights,
    discrete_weights,
    log_volume,
    sample,
)
from tcsis.peers.leaps.training import Run
from tcsis.targets.base import Target, counting

__all__ = ["Leaps", "LeapsConfig", "continuous_weights", "discrete_weights", "load", "train"]

NUM_INTEGRATED = 1_001
"""Times at which the slope of log Z_t is evaluated for its integral."""


def train(
    target: Target,
    *,
    config: LeapsConfig | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
) -> Leaps:
    """Train LEAPS for ``target``, until ``steps`` steps or ``time_budget`` seconds are over."""
    config = config or LeapsConfig()
    if steps is not None:
        config = config.model_copy(update={"num_steps": check_integer("steps", steps)})
    run = Run(target.free, config, seed, new_budget(time_budget))
    with counting(target) as cost, progress_bar("training", 1.0, progress) as show:
        for _ in run.steps():
            show(run.progress, said(run.last_loss, run.history))
    return Leaps(target, config, run.average, run.history, run.seconds, cost.densities)


@dataclass
class Leaps:
    """A trained model with its target; ``history`` holds a record of every evaluation."""

    target: Target
    config: LeapsConfig
    module: LeapsModel
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    num_density_calls: float = 0.0

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        calls: int | None = None,
        generator: torch.Generator | None = None,
        batch_size: int = 2_000,
        stir: float = 0.0,
        resample_below: float = 0.0,
        weigh: Weigh = continuous_weights,
    ) -> Draws:
        """n draws with their weights, by ``calls`` steps of time.

        ``weigh`` is ``continuous_weights``, as in the paper, which hold for many steps; or
        ``discrete_weights``, which hold for any number if ``stir``, the rate at which sites draw
        anew from their conditionals, is above zero (1, say).  Where the effective share of a batch
        falls below ``resample_below`` it is resampled on the way; then its draws are no longer
        independent.
        """
        check_counts(n=n, batch_size=batch_size)
        calls = self.num_calls if calls is None else check_integer("calls", calls)
        if not 0 <= resample_below <= 1:
            raise ValueError(f"resample_below is {resample_below}: expected a share from 0 to 1")
        if not 0 <= stir < math.inf:
            raise ValueError(f"stir is {stir}: expected a rate of 0 or more")
        generator = generator or make_generator(seed, "reverse", self.target.device)
        began = time.perf_counter()
        with counting(self.target) as cost:
            parts = [
                sample(
                    self.module.rates, self.target.free, min(batch_size, n - first), calls,
                    generator=generator, stir=stir, resample_below=resample_below, weigh=weigh,
                )
                for first in range(0, n, batch_size)
            ]  # fmt: skip
        x, log_weight = (torch.cat(part) for part in zip(*parts, strict=True))
        return Draws(
            x.to(torch.uint8), log_weight, time.perf_counter() - began, cost.densities,
            num_network_calls=n * (calls + 1),
        ).completed(self.target)  # fmt: skip

    @property
    def num_calls(self) -> int:
        """The steps of ``sample`` where none are asked for."""
        return self.config.num_calls or default_calls(self.target.free)

    @property
    @torch.no_grad()
    def free_energy_log_z(self) -> float:
        """d·log V + ∫ f(t) dt, log Z as the second network has it."""
        t = torch.linspace(0, 1, NUM_INTEGRATED, dtype=torch.float64, device=self.target.device)
        rise = torch.trapezoid(self.module.slope(t).double(), t)
        return log_volume(self.target.free) + float(rise)

    def save(self, folder: str | Path) -> Path:
        """Write the model and its target into a folder, for ``leaps.load``."""
        tensors, described = tensors_of(self.module, self.target)
        record = {
            "leaps": self.config.model_dump(), "target": described, "history": self.history,
            "seconds": self.seconds, "num_density_calls": self.num_density_calls,
        }  # fmt: skip
        with sole_writer(Path(folder)):
            return checkpoint.save(folder, tensors, record)


def load(folder: str | Path, target: Target | None = None) -> Leaps:
    """A model that ``save`` wrote.  ``target`` is needed only for a function of the user's own."""
    tensors, data = checkpoint.load(folder)
    if not {"leaps", "target", "history", "seconds", "num_density_calls"} <= data.keys():
        raise CheckpointError("this checkpoint holds no model of LEAPS: expected one it has saved")
    target = matching_target(tensors, data["target"], target)
    config = parse(LeapsConfig, data["leaps"])
    module = make_model(config, target.free, seed=0)
    load_weights(module, tensors, "model/")
    return Leaps(
        target, config, module.eval(), data["history"], data["seconds"], data["num_density_calls"]
    )
