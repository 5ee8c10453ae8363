"""What a training run is made of, as frozen values that a TOML or JSON file can hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Positive = Annotated[int, Field(ge=1)]
Method = Literal["self-normalized", "unbiased"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Network(Frozen):
    """``causal`` reads sites in order and serves sequential schedules; the others serve any time:
    ``lattice`` convolves, ``dit`` attends to all sites, ``graph`` to neighbours."""

    name: Literal["causal", "lattice", "dit", "graph"]
    width: Positive
    depth: Positive = 4
    heads: Positive = 4


class Part(Frozen):
    """A function by name, with its keyword arguments."""

    name: str
    settings: dict[str, float | int | bool | str] = {}


class Optimisation(Frozen):
    """AdamW with warm-up, then cosine decay to ``final`` of the rate, and an average of weights."""

    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    warmup: Annotated[int, Field(ge=0)] = 100
    final: Annotated[float, Field(ge=0, le=1)] = 0.02
    batch_size: Annotated[int, Field(ge=2)] = 128
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    max_norm: Annotated[float, Field(gt=0)] = 5.0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999


class Config(Frozen):
    """A whole training run.

    ``estimator`` names a function of ``tcsis.identity``, or ``conditionals`` for the sequential
    schedule; ``proposal`` one of ``tcsis.learn.buffers``.  ``num_calls`` is how many network calls a
    draw takes by default where that is free to choose, and ``reverse_step`` how it goes.  With
    ``times`` mixed, a parallel model learns sites that are known or not, too, and serves every
    schedule.  ``crowd_size`` annealed states tell a parallel unbiased model what the
    noise looks like (``tcsis.learn.models.crowd``); with none, it has the paper's preconditioning alone.
    ``scores`` says where such a model has its scores from (``tcsis.learn.models.marginal``).
    """

    method: Method = "self-normalized"
    schedule: Literal["sequential", "parallel"] = "sequential"
    times: Literal["shared", "mixed"] = "shared"
    objective: Literal[
        "path", "cross-entropy", "score-entropy", "spread", "itakura-saito", "squares"
    ]
    network: Network
    estimator: Part
    proposal: Part
    optimisation: Optimisation = Optimisation()
    symmetric: bool = True
    preconditioned: bool = True
    crowd_size: Annotated[int, Field(ge=0)] = 0
    noise_eps: Annotated[float, Field(ge=0, lt=1)] = 0.0
    dtype: Literal["float32", "float64"] = "float32"
    compiled: bool = False
    num_steps: Positive
    num_calls: Positive = 64
    reverse_step: Literal["euler", "tweedie", "trapezoidal"] = "tweedie"
    scores: Literal["learned", "taylor", "assembled"] = "learned"
    num_evaluations: Annotated[int, Field(ge=0)] = 5
    num_evaluated: Positive = 2_000


Kind = TypeVar("Kind", bound=Frozen)


def parse(data: dict[str, Any], kind: type[Kind]) -> Kind:
    """A config of its kind from plain data, or one clear sentence on what is wrong with it."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "config"
        raise ValueError(f"config: {where} is wrong: {first['msg']}") from None
