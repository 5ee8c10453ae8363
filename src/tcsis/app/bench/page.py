"""The folder of the benchmark.

cells/      one file for every cell
table.md    a row for every target, side and method; fits; when training pays
*.png       the figures
index.md    what it says, and how it was made
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tcsis.app import runs
from tcsis.app.bench import figures
from tcsis.app.bench.learned import Trained
from tcsis.app.bench.plan import Plan, Task
from tcsis.app.bench.table import (
    Cells,
    Row,
    choices,
    choices_as_markdown,
    fits_as_markdown,
    make_rows,
    rows_as_markdown,
)
from tcsis.app.executors import Failure
from tcsis.basics.files import whole_file, write_whole

DPI = 150
PACKAGES = ("tcsis", "torch", "numba", "numpy", "mcising", "dwave-samplers")


def write(
    plan: Plan, folder: Path, cells: Cells, failures: Mapping[Task, Failure], command: str,
    where: str,
) -> list[Row]:  # fmt: skip
    """Everything but the cells, from the cells; returns the rows of the table."""
    rows = make_rows(plan, cells)
    write_whole(folder / "table.md", table_page(plan, rows))
    for name, figure in figures.figures(plan, rows).items():
        with whole_file(folder / f"{name}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=DPI)
    write_whole(folder / "index.md", index_page(plan, rows, failures, command, where))
    return rows


def table_page(plan: Plan, rows: Sequence[Row]) -> str:
    return f"""# When to learn: tables

[What they say, and how they were made](index.md).

## One effectively independent draw

{LEGEND}

{rows_as_markdown(rows)}
## How costs grow

Two laws are fitted to those sides that have an estimate, a power of the side L and an exponential,
and the one with the smaller weighted sum of squares stands here. With three or four sides the
difference between the two is not strong evidence for either.

{fits_as_markdown(plan, rows)}"""


LEGEND = """\
Cost is in seconds of one core and in evaluations of log p̄. *Draws for one* is how many draws as
they come make an independent one: 2τ of the observable with the longest integrated autocorrelation
time τ for chains, a step of one chain being a draw; replicas for each effective family of
population annealing; 1/ESS for trained samplers. A sweep over all sites, or one cluster, counts as
one density call; calls of a network count in seconds alone. *Training* stands apart, in seconds and
density calls. Numbers after > are lower bounds, and the last
column says why there is no estimate. ± is the error of *draws for one*; the clock has about 10 %
besides. *Off by* is |energy − exact| in standard errors, where the exact energy is known. All
copies of parallel tempering are paid for, and only the coldest is drawn."""


def index_page(
    plan: Plan, rows: Sequence[Row], failures: Mapping[Task, Failure], command: str, where: str
) -> str:
    pictures = "\n".join(f"![{text}]({name}.png)\n" for name, text in CAPTIONS.items())
    environment = ", ".join(
        [f"Python {platform.python_version()}"]
        + [f"{package} {version}" for package in PACKAGES if (version := version_of(package))]
    )
    return f"""# When to learn, measured

What one effectively independent draw costs, by method and by side, and from how many draws on
training pays. [How to read it](../../when-to-learn.md), [all rows](table.md).

    {command}

writes this folder. A cell that is finished is not run again.

{counted(rows)}

{choices_as_markdown(choices(plan, rows))}
{pictures}
Chains and populations had at most {plan.chains:g} s each, one core each. {trainings(plan)}
{missing(plan, rows)}{where}. {environment}.
{failed(failures)}"""


CAPTIONS = {
    "cost": "Seconds of one core for an independent draw against the side",
    "densities": "Density calls for an independent draw against the side",
    "amortised": "Cost of a draw, training included, against the number of draws",
}


def version_of(package: str) -> str | None:
    found = runs.find_version(package)
    return None if found == "not installed" else found


def counted(rows: Sequence[Row]) -> str:
    """How often which answer came, in a sentence."""
    refused = sum(row.result.refused is not None for row in rows)
    return (
        f"{len(rows)} cells, {refused} of them refused: these are known by a lower bound alone, "
        "with the reason in the table. *Training pays from* compares the trained samplers "
        "with the cheapest method without training, of this library or another; chains are taken "
        "to have arrived."
    )


def trainings(plan: Plan) -> str:
    """What trainings had, in a sentence."""
    way = next((m.way for m in plan.methods if m.learned), None)
    if isinstance(way, Trained) and way.steps is not None:
        return f"Trainings had {way.steps} steps."
    budgets = ", ".join(f"{s:g} s at side {side}" for side, s in plan.training.items())
    patient = [f"; {f.title}: {f.patience:g} times that" for f in plan.families if f.patience != 1]
    return f"Trainings had {budgets}{''.join(patient)}."


def missing(plan: Plan, rows: Sequence[Row]) -> str:
    there = {row.task.method.name for row in rows}
    absent = [m.title for m in plan.methods if m.name not in there and not m.installed]
    return f"Not installed: {', '.join(absent)}.\n" if absent else ""


def failed(failures: Mapping[Task, Failure]) -> str:
    if not failures:
        return ""
    lines = "\n".join(f"- {task.label}: {failure.sentence}" for task, failure in failures.items())
    return f"\nCells that failed, and are not in the tables:\n\n{lines}\n"
