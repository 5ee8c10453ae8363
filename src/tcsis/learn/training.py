"""The state of a training run, one step of it, and what to do when a step goes wrong.

x_0 ← buffer,  loss ← objective(model, estimate(x_0)),  θ ← AdamW,  θ̄ ← EMA,  buffer ← x_0
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast

import torch
from rich.console import Console
from torch import Tensor, nn

from tcsis import exact
from tcsis.basics.checks import make_generator
from tcsis.draws import Draws
from tcsis.judging.evaluation import evaluate
from tcsis.judging.weights import leak, missed
from tcsis.learn import modes
from tcsis.learn.buffers import Buffer
from tcsis.learn.config import Config
from tcsis.learn.descent import DivergedError, move_average, rate_share
from tcsis.learn.learned import Learned, from_checkpoint, load_weights
from tcsis.learn.method import How, Method
from tcsis.targets.base import Target
from tcsis.targets.spec import describe

MOST_RESTARTS = 3
SNAPSHOT_EVERY = 100
NUM_WEIGHED, EXACT = 500, 1e-6
"""States of draws and of the buffer whose weights are compared, and the variance of log weights up
to which a model is exact before training."""


class Run:
    """The state of a training run, and its loop."""

    def __init__(self, target: Target, config: Config, seed: int, time_budget: float | None):
        self.target, self.config, self.seed = target, config, seed
        self.time_budget = time_budget or math.inf
        free = target.free  # which the model is for
        self.model = config.new_model(free, seed)
        self.average = deepcopy(self.model, {id(free): free}).eval().requires_grad_(False)
        self.known = free.sketch  # what training asks for states and ratios
        self.buffer = Buffer(config.buffer, self.known)
        self.method = cast(Method[Any], config.method)  # whichever it is
        self.loss = self.method.loss(self.model, self.known, self.buffer)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), weight_decay=config.optimisation.weight_decay
        )
        self.generator = make_generator(seed, "training", target.device)
        self.step, self.seconds, self.rate, self.restarts = 0, 0.0, 1.0, 0
        self.exact = False
        self.last_loss, self.num_density_calls = math.nan, 0.0
        self.history: list[dict[str, float]] = []

    # -- the loop --------------------------------------------------------------------------------

    def steps(self) -> Iterator[int]:
        """Train to the end, yielding after every step."""
        began = time.perf_counter() - self.seconds
        if self.buffer.states is None:
            self.begin()
            self.seconds = time.perf_counter() - began
        self.exact = not self.step and self.starts_exact()
        if self.exact:
            self.evaluate()
            yield self.step
        good = self.snapshot()
        while self.progress < 1:
            loss = self.make_step()
            if not self.healthy(loss):
                self.go_back(good)
                continue
            self.last_loss = float(loss)
            self.seconds = time.perf_counter() - began
            if self.step % SNAPSHOT_EVERY == 0:
                good = self.snapshot()
            if self.due():
                self.evaluate()
            yield self.step

    def begin(self) -> None:
        self.buffer.start(self.generator)
        self.method.prepare(self.model, self.known, self.buffer, self.generator)
        self.average.load_state_dict(self.model.state_dict())

    def starts_exact(self) -> bool:
        """Whether the weights of draws and of the buffer are all the same before any step: there is
        nothing to learn, and a step could only do harm."""
        if not self.buffer.source.follows_target:
            return False
        generator = make_generator(self.seed, "exactness", self.target.device)
        draws = self.sample(NUM_WEIGHED, generator)
        assert draws.log_weight is not None
        known = self.learned().sampler.weigh(self.buffer.all[:NUM_WEIGHED], generator)
        return bool(torch.cat([draws.log_weight, known]).var() < EXACT)

    def make_step(self) -> Tensor:
        """One batch; the straight line of every method."""
        settings = self.config.optimisation
        self.buffer.refresh(self.step, self.sample, self.generator)
        states = self.buffer.all
        chosen = torch.randint(
            len(states), (settings.batch_size,), device=states.device, generator=self.generator
        )
        loss, x_0 = self.loss(states[chosen], self.generator)
        states[chosen] = x_0
        self.optimiser.zero_grad()
        loss.backward()
        norms = [
            nn.utils.clip_grad_norm_(part, settings.max_norm)
            for part in self.method.parts(self.model)
        ]
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate()
        self.optimiser.step()
        self.step += 1
        move_average(self.average, self.model, self.step, settings.ema)
        return torch.where(torch.stack(norms).isfinite().all(), loss.detach(), torch.nan)

    @property
    def progress(self) -> float:
        """From 0 to 1, by steps or by the clock."""
        if self.exact:
            return 1.0
        return max(self.step / self.config.num_steps, self.seconds / self.time_budget)

    def learning_rate(self) -> float:
        settings = self.config.optimisation
        share = rate_share(self.step, self.progress, settings.warmup, settings.final)
        return settings.learning_rate * self.rate * share

    # -- evaluation ------------------------------------------------------------------------------

    def sample(self, n: int, generator: torch.Generator) -> Draws:
        """Draws of the free sites, as the buffer holds them."""
        return self.learned().sampler.draw(n, generator, How())

    def learned(self) -> Learned:
        """The averaged model so far."""
        return Learned(
            self.target, self.config, self.average, self.history, self.seconds,
            self.num_density_calls,
        )  # fmt: skip

    def due(self) -> bool:
        """Evaluations are spread evenly over the steps, and the last comes at the end."""
        if not self.config.num_evaluations:
            return False
        every = max(1, self.config.num_steps // self.config.num_evaluations)
        return self.step % every == 0 or self.progress >= 1

    def evaluate(self) -> None:
        """A record of how good the averaged model is: ESS, ELBO and, if known, the error."""
        generator = make_generator(self.seed, "evaluation", self.target.device)
        draws = self.learned().sample(self.config.num_evaluated, generator=generator)
        record = {
            "step": self.step, "seconds": round(self.seconds, 3), "loss": self.last_loss,
            "learning_rate": self.learning_rate(), "ess": draws.ess, "elbo": draws.elbo,
        }  # fmt: skip
        record |= self.both_tails(draws, generator)
        if exact.quick(self.target) and self.target.lattice is not None:
            row = evaluate(draws, self.target)["correlation"]
            record |= {"error": row.error, "floor": row.floor}
        if self.progress >= 1:
            record |= self.compare_modes(draws)
        # a draw of weight zero makes the ELBO -inf, which no file of JSON can hold
        self.history.append({k: x for k, x in record.items() if x is not None and math.isfinite(x)})

    def both_tails(self, draws: Draws, generator: torch.Generator) -> dict[str, float]:
        """The share of draws where the target has next to nothing, and that of the buffer's states
        which the model would hardly draw."""
        if draws.log_weight is None or draws.log_z is None:
            return {}
        shares = {"leak": leak(draws.log_weight)}
        if self.buffer.source.follows_target:
            known = self.buffer.all[: min(NUM_WEIGHED, self.config.num_evaluated)]
            log_weight = self.learned().sampler.weigh(known, generator)
            shares["missed"] = missed(log_weight, draws.log_z)
        return shares

    def compare_modes(self, draws: Draws) -> dict[str, float]:
        """The shares of one side that buffer and model have; a warning where they differ."""
        if not self.buffer.source.follows_target:
            return {}
        states = self.target.complete(self.buffer.all)
        both = modes.shares(states, draws, self.target.num_values)
        if both is None:
            return {}
        said = modes.warning(*both)
        if said is not None:
            Console(stderr=True).print(said)
        return {"buffer_share": both[0], "model_share": both[1]}

    # -- divergence ------------------------------------------------------------------------------

    def healthy(self, loss: Tensor) -> bool:
        if not bool(loss.isfinite()):
            return False
        return self.step % SNAPSHOT_EVERY != 0 or all(
            bool(weights.isfinite().all()) for weights in self.model.parameters()
        )

    def snapshot(self) -> dict[str, Any]:
        tensors = {name: value.clone() for name, value in self.tensors().items()}
        return {"tensors": tensors, "step": self.step}

    def go_back(self, good: dict[str, Any]) -> None:
        """To the last good state, at half the rate."""
        self.restarts += 1
        diverged = self.step
        self.place(good["tensors"])
        self.step, self.rate = good["step"], self.rate / 2
        if self.restarts > MOST_RESTARTS:
            raise DivergedError(
                f"training diverged {self.restarts} times, the last near step {diverged}: "
                f"lower the learning rate (now {self.learning_rate():.2g}) or check the density"
            )
        Console(stderr=True).print(
            f"training diverged: back to step {self.step} at half the learning rate "
            f"({self.restarts} of {MOST_RESTARTS})"
        )

    # -- state and files -------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes in training."""
        found = {f"now/{name}": value for name, value in self.model.state_dict().items()}
        found |= {f"model/{name}": value for name, value in self.average.state_dict().items()}
        for name, weights in self.model.named_parameters():
            for key, value in self.optimiser.state.get(weights, {}).items():
                found[f"optimiser/{key}/{name}"] = value
        return found | {"buffer": self.buffer.all, "generator": self.generator.get_state()}

    def place(self, tensors: dict[str, Tensor]) -> None:
        """Put back what ``tensors`` gave."""
        load_weights(self.model, tensors, "now/")
        load_weights(self.average, tensors, "model/")
        self.buffer.states = tensors["buffer"].to(self.target.device).clone()
        self.generator.set_state(tensors["generator"].cpu())
        self.optimiser.state.clear()
        for name, weights in self.model.named_parameters():
            state = {
                key.split("/")[1]: value.clone()
                for key, value in tensors.items()
                if key.startswith("optimiser/") and key.split("/", 2)[2] == name
            }
            if state:
                self.optimiser.state[weights] = {
                    key: value if key == "step" else value.to(weights)
                    for key, value in state.items()
                }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain data of a checkpoint from which the run can go on."""
        described, parameters = describe(self.target)
        tensors = self.tensors() | {f"target/{name}": value for name, value in parameters.items()}
        data = self.learned().record(described) | {
            "step": self.step, "rate": self.rate, "restarts": self.restarts, "seed": self.seed,
        }  # fmt: skip
        return tensors, data

    def restore(self, tensors: dict[str, Tensor], data: dict[str, Any]) -> None:
        """Go on from a checkpoint of the same run; it may be longer now."""
        saved = from_checkpoint(tensors, data, self.target)
        ours = self.config.model_copy(update={"num_steps": saved.config.num_steps})
        if saved.config != ours or data.get("seed") != self.seed:
            raise ValueError(
                "the checkpoint was made with another config or seed: resume with the same ones"
            )
        self.place(tensors)
        self.step, self.rate, self.restarts = data["step"], data["rate"], data["restarts"]
        self.history, self.seconds = data["history"], data["seconds"]
        self.num_density_calls = data["num_density_calls"]
