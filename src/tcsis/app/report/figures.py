"""The interactive figures of a report, as plain dictionaries for plotly.

Colours are the names of CSS variables, ``var(--c0)``; the page puts in their values whenever it
draws, so that one figure serves light, dark and print.  A function whose data are missing returns
None.  The legend is part of the page, as a list of ``Key``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tcsis.app.results import (
    ExactResult,
    Histogram,
    MethodResult,
    Observation,
    Result,
    TrainingPoint,
)

Panel = dict[str, Any]

NUM_COLOURS = 6
MANY_DECADES = 2.5
"""On a logarithmic axis, from which on powers of ten are ticks enough."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
INK, MUTED, LINE, BAND = "var(--ink)", "var(--muted)", "var(--line)", "var(--band)"
MAIN_ERRORS = ("correlation", "pair correlations", "energy")
"""The error that stands for a method against its cost: the first of these that is known."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend; ``mark`` is a class of the style sheet."""

    label: str
    colour: str
    mark: str


@dataclass(frozen=True)
class Figure:
    """Data and layout for plotly, and the legend that goes with them."""

    data: list[Panel]
    layout: Panel
    keys: list[Key]


def colour(index: int) -> str:
    return f"var(--c{index % NUM_COLOURS})"


def symbol(index: int) -> str:
    return SYMBOLS[index % len(SYMBOLS)]


def text(name: str) -> str:
    """A name that plotly takes for text only; it reads a little HTML in its labels."""
    return html.escape(name, quote=False)


def label(method: MethodResult) -> str:
    return f"{method.name} (weighted)" if method.weighted else method.name


def key(index: int, method: MethodResult) -> Key:
    return Key(label(method), colour(index), symbol(index))


def axis(title: str, **more: Any) -> Panel:
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": LINE,
        "linecolor": MUTED,
        "tickcolor": MUTED,
        "ticks": "outside",
        "ticklen": 4,
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
        **more,
    }


def log_axis(title: str, values: Sequence[float], **more: Any) -> Panel:
    """A logarithmic axis that shows all values, with a number in full at every tick: powers of ten,
    and 2 and 5 times those where there would be few."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06 * (high - low), 0.2)  # so that there is a tick in any case
    low, high = low - room, high + room
    digits = (1, 2, 5) if high - low < MANY_DECADES else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in digits]
    shown = [tick for tick in ticks if low <= math.log10(tick) <= high]
    return axis(
        title, type="log", range=[low, high], tickvals=shown, ticktext=[in_full(t) for t in shown],
        **more,
    )  # fmt: skip


def in_full(tick: float) -> str:
    """0.002, 50, 20,000 or, beyond that, 2×10⁷."""
    if 1e-4 < tick < 1e6:
        return f"{tick:,.0f}" if tick >= 1 else f"{tick:.4f}".rstrip("0")
    digit, power = f"{tick:.0e}".split("e")
    return f"{'' if digit == '1' else digit + '×'}10<sup>{int(power)}</sup>"


def layout(height: int, **more: Any) -> Panel:
    return {
        "height": height,
        "margin": {"l": 56, "r": 10, "t": 10, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": MUTED, "font": {"color": INK}},
        **more,
    }


# -- what was sampled ----------------------------------------------------------------------------


def correlation(result: Result) -> Figure | None:
    """G(r) above, and below it the difference from exact, where the errors can be seen."""
    shown = [(i, m) for i, m in enumerate(result.methods) if m.correlation is not None]
    if not shown:
        return None
    truth = result.exact.correlation if result.exact is not None else None
    data = [
        points(i, m, [0.0] * len(m.correlation.values), "y", len(shown))
        for i, m in shown
        if m.correlation is not None
    ]
    keys = [key(i, m) for i, m in shown]
    distances = axis("distance r", dtick=1)
    if truth is None:
        return Figure(data, layout(330, xaxis=distances, yaxis=axis("G(r)")), keys)
    data.insert(0, {"type": "scatter", "x": list(range(len(truth))), "y": truth, "mode": "lines",
                    "line": {"color": INK, "width": 1.5}, "name": "exact"})  # fmt: skip
    data += band(result)
    data += [points(i, m, truth, "y2", len(shown)) for i, m in shown]
    keys = [Key("exact", INK, "line"), Key(band_label(result), BAND, "area"), *keys]
    below = axis("G(r) − exact", domain=[0, 0.42], zeroline=True, zerolinecolor=INK)
    above = axis("G(r)", domain=[0.54, 1])
    return Figure(
        data, layout(460, xaxis=distances | {"anchor": "y2"}, yaxis=above, yaxis2=below), keys
    )


def points(index: int, method: MethodResult, base: list[float], y: str, count: int) -> Panel:
    """G(r) - base with two standard errors, methods side by side at each distance."""
    assert method.correlation is not None
    g, errors = method.correlation.values, method.correlation.errors
    shift = 0.0 if count == 1 else 0.05 * (index - (count - 1) / 2)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [r + shift for r in range(len(g))],
        "y": [value - zero for value, zero in zip(g, base, strict=True)],
        "error_y": {"type": "data", "array": [2 * error for error in errors], "thickness": 1.5},
        "marker": {"color": colour(index), "symbol": symbol(index), "size": 8},
        "yaxis": y,
        "name": text(label(method)),
    }


def band(result: Result) -> list[Panel]:
    """Two standard errors of as many independent draws as the main method made, about zero."""
    deviation = result.exact.correlation_deviation if result.exact is not None else None
    if deviation is None:
        return []
    room = [2 * sigma / math.sqrt(result.methods[0].n) for sigma in deviation]
    r = list(range(len(room)))
    return [
        {
            "type": "scatter", "mode": "lines", "x": r + r[::-1],
            "y": room + [-value for value in reversed(room)], "fill": "toself",
            "fillcolor": BAND, "line": {"width": 0}, "yaxis": "y2", "hoverinfo": "skip",
        }
    ]  # fmt: skip


def band_label(result: Result) -> str:
    return f"±2σ of {result.methods[0].n:,} independent draws"


def magnetisation(result: Result) -> Figure | None:
    return histogram(result, "magnetisation per site", lambda part: part.magnetisation)


def energy(result: Result) -> Figure | None:
    return histogram(result, "energy −log p̄(x)", lambda part: part.energy)


def histogram(
    result: Result, title: str, of: Callable[[ExactResult | MethodResult], Histogram | None]
) -> Figure | None:
    """The exact distribution as bars, and those of the methods as marks on it."""
    shown = [(i, m, h) for i, m in enumerate(result.methods) if (h := of(m)) is not None]
    if not shown:
        return None
    truth = None if result.exact is None else of(result.exact)
    data, keys = [], []
    if truth is not None:
        data.append(
            {"type": "bar", "x": truth.values, "y": truth.probabilities, "width": width(truth),
             "marker": {"color": BAND, "line": {"color": MUTED, "width": 1}}, "name": "exact"}
        )  # fmt: skip
        keys.append(Key("exact", BAND, "area"))
    for i, method, drawn in shown:
        data.append(
            {"type": "scatter", "mode": "lines+markers", "x": drawn.values,
             "y": drawn.probabilities, "line": {"color": colour(i), "width": 1},
             "marker": {"color": colour(i), "symbol": symbol(i), "size": 7},
             "name": text(label(method))}
        )  # fmt: skip
        keys.append(key(i, method))
    axes = {"xaxis": axis(title), "yaxis": axis("probability", rangemode="tozero")}
    return Figure(data, layout(330, **axes), keys)


def width(truth: Histogram) -> float:
    """Of bars that just do not touch."""
    gaps = [b - a for a, b in zip(truth.values, truth.values[1:], strict=False)]
    return 0.9 * min(gaps, default=1.0)


# -- how it was made -----------------------------------------------------------------------------


CURVES: tuple[tuple[str, str, bool], ...] = (
    ("loss", "loss", False),
    ("error", "error", True),
    ("ess", "ESS", False),
    ("leak", "leak", False),
    ("missed", "missed", False),
)
"""Field, title, and whether the axis is logarithmic."""


def training(result: Result) -> Figure | None:
    """Loss, error, ESS and both tails against seconds, or against steps where no time was kept."""
    history = result.history
    by_seconds = all(point.seconds is not None for point in history)
    shown = [curve for curve in CURVES if any(getattr(p, curve[0]) is not None for p in history)]
    if not shown:
        return None
    data, axes = [], {}
    gap, share = 0.08, (1 - 0.08 * (len(shown) - 1)) / len(shown)
    for row, (field, title, logarithmic) in enumerate(shown):
        number = "" if row == 0 else str(row + 1)
        top = 1 - row * (share + gap)
        drawn = [curve(history, field, by_seconds, colour(row), f"y{number}")]
        if field == "error":
            drawn += floor_of_error(history, by_seconds, f"y{number}")
        heights = [y for part in drawn for y in part["y"] if y > 0]
        place = {"domain": [max(0.0, top - share), top]}
        axes[f"yaxis{number}"] = (
            log_axis(title, heights, **place) if logarithmic and heights else axis(title, **place)
        )
        data += drawn
    bottom = "y" if len(shown) == 1 else f"y{len(shown)}"
    axes["xaxis"] = axis("training seconds" if by_seconds else "training step", anchor=bottom)
    return Figure(data, layout(110 + 130 * len(shown), **axes), [])


def floor_of_error(history: list[TrainingPoint], by_seconds: bool, y: str) -> list[Panel]:
    """What as many perfect draws would show, dashed, where it is known."""
    line = curve(history, "floor", by_seconds, MUTED, y)
    return [line | {"mode": "lines", "line": {"color": MUTED, "dash": "dash"}}] if line["y"] else []


def curve(history: list[TrainingPoint], field: str, by_seconds: bool, line: str, y: str) -> Panel:
    known = [point for point in history if getattr(point, field) is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(known) < 60 else "lines",
        "x": [point.seconds if by_seconds else point.step for point in known],
        "y": [getattr(point, field) for point in known],
        "line": {"color": line, "width": 2},
        "marker": {"color": line, "size": 5},
        "yaxis": y,
        "name": field,
    }


def scores(result: Result) -> Figure | None:
    pairs = result.scores
    if pairs is None or not pairs.exact:
        return None
    ends = [min(pairs.exact), max(pairs.exact)]
    data: list[Panel] = [
        {"type": "scatter", "mode": "markers", "x": pairs.exact, "y": pairs.learned,
         "marker": {"color": colour(0), "size": 4, "opacity": 0.5}, "name": "learned"},
        {"type": "scatter", "mode": "lines", "x": ends, "y": ends,
         "line": {"color": INK, "width": 1.5}, "hoverinfo": "skip"},
    ]  # fmt: skip
    keys = [Key("one log-score", colour(0), "circle"), Key("perfect", INK, "line")]
    axes = {"xaxis": axis("exact log-score"), "yaxis": axis("learned log-score")}
    return Figure(data, layout(360, **axes), keys)


def main_error(method: MethodResult) -> Observation | None:
    """The error that counts most, with weights where the method is judged by them."""
    return first_error(method.weighted_rows if method.weighted else method.rows)


def first_error(rows: Sequence[Observation]) -> Observation | None:
    """The first of the observables that count most whose error is known."""
    known = {row.name: row for row in rows if row.error is not None}
    return next((known[name] for name in MAIN_ERRORS if name in known), None)


def cost_in_calls(result: Result) -> Figure | None:
    return cost(
        result, lambda m: m.num_density_calls + m.num_network_calls, "density and network calls"
    )


def cost_in_seconds(result: Result) -> Figure | None:
    return cost(result, lambda m: m.training_seconds + m.seconds, "seconds, training included")


def cost(result: Result, price: Callable[[MethodResult], float], title: str) -> Figure | None:
    """The main error of each method against its price, with a bar at its floor."""
    data: list[Panel] = []
    keys, names = [], set()
    for i, method in enumerate(result.methods):
        row = main_error(method)
        if row is None or not row.error or price(method) <= 0:  # both axes are logarithmic
            continue
        marks = [(row.error, symbol(i), 11)]
        marks += [(row.floor, "line-ew-open", 16)] if row.floor else []
        data += [
            {"type": "scatter", "mode": "markers", "x": [price(method)], "y": [height],
             "marker": {"color": colour(i), "symbol": mark, "size": size,
                        "line": {"color": colour(i), "width": 2}},
             "name": text(label(method))}
            for height, mark, size in marks
        ]  # fmt: skip
        keys.append(key(i, method))
        names.add(row.name)
    if len(keys) < 2:  # one alone has nothing to be compared with
        return None
    keys.append(Key("floor of as many independent draws", MUTED, "line"))
    error = f"error of {' or '.join(sorted(names))}"
    prices, errors = ([part[name][0] for part in data] for name in ("x", "y"))
    axes = {"xaxis": log_axis(title, prices), "yaxis": log_axis(error, errors)}
    return Figure(data, layout(320, **axes), keys)


def traces(method: MethodResult) -> Figure | None:
    """Energies of a few chains of one method."""
    if method.traces is None:
        return None
    data: list[Panel] = [
        {"type": "scatter", "mode": "lines", "x": method.traces.draws, "y": series,
         "line": {"color": colour(i), "width": 1}, "name": f"chain {i + 1}"}
        for i, series in enumerate(method.traces.energies)
    ]  # fmt: skip
    keys = [Key(f"chain {i + 1}", colour(i), "line") for i in range(len(data))]
    axes = {"xaxis": axis("draw"), "yaxis": axis("energy −log p̄(x)")}
    return Figure(data, layout(280, **axes), keys)
