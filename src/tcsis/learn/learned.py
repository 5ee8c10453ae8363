"""A trained model with its target: draws, and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tcsis import reverse
from tcsis.basics.checks import check_counts, check_integer, make_generator
from tcsis.draws import Draws
from tcsis.learn import checkpoint
from tcsis.learn.assemble import make_model, make_noise
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.config import Config, parse
from tcsis.learn.models import marginal
from tcsis.learn.models.diffusion import DenoiserModel, ScoreModel
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.sequential import Sequential
from tcsis.reverse import schedules
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Step, euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.targets.base import Target
from tcsis.targets.spec import build, describe

BATCH_SIZE = 2_000


@dataclass
class Learned:
    """What ``tcsis.train`` returns: ``model.sample(10_000, seed=1)``.

    ``history`` holds a record of every evaluation during training, and ``seconds`` how long that
    took.
    """

    target: Target
    config: Config
    module: nn.Module
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    num_density_calls: float = 0.0

    def sample(
        self,
        n: int,
        *,
        steps: int | None = None,
        schedule: Schedule | None = None,
        step: Step | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
        batch_size: int | None = None,
    ) -> Draws:
        """n independent draws, each with its path weight.

        ``steps`` is how many network calls a draw may take.  A sequential model takes one a site
        and no more; a parallel one goes from noise to the target in that many.  A parallel model
        serves any ``schedule`` and ``step`` of the reverse process.
        """
        check_counts(n=n, batch_size=batch_size or 1)
        generator = generator or make_generator(seed, "reverse", self.target.device)
        if isinstance(self.module, Sequential):
            refuse_other_schedules(self.module, steps, schedule, step)
            sizes = {} if batch_size is None else {"batch_size": batch_size}
            return self.module.sample(self.target, n, generator, **sizes)
        return reverse.sample(
            self.target, self.denoiser, make_noise(self.config, self.target),
            schedule or self.schedule(steps), step or self.step(), n,
            generator=generator, batch_size=batch_size or BATCH_SIZE,
        )  # fmt: skip

    @property
    def denoiser(self) -> Callable[[Tensor, Tensor], Tensor]:
        """log P(x_0^i = v | x_t), (b, d) and (b, d) -> (b, d, v)."""
        if isinstance(self.module, MarginalModel):
            return partial(getattr(marginal, self.config.scores), self.module)
        assert isinstance(self.module, Sequential | DenoiserModel | ScoreModel)
        return self.module.denoiser

    def schedule(self, steps: int | None = None) -> Schedule:
        """The schedule that ``sample`` goes by."""
        if isinstance(self.module, Sequential):
            return self.module.schedule
        calls = check_integer("steps", self.config.num_calls if steps is None else steps)
        # a correction takes another call at the states that it changes, about one in ten
        num_steps = (
            max(1, round(calls / 1.15)) if self.config.reverse_step == "trapezoidal" else calls
        )
        grid = schedules.uniform_grid(make_noise(self.config, self.target), num_steps)
        return schedules.parallel(self.target.num_sites, grid)

    def step(self) -> Step:
        """The reverse step that ``sample`` takes."""
        named: dict[str, Step] = {"euler": euler, "tweedie": tweedie}
        return named.get(self.config.reverse_step) or Trapezoidal(self.target)

    # -- files -----------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write the model and its target into a folder, for ``tcsis.load``."""
        tensors, described = tensors_of(self.module, self.target)
        return checkpoint.save(folder, tensors, self.record(described))

    def record(self, described: dict[str, Any]) -> dict[str, Any]:
        """Everything but tensors, as plain data."""
        return {
            "config": self.config.model_dump(), "target": described, "history": self.history,
            "seconds": self.seconds, "num_density_calls": self.num_density_calls,
        }  # fmt: skip


def tensors_of(module: nn.Module, target: Target) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a model and of its target under the names of a file, and the rest of the
    target as plain data."""
    described, parameters = describe(target)
    tensors = {f"model/{name}": value for name, value in module.state_dict().items()}
    return tensors | {f"target/{name}": value for name, value in parameters.items()}, described


def refuse_other_schedules(
    model: Sequential, steps: int | None, schedule: Schedule | None, step: Step | None
) -> None:
    if schedule is not None or step is not None:
        raise ValueError(
            "schedule and step are fixed for a sequential model, which draws site by site: train "
            'with schedule="parallel" to choose them'
        )
    if steps is not None and check_integer("steps", steps) < len(model.order):
        raise ValueError(
            f"steps is {steps}: a sequential model takes one call for each of its "
            f'{len(model.order)} sites; expected at least that, or train with schedule="parallel"'
        )


def load(folder: str | Path, target: Target | None = None) -> Learned:
    """A model that ``save`` or a training run wrote.  ``target`` is needed only for a function of
    the user's own, which no file can hold."""
    tensors, data = checkpoint.load(folder)
    return from_checkpoint(tensors, data, target)


def from_checkpoint(
    tensors: dict[str, Tensor], data: dict[str, Any], target: Target | None
) -> Learned:
    if not {"config", "target", "history", "seconds", "num_density_calls"} <= data.keys():
        raise CheckpointError("this checkpoint holds no model: expected one that tcsis.train wrote")
    target = matching_target(tensors, data["target"], target)
    config = parse(data["config"], Config)
    module = make_model(config, target, seed=0)
    load_weights(module, tensors, "model/")
    return Learned(
        target, config, module.eval(), data["history"], data["seconds"], data["num_density_calls"]
    )


def matching_target(
    tensors: dict[str, Tensor], described: dict[str, Any], target: Target | None
) -> Target:
    """The target given, if it fits what is saved, or the saved one."""
    if target is None:
        own = {name[7:]: value for name, value in tensors.items() if name.startswith("target/")}
        return build(described, own)
    saved, parameters = describe(target)
    sizes = ("num_sites", "num_values") if saved["name"] == "callable" else tuple(saved)
    for name in sizes:
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
