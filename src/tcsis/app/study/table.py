"""The table of the study: a row for every setting and method, over its seeds."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from rich.table import Table

from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import METHODS, Method, Plan, Setting, Task

CORRECTED = "LEAPS, corrected"


@dataclass(frozen=True)
class Source:
    """What a row shows: a method, and its draws as they come or by their weights."""

    title: str
    method: Method
    weighted: bool = False

    def error(self, cell: Cell) -> float | None:
        return cell.weighted_error if self.weighted else cell.error

    def correlation(self, cell: Cell) -> list[float] | None:
        return cell.weighted_correlation if self.weighted else cell.correlation

    def magnetisation(self, cell: Cell) -> list[float] | None:
        if self.weighted:
            return cell.weighted_magnetisation
        return [count / sum(cell.magnetisation) for count in cell.magnetisation]


@dataclass(frozen=True)
class Row:
    """Means over the seeds; ``spread`` is the sample standard deviation of the error, and
    ``log_z_error`` the signed one of largest magnitude."""

    setting: str
    method: str
    seeds: int
    error: float | None
    spread: float | None
    floor: float
    ratio: float | None
    weighted_error: float | None
    ess: float | None
    log_z_error: float | None
    positive: float
    training_seconds: float
    sampling_seconds: float
    density_calls: float
    network_calls: float


def sources(methods: Sequence[Method] = METHODS) -> list[Source]:
    """The rows of a setting: every method, and LEAPS a second time with its weights."""
    found = []
    for method in methods:
        found.append(Source(method.title, method))
        if method.name == "leaps":
            found.append(Source(CORRECTED, method, weighted=True))
    return found


def make_rows(plan: Plan, cells: dict[Task, Cell]) -> list[Row]:
    """In the order of the plan, leaving out what has no cell."""
    return [
        summarise(setting, source, some)
        for setting in plan.settings
        for source in sources(plan.methods)
        if (some := select(cells, setting, source.method))
    ]


def select(cells: dict[Task, Cell], setting: Setting, method: Method) -> list[Cell]:
    """The cells of a setting and a method, by seed."""
    own = [task for task in cells if (task.setting, task.method) == (setting, method)]
    return [cells[task] for task in sorted(own, key=lambda task: task.seed)]


def summarise(setting: Setting, source: Source, cells: list[Cell]) -> Row:
    errors = known([source.error(cell) for cell in cells])
    error, floor = mean(errors), statistics.mean(cell.floor for cell in cells)
    misses = known([cell.log_z_error for cell in cells])
    return Row(
        setting=setting.name,
        method=source.title,
        seeds=len(errors),
        error=error,
        spread=statistics.stdev(errors) if len(errors) > 1 else None,
        floor=floor,
        ratio=None if error is None else error / floor,
        weighted_error=mean(known([cell.weighted_error for cell in cells])),
        ess=mean(known([cell.ess for cell in cells])),
        log_z_error=max(misses, key=abs, default=None),
        positive=statistics.mean(cell.positive for cell in cells),
        training_seconds=statistics.mean(cell.training_seconds for cell in cells),
        sampling_seconds=statistics.mean(cell.sampling_seconds for cell in cells),
        density_calls=statistics.mean(cell.num_density_calls for cell in cells),
        network_calls=statistics.mean(cell.network_calls for cell in cells),
    )


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def mean(values: Sequence[float]) -> float | None:
    return statistics.mean(values) if values else None


# -- as text -------------------------------------------------------------------------------------

HEADS = (
    "setting", "method", "seeds", "error", "error/floor", "weighted error", "ESS", "log Z error",
    "P(m > 0)", "training s", "sampling s", "densities", "calls",
)  # fmt: skip
TERMINAL = tuple(head for head in HEADS if head not in ("setting", "seeds", "densities"))


def entries(row: Row) -> list[str]:
    """A row as it is shown, under ``HEADS``."""
    spread = "" if row.spread is None else f" ± {row.spread:.4f}"
    return [
        row.setting, row.method, str(row.seeds),
        show(row.error, ".4f") + spread, show(row.ratio, ".3g"), show(row.weighted_error, ".4f"),
        show(row.ess, ".3f"), show(row.log_z_error, "+.4f"), show(row.positive, ".3f"),
        show(row.training_seconds or None, ".0f"), show(row.sampling_seconds, ".1f"),
        show(row.density_calls or None, ".2g"), show(row.network_calls or None, ".1f"),
    ]  # fmt: skip


def show(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [HEADS, ("---", "---", *["---:"] * (len(HEADS) - 2)), *map(entries, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(rows: Sequence[Row]) -> str:
    """Every number in full; empty where there is none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def as_tables(rows: Sequence[Row]) -> list[Table]:
    """For the terminal, a table for every setting."""
    tables: dict[str, Table] = {}
    for row in rows:
        if row.setting not in tables:
            tables[row.setting] = empty_table(row.setting)
        shown = dict(zip(HEADS, entries(row), strict=True))
        tables[row.setting].add_row(*(shown[head] for head in TERMINAL))
    return list(tables.values())


def empty_table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for head in TERMINAL[1:]:
        table.add_column(head, justify="right")
    return table
