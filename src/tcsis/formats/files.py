"""Every file that can be read, by its extension or by the name of its format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcsis.formats.alignments import read_fasta
from tcsis.formats.bif import read_bif
from tcsis.formats.cnf import read_cnf, read_wcnf
from tcsis.formats.dca import read_dca
from tcsis.formats.dimod_files import read_bqm, read_coo, read_dqm, read_qubo
from tcsis.formats.graph_files import read_dimacs, read_gset
from tcsis.formats.uai import read_uai
from tcsis.targets.base import Target

GRAPH = ("problem", "beta", "fugacity", "num_values")


@dataclass(frozen=True)
class Format:
    """A reader, the extensions of its files, and the settings that it has."""

    read: Callable[..., Target]
    extensions: tuple[str, ...]
    settings: tuple[str, ...] = ()


FORMATS = {
    "bqm": Format(read_bqm, (".bqm",), ("beta",)),
    "dqm": Format(read_dqm, (".dqm",), ("beta",)),
    "coo": Format(read_coo, (".coo",), ("beta",)),
    "qubo": Format(read_qubo, (".qubo",), ("beta",)),
    "gset": Format(read_gset, (".gset", ".rud", ".mc"), GRAPH),
    "dimacs": Format(read_dimacs, (".dimacs", ".col", ".clq", ".mis"), GRAPH),
    "cnf": Format(read_cnf, (".cnf",), ("beta",)),
    "wcnf": Format(read_wcnf, (".wcnf",), ("beta",)),
    "bif": Format(read_bif, (".bif",)),
    "uai": Format(read_uai, (".uai",)),
    "fasta": Format(
        read_fasta, (".fasta", ".fa", ".fas", ".afa", ".a2m"), ("coupling_penalty", "field_penalty")
    ),
    "dca": Format(read_dca, (".dca",)),
}


def find_format(path: str | Path) -> str | None:
    """The name of the format that files with this extension have."""
    extension = Path(path).suffix.lower()
    return next((name for name, one in FORMATS.items() if extension in one.extensions), None)


def read(path: str | Path, format: str | None = None, **settings: Any) -> Target:
    """The target in a file, of the format that its extension says, or of the one named.

    ``settings`` are those of the format's own reader, such as ``beta``.
    """
    name = find_format(path) if format is None else format
    if name not in FORMATS:
        came = (
            f"{path} has the extension {Path(path).suffix!r}"
            if format is None
            else f"format is {format!r}"
        )
        raise ValueError(f"{came}: expected a format of {', '.join(FORMATS)}")
    found = FORMATS[name]
    for setting in settings:
        if setting not in found.settings:
            listing = ", ".join(found.settings) or "none"
            raise ValueError(f"unknown setting {setting!r} of format {name}: expected {listing}")
    return found.read(path, **settings)
