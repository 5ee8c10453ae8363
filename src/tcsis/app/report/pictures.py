"""The main figures as PNG files for papers and slides, in the style of the paper."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tcsis.app.report.figures import (
    CURVES,
    Histograms,
    energies,
    label,
    magnetisations,
    main_error,
    width,
)
from tcsis.app.report.states import choose, grid
from tcsis.app.results import Result
from tcsis.basics.files import whole_file

COLOURS = ("#2a6fbb", "#c9570a", "#128267", "#a04c92", "#86690f", "#66707c")
MARKERS = ("o", "s", "D", "^", "P", "X")
BAND = "#d5dbe3"
SIZE = (5.2, 3.6)
DPI = 200


def write_pictures(result: Result, folder: str | Path) -> list[Path]:
    """Draw what the result has data for, one file each; returns their paths."""
    written = []
    for draw in (correlation, magnetisation, energy, samples, film, training, scores, cost):
        figure = draw(result)
        if figure is not None:
            path = Path(folder) / f"{draw.__name__}.png"
            write_picture(figure, path, DPI)
            written.append(path)
    return written


def write_picture(figure: Figure, path: Path, dpi: int) -> None:
    with whole_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=dpi)


def new_figure(size: tuple[float, float] = SIZE) -> Figure:
    return Figure(figsize=size, layout="constrained")


def style(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def finish(axes: Axes, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    entries = sorted(
        zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: entry[1] != "exact"
    )
    if entries:
        axes.legend(*zip(*entries, strict=True), frameon=False, fontsize=8)


def correlation(result: Result) -> Figure | None:
    shown = [(i, m, m.correlation) for i, m in enumerate(result.methods) if m.correlation]
    if not shown:
        return None
    figure = new_figure()
    axes = figure.subplots()
    truth = result.exact
    if truth is not None and truth.correlation is not None:
        r = range(len(truth.correlation))
        axes.plot(r, truth.correlation, color="black", lw=1, label="exact")
        if truth.correlation_deviation is not None:
            room = [2 * s / math.sqrt(result.methods[0].n) for s in truth.correlation_deviation]
            low, high = (
                [g + sign * dg for g, dg in zip(truth.correlation, room, strict=True)]
                for sign in (-1, 1)
            )
            axes.fill_between(r, low, high, color=BAND, label="±2σ of independent draws")
    for i, method, g in shown:
        axes.errorbar(
            range(len(g.values)), g.values, [2 * e for e in g.errors], ls="none", ms=4,
            capsize=2, label=label(method), **style(i),
        )  # fmt: skip
    axes.set_xticks(range(len(shown[0][2].values)))
    finish(axes, "distance r", "two-point correlation G(r)")
    return figure


def magnetisation(result: Result) -> Figure | None:
    return histogram(magnetisations(result))


def energy(result: Result) -> Figure | None:
    return histogram(energies(result))


def histogram(view: Histograms) -> Figure | None:
    if not view.shown:
        return None
    truth = view.truth
    figure = new_figure()
    axes = figure.subplots()
    if truth is not None:
        axes.bar(truth.values, truth.probabilities, width(truth), color=BAND, label="exact")
    for i, method, drawn in view.shown:
        axes.plot(drawn.values, drawn.probabilities, lw=0.8, ms=4, label=label(method), **style(i))
    finish(axes, view.title, "probability")
    return figure


def samples(result: Result) -> Figure | None:
    """A row of eight states for each source."""
    shape = result.target.shape
    truth = [] if result.exact is None else result.exact.states
    sources = [("exact", truth), *((m.name, m.states) for m in result.methods)]
    sources = [(name, some[:8]) for name, some in sources if some]
    if shape is None or not sources:
        return None
    figure = new_figure((6.4, 0.95 * len(sources)))
    cells = figure.subplots(len(sources), 8, squeeze=False)
    for line, (name, some) in zip(cells, sources, strict=True):
        for axes in line:
            axes.axis("off")
        for axes, state in zip(line, some, strict=False):
            show(axes, grid(state, shape), result.target.num_values)
        line[0].set_title(name, fontsize=8, loc="left")
    return figure


def film(result: Result) -> Figure | None:
    shape, frames = result.target.shape, result.film
    if shape is None or not frames:
        return None
    chosen = choose(frames)
    figure = new_figure((0.9 * len(chosen), 1.15))
    for axes, frame in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
        show(axes, grid(frame.tokens, shape), result.target.num_values)
        axes.axis("off")
        mean_time = sum(frame.times) / len(frame.times)
        axes.set_title(f"t = {mean_time:.2f}", fontsize=8)
    return figure


def show(axes: Axes, rows: list[list[int]], num_values: int) -> None:
    colours = "Greys" if num_values == 2 else "viridis"
    margin = 0.2 if num_values == 2 else 0.0
    axes.imshow(rows, cmap=colours, vmin=-margin, vmax=num_values - 1 + margin)


def training(result: Result) -> Figure | None:
    history = result.history
    by_seconds = all(point.seconds is not None for point in history)
    shown = [curve for curve in CURVES if any(getattr(p, curve[0]) is not None for p in history)]
    if not shown:
        return None
    figure = new_figure((SIZE[0], 1.3 * len(shown) + 0.6))
    rows = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for i, (axes, (field, title, logarithmic)) in enumerate(zip(rows, shown, strict=True)):
        known = [point for point in history if getattr(point, field) is not None]
        x = [point.seconds if by_seconds else point.step for point in known]
        axes.plot(x, [getattr(point, field) for point in known], color=COLOURS[i])
        axes.set_yscale("log" if logarithmic else "linear")
        finish(axes, "", title)
    rows[-1].set_xlabel("training seconds" if by_seconds else "training step")
    return figure


def scores(result: Result) -> Figure | None:
    pairs = result.scores
    if pairs is None or not pairs.exact:
        return None
    figure = new_figure((4, 3.8))
    axes = figure.subplots()
    axes.plot(pairs.exact, pairs.learned, ".", ms=3, alpha=0.4, color=COLOURS[0])
    ends = [min(pairs.exact), max(pairs.exact)]
    axes.plot(ends, ends, color="black", lw=1)
    finish(axes, "exact log-score", "learned log-score")
    return figure


def cost(result: Result) -> Figure | None:
    """Error against seconds, training included, with a bar at the floor."""
    known = [
        (i, m, row)
        for i, m in enumerate(result.methods)
        if (row := main_error(m)) is not None and row.error and m.seconds + m.training_seconds > 0
    ]
    if len(known) < 2:
        return None
    figure = new_figure()
    axes = figure.subplots()
    for i, method, row in known:
        assert row.error is not None
        seconds = method.seconds + method.training_seconds
        axes.plot(seconds, row.error, ls="none", ms=7, label=label(method), **style(i))
        if row.floor:
            axes.plot(seconds, row.floor, ls="none", marker="_", ms=16, color=style(i)["color"])
    axes.set(xscale="log", yscale="log")
    for scale in (axes.xaxis, axes.yaxis):
        scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        scale.set_minor_formatter(NullFormatter())
    finish(axes, "seconds, training included", f"error of {known[0][2].name}")
    return figure
