"""What a run is made of, as one TOML file that can be read again.

[target]    the spec of ``tcsis.app.sources``
[run]       command, seed, device, dtype, threads, n, and which preset
[train]     the whole ``Config``; in a file written by hand, what differs from the preset
[mcmc]      kernel, chains and steps
[compare]   methods, and what is equal between them
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomlkit
from pydantic import BaseModel, Field, ValidationError

from tcsis.app.methods import LEARNED
from tcsis.app.sources import absolute, is_function, make_target
from tcsis.learn.config import Config, Frozen, Method, Positive, parse
from tcsis.learn.trainer import choose_preset
from tcsis.targets.base import Target

Command = Literal["train", "sample", "mcmc", "exact", "compare"]
TRAINED = ("train", "compare")
Document = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)


class RunSettings(Frozen):
    """What every command has; ``method`` to ``checkpoint_every`` are of training, ``calls`` and
    ``model`` of sampling."""

    command: Command
    seed: int = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] | None = None
    threads: Positive | None = None
    n: Positive = 10_000
    method: Method = "self-normalized"
    preset: Literal["fast", "paper", "tiny"] = "fast"
    schedule: Literal["sequential", "parallel"] = "sequential"
    time_budget: Annotated[float, Field(gt=0)] | None = None
    checkpoint_every: Annotated[float, Field(ge=0)] = 30.0
    calls: Positive | None = None
    model: str | None = None


class ChainSettings(Frozen):
    kernel: str = "gibbs"
    num_chains: Positive = 100
    num_steps: Positive = 1_000
    burn_in: Annotated[int, Field(ge=0)] = 100
    thin: Positive = 1


class CompareSettings(Frozen):
    methods: Annotated[tuple[str, ...], Field(min_length=1)] = ("tcsis", "glauber")
    equal: Literal["seconds", "densities"] = "seconds"


class Settings(Frozen):
    """A resolved run."""

    target: dict[str, Any]
    run: RunSettings
    train: Config | None = None
    mcmc: ChainSettings | None = None
    compare: CompareSettings | None = None

    def make_target(self) -> Target:
        return make_target(self.target, self.run.device)

    def to_toml(self) -> str:
        return tomlkit.dumps(without_none(self.model_dump()))


def resolve(document: Document, command: Command) -> Settings:
    """Settings with every default filled in, or one sentence on what is wrong."""
    for section in document:
        if section not in Settings.model_fields:
            known = ", ".join(Settings.model_fields)
            raise ValueError(f"config: unknown section [{section}]: expected {known}")
    target = absolute(table(document, "target"))
    if not target.get("name"):
        raise ValueError("target is missing: expected a name, such as ising; see tcsis targets")
    run = validate(RunSettings, table(document, "run") | {"command": command}, "run")
    if run.dtype is not None and not is_function(target):
        target |= {"dtype": run.dtype}
    settings = Settings(target=target, run=run)
    if command == "mcmc":
        chains = validate(ChainSettings, table(document, "mcmc"), "mcmc")
        return settings.model_copy(update={"mcmc": chains})
    if command == "compare":
        compared = validate(CompareSettings, table(document, "compare"), "compare")
        method = next((LEARNED[name] for name in compared.methods if name in LEARNED), run.method)
        run = run.model_copy(update={"method": method})
        settings = settings.model_copy(update={"compare": compared, "run": run})
    if command in TRAINED:
        config = resolve_config(settings, table(document, "train"))
        return settings.model_copy(update={"train": config})
    return settings


def resolve_config(settings: Settings, given: Document) -> Config:
    """The preset for the target, with what is given on top of it."""
    run = settings.run
    preset = choose_preset(settings.make_target(), run.method, run.preset, run.schedule)
    base = preset.model_dump()
    if run.dtype is not None:
        base["dtype"] = run.dtype
    for part in ("estimator", "proposal"):
        if table(given, part).get("name", base[part]["name"]) != base[part]["name"]:
            base[part]["settings"] = {}  # those of another function
    return parse(merge(base, given), Config)


# -- documents -----------------------------------------------------------------------------------


def read(path: str | Path) -> Document:
    """A config file as plain data."""
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): expected TOML") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML ({error}): expected tables of values") from None


def merge(base: Document, over: Document) -> Document:
    """``base`` with the entries of ``over`` in their places, table by table."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def assignment(text: str) -> Document:
    """``a.b=c`` as nested tables; c is a TOML value, or else a string."""
    path, equals, value = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys) or len(keys) < 2:
        raise ValueError(
            f"set is {text!r}: expected section.key=value, such as train.num_steps=400"
        )
    nested: Any = parse_value(value.strip())
    for key in reversed(keys):
        nested = {key: nested}
    return nested


def parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def table(document: Document, name: str) -> Document:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"config: {name} is {value!r}: expected a table")
    return value


def validate(model: type[Model], data: Document, section: str) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([section, *(str(part) for part in first["loc"])])
        raise ValueError(f"config: {where} is wrong: {first['msg']}") from None


def without_none(data: Document) -> Document:
    """TOML has no null; what is None is left out."""
    return {
        key: without_none(value) if isinstance(value, dict) else value
        for key, value in data.items()
        if value is not None
    }
