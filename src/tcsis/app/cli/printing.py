"""What commands print of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tcsis.app import runs
from tcsis.app.cli.printer import Printer
from tcsis.app.report.figures import first_error
from tcsis.app.results import Result
from tcsis.app.tables import as_table

PICTURES: dict[str, Any] = {
    "correlation": True, "magnetisation": True, "energy": True, "states": True, "traces": True,
    "log_weights": {"histogram"},
}  # fmt: skip
"""What of a method is for pictures only."""


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
