"""Figures: cost against side, in seconds and in density calls, and cost against number of draws.

A panel a family, and the legend in a place of its own.  A full mark is an estimate; an open one
with an arrow is a lower bound, of a method that was refused.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, NullFormatter, NullLocator

from tcsis.app.bench.plan import Family, Method, Plan, Result
from tcsis.app.bench.table import (
    Choice,
    Row,
    amortised,
    choices,
    cost_of,
    density_cost_of,
    fit_line,
    points,
)

PANEL = (4.0, 3.1)
COLUMNS = 3
MARK_SIZE = 6.5
LOOKS: tuple[tuple[str, str], ...] = (
    ("#2a6fbb", "o"), ("#128267", "s"), ("#5b8c1f", "D"), ("#a04c92", "^"), ("#8a6d3b", "v"),
    ("#b3202c", "X"), ("#e07b00", "P"), ("#6b7684", "<"), ("#9aa3ad", "h"), ("#4b4f57", "p"),
)  # fmt: skip
"""Colour and marker of every method, in the order of the plan."""
WIDTH, LINE = 54, 10
"""Characters and points of a line above a panel."""
DRAWN = (3.0, 8.0)
"""Decades of the number of draws."""


def figures(plan: Plan, rows: Sequence[Row]) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    return {
        "cost": by_side(plan, rows, cost_of, "seconds of one core", "s"),
        "densities": by_side(plan, rows, density_cost_of, "density calls", ""),
        "amortised": by_amount(plan, rows),
    }


def looks(plan: Plan) -> dict[str, dict[str, Any]]:
    return {
        method.name: {"color": colour, "marker": marker, "ms": MARK_SIZE}
        for method, (colour, marker) in zip(plan.methods, LOOKS, strict=False)
    }


def panels(plan: Plan) -> tuple[Figure, Iterator[Axes], Axes]:
    """Axes for every family, and those of the legend."""
    num_rows = math.ceil((len(plan.families) + 1) / COLUMNS)
    size = (PANEL[0] * COLUMNS, PANEL[1] * num_rows)
    figure = Figure(figsize=size, layout="constrained")
    every = list(figure.subplots(num_rows, COLUMNS, squeeze=False).flat)
    for axes in every[len(plan.families) :]:
        axes.set_axis_off()
    return figure, iter(every), every[len(plan.families)]


def finish(axes: Axes, family: str, below: str, beside: str, unit: str) -> None:
    axes.set_title(family, fontsize=10)
    axes.set_xlabel(below, fontsize=9)
    axes.set_ylabel(beside, fontsize=9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(EngFormatter(unit))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#e6e9ee", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend(
    axes: Axes, plan: Plan, shown: Sequence[Method], more: Sequence[tuple[Line2D, str]]
) -> None:
    found = looks(plan)
    handles = [Line2D([], [], lw=1, **found[method.name]) for method in shown]
    names = [method.title for method in shown]
    axes.legend(
        [*handles, *(handle for handle, _ in more)], [*names, *(name for _, name in more)],
        loc="center left", frameon=False, fontsize=9,
    )  # fmt: skip


# -- cost against side ---------------------------------------------------------------------------


def by_side(
    plan: Plan, rows: Sequence[Row], cost: Callable[[Result], float | None], beside: str, unit: str
) -> Figure:
    figure, every, last = panels(plan)
    shown: dict[str, Method] = {}
    for family, axes in zip(plan.families, every, strict=False):
        values = [0.0]
        for method in plan.methods:
            own = [r for r in points(rows, family, method.name) if cost(r.result) is not None]
            if own:
                shown[method.name] = method
                draw_line(axes, own, cost, looks(plan)[method.name])
                values += [value for row in own if (value := cost(row.result)) is not None]
        finish(axes, family.title, "side", beside, unit)
        axes.xaxis.set_major_locator(FixedLocator(family.sides))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        axes.set_xlim(min(family.sides) / 1.08, max(family.sides) * 1.08)
        if any(values):
            axes.set_ylim(min(values[1:]) / 3, 6 * max(values))
    law = Line2D([], [], color="#9aa3ad", lw=1, ls="--")
    legend(last, plan, in_order(plan, shown), [(bound_mark(), "at least that"), (law, "fitted")])
    return figure


def draw_line(
    axes: Axes, rows: Sequence[Row], cost: Callable[[Result], float | None], look: dict[str, Any]
) -> None:
    """Estimates with the law fitted to them, and bounds."""
    sides = [row.task.side for row in rows]
    costs = [value for row in rows if (value := cost(row.result)) is not None]
    refused = [row.result.refused is not None for row in rows]
    law = fit_line(rows, cost)
    good = [(s, c) for s, c, bad in zip(sides, costs, refused, strict=True) if not bad]
    if law is not None:
        along = np.geomspace(good[0][0], good[-1][0], 60)
        axes.plot(along, [law.cost(s) for s in along], color=look["color"], lw=1, ls="--")
    elif good:
        axes.plot(*zip(*good, strict=True), color=look["color"], lw=1)
    if good:
        axes.plot(*zip(*good, strict=True), ls="none", mew=0, **look)
    bounds = [(s, c) for s, c, bad in zip(sides, costs, refused, strict=True) if bad]
    for side, value in bounds:
        axes.plot([side], [value], ls="none", mfc="none", **look)
        axes.annotate(
            "", (side, value * 3), (side, value),
            arrowprops={"arrowstyle": "->", "color": look["color"], "shrinkA": 4},
        )  # fmt: skip


def bound_mark() -> Line2D:
    return Line2D([], [], ls="none", marker=r"$\uparrow$", mfc="none", color="#4b4f57", ms=9)


def in_order(plan: Plan, shown: dict[str, Method]) -> list[Method]:
    return [method for method in plan.methods if method.name in shown]


# -- cost against the number of draws ------------------------------------------------------------


def by_amount(plan: Plan, rows: Sequence[Row]) -> Figure:
    """Of every family the largest side with a trained sampler that is believed, or the largest."""
    figure, every, last = panels(plan)
    amounts = np.logspace(*DRAWN, 120)
    shown: dict[str, Method] = {}
    for family, axes in zip(plan.families, every, strict=False):
        side = side_of(plan, rows, family)
        for row in rows:
            if (row.task.family, row.task.side) == (family, side):
                shown[row.task.method.name] = row.task.method
                draw_amortised(axes, row, amounts, looks(plan)[row.task.method.name])
        title, said = f"{family.title}, side {side}", ""
        for choice in choices(plan, rows):
            if (choice.family, choice.side) == (family, side):
                mark_crossing(axes, choice)
                said = wrapped(choice.sentence)
        finish(axes, title, "number of draws", "seconds of one core a draw", "s")
        axes.set_title(title, fontsize=10, pad=6 + LINE * len(said.splitlines()))
        axes.text(0.5, 1.02, said, transform=axes.transAxes, ha="center", va="bottom", fontsize=8)
    crossed = Line2D([], [], ls="none", marker="o", mfc="white", color="black", ms=9)
    bound = Line2D([], [], color="#4b4f57", lw=1.2, ls=":")
    more = [(crossed, "from here on training pays"), (bound, "at least that")]
    legend(last, plan, in_order(plan, shown), more)
    return figure


def wrapped(text: str) -> str:
    """In lines that are no wider than a panel."""
    return textwrap.fill(text, WIDTH)


def side_of(plan: Plan, rows: Sequence[Row], family: Family) -> int:
    believed = [
        row.task.side
        for row in rows
        if row.task.family == family and row.task.method.learned and not row.result.refused
    ]
    return max(believed or family.sides)


def draw_amortised(axes: Axes, row: Row, amounts: np.ndarray, look: dict[str, Any]) -> None:
    axes.plot(
        amounts, [amortised(row.result, n) for n in amounts], lw=1.4, markevery=24,
        ls=":" if row.result.refused else "-", mfc="none" if row.result.refused else look["color"],
        **look,
    )  # fmt: skip


def mark_crossing(axes: Axes, choice: Choice) -> None:
    """A ring where the trained sampler meets the other method."""
    draws = choice.draws
    if draws is not None and 10 ** DRAWN[0] < draws < 10 ** DRAWN[1]:
        assert choice.learned is not None
        axes.plot(
            [draws], [amortised(choice.learned.result, draws)], ls="none", marker="o", mfc="white",
            color="black", ms=9, zorder=5,
        )  # fmt: skip
