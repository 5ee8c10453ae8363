"""The state of a training run, one step of it, and what to do when a step goes wrong.

x_0 ← buffer,  loss ← objective(model, estimate(x_0)),  θ ← AdamW,  θ̄ ← EMA,  buffer ← x_0

Where there are several ranks, all go through the same lines in step: the loss of a step is the mean
over them, and so are its gradients; what depends on the clock, and evaluations, are of rank 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, cast

import torch
from rich.console import Console
from torch import Tensor, nn

from tcsis import exact
from tcsis.basics.checks import make_generator
from tcsis.basics.clock import Budget, told_within
from tcsis.basics.ranks import ALONE, Ranks
from tcsis.basics.threads import at_most
from tcsis.draws import Draws
from tcsis.judging.evaluation import evaluate_states, states_of
from tcsis.judging.reference import Reference
from tcsis.judging.weights import leak, missed
from tcsis.learn import modes, shards
from tcsis.learn.budgets import ALL_EVALUATED, check_begun, check_pace, fit_evaluation, fit_source
from tcsis.learn.buffers import Buffer, Source
from tcsis.learn.config import Config
from tcsis.learn.descent import DivergedError, move_average, rate_share
from tcsis.learn.learned import Learned, load_weights, target_and_config
from tcsis.learn.method import How, Loss, Method
from tcsis.learn.shards import Shard
from tcsis.targets.base import Target, uncounted
from tcsis.targets.repeatable import check_repeatable
from tcsis.targets.spec import describe

WARM = 0.1
"""The longest warm-up, as a share of the steps that a time budget pays for."""
MOST_RESTARTS = 3
SNAPSHOT_EVERY = 100
FEW_WEIGHED, NUM_WEIGHED, EXACT = 16, 500, 1e-6
"""States of draws and of the buffer whose weights are compared, and the variance of log weights up
to which a model is exact before training."""


class Passing(nn.Module):
    """A loss as the call of a module with the weights of the model, which is what makes gradients
    of many ranks; what else a model holds is none of its business."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.weights = nn.ParameterList(model.parameters())
        # torch warns where steps may leave weights out, and the first one does not
        self.never = nn.Parameter(next(model.parameters()).detach().new_zeros(()))

    def forward(self, loss: Loss, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return loss(x, generator)


class Run:
    """The state of a training run, and its loop."""

    def __init__(
        self, target: Target, config: Config, seed: int, time_budget: Budget | None = None,
        first: Callable[[], nn.Module | None] = lambda: None, ranks: Ranks = ALONE,
    ):  # fmt: skip
        """``first`` makes another trained model, with whose weights this run begins."""
        self.target, self.config, self.seed = target, config, seed
        self.first, self.ranks = first, ranks
        self.budget = time_budget or Budget()
        self.budget.ranks = ranks
        free = target.free  # which the model is for
        self.model = config.new_model(free, seed)
        self.average = deepcopy(self.model, {id(free): free}).eval().requires_grad_(False)
        self.method = cast(Method[Any], config.method)  # whichever it is
        self.known = self.method.asked(free.sketch)  # for states and ratios
        self.shards = [self.shard(n) for n in shards.numbers(config.shards, ranks)]
        self.passing = ranks.parallel(Passing(self.model))
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), weight_decay=config.optimisation.weight_decay
        )
        self.step, self.rate, self.restarts = 0, 1.0, 0
        self.exact = False
        self.num_evaluated, self.reserve = config.num_evaluated, 0.0  # seconds for the last look
        self.last_loss = math.nan
        self.history: list[dict[str, float]] = []
        self.reference = Reference(target)  # whose answers every evaluation asks for again

    def shard(self, number: int) -> Shard:
        """A share of batch and buffer, before there are states."""
        buffer = self.method.buffer(self.config.buffer.share(self.config.shards), self.known)
        generator = make_generator(self.seed, shards.purpose(number), self.target.device)
        loss = self.method.loss(self.model, self.known, buffer)
        return Shard(number, buffer, loss, generator)

    @property
    def buffer(self) -> Buffer:
        """Of the first shard here, whose states evaluations look at."""
        return self.shards[0].buffer

    # -- the loop --------------------------------------------------------------------------------

    def start(self) -> None:
        """Fill the buffer and fit what is fitted before training, unless that is done."""
        self.budget.lap("set-up")  # with the recognition of a black box
        if self.buffer.states is None:
            self.begin()

    def steps(self) -> Iterator[int]:
        """Train to the end, yielding after every step."""
        self.start()
        with self.threads():
            self.num_evaluated, self.reserve = self.ranks.told(self.plan_evaluation)
            # of a run that is resumed, a record before any step says so already
            known = bool(self.history)
            self.exact = not self.step and (known or self.ranks.told(self.starts_exact))
            self.budget.lap("evaluation")
            if self.exact and not known:
                self.evaluate()
        if self.exact:
            yield self.step
            return
        if not self.step:
            told_within(self.ranks, lambda: check_begun(self.budget, self.reserve))
        good, first = self.snapshot(), self.step
        while self.progress < 1:
            before = self.progress
            with self.threads():
                loss = self.make_step()
            self.budget.lap("training")
            if not self.healthy(loss):
                self.go_back(good)
                continue
            self.last_loss = float(loss)
            made = self.step - first
            check_pace(self.budget, made, self.step, self.config.num_steps, self.reserve)
            if self.step % SNAPSHOT_EVERY == 0:
                good = self.snapshot()
            if self.due(before):
                with self.threads():
                    self.evaluate()
            yield self.step

    def begin(self) -> None:
        """Weights of another model to begin with, if there is one, states, and what is fitted to
        them before training."""
        first = self.first()
        if first is not None:
            self.method.check_start(self.model, first)  # before there is work for states
            self.budget.lap("growing")
        source = told_within(self.ranks, self.fitting_source)
        for shard in self.shards:
            shard.buffer.source = source
            shard.buffer.start(shard.generator)
        self.budget.lap("annealing")
        states = shards.joined(self.shards, self.ranks)
        weights = self.ranks.told(lambda: self.prepare(states, first))
        if not self.ranks.leads:
            self.model.load_state_dict(weights)
        self.average.load_state_dict(self.model.state_dict())
        self.budget.lap("fitting")

    def fitting_source(self) -> Source:
        """Of a shard's states, as far as the budget pays for those of all shards here."""
        return fit_source(self.buffer, self.budget, len(self.shards))

    def prepare(self, states: Buffer, first: nn.Module | None) -> dict[str, Tensor]:
        """Fit what is fitted before training, to the states of all shards, or take the weights of
        another model; the model then."""
        if self.target.opaque:
            check_repeatable(self.target.free, states.all)
        with self.threads():
            if first is None:
                self.method.prepare(self.model, self.known, states, self.shards[0].generator)
            else:
                self.method.carry(self.model, first, states)
        return {name: value.cpu() for name, value in self.model.state_dict().items()}

    def threads(self) -> AbstractContextManager[None]:
        """As many as a batch is worth."""
        size = self.config.optimisation.batch_size
        return at_most(self.method.num_threads(self.model, self.target.free, size))

    def starts_exact(self) -> bool:
        """Whether the weights of draws and of the buffer are all the same before any step: there is
        nothing to learn, and a step could only do harm."""
        if self.buffer.of_target is None:
            return False
        # a few that differ say so; that none do takes more of them
        return all(self.weighs_alike(n) for n in (FEW_WEIGHED, NUM_WEIGHED))

    def weighs_alike(self, most: int) -> bool:
        """Whether the log weights of up to so many draws, and as many states, are all the same."""
        generator = make_generator(self.seed, "exactness", self.target.device)
        draws = self.sample(min(most, self.num_evaluated), generator)
        assert draws.log_weight is not None
        assert self.buffer.of_target is not None
        known = self.learned().sampler.weigh(self.buffer.of_target[: len(draws)], generator)
        return bool(torch.cat([draws.log_weight, known]).var() < EXACT)

    def make_step(self) -> Tensor:
        """One batch; the straight line of every method."""
        settings = self.config.optimisation
        loss = self.ranks.mean(self.pass_shards(settings.batch_size // self.config.shards))
        norms = [
            nn.utils.clip_grad_norm_(part, settings.max_norm)
            for part in self.method.parts(self.model)
        ]
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate()
        self.optimiser.step()
        self.step += 1
        move_average(self.average, self.model, self.step, settings.ema)
        return torch.where(torch.stack(norms).isfinite().all(), loss, torch.nan)

    def pass_shards(self, size: int) -> Tensor:
        """The mean loss of the shards of this rank, on batches of a size, and its gradients, which
        are means over all ranks.  What a loss changes in the model itself is as it was for every
        shard, and then as the first of all shards has left it."""
        for shard in self.shards:
            shard.buffer.refresh(self.step, self.progress, self.sample, shard.generator)
        moved = self.method.moved(self.model)
        before, losses = [tensor.clone() for tensor in moved], []
        self.optimiser.zero_grad()
        for shard in reversed(self.shards):
            for tensor, value in zip(moved, before, strict=True):
                tensor.copy_(value)
            places, x = shard.batch(size)
            last = shard is self.shards[0]
            with nullcontext() if last else self.ranks.apart(self.passing):
                loss, x_0 = self.passing(shard.loss, x, shard.generator)
                (loss / len(self.shards)).backward()
            shard.buffer.all[places] = x_0
            losses.append(loss.detach())
        self.ranks.spread(moved)
        return torch.stack(losses).mean()

    @property
    def seconds(self) -> float:
        return self.budget.total

    @property
    def num_density_calls(self) -> float:
        """Until the last lap."""
        return sum(self.budget.evaluated.values())

    @property
    def progress(self) -> float:
        """From 0 to 1, by steps or by the clock."""
        return 1.0 if self.exact else max(self.by_steps, self.by_clock)

    @property
    def by_steps(self) -> float:
        return self.step / self.config.num_steps

    @property
    def by_clock(self) -> float:
        """The share of the time there is for steps that they have taken."""
        there_is = self.budget.limit - self.budget.other_than("training") - self.reserve
        return self.budget.spent.get("training", 0.0) / there_is if there_is > 0 else 1.0

    def learning_rate(self) -> float:
        settings = self.config.optimisation
        share = rate_share(self.step, self.progress, self.warmup, settings.final)
        return settings.learning_rate * self.rate * share

    @property
    def warmup(self) -> float:
        """Steps of warm-up: fewer where the clock ends training early."""
        whole = self.config.optimisation.warmup
        return (
            min(whole, WARM * self.step / self.by_clock) if self.by_clock > self.by_steps else whole
        )

    # -- evaluation ------------------------------------------------------------------------------

    def sample(self, n: int, generator: torch.Generator) -> Draws:
        """Draws of the free sites, as the buffer holds them."""
        return self.learned().sampler.draw(n, generator, How())

    def learned(self) -> Learned:
        """The averaged model so far."""
        return Learned(
            self.target, self.config, self.average, self.history, self.seconds,
            self.num_density_calls, self.budget.spent, self.step, self.budget.evaluated,
        )  # fmt: skip

    def plan_evaluation(self) -> tuple[int, float]:
        """How many draws an evaluation looks at, and seconds to keep for the last one."""
        if not self.config.num_evaluations:
            return self.config.num_evaluated, 0.0
        return fit_evaluation(self.config.num_evaluated, self.look, self.budget)

    def due(self, before: float) -> bool:
        """Evaluations are spread evenly over the progress, which was ``before`` a step ago, and the
        last comes at the end; others only where the time budget has room for them."""
        whole = self.config.num_evaluations
        if self.progress >= 1:
            return whole > 0
        spent = self.budget.spent.get("evaluation", 0.0)
        afford = spent + 2 * self.reserve <= ALL_EVALUATED * self.budget.limit
        return afford and int(self.progress * whole) > int(before * whole)

    def evaluate(self) -> None:
        """A record of how good the averaged model is now."""
        if self.ranks.leads:
            record, draws = self.look(self.num_evaluated)
            if self.progress >= 1:
                record |= self.compare_modes(draws)
            # a draw of weight zero makes the ELBO -inf, which no file of JSON can hold
            kept = {k: x for k, x in record.items() if x is not None and math.isfinite(x)}
            self.history.append(kept)
        self.budget.lap("evaluation")

    def look(self, n: int) -> tuple[dict[str, Any], Draws]:
        """Of n draws of the averaged model ESS, ELBO and, if known, the error."""
        generator = make_generator(self.seed, "evaluation", self.target.device)
        draws = self.learned().sample(n, generator=generator)
        record = {
            "step": self.step, "seconds": round(self.seconds, 3), "loss": self.last_loss,
            "learning_rate": self.learning_rate(), "ess": draws.ess, "elbo": draws.elbo,
        }  # fmt: skip
        record |= self.both_tails(draws, generator)
        record |= self.method.looked(self.average, self.target.free, n, generator)
        if exact.quick(self.target) and self.target.lattice is not None:
            with uncounted(self.target):  # no price of training, and paid once in a process
                drawn = states_of(draws, self.target)
                row = evaluate_states(drawn, None, self.reference, weighted=False)["correlation"]
            record |= {"error": row.error, "floor": row.floor}
        return record, draws

    def both_tails(self, draws: Draws, generator: torch.Generator) -> dict[str, float]:
        """The share of draws where the target has next to nothing, and that of the buffer's states
        which the model would hardly draw."""
        if draws.log_weight is None or draws.log_z is None:
            return {}
        shares = {"leak": leak(draws.log_weight)}
        known = self.buffer.of_target
        if known is not None:
            known = known[: min(NUM_WEIGHED, len(draws))]
            log_weight = self.learned().sampler.weigh(known, generator)
            shares["missed"] = missed(log_weight, draws.log_z)
        return shares

    def compare_modes(self, draws: Draws) -> dict[str, float]:
        """The shares of one side that buffer and model have; a warning where they differ."""
        known = self.buffer.of_target
        if known is None:
            return {}
        states = self.target.complete(known)
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
        if self.ranks.leads:
            Console(stderr=True).print(
                f"training diverged: back to step {self.step} at half the learning rate "
                f"({self.restarts} of {MOST_RESTARTS})"
            )

    # -- state and files -------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes in training, here."""
        found = {f"now/{name}": value for name, value in self.model.state_dict().items()}
        found |= {f"model/{name}": value for name, value in self.average.state_dict().items()}
        for name, weights in self.model.named_parameters():
            for key, value in self.optimiser.state.get(weights, {}).items():
                found[f"optimiser/{key}/{name}"] = value
        return found | self.of_shards()

    def of_shards(self) -> dict[str, Tensor]:
        return {name: value for one in self.shards for name, value in one.tensors().items()}

    def place(self, tensors: dict[str, Tensor]) -> None:
        """Put back what ``tensors`` gave."""
        load_weights(self.model, tensors, "now/")
        load_weights(self.average, tensors, "model/")
        for shard in self.shards:
            shard.place(tensors)
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
        """Tensors and plain data of a checkpoint from which the run can go on, on any number of
        ranks: at rank 0, where all shards are brought together."""
        described, parameters = describe(self.target)
        tensors = self.tensors() | {f"target/{name}": value for name, value in parameters.items()}
        for others in self.ranks.gathered({k: x.cpu() for k, x in self.of_shards().items()}):
            tensors |= others
        data = self.learned().record(described) | {
            "step": self.step, "rate": self.rate, "restarts": self.restarts, "seed": self.seed,
        }  # fmt: skip
        return tensors, data

    def restore(self, tensors: dict[str, Tensor], data: dict[str, Any]) -> None:
        """Go on from a checkpoint of the same run; it may be longer now."""
        check_own(tensors, data, self.target, self.config, self.seed)
        self.place(tensors)
        self.step, self.rate, self.restarts = data["step"], data["rate"], data["restarts"]
        self.history = data["history"]
        self.budget.spent = dict(data.get("spent", {"training": data["seconds"]}))
        calls = data.get("evaluated", {"training": data["num_density_calls"]})
        self.budget.evaluated = dict(calls)


def check_own(
    tensors: dict[str, Tensor], data: dict[str, Any], target: Target, config: Config, seed: int
) -> None:
    """Refuse a checkpoint of another run than that of this target, config and seed, which may be
    longer now."""
    saved = target_and_config(tensors, data, target)[1]
    ours = config.model_copy(update={"num_steps": saved.num_steps})
    if saved != ours or data.get("seed") != seed:
        raise ValueError(
            "the checkpoint was made with another config or seed: resume with the same ones"
        )
