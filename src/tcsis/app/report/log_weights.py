"""The figure of the log weights: both tails on a logarithmic scale."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Any

from tcsis.app.report.figures import (
    BAND,
    MUTED,
    Figure,
    Key,
    Panel,
    axis,
    colour,
    layout,
    text,
)
from tcsis.app.results import LogWeights, MethodResult, Result
from tcsis.judging.findings import percent
from tcsis.judging.weights import FAR

ASIDE = 0.12
"""Share of the axis between the histogram and the forbidden draws on its left."""
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def log_weights(result: Result) -> Figure | None:
    """Shares of draws by log w - log Ẑ; forbidden ones stand aside, on the left."""
    shown = [(i, m, w) for i, m in enumerate(result.methods) if (w := m.log_weights) is not None]
    if not shown:
        return None
    values = shown[0][2].histogram.values  # the same bins for all
    low, high = values[0], values[-1]
    aside = low - ASIDE * (high - low)
    data = [bars(i, method, found, aside) for i, method, found in shown]
    keys = [Key(tail_label(method, found), colour(i), "square") for i, method, found in shown]
    any_forbidden = any(found.forbidden for _, _, found in shown)
    room = 0.04 * (high - low)
    ends = ((aside if any_forbidden else low) - room, high + room)
    beside = ticks_beside(low, high, aside) if any_forbidden else {}
    fewest = min(share for bar in data for share in bar["y"] if share)
    axes = {
        "xaxis": axis("log w − log Ẑ", range=ends, **beside),
        "yaxis": axis(
            "share of draws", type="log", dtick=1, exponentformat="power",
            range=[math.log10(fewest) - 0.3, 0.05],
        ),
    }  # fmt: skip
    margin = {"l": 56, "r": 10, "t": 26, "b": 48}
    return Figure(data, layout(330, **axes, margin=margin, bargap=0.1, **tails(*ends)), keys)


def bars(index: int, method: MethodResult, found: LogWeights, aside: float) -> Panel:
    """One method: a bar for each bin, and one aside for what is forbidden."""
    shares = (found.forbidden, *found.histogram.probabilities)
    return {
        "type": "bar",
        "x": [aside, *found.histogram.values],
        "y": [share or None for share in shares],  # nothing is no number on a log scale
        "marker": {"color": colour(index)},
        "name": text(method.name),
    }


def tail_label(method: MethodResult, found: LogWeights) -> str:
    forbidden = f", {percent(found.forbidden)} forbidden included" if found.forbidden else ""
    return f"{method.name}: {percent(found.leak)} leak{forbidden}"


def ticks_beside(low: float, high: float, aside: float) -> dict[str, Any]:
    """Round numbers under the histogram, and a word under what stands aside."""
    step = next((step for step in TICKS if (high - low) / step <= 8), TICKS[-1])
    first = -int(-low // step)  # rounded up
    numbers = list(
        takewhile(lambda tick: tick <= high, (step * k for k in range(first, first + 20)))
    )
    return {
        "tickvals": [aside, *numbers],
        "ticktext": ["forbidden", *(f"{tick:g}".replace("-", "−") for tick in numbers)],
    }


def tails(low: float, high: float) -> Panel:
    """Shaded regions beyond e^±5, where the axis reaches them, with a word above each."""
    regions = [
        (low, -FAR, "left", "← leak"), (FAR, high, "right", "drawn too rarely →")
    ]  # fmt: skip
    inside = [region for region in regions if region[0] < region[1]]
    return {
        "shapes": [
            {"type": "rect", "x0": x0, "x1": x1, "y0": 0, "y1": 1, "yref": "paper",
             "fillcolor": BAND, "opacity": 0.45, "line": {"width": 0}, "layer": "below"}
            for x0, x1, _, _ in inside
        ],
        "annotations": [
            {"x": x0 if side == "left" else x1, "y": 1, "yref": "paper", "xanchor": side,
             "yanchor": "bottom", "showarrow": False, "text": words, "font": {"color": MUTED}}
            for x0, x1, side, words in inside
        ],
    }  # fmt: skip
