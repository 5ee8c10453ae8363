"""A trained model with its target: draws, and files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tcsis.basics.checks import check_counts, make_generator
from tcsis.basics.clock import account
from tcsis.basics.frozen import parse
from tcsis.basics.locks import sole_writer
from tcsis.basics.memory import check_fits
from tcsis.basics.threads import at_most
from tcsis.distribution import Distribution
from tcsis.draws import Draws
from tcsis.draws.shards import Plan, Shards, shard_size
from tcsis.learn import checkpoint
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.conditional import Conditional
from tcsis.learn.config import Config
from tcsis.learn.method import How, Method, ModelSampler, weigh_states
from tcsis.mcmc.independence import independence_chains
from tcsis.mcmc.runner import AnyKernel
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Denoiser, Step
from tcsis.targets.base import Target
from tcsis.targets.spec import CALLABLE, NAMES, build, describe


@dataclass(repr=False)
class Learned:
    """What ``tcsis.train`` returns: ``model.sample(10_000, seed=1)``.

    The ``module``, the ``sampler`` and its reverse process are of ``target.free``, the sites that
    are not known; draws are whole states of the target.
    ``history`` holds a record of every evaluation during training, ``seconds`` how long that took,
    ``spent`` on what, ``steps`` how many were made, and ``evaluated`` what the density calls went
    to.
    """

    target: Target
    config: Config
    module: nn.Module
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    num_density_calls: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    evaluated: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Learned({self.target!r}, {self.kind}, {self.steps} steps)"

    @property
    def kind(self) -> str:
        """The name of the method."""
        return self.config.method.kind

    @cached_property
    def sampler(self) -> ModelSampler:
        """Draws of this model, and the reverse process that they go by."""
        method: Method[Any] = self.config.method
        return method.sampler(self.module, self.target.free)

    def sample(
        self, n: int, *, seed: int = 0, generator: torch.Generator | None = None,
        calls: int | None = None, schedule: Schedule | None = None, step: Step | None = None,
        batch_size: int | None = None,
    ) -> Draws:  # fmt: skip
        """n independent draws, each with its path weight.

        ``calls`` is how many network calls a draw may take.  The autoregressive method takes one a
        site, no more and no fewer.  The any-time method draws blocks of sites that are planned for
        that many, at most a site a call, or those of a ``schedule``.  A diffusion goes from noise
        to the target in that many, and serves any ``schedule`` and ``step`` of the reverse process.
        """
        check_counts(n=n, batch_size=batch_size or 1)
        check_fits("n", n, self.target.num_sites, f" draws of {self.target.num_sites} sites")
        generator = generator or make_generator(seed, "reverse", self.target.device)
        method: Method[Any] = self.config.method
        with at_most(method.num_threads(self.module, self.target.free, batch_size or n)):
            draws = self.sampler.draw(n, generator, How(calls, schedule, step, batch_size))
        return draws.completed(self.target)

    def sample_to(
        self, path: str | Path, n: int, *, seed: int = 0, calls: int | None = None,
        size: int | None = None, progress: bool = True,
    ) -> None:  # fmt: skip
        """n independent draws in a NetCDF file, which take the memory of one shard of ``size``;
        ``calls`` as for ``sample``.

        A second call goes on from the shards that a first one left, and processes that torchrun
        starts share the work; the first of them returns when all is written.
        """
        size = shard_size(self.target.num_sites) if size is None else size
        plan = Plan(n, seed, size, self.digest(f"{calls}"))
        draw = partial(draw_shard, self, calls)
        Shards(draw, self.target, plan).write(Path(path), progress=progress)

    def digest(self, more: str = "") -> str:
        """A checksum of the model, its target and its settings, and of what more there is."""
        tensors, described = tensors_of(self.module, self.target)
        record = {"config": self.config.model_dump(), "target": described, "more": more}
        return checkpoint.digest(tensors, record)

    def weigh(
        self, x: Tensor, *, seed: int = 0, generator: torch.Generator | None = None
    ) -> Tensor:
        """log weights (n,) of states that are given, (n, d), and may come from anywhere: log p̄ -
        log q of a method that knows its law, else of a path to each state, drawn by the noise.

        Their mean over draws of the target is an upper bound of log Z.
        """
        generator = generator or make_generator(seed, "weighing", self.target.device)
        return weigh_states(self.sampler, self.target, self.target.free_sites, x, generator)

    def chain(
        self, num_draws: int, *, num_chains: int = 10, kernel: AnyKernel | None = None,
        burn_in: int = 100, thin: int = 1, seed: int = 0,
    ) -> Draws:  # fmt: skip
        """Draws without weights, (num_chains, num_draws, d), that follow the target however poor
        the model: chains that go from one draw x of the model to a fresh one y with probability
        min(1, w(y)/w(x)).

        ``kernel`` is a name or value of ``tcsis.mcmc``, such as "gibbs"; every proposal comes after
        one step of it then.  A poor model makes slow chains, which ``tcsis.mcmc.diagnose`` and
        ``tcsis.judge`` tell; see ``tcsis.mcmc.independence_chains`` for the rest.
        """
        return independence_chains(
            self, self.target, num_draws, num_chains=num_chains, kernel=kernel,
            weigh=self.sampler.weigh, burn_in=burn_in, thin=thin, seed=seed,
        )  # fmt: skip

    def as_distribution(self, *, seed: int = 0) -> Distribution:
        """The target as a distribution of torch, with ``sample`` and ``log_prob``, by this model;
        see ``tcsis.Distribution``."""
        return Distribution(self, seed=seed)

    def given(
        self, evidence: Mapping[Any, Any] | Tensor, mask: Tensor | None = None
    ) -> Conditional:
        """The same model given the values of some sites, as for ``target.given``, without training:
        what a model of the any-time method is good for."""
        target = self.target.given(evidence, mask)
        inside = target.known.among(self.target.free_sites)
        sampler = self.sampler if inside is None else self.sampler.given(inside)
        return Conditional(
            self.kind, target, self.target, sampler, self.sampler, self.seconds,
            self.num_density_calls,
        )  # fmt: skip

    def at(self, **values: float) -> Learned:
        """The model at one value of the range that ``tcsis.train_range`` trained it for,
        ``model.at(beta=0.37)``: a model of the any-time method, which does all that others do."""
        method: Method[Any] = self.config.method
        target, inner, module = method.at(self.module, self.target, values)
        config = self.config.changed(method=inner.model_dump())
        return replace(self, target=target, config=config, module=module)

    @property
    def denoiser(self) -> Denoiser:
        """log P(x_0^i = v | x_t), (b, d) and (b, d) -> (b, d, v)."""
        return self.sampler.denoiser

    def schedule(self, calls: int | None = None) -> Schedule:
        """The schedule that ``sample`` goes by."""
        return self.sampler.schedule(calls)

    @property
    def last_look(self) -> str:
        """What the last evaluation of a model of many targets said of the others."""
        return self.config.method.tell(self.history[-1]) if self.history else ""

    @property
    def account(self) -> str:
        """What training went to: 2.1 s annealing (40,960 densities), 6.5 s training (312 of 4,000
        steps, 80,112 densities), ..., and the densities a state."""
        notes = {
            what: [f"{calls:,.0f} densities"] if calls >= 0.5 else []
            for what, calls in ({"training": 0.0} | self.evaluated).items()
        }
        notes["training"].insert(0, f"{self.steps:,} of {self.config.num_steps:,} steps")
        parts = account(self.spent, {what: ", ".join(note) for what, note in notes.items() if note})
        return f"{parts}; {self.calls_per_state:.3g} densities a state" if self.steps else parts

    @property
    def calls_per_state(self) -> float:
        """Density calls of all of training, for every state of the buffer that a step was made
        with."""
        looked_at = self.steps * self.config.optimisation.batch_size
        return self.num_density_calls / looked_at if looked_at else math.nan

    # -- files -----------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write the model and its target into a folder, for ``tcsis.load``."""
        tensors, described = tensors_of(self.module, self.target)
        with sole_writer(Path(folder)):
            return checkpoint.save(folder, tensors, self.record(described))

    def record(self, described: dict[str, Any]) -> dict[str, Any]:
        """Everything but tensors, as plain data."""
        return {
            "config": self.config.model_dump(), "target": described, "history": self.history,
            "seconds": self.seconds, "num_density_calls": self.num_density_calls,
            "spent": self.spent, "steps": self.steps, "evaluated": self.evaluated,
        }  # fmt: skip


def draw_shard(model: Learned | Conditional, calls: int | None, n: int, seed: int) -> Draws:
    """``model.sample`` as shards are drawn."""
    return model.sample(n, calls=calls, seed=seed)


def tensors_of(module: nn.Module, target: Target) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a model and of its target under the names of a file, and the rest of the
    target as plain data."""
    described, parameters = describe(target)
    tensors = {f"model/{name}": value for name, value in module.state_dict().items()}
    return tensors | {f"target/{name}": value for name, value in parameters.items()}, described


def load(folder: str | Path, target: Target | None = None) -> Learned:
    """A model that ``save`` or a training run wrote.  ``target`` is needed only for a function of
    the user's own, which no file can hold."""
    tensors, data = checkpoint.load(folder)
    return from_checkpoint(tensors, data, target)


def from_checkpoint(
    tensors: dict[str, Tensor], data: dict[str, Any], target: Target | None
) -> Learned:
    target, config = target_and_config(tensors, data, target)
    module = config.new_model(target.free, seed=0)
    load_weights(module, tensors, "model/")
    return Learned(
        target, config, module.eval(), data["history"], data["seconds"], data["num_density_calls"],
        data.get("spent", {}), data.get("steps", 0), data.get("evaluated", {}),
    )  # fmt: skip


def target_and_config(
    tensors: dict[str, Tensor], data: dict[str, Any], target: Target | None
) -> tuple[Target, Config]:
    """What the model of a checkpoint is of."""
    if not {"config", "target", "history", "seconds", "num_density_calls"} <= data.keys():
        raise CheckpointError("this checkpoint holds no model: expected one that tcsis.train wrote")
    if not isinstance(data["config"].get("method"), dict):
        raise CheckpointError(
            "this checkpoint is of an older tcsis, whose methods went by other names: expected "
            "one of this version; train again"
        )
    target = matching_target(tensors, data["target"], target)
    try:
        return target, parse(Config, data["config"])
    except ValueError as error:
        raise CheckpointError(f"this checkpoint is of another tcsis: {error}") from None


def matching_target(
    tensors: dict[str, Tensor], described: dict[str, Any], target: Target | None
) -> Target:
    """The target given, if it fits what is saved, or the saved one."""
    own = {name[7:]: value for name, value in tensors.items() if name.startswith("target/")}
    if target is None:
        return build(described, own)
    saved, parameters = describe(target)
    if described["name"] != CALLABLE:
        described, _ = describe(build(described, own))  # with the defaults of what it did not say
    law = tuple(key for key in saved if key not in NAMES)  # which is the same by any names
    sizes = ("num_sites", "num_values") if saved["name"] == CALLABLE else law
    for name in dict.fromkeys((*sizes, "given")):
        if described.get(name) != saved.get(name):
            raise ValueError(
                f"target has {name} = {saved.get(name)} and the saved model "
                f"{described.get(name)}: expected the target it was trained on"
            )
    for name, value in parameters.items():
        kept = tensors.get(f"target/{name}")
        if kept is None or not torch.equal(kept, value.cpu()):
            raise ValueError(
                f"target has other {name} than the saved model: expected the target it was "
                "trained on"
            )
    return target


def load_weights(module: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    own = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(f"the weights do not fit the model of the config: {reason}") from None
