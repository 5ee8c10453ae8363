"""How the methods of the study are run, a class for every kind of them.

The draws of a trained model have the seed 100 + that of its training, so that no two are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tcsis import exact, mcmc
from tcsis.app.methods import Plan, Spent, affordable
from tcsis.app.study.plan import Made, Setting, Task
from tcsis.draws import Draws, Sampler
from tcsis.learn import presets
from tcsis.learn.config import Config, Optimisation
from tcsis.learn.trainer import train
from tcsis.peers.flow import FlowConfig
from tcsis.peers.path import Weigh, continuous_weights, discrete_weights
from tcsis.peers.peer import PeerConfig
from tcsis.peers.training import MANY_STEPS
from tcsis.reverse.unlearned import learning_free
from tcsis.targets.base import Target

DRAWING_SEED = 100
PAPER_BATCH, FEWER = 64, 16
"""States a step for the paper's estimator, which takes N densities for each of them: the paper's
64 would leave time for a hundred steps only where a lattice is large."""
PAPER_RATE = 1e-3
NUM_CHAINS = 1_024


def drawing_seed(task: Task) -> int:
    return DRAWING_SEED + task.seed


# -- trained ---------------------------------------------------------------------------------------


def as_trained(setting: Setting) -> None:
    """As many calls as the config of the model has."""


@dataclass(frozen=True)
class Learned:
    """A method of this library by its config.  ``calls`` says how often the network is asked, where
    the method leaves that open until it draws, and ``num_draws`` how many draws there is time for,
    by side, where these are fewer than the setting has."""

    config: Callable[[Target, Setting], Config]
    calls: Callable[[Setting], int | None] = as_trained
    num_draws: tuple[tuple[int, int], ...] = ()

    modules = ("tcsis.learn.trainer", "tcsis.learn.presets")

    def run(self, task: Task, target: Target) -> Made:
        model = train(
            target, config=self.config(target, task.setting), seed=task.seed,
            steps=task.steps, time_budget=task.seconds, progress=False,
        )  # fmt: skip
        draws = model.sample(
            self.amount(task), seed=drawing_seed(task), calls=self.calls(task.setting)
        )
        return made(model, {"": draws})

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        config = self.config(target, task.setting).model_dump(mode="json")
        return config | {"calls": self.calls(task.setting), "num_draws": self.amount(task)}

    def amount(self, task: Task) -> int:
        return min(task.num_draws, dict(self.num_draws).get(task.setting.side, task.num_draws))


def made(model: Sampler, readings: dict[str, Draws]) -> Made:
    """With what the training of the model took."""
    return Made(readings, getattr(model, "seconds", 0.0), getattr(model, "num_density_calls", 0.0))


@dataclass(frozen=True)
class Preset:
    """The preset ``fast`` of a method, without evaluations on the way, whose time would be taken
    from training, and until the time is over."""

    method: str

    def __call__(self, target: Target, setting: Setting) -> Config:
        return presets.fast(target, self.method).changed(**UNTIL_THE_END)


@dataclass(frozen=True)
class PapersProcess(Preset):
    """All sites at one time, in the paper's number of calls, with this library's estimates."""

    def __call__(self, target: Target, setting: Setting) -> Config:
        return super().__call__(target, setting).changed(method={"num_calls": setting.num_calls})


@dataclass(frozen=True)
class AsInThePaper:
    """The paper's process, estimator, objective, proposal, network and Euler steps, with a rate
    that minutes are enough for, and of the ``proposal`` no more states than they pay for."""

    method: str
    proposal: Callable[[Config], dict[str, Any]]

    def __call__(self, target: Target, setting: Setting) -> Config:
        paper = presets.paper(target, self.method)
        batch = PAPER_BATCH if target.num_sites <= 16 else FEWER
        settings = Optimisation(batch_size=batch, learning_rate=PAPER_RATE)
        return paper.changed(
            method={"num_calls": setting.num_calls}, optimisation=settings.model_dump(),
            **UNTIL_THE_END,
        ).changed(**self.proposal(paper))  # fmt: skip


def shared_estimates(paper: Config) -> dict[str, Any]:
    """Self-normalized: all ratios of a state share N draws, as in Appendix A.2 of the paper: with N
    draws for each ratio, a step at side 10 would take minutes."""
    changes = paper.model_dump()
    num_samples = changes["method"]["estimator"]["num_samples"]
    estimator = {"kind": "shared", "num_samples": num_samples}
    own_draws = changes["buffer"]["kind"] == "model_and_noise"
    return {"method": {"estimator": estimator}} | (
        {"buffer": {"num_new": FEWER}} if own_draws else {}
    )


def fewer_chains(paper: Config) -> dict[str, Any]:
    """Unbiased: a quarter of the chains."""
    return {"buffer": {"size": NUM_CHAINS}}


UNTIL_THE_END = {"num_evaluations": 0, "num_steps": MANY_STEPS}
"""The clock ends a training, and lowers its rate."""


@dataclass(frozen=True)
class Peer:
    """A neural sampler of others, as its config has it."""

    train: Callable[..., Sampler]
    config: PeerConfig

    @property
    def modules(self) -> tuple[str, ...]:
        return (self.train.__module__,)

    def run(self, task: Task, target: Target) -> Made:
        model = self.trained(task, target)
        return made(model, {"": model.sample(task.num_draws, seed=drawing_seed(task))})

    def trained(self, task: Task, target: Target) -> Sampler:
        return self.train(
            target, config=self.settings(task), seed=task.seed, steps=task.steps,
            time_budget=task.seconds, progress=False,
        )  # fmt: skip

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        return self.settings(task).model_dump(mode="json", exclude={"kind"})

    def settings(self, task: Task) -> PeerConfig:
        return self.config.model_copy(update=UNTIL_THE_END)


CONTINUOUS, DISCRETE = "continuous", "discrete"
READINGS: dict[str, tuple[float, Weigh]] = {
    CONTINUOUS: (0.0, continuous_weights),
    DISCRETE: (1.0, discrete_weights),
}
"""How a chain in continuous time is drawn: the rate at which it is stirred, and its weights."""


@dataclass(frozen=True)
class FlowPeer(Peer):
    """A chain in continuous time, drawn twice: with the weights of its paper, and, stirred, with
    those of the steps as they are taken."""

    def run(self, task: Task, target: Target) -> Made:
        model: Any = self.trained(task, target)
        readings = {
            name: model.sample(task.num_draws, seed=drawing_seed(task), stir=stir, weigh=weigh)
            for name, (stir, weigh) in READINGS.items()
        }
        return made(model, readings)

    def settings(self, task: Task) -> PeerConfig:
        config = super().settings(task)
        assert isinstance(config, FlowConfig)
        return config.model_copy(update={"num_calls": task.setting.num_calls})


# -- without learning ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chains:
    """The last state of every chain, each from its own noise, so that draws are independent."""

    kernel: str
    num_steps: Callable[[Task], int]

    modules = ("tcsis.mcmc.runner",)

    def run(self, task: Task, target: Target) -> Made:
        return Made({"": end_of_chains(task, target, self.kernel, self.num_steps(task))})

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        return {"kernel": self.kernel, "num_steps": self.num_steps(task)}


def as_many_as_calls(task: Task) -> int:
    """As in the paper's appendix: a step of the chain for a call of the samplers."""
    return task.setting.num_calls


def as_the_plan_has_it(task: Task) -> int:
    return task.num_chain_steps


def end_of_chains(task: Task, target: Target, kernel: str, num_steps: int) -> Draws:
    return mcmc.sample(
        target, kernel, num_chains=task.num_draws, num_steps=num_steps, burn_in=num_steps - 1,
        seed=task.seed, progress=False,
    ).flat  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """What climbs a ladder to the target, with ``num_rungs`` of them."""

    draw: Callable[[Task, Target, int], Draws]
    num_rungs: int
    modules: tuple[str, ...]

    def run(self, task: Task, target: Target) -> Made:
        return Made({"": self.draw(task, target, self.num_rungs)})

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        return {"num_rungs": self.num_rungs}


@dataclass(frozen=True)
class InTime:
    """Chains with as many steps as the time of a training pays for."""

    draw: Callable[[Task, Target, int], Draws]
    modules: tuple[str, ...]

    def run(self, task: Task, target: Target) -> Made:
        amount = task.steps
        if amount is None:
            assert task.seconds is not None
            told = Plan(target, task.num_draws, task.seed)
            spent = Spent(task.seconds, math.inf)
            amount = affordable(told, spent, lambda n: self.draw(task, target, n))
        return Made({"": self.draw(task, target, amount)})

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        return {"steps": task.steps}


def glauber(task: Task, target: Target, num_steps: int) -> Draws:
    return end_of_chains(task, target, "glauber", num_steps)


def clusters(task: Task, target: Target, num_steps: int) -> Draws:
    return end_of_chains(task, target, "wolff", num_steps)


def anneal(task: Task, target: Target, num_rungs: int) -> Draws:
    """Population annealing, with as many replicas as draws are wanted."""
    return mcmc.population_annealing(
        target, num_replicas=task.num_draws, num_rungs=num_rungs, seed=task.seed
    ).flat


def without_learning(task: Task, target: Target, num_rungs: int) -> Draws:
    """One joint posterior draw a step, by annealing."""
    return learning_free(target, num_rungs=num_rungs).sample(task.num_draws, seed=task.seed)


@dataclass(frozen=True)
class Exactly:
    """Exact draws, whose weights are all the same and say nothing."""

    modules = ("tcsis.exact",)

    def run(self, task: Task, target: Target) -> Made:
        draws = exact.draw(target, task.num_draws, seed=drawing_seed(task))
        return Made({"": replace(draws, log_weight=None)})

    def describe(self, task: Task, target: Target) -> dict[str, Any]:
        return {}
