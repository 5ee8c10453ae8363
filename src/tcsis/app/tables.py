"""Results as small tables, for the terminal and for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from rich.table import Table

from tcsis.app.report.figures import main_error
from tcsis.app.results import MethodResult, Result

COLOURS = {
    "trusted": "green",
    "trusted by weight": "cyan",
    "unrefuted": "white",
    "doubtful": "yellow",
    "failed": "red",
}
ROUNDING = 1e-6
COLUMNS = (
    "method", "verdict", "draws", "worth", "error", "iid floor", "log Z", "ESS", "seconds",
    "training", "densities", "network calls",
)  # fmt: skip


def as_table(result: Result) -> Table:
    """A table for the terminal, one row a method."""
    table = Table(title=title(result), title_justify="left", caption_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in COLUMNS[:2] else "right")
    for method in result.methods:
        name, level, *rest = cells(method)
        colour = COLOURS.get(level, "default")
        table.add_row(name, f"[{colour}]{level}[/{colour}]", *rest)
    return table


def as_html(result: Result) -> str:
    """The same for a notebook."""
    rows = [cells(method) for method in result.methods]
    return html_table(title(result), COLUMNS, rows)


def html_table(caption: str, columns: tuple[str, ...], rows: list[list[str]]) -> str:
    def line(entries: Any, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(e))}</{tag}>" for e in entries) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{line(columns, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def title(result: Result) -> str:
    if result.exact is None:
        return f"{result.target.name}, too large for exact answers"
    return f"{result.target.name}, exact by {result.exact.method}: log Z = {result.exact.log_z:.4f}"


def cells(method: MethodResult) -> list[str]:
    row = main_error(method)
    log_z = number(method.log_z, 4)
    if method.log_z_error and method.log_z_error > ROUNDING:
        log_z += f" ± {method.log_z_error:.1g}"
    return [
        method.name, method.verdict.level, f"{method.n:,}", f"{method.num_effective:,.0f}",
        number(None if row is None else row.error, 5),
        number(None if row is None else row.floor, 5),
        log_z, number(method.ess, 3), number(method.seconds, 1),
        number(method.training_seconds or None, 1), count(method.num_density_calls),
        count(method.num_network_calls),
    ]  # fmt: skip


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def count(value: float) -> str:
    """12,345 or 1.23e+07; nothing for none."""
    if not value:
        return ""
    return f"{value:,.0f}" if value < 1e6 else f"{value:.3g}"
