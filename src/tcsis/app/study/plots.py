"""The figures of the study.

Panels have a row for every setting and a column for every group of methods; the overview has a row
for every method and a column for every setting.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tcsis.app.results import ExactResult
from tcsis.app.study.cells import Cell, Reading
from tcsis.app.study.plan import Method, Plan, Setting, Task
from tcsis.app.study.table import Source, select, sources
from tcsis.app.summaries import energy_levels, summarise_exact
from tcsis.judging.reference import Reference

BAND = "#d5dbe3"
PANEL = (3.6, 2.0)
LEGEND = 1.3
"""Inches below the panels."""
COLOURS = ("#2a6fbb", "#a04c92", "#128267", "#c9570a", "#b3202c", "#5b8c1f", "#e39b00")
MARKERS = ("o", "^", "D", "P", "v", "s", "X")
"""Of the methods of a group, one after the other."""
SMALLEST_RATIO = 0.1
"""Errors over floors below this are drawn there: a logarithmic axis has no zero."""
FLOOR_SHARE = math.sqrt(2 / math.pi)
"""The mean of |error| in units of its standard deviation."""
PERFECT = 1.96 / FLOOR_SHARE
"""An error over its floor that perfect draws exceed once in twenty, if the errors of all G(r) rise
and fall together, and less often if they do not."""


@dataclass(frozen=True)
class Panel:
    """A setting and a group: axes, truth, the readings of every source that has any, and what each
    source looks like."""

    axes: Axes
    setting: Setting
    truth: ExactResult
    found: list[tuple[Source, list[Reading]]]
    looks: dict[str, dict[str, Any]]


Draw = Callable[[Panel], None]


def figures(plan: Plan, cells: dict[Task, Cell]) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    return {
        "error": error(plan, cells),
        "distances": distances(plan, cells),
        "correlation": in_panels(plan, cells, correlation),
        "magnetisation": in_panels(plan, cells, magnetisation),
    }


@cache
def solve(setting: Setting) -> ExactResult:
    """The exact answers, with the deviation of G(r) that one independent draw has."""
    reference = Reference(setting.make_target())
    assert reference.states is not None
    found = summarise_exact(reference, energy_levels([reference.states.energies]))
    assert found is not None
    return found


def by_group(methods: Sequence[Method]) -> dict[str, list[Source]]:
    """The sources of every group, in order."""
    groups: dict[str, list[Source]] = {}
    for source in sources(methods):
        groups.setdefault(source.method.group, []).append(source)
    return groups


def looks(methods: Sequence[Method]) -> dict[str, dict[str, Any]]:
    """Colour and marker of every source by its title, told apart within its group."""
    return {
        source.title: {
            "color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]
        }
        for group in by_group(methods).values()
        for place, source in enumerate(group)
    }  # fmt: skip


# -- panels --------------------------------------------------------------------------------------


def in_panels(plan: Plan, cells: dict[Task, Cell], draw: Draw) -> Figure:
    """A row of panels a setting, a column a group, with a legend below each column."""
    groups = by_group(plan.methods)
    num_rows, num_columns = len(plan.settings), len(groups)
    size = (PANEL[0] * max(num_columns, 2), PANEL[1] * num_rows + LEGEND)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey="row")
    for row, setting in zip(grid, plan.settings, strict=True):
        for axes, (name, group) in zip(row, groups.items(), strict=True):
            found = [
                (source, [source.of(cell) for cell in some])
                for source in group
                if (some := select(cells, setting, source.method))
            ]
            draw(Panel(axes, setting, solve(setting), found, looks(plan.methods)))
            title = f"{setting.name}: {name}" if axes is row[0] else name
            axes.set_title(title, fontsize=9)
            axes.tick_params(labelsize=8)
            axes.spines[["top", "right"]].set_visible(False)
    for column in grid.T:
        handles: dict[str, Any] = {}
        for axes in column:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        column[-1].legend(
            list(handles.values()), list(handles), loc="upper center", fontsize=7.5,
            bbox_to_anchor=(0.5, -0.32), frameon=False,
        )  # fmt: skip
    return figure


def correlation(panel: Panel) -> None:
    """G(r) of draws as they come: the mean over the seeds, on the exact values."""
    axes, truth = panel.axes, panel.truth.correlation
    assert truth is not None
    for source, readings in panel.found:
        curves = [reading.correlation for reading in readings]
        means = [statistics.mean(values) for values in zip(*curves, strict=True)]
        axes.plot(
            range(len(means)), means, lw=0.9, ms=4, alpha=0.85, label=source.title,
            **panel.looks[source.title],
        )  # fmt: skip
    axes.plot(range(len(truth)), truth, color="black", lw=1.4, ls=":", label="truth", zorder=5)
    axes.set_xticks(range(len(truth)))
    axes.set_xlabel("distance r", fontsize=8)
    axes.set_ylabel("G(r)", fontsize=8)


def magnetisation(panel: Panel) -> None:
    """The distribution of the mean spin of draws as they come, all seeds together."""
    axes, truth = panel.axes, panel.truth.magnetisation
    size = panel.setting.side**2
    values = [2 * up / size - 1 for up in range(size + 1)]
    if truth is not None:
        axes.fill_between(truth.values, truth.probabilities, color=BAND, label="truth")
    every = max(1, len(values) // 16)
    for i, (source, readings) in enumerate(panel.found):
        counts = [sum(up) for up in zip(*(r.magnetisation for r in readings), strict=True)]
        shares = [count / sum(counts) for count in counts]
        axes.plot(
            values, shares, lw=0.8, ms=4, alpha=0.85, label=source.title,
            markevery=(i * every // len(panel.found), every), **panel.looks[source.title],
        )  # fmt: skip
    axes.set_xlabel("mean spin", fontsize=8)
    axes.set_ylabel("probability", fontsize=8)


# -- the overviews -------------------------------------------------------------------------------


def error(plan: Plan, cells: dict[Task, Cell]) -> Figure:
    """error/floor of every method, a row each, and a column for every setting: a mark a seed, full
    for draws as they come and open for the same by their weights."""
    rows, num = sources(plan.methods), len(plan.settings)
    size = (3.4 + 1.55 * num, 1.3 + 0.27 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    columns = figure.subplots(1, num, sharey=True, sharex=True, squeeze=False)[0]
    look, largest = looks(plan.methods), 10.0
    for axes, setting in zip(columns, plan.settings, strict=True):
        axes.axvspan(SMALLEST_RATIO / 2, PERFECT, color=BAND, lw=0)
        axes.axvline(1, color="black", lw=1)
        for place, source in enumerate(rows):
            readings = [source.of(cell) for cell in select(cells, setting, source.method)]
            drawn = shown([reading.error / reading.floor for reading in readings])
            weighted = shown(
                [r.weighted_error / r.floor for r in readings if r.weighted_error is not None]
            )
            largest = max([largest, *drawn, *weighted])
            shape = look[source.title]
            axes.plot(drawn, [place] * len(drawn), ls="none", ms=6, mew=0, alpha=0.75, **shape)
            axes.plot(weighted, [place] * len(weighted), ls="none", ms=6, mfc="none", **shape)
        axes.set_title(setting.name, fontsize=10)
        tidy(axes)
    columns[0].set_xlim(SMALLEST_RATIO / 2, 2 * largest)
    columns[0].set_yticks(range(len(rows)), [source.title for source in rows])
    columns[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel(
        "error of G(r) over its floor, a mark a seed: full as drawn, open by weights; shaded: at "
        "least 95% of perfect runs",
        fontsize=10,
    )
    return figure


def shown(ratios: list[float]) -> list[float]:
    return [max(value, SMALLEST_RATIO) for value in ratios]


def distances(plan: Plan, cells: dict[Task, Cell]) -> Figure:
    """|G(r) - exact| over its floor at every distance, of draws as they come, in colours: the mean
    over the seeds, a row a method."""
    rows = sources(plan.methods)
    widths = [len(correlation_of(setting)) for setting in plan.settings]
    size = (3.4 + 0.33 * sum(widths), 1.6 + 0.27 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    columns = figure.subplots(1, len(widths), sharey=True, squeeze=False, width_ratios=widths)[0]
    norm = LogNorm(1, 1_000)
    for axes, setting in zip(columns, plan.settings, strict=True):
        table = [
            misses(setting, [source.of(cell) for cell in select(cells, setting, source.method)])
            for source in rows
        ]
        axes.imshow(table, aspect="auto", norm=norm, cmap=MAP)
        axes.set_title(setting.name.replace(", ", "\n"), fontsize=8)
        axes.set_xticks(range(len(table[0])), range(1, len(table[0]) + 1), fontsize=8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    columns[0].set_yticks(range(len(rows)), [source.title for source in rows])
    figure.supxlabel("distance r", fontsize=9)
    bar = figure.colorbar(ScalarMappable(norm, MAP), ax=columns, pad=0.01, extend="both")
    bar.set_label("|G(r) − exact| over its floor", fontsize=9)
    return figure


MAP = "YlOrRd"


def misses(setting: Setting, readings: list[Reading]) -> list[float]:
    """The mean over readings, in floors, at r = 1, 2, ...; not a number where there are none."""
    truth, deviation = correlation_of(setting), solve(setting).correlation_deviation
    assert deviation is not None
    if not readings:
        return [math.nan] * len(truth)
    floors = [FLOOR_SHARE * s / math.sqrt(readings[0].num_draws) for s in deviation[1:]]
    return [
        statistics.mean(abs(reading.correlation[r] - truth[r - 1]) for reading in readings) / floor
        for r, floor in enumerate(floors, start=1)
    ]


def correlation_of(setting: Setting) -> list[float]:
    """G(r) from r = 1 on."""
    found = solve(setting).correlation
    assert found is not None
    return found[1:]


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
