"""What a run is made of, as one TOML file that can be read again.

[target]    the spec of ``tcsis.app.sources``
[run]       command, seed, device, dtype and threads, and what the command has besides
[train]     the whole ``Config``; in a file written by hand, what differs from the preset
[mcmc]      kernel, chains and steps
[compare]   methods, and what is equal between them

Each command has the sections and entries that it reads, and refuses all others.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tomlkit
from pydantic import Field

from tcsis.app.methods import LEARNED, Equal
from tcsis.app.sources import absolute, digest_target, find_device, is_function, make_target
from tcsis.basics.checks import MAX_SEED
from tcsis.basics.frozen import Frozen, Positive, merge, parse
from tcsis.basics.seals import is_sealed_toml, open_toml
from tcsis.learn import presets
from tcsis.learn.config import Config
from tcsis.learn.presets import MethodName
from tcsis.targets.base import Target
from tcsis.targets.ranges import POWER, Range

Command = Literal["train", "sample", "mcmc", "exact", "compare"]
Preset = Literal["fast", "paper", "tiny"]
TRAINED = ("train", "compare")
Document = dict[str, Any]


# -- [run], by command ----------------------------------------------------------------------------


class Run(Frozen):
    """What every command has."""

    command: Command
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] | None = None
    threads: Positive | None = None


class DrawingRun(Run):
    n: Positive = 10_000


class TrainingRun(DrawingRun):
    preset: Preset | None = None
    time_budget: Annotated[float, Field(gt=0)] | None = None
    checkpoint_every: Annotated[float, Field(ge=0)] = 30.0


class TrainRun(TrainingRun):
    method: MethodName | None = None
    start: str | None = None
    range: str | None = None

    @property
    def over(self) -> Range | None:
        return None if self.range is None else Range.parse(self.range)


class CompareRun(TrainingRun):
    steps: Positive | None = None


class SampleRun(DrawingRun):
    calls: Positive | None = None
    at: str | None = None
    model: str


# -- the other sections ---------------------------------------------------------------------------


class ChainSettings(Frozen):
    kernel: str = "gibbs"
    num_chains: Positive = 100
    num_steps: Positive = 1_000
    burn_in: Annotated[int, Field(ge=0)] = 100
    thin: Positive = 1


class CompareSettings(Frozen):
    methods: Annotated[tuple[str, ...], Field(min_length=1)] = ("autoregressive", "glauber")
    equal: Equal = "seconds"

    @property
    def first_learned(self) -> str | None:
        """The method that [train] is for."""
        return next((name for name in self.methods if name in LEARNED), None)


# -- a resolved run, by command -------------------------------------------------------------------


class Settings(Frozen):
    """The sections of a command."""

    target: dict[str, Any]
    run: Run

    def to_toml(self) -> str:
        return tomlkit.dumps(without_none(self.model_dump()))


class Train(Settings):
    run: TrainRun
    train: Config


class Compare(Settings):
    run: CompareRun
    compare: CompareSettings
    train: Config | None


class Sample(Settings):
    run: SampleRun


class Exact(Settings):
    run: DrawingRun


class Mcmc(Settings):
    mcmc: ChainSettings


KINDS: dict[Command, type[Settings]] = {
    "train": Train, "compare": Compare, "exact": Exact, "mcmc": Mcmc, "sample": Sample,
}  # fmt: skip


def resolve(
    document: Document, command: Command, made: Target | None = None
) -> tuple[Settings, Target]:
    """Settings with every default filled in and their target, or one sentence on what is wrong.
    A target that is ``made`` already needs no file."""
    kind, sections = KINDS[command], common_sections(document, command)
    run = sections["run"]
    over = run.over if isinstance(run, TrainRun) else None
    if over is not None and over.parameter != POWER:
        sections["target"] = member_at_end(sections["target"], over)
    if made is None:
        target = make_target(sections["target"], run.device)
    else:
        target = made.to(find_device(run.device))
    if "mcmc" in kind.model_fields:
        sections["mcmc"] = parse(ChainSettings, table(document, "mcmc"), "config: mcmc")
    if "compare" in kind.model_fields:
        sections["compare"] = parse(CompareSettings, table(document, "compare"), "config: compare")
    if "train" in kind.model_fields:
        named = run.method if isinstance(run, TrainRun) else sections["compare"].first_learned
        sections["train"] = resolve_config(run, named, target, table(document, "train"))
    if "file" in sections["target"]:
        sections["target"]["sha256"] = digest_target(target)
    return kind(**sections), target


def member_at_end(spec: Document, over: Range) -> Document:
    """The member of a range that its run is of."""
    if spec.get(over.parameter, over.high) != over.high:
        raise ValueError(
            f"{over.parameter} is {spec[over.parameter]} and goes up to {over.high:g} in the "
            f"range: leave {over.parameter} out"
        )
    return spec | {over.parameter: over.high}


def resolve_sample(document: Document) -> Sample:
    """The same for draws of a model, which brings its own target."""
    return Sample(**common_sections(document, "sample"))


def common_sections(document: Document, command: Command) -> Document:
    """The sections [target] and [run], and no others than the command has."""
    sections, given = KINDS[command].model_fields, table(document, "run")
    if given.get("command", command) != command:
        raise ValueError(
            f"config is one of tcsis {given['command']}: expected one of tcsis {command}; to use "
            "it, leave out command and what this one does not have"
        )
    for section in document:
        if section not in sections:
            known = ", ".join(sections)
            raise ValueError(f"config: unknown section [{section}]: tcsis {command} has {known}")
    of_run = cast(type[Run], sections["run"].annotation)
    run = parse(of_run, given | {"command": command}, "config: run")
    spec = absolute(table(document, "target"))
    if not spec.get("name"):
        raise ValueError("target is missing: expected a name, such as ising; see tcsis targets")
    if run.dtype is not None and not is_function(spec):
        spec |= {"dtype": run.dtype}
    return {"target": spec, "run": run}


def resolve_config(
    run: TrainingRun, named: str | None, target: Target, given: Document
) -> Config | None:
    """The preset for the target, with what is given on top of it; None where nothing is trained."""
    if named is None and isinstance(run, CompareRun):
        if given:
            raise ValueError("config: [train] is there and no learned method: leave it out")
        return None
    over = run.over if isinstance(run, TrainRun) else None
    kind = table(given, "method").get("kind", named)
    if over is not None and named is not None:
        raise ValueError(f"range is for its own method: leave out method, which is {named!r}")
    if named is not None and kind != named:
        raise ValueError(f"config: train.method.kind is {kind!r}: expected {named}, as chosen")
    preset = run.preset or "fast"
    if over is None:
        base = presets.choose(target, kind, preset)
    else:
        base = presets.ranged(target, over, preset)
    data = base.model_dump()
    if run.dtype is not None:
        data["dtype"] = run.dtype
    return parse(Config, merge(data, given), "config: train")


# -- documents -----------------------------------------------------------------------------------


def read(path: str | Path) -> Document:
    """A config file as plain data; one that carries a checksum must match it."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): expected TOML") from None
    return parse_toml(path, open_toml(path, content) if is_sealed_toml(content) else content)


def parse_toml(path: Path, content: bytes) -> Document:
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML ({error}): expected tables of values") from None


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


def without_none(data: Document) -> Document:
    """TOML has no null; what is None is left out."""
    return {
        key: without_none(value) if isinstance(value, dict) else value
        for key, value in data.items()
        if value is not None
    }
