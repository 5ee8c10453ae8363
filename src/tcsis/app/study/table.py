"""The table of the study: a row for every setting and method, over its seeds."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from rich.table import Table

from tcsis.app.study.cells import Cell, Reading
from tcsis.app.study.plan import Method, Plan, Setting, Task


@dataclass(frozen=True)
class Source:
    """What a row shows: a reading of a method."""

    title: str
    method: Method
    reading: str

    def of(self, cell: Cell) -> Reading:
        return cell.readings[self.reading]


@dataclass(frozen=True)
class Row:
    """Means over the seeds; ``spread`` is the sample standard deviation of the error, ``ratio`` and
    ``weighted_ratio`` are errors over the floor, and ``log_z_error`` is the signed one of largest
    magnitude."""

    setting: str
    method: str
    seeds: int
    draws: int
    error: float
    spread: float | None
    floor: float
    ratio: float
    weighted_error: float | None
    weighted_ratio: float | None
    ess: float | None
    log_z_error: float | None
    positive: float
    training_seconds: float
    sampling_seconds: float
    density_calls: float
    network_calls: float


def sources(methods: Sequence[Method]) -> list[Source]:
    """The rows of a setting: every reading of every method."""
    return [
        Source(f"{method.title}, {title}" if title else method.title, method, name)
        for method in methods
        for name, title in method.readings
    ]


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
    readings = [source.of(cell) for cell in cells]
    errors = [reading.error for reading in readings]
    error, floor = statistics.mean(errors), statistics.mean(r.floor for r in readings)
    weighted = mean(known([reading.weighted_error for reading in readings]))
    misses = known([reading.log_z_error for reading in readings])
    return Row(
        setting=setting.name,
        method=source.title,
        seeds=len(errors),
        draws=readings[0].num_draws,
        error=error,
        spread=statistics.stdev(errors) if len(errors) > 1 else None,
        floor=floor,
        ratio=error / floor,
        weighted_error=weighted,
        weighted_ratio=None if weighted is None else weighted / floor,
        ess=mean(known([reading.ess for reading in readings])),
        log_z_error=max(misses, key=abs, default=None),
        positive=statistics.mean(reading.positive for reading in readings),
        training_seconds=statistics.mean(cell.training_seconds for cell in cells),
        sampling_seconds=statistics.mean(reading.seconds for reading in readings),
        density_calls=statistics.mean(
            cell.training_densities + source.of(cell).num_density_calls for cell in cells
        ),
        network_calls=statistics.mean(reading.network_calls for reading in readings),
    )


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def mean(values: Sequence[float]) -> float | None:
    return statistics.mean(values) if values else None


# -- as text -------------------------------------------------------------------------------------

HEADS = (
    "setting", "method", "seeds", "draws", "error", "error/floor", "weighted/floor", "ESS",
    "log Z error", "P(m > 0)", "training s", "sampling s", "densities", "calls",
)  # fmt: skip
TERMINAL = tuple(head for head in HEADS if head not in ("setting", "seeds", "draws", "densities"))


def entries(row: Row) -> list[str]:
    """A row as it is shown, under ``HEADS``."""
    spread = "" if row.spread is None else f" ± {row.spread:.4f}"
    return [
        row.setting, row.method, str(row.seeds), f"{row.draws:,}",
        show(row.error, ".4f") + spread, show(row.ratio, ".3g"), show(row.weighted_ratio, ".3g"),
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
