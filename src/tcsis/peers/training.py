"""The training run of every peer: its loss batch after batch, until steps or seconds are over."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Generic

import torch
from torch import Tensor, nn

from tcsis.basics.checks import check_integer, make_generator
from tcsis.basics.clock import Budget
from tcsis.basics.progress import progress_bar
from tcsis.learn.budgets import check_begun, check_pace, new_budget
from tcsis.learn.descent import DivergedError, move_average, rate_share
from tcsis.learn.trainer import said
from tcsis.peers.peer import Kind, PeerConfig
from tcsis.targets.base import Target, counting

MANY_STEPS = 1_000_000
"""More than any time budget pays for."""
WARMUP = 99
EMA = 0.999
MAX_NORM = 5.0
WEIGHT_DECAY = 1e-4
FINAL = 0.02
"""Share of the learning rate that is left at the end."""


def train_peer(
    made: type[Kind],
    target: Target,
    config: PeerConfig | None,
    *,
    seed: int,
    steps: int | None,
    time_budget: float | None,
    progress: bool,
) -> Kind:
    """Train a peer for ``target``, until ``steps`` steps or ``time_budget`` seconds are over; a
    budget alone is used to its end."""
    if config is None:
        config = made.config_class.model_validate({})
        if time_budget is not None:
            config = config.model_copy(update={"num_steps": MANY_STEPS})
    elif not isinstance(config, made.config_class):
        raise ValueError(
            f"config is a {type(config).__name__}: expected a {made.config_class.__name__}"
        )
    if steps is not None:
        config = config.model_copy(update={"num_steps": check_integer("steps", steps)})
    run = Run(made, target.free, config, seed, new_budget(time_budget))
    with counting(target) as cost, progress_bar("training", 1.0, progress) as show:
        for _ in run.steps():
            show(run.progress, said(run.last_loss, run.history))
    return made(target, config, run.average, run.history, run.seconds, cost.densities)


class Run(Generic[Kind]):
    """The state of a training run, and its loop."""

    def __init__(
        self, made: type[Kind], target: Target, config: PeerConfig, seed: int, budget: Budget
    ) -> None:
        self.made, self.target, self.config, self.seed = made, target, config, seed
        self.budget = budget
        self.model: nn.Module = made.new_model(config, target, seed)
        self.average: Any = deepcopy(self.model).eval().requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), weight_decay=WEIGHT_DECAY, fused=True
        )
        self.generator = make_generator(seed, "training", target.device)
        self.step, self.last_loss = 0, math.nan
        self.history: list[dict[str, float]] = []

    def steps(self) -> Iterator[int]:
        """Train to the end, yielding after every step."""
        batch_loss = self.made.new_loss(self.model, self.target, self.config, self.generator)
        self.average.load_state_dict(self.model.state_dict())
        self.budget.lap("set-up")
        check_begun(self.budget, 0.0)
        while self.progress < 1:
            self.descend(batch_loss(self.step, self.progress))
            self.budget.lap("training")
            check_pace(self.budget, self.step, self.step, self.config.num_steps, 0.0)
            if self.due():
                self.evaluate()
                self.budget.lap("evaluation")
            yield self.step

    def descend(self, loss: Tensor) -> None:
        """One step of the optimiser, and of the average."""
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
        return max(self.step / self.config.num_steps, self.seconds / self.budget.limit)

    @property
    def seconds(self) -> float:
        return self.budget.total

    def learning_rate(self) -> float:
        return self.config.learning_rate * rate_share(self.step, self.progress, WARMUP, FINAL)

    def due(self) -> bool:
        """Evaluations are spread evenly over training, and the last comes at the end."""
        return int(min(1.0, self.progress) * self.config.num_evaluations) > len(self.history)

    def evaluate(self) -> None:
        """A record of how good the averaged model is."""
        generator = make_generator(self.seed, "evaluation", self.target.device)
        peer = self.made(self.target, self.config, self.average)
        draws = peer.sample(self.config.num_evaluated, generator=generator)
        record = {
            "step": self.step, "seconds": round(self.seconds, 3), "loss": self.last_loss,
            "learning_rate": self.learning_rate(), "ess": draws.ess, "elbo": draws.elbo,
        }  # fmt: skip
        self.history.append({k: x for k, x in record.items() if x is not None and math.isfinite(x)})
