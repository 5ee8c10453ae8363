"""The options that several commands share, each group once, as a dataclass.

``grouped`` lets a command take such a group as one parameter: typer sees its fields as options.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option


@dataclass(frozen=True)
class TargetOptions:
    """What to sample from."""

    target: Annotated[
        str | None,
        Argument(
            help="ising, potts, ... (see: tcsis targets), a file such as problem.bqm, "
            "file.py:function, module:function"
        ),
    ] = None
    file: Annotated[
        str | None, Argument(help="the file of a target that is named by its format")
    ] = None
    side: Annotated[str | None, Option(help="side of the lattice: 4, or 4x6 for a box")] = None
    beta: Annotated[float | None, Option(help="inverse temperature")] = None
    num_values: Annotated[int | None, Option(help="values a site can take")] = None
    num_sites: Annotated[int | None, Option(help="number of sites")] = None
    field: Annotated[float | None, Option(help="external field")] = None
    boundary: Annotated[str | None, Option(help="periodic or open")] = None
    disorder: Annotated[str | None, Option(help="bimodal or gaussian")] = None
    disorder_seed: Annotated[int | None, Option(help="seed of the couplings of a glass")] = None
    problem: Annotated[
        str | None,
        Option("--as", help="of a graph: max-cut, independent-set, colouring or ising"),
    ] = None
    fugacity: Annotated[float | None, Option(help="weight of a site in an independent set (1)")] = (
        None
    )
    given: Annotated[
        str | None,
        Option(help="known sites and their values, with commas between: 3=1,17=0 or smoking=yes"),
    ] = None


@dataclass(frozen=True)
class RunOptions:
    """How to run."""

    seed: Annotated[int | None, Option(help="seed of everything random (0)")] = None
    device: Annotated[str | None, Option(help="cpu, cuda, ... (cpu)")] = None
    dtype: Annotated[str | None, Option(help="float32 or float64")] = None
    threads: Annotated[int | None, Option(help="most threads to compute with (all cores)")] = None
    config: Annotated[str | None, Option(help="a TOML file with settings")] = None
    set: Annotated[
        list[str] | None, Option(help="one setting, as section.key=value; may be repeated")
    ] = None


@dataclass(frozen=True)
class DrawOptions(RunOptions):
    """How to run what draws a given number."""

    n: Annotated[int | None, Option("--n", "-n", help="number of draws (10000)")] = None


@dataclass(frozen=True)
class FolderOptions:
    """Where to."""

    out: Annotated[str | None, Option(help="folder of the run")] = None
    resume: Annotated[bool, Option("--resume", help="go on with the run in that folder")] = False
    overwrite: Annotated[bool, Option("--overwrite", help="replace the run in it")] = False


@dataclass(frozen=True)
class GateOptions:
    """What the draws must be, or else the exit code is 5."""

    max_error: Annotated[
        float | None, Option(help="largest mean error of the correlations, or of the energy")
    ] = None
    min_ess: Annotated[float | None, Option(help="smallest effective share of the draws")] = None
    require: Annotated[
        str | None, Option(help="worst verdict to accept: trusted, trusted-by-weight or unrefuted")
    ] = None


@dataclass(frozen=True)
class TrustOptions:
    """Whose code may run."""

    trust_code: Annotated[
        bool, Option("--trust-code", help="run the function that a folder from elsewhere names")
    ] = False


@dataclass(frozen=True)
class PrintOptions:
    """What to print."""

    json: Annotated[
        bool, Option("--json", help="print one JSON object and nothing else on stdout")
    ] = False
    quiet: Annotated[bool, Option("--quiet", help="no progress, no tables")] = False
    debug: Annotated[bool, Option("--debug", help="show the traceback of an error")] = False


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the fields of its dataclass parameters as parameters of its own."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += parameters_of(kind)
        else:
            parameters.append(parameter.replace(annotation=kind))

    @functools.wraps(command)
    def call(**given: Any) -> int:
        made = {
            name: kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)})
            for name, kind in groups.items()
        }
        return command(**made, **given)

    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    # the attribute that inspect.signature, and with it typer, reads; no type knows it
    call.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def parameters_of(kind: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a function, annotations no longer strings."""
    hints = get_type_hints(kind, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(f.name, keyword, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(kind)
    ]
