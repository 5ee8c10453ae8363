"""The figures of the study, a panel for every setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tcsis.app.results import ExactResult
from tcsis.app.study.cells import Cell
from tcsis.app.study.plan import Plan, Setting, Task
from tcsis.app.study.table import Source, known, select, sources
from tcsis.app.summaries import energy_levels, summarise_exact
from tcsis.judging.reference import Reference

BAND = "#d5dbe3"
COLUMNS = 3
PANEL = (3.5, 2.75)
LEGEND = 0.85
"""Inches below the panels."""
FLOOR_SHARE = math.sqrt(2 / math.pi)
"""The mean of |error| in units of its standard deviation."""
LOOKS: dict[str, dict[str, Any]] = {
    "TCSIS, self-normalized": {"color": "#2a6fbb", "marker": "o"},
    "TCSIS, self-normalized, paper's estimator": {"color": "#128267", "marker": "D"},
    "TCSIS, unbiased": {"color": "#a04c92", "marker": "^"},
    "autoregressive": {"color": "#5b8c1f", "marker": "s"},
    "LEAPS": {"color": "#c9570a", "marker": "P"},
    "LEAPS, corrected": {"color": "#e39b00", "marker": "p"},
    "GWG": {"color": "#8a929c", "marker": "X"},
    "Glauber": {"color": "#b3202c", "marker": "v"},
    "exact": {"color": "#111111", "marker": "*"},
}
SMALLEST, SMALLEST_RATIO = 1e-5, 0.1
"""Errors, and errors over floors, below this are drawn there: a logarithmic axis has no zero."""
PERFECT = 1.96 / FLOOR_SHARE
"""An error over its floor that perfect draws exceed once in twenty, if the errors of all G(r) rise
and fall together, and less often if they do not."""


@dataclass(frozen=True)
class Panel:
    """One setting: its axes, its truth, and the cells of every source that has any."""

    axes: Axes
    setting: Setting
    truth: ExactResult
    found: list[tuple[Source, list[Cell]]]
    num_draws: int


Draw = Callable[[Panel], None]


def figures(plan: Plan, cells: dict[Task, Cell]) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    return {
        "correlation": in_panels(plan, cells, correlation),
        "correlation_error": in_panels(plan, cells, correlation_error),
        "magnetisation": in_panels(plan, cells, magnetisation),
        "error": error(plan, cells),
    }


@cache
def solve(setting: Setting) -> ExactResult:
    """The exact answers, with the deviation of G(r) that one independent draw has."""
    reference = Reference(setting.make_target())
    assert reference.states is not None
    found = summarise_exact(reference, energy_levels([reference.states.energies]))
    assert found is not None
    return found


def in_panels(plan: Plan, cells: dict[Task, Cell], draw: Draw) -> Figure:
    """A grid of panels with one legend below them all."""
    num_rows = -(-len(plan.settings) // COLUMNS)
    num_columns = min(COLUMNS, len(plan.settings))
    # a legend of three columns needs the width of three panels
    size = (PANEL[0] * max(num_columns, 2.6), PANEL[1] * num_rows + LEGEND)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False).flatten()
    for axes, setting in zip(grid, plan.settings, strict=False):
        found = [
            (s, some) for s in sources(plan.methods) if (some := select(cells, setting, s.method))
        ]
        draw(Panel(axes, setting, solve(setting), found, plan.num_draws))
        axes.set_title(setting.name, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if axes not in grid[::num_columns]:
            axes.set_ylabel("")
    for axes in grid[len(plan.settings) :]:
        axes.axis("off")
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False,
        fontsize=9,
    )  # fmt: skip
    return figure


def dodged(panel: Panel) -> Iterator[tuple[Source, list[Cell], float]]:
    """Sources with a shift for each, so that equal values stand side by side."""
    n = len(panel.found)
    for i, (source, cells) in enumerate(panel.found):
        yield source, cells, (i - (n - 1) / 2) * 0.7 / max(n, 1)


# -- panels --------------------------------------------------------------------------------------


def correlation(panel: Panel) -> None:
    """G(r): the mean over the seeds, on the exact values with the room of independent draws."""
    axes, truth, deviation = panel.axes, *truth_of(panel)
    for r, (g, s) in enumerate(zip(truth, deviation, strict=True), start=1):
        room = 2 * s / math.sqrt(panel.num_draws * len(panel.setting.seeds))
        label = "truth" if r == 1 else None
        axes.plot([r - 0.42, r + 0.42], [g, g], color="black", lw=1, label=label)
        axes.fill_between(
            [r - 0.42, r + 0.42], g - room, g + room, color=BAND,
            label="±2σ of independent draws" if r == 1 else None,
        )  # fmt: skip
    for source, cells, shift in dodged(panel):
        curves = known_curves(source, cells)
        means = [statistics.mean(values) for values in zip(*curves, strict=True)][1:]
        axes.plot(
            [r + shift for r in range(1, len(means) + 1)], means, ls="none", ms=4.5,
            label=source.title, **LOOKS[source.title],
        )  # fmt: skip
    axes.set(xlabel="distance r", ylabel="G(r)", xticks=range(1, len(truth) + 1))


def correlation_error(panel: Panel) -> None:
    """|G(r) - exact| on a logarithmic axis: the mean over the seeds, and a line over their range,
    with the range of independent draws shaded."""
    axes, truth, deviation = panel.axes, *truth_of(panel)
    for r, s in enumerate(deviation, start=1):
        unit = s / math.sqrt(panel.num_draws)
        axes.fill_between(
            [r - 0.42, r + 0.42], SMALLEST, 2 * unit, color=BAND,
            label="up to 2σ of independent draws" if r == 1 else None,
        )  # fmt: skip
        label = "their mean error (floor)" if r == 1 else None
        axes.plot([r - 0.42, r + 0.42], [FLOOR_SHARE * unit] * 2, color="black", lw=1, label=label)
    for source, cells, shift in dodged(panel):
        misses = [
            [max(abs(a - b), SMALLEST) for a, b in zip(curve[1:], truth, strict=True)]
            for curve in known_curves(source, cells)
        ]
        by_distance = list(zip(*misses, strict=True))
        at = [r + shift for r in range(1, len(by_distance) + 1)]
        look = LOOKS[source.title]
        axes.vlines(at, [min(m) for m in by_distance], [max(m) for m in by_distance],
                    color=look["color"], lw=1)  # fmt: skip
        means = [statistics.mean(m) for m in by_distance]
        axes.plot(at, means, ls="none", ms=4.5, label=source.title, **look)
    axes.set(yscale="log", xlabel="distance r", ylabel="|G(r) − exact|")
    axes.set(xticks=range(1, len(truth) + 1), ylim=(SMALLEST, 2))


def magnetisation(panel: Panel) -> None:
    """The distribution of the mean spin, all seeds together, on the exact one."""
    axes, truth = panel.axes, panel.truth.magnetisation
    assert truth is not None
    n = panel.num_draws * len(panel.setting.seeds)
    room = [2 * math.sqrt(p * (1 - p) / n) for p in truth.probabilities]
    pairs = list(zip(truth.probabilities, room, strict=True))
    axes.fill_between(
        truth.values, [max(0.0, p - dp) for p, dp in pairs], [p + dp for p, dp in pairs],
        color=BAND, label="±2σ of independent draws",
    )  # fmt: skip
    axes.plot(truth.values, truth.probabilities, color="black", lw=1, label="truth")
    every = max(1, len(truth.values) // 16)
    for i, (source, cells) in enumerate(panel.found):
        shares = [h for cell in cells if (h := source.magnetisation(cell)) is not None]
        means = [statistics.mean(values) for values in zip(*shares, strict=True)]
        axes.plot(
            truth.values[: len(means)], means, lw=0.9, ms=4, alpha=0.9, label=source.title,
            markevery=(i * every // len(panel.found) if every > 1 else 0, every),
            **LOOKS[source.title], ls="none" if source.method.name == "exact" else "-",
        )  # fmt: skip
    axes.set(xlabel="mean spin", ylabel="probability")


def truth_of(panel: Panel) -> tuple[list[float], list[float]]:
    """G(r) and its deviation from r = 1 on."""
    truth = panel.truth
    assert truth.correlation is not None and truth.correlation_deviation is not None
    return truth.correlation[1:], truth.correlation_deviation[1:]


def known_curves(source: Source, cells: list[Cell]) -> list[list[float]]:
    return [curve for cell in cells if (curve := source.correlation(cell)) is not None]


# -- the overview --------------------------------------------------------------------------------


def error(plan: Plan, cells: dict[Task, Cell]) -> Figure:
    """error/floor of every method, a row each, and a column for every setting; a mark a seed."""
    rows, num = sources(plan.methods), len(plan.settings)
    size = (3.2 + 1.55 * num, 0.9 + 0.27 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    columns = figure.subplots(1, num, sharey=True, sharex=True, squeeze=False)[0]
    largest = 10.0
    for axes, setting in zip(columns, plan.settings, strict=True):
        axes.axvspan(SMALLEST_RATIO / 2, PERFECT, color=BAND, lw=0)
        axes.axvline(1, color="black", lw=1)
        for place, source in enumerate(rows):
            ratios = known([ratio(source, cell) for cell in select(cells, setting, source.method)])
            shown = [max(value, SMALLEST_RATIO) for value in ratios]
            largest = max(largest, *shown) if shown else largest
            axes.plot(
                shown, [place] * len(shown), ls="none", ms=6, mew=0, alpha=0.75,
                **LOOKS[source.title],
            )  # fmt: skip
        axes.set_title(setting.name, fontsize=10)
        tidy(axes)
    columns[0].set_xlim(SMALLEST_RATIO / 2, 2 * largest)
    columns[0].set_yticks(range(len(rows)), [source.title for source in rows])
    columns[0].invert_yaxis()
    figure.supxlabel(
        "error of G(r) over its floor, a mark a seed; shaded: at least 95% of perfect runs",
        fontsize=10,
    )
    return figure


def tidy(axes: Axes) -> None:
    """Decades below, lines to read along, nothing else."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#e6e9ee", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def ratio(source: Source, cell: Cell) -> float | None:
    value = source.error(cell)
    return None if value is None else value / cell.floor
