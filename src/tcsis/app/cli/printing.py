"""What commands print: tables and words, or one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from tcsis.app import runs
from tcsis.app.cli.options import PrintOptions
from tcsis.app.report.figures import first_error
from tcsis.app.results import Result
from tcsis.app.tables import as_table

WIDTH = 150
"""Of tables that go to a file or a pipe."""

PICTURES: dict[str, Any] = {
    "correlation": True, "magnetisation": True, "energy": True, "states": True, "traces": True,
    "log_weights": {"histogram"},
}  # fmt: skip
"""What of a method is for pictures only."""


class Printer:
    """Words and tables go to stdout, unless that is kept for JSON or nothing; notes to stderr."""

    def __init__(self, options: PrintOptions):
        self.options = options

    @property
    def lively(self) -> bool:
        """Whether anyone looks at a progress bar."""
        return sys.stderr.isatty() and not self.options.quiet

    def show(self, *parts: RenderableType) -> None:
        if self.options.json or self.options.quiet:
            return
        console = Console(highlight=False, soft_wrap=False)
        if not console.is_terminal:
            console.width = WIDTH
        for part in parts:
            console.print(part, markup=False) if isinstance(part, str) else console.print(part)

    def note(self, text: str) -> None:
        if not self.options.quiet:
            Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)

    def data(self, value: dict[str, Any]) -> None:
        """The JSON object, if that was asked for."""
        if self.options.json:
            print(json.dumps(value, allow_nan=False))


def print_result(printer: Printer, result: Result, folder: Path | None) -> None:
    """The table, every verdict, and where the report is."""
    verdicts = [f"{m.name}: {m.verdict}" for m in result.methods]
    printer.show(as_table(result), *verdicts)
    if folder is not None:
        printer.show(f"report: {folder / runs.REPORT}")


def as_data(result: Result) -> dict[str, Any]:
    """A result as a small object: what tables show, in full precision."""
    return {
        "target": result.target.model_dump(exclude={"shape", "boundary"}),
        "exact": None
        if result.exact is None
        else result.exact.model_dump(include={"method", "log_z", "mean_energy", "correlation"}),
        "methods": [
            method.model_dump(exclude=PICTURES)
            | {"error": error_of(method.rows), "weighted_error": error_of(method.weighted_rows)}
            for method in result.methods
        ],
    }


def error_of(rows: list[Any]) -> float | None:
    row = first_error(rows)
    return None if row is None else row.error
