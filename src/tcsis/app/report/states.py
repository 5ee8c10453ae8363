"""States as small crisp pictures: a lattice as it lies, other states as rows of a barcode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tcsis.app.results import Frame, TargetResult

STOPS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
"""Of the colour map viridis, which keeps its order for every kind of colour vision."""

MAX_FRAMES = 8


@dataclass(frozen=True)
class Image:
    """Cells of a grid, as one SVG path for each colour, and a caption."""

    rows: int
    columns: int
    paths: list[tuple[str, str]]
    caption: str = ""


def images(states: list[list[int]], target: TargetResult) -> list[Image]:
    """An image for every state of a lattice; for others one image of all states."""
    if target.shape is None:
        return [paint(states, target.num_values)] if states else []
    return [paint(grid(state, target.shape), target.num_values) for state in states]


def film(frames: list[Frame], target: TargetResult) -> list[Image]:
    """Some frames of a trajectory with their times, sites that are still noise veiled."""
    shape = target.shape or [1, target.num_sites]
    made = []
    for frame in choose(frames):
        image = paint(grid(frame.tokens, shape), target.num_values)
        if len(frame.times) == 1:
            paths, caption = image.paths, f"t = {frame.times[0]:.2f}"
        else:
            noise = [int(time >= 1) for time in frame.times]
            paths = [*image.paths, (cells(grid(noise, shape), 1), "var(--veil)")]
            caption = f"{len(noise) - sum(noise)} of {len(noise)}"
        made.append(Image(image.rows, image.columns, paths, caption))
    return made


def choose(frames: list[Frame]) -> list[Frame]:
    """At most ``MAX_FRAMES`` of them, evenly spaced, the first and the last included."""
    count = min(MAX_FRAMES, len(frames))
    return [frames[round(i * (len(frames) - 1) / max(1, count - 1))] for i in range(count)]


def grid(state: Sequence[int], shape: Sequence[int]) -> list[list[int]]:
    """Rows of a lattice; the layers of a box stand one under another."""
    columns = shape[-1]
    return [list(state[i : i + columns]) for i in range(0, math.prod(shape), columns)]


def paint(rows: list[list[int]], num_values: int) -> Image:
    values = sorted({value for row in rows for value in row})
    paths = [(cells(rows, value), shade(value, num_values)) for value in values]
    return Image(len(rows), len(rows[0]), paths)


def cells(rows: list[list[int]], value: int) -> str:
    """The outline of all cells with a value, neighbours in a row as one rectangle."""
    path = []
    for y, row in enumerate(rows):
        x = 0
        for here, run in groupby(row):
            length = len(list(run))
            if here == value:
                path.append(f"M{x} {y}h{length}v1h-{length}z")
            x += length
    return "".join(path)


def shade(value: int, num_values: int) -> str:
    if num_values == 2:
        return f"var(--v{value})"
    place = value / max(1, num_values - 1) * (len(STOPS) - 1)
    low = min(int(place), len(STOPS) - 2)
    mixed = (
        round(a + (b - a) * (place - low))
        for a, b in zip(channels(STOPS[low]), channels(STOPS[low + 1]), strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
