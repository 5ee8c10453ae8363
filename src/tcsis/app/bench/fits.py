"""How a cost grows with the side, and from how many draws on one method is cheaper than another.

Two laws are fitted to log cost, a + z·log L and a + c·L, by least squares with weights from the
errors of the points; the one with the smaller sum of squares is named.  Both have two parameters,
so that none is at an advantage.  The errors of the points are those of τ or of the ESS and not
those of the clock, so each has ``CLOCK`` besides, and where points lie further from a line than
that, the error of its slope is widened as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CLOCK = 0.1
"""Relative error of a time on a machine that does other things too."""
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Fit:
    """log cost = intercept + slope·log L, or slope·L where ``exponential``."""

    slope: float
    error: float
    intercept: float
    exponential: bool
    squares: float

    def cost(self, side: float) -> float:
        return math.exp(
            self.intercept + self.slope * (side if self.exponential else math.log(side))
        )

    def __str__(self) -> str:
        law = "exp({} L)" if self.exponential else "L^{}"
        return law.format(f"({self.slope:.2f} ± {self.error:.2f})")


def fit(
    sides: Sequence[float], costs: Sequence[float], errors: Sequence[float | None]
) -> Fit | None:
    """The better of both laws for costs with relative errors; None for fewer than three points."""
    if len(sides) < FEWEST_POINTS:
        return None
    both = [line(sides, costs, errors, exponential) for exponential in (False, True)]
    return min(both, key=lambda found: found.squares)


def line(
    sides: Sequence[float],
    costs: Sequence[float],
    errors: Sequence[float | None],
    exponential: bool,
) -> Fit:
    """One law, by weighted least squares."""
    length = np.asarray(sides, float)
    columns = np.stack([np.ones_like(length), length if exponential else np.log(length)], 1)
    deviation = np.array([math.hypot(CLOCK, error or 0.0) for error in errors])
    rows, values = columns / deviation[:, None], np.log(costs) / deviation
    covariance = np.linalg.inv(rows.T @ rows)
    intercept, slope = covariance @ rows.T @ values
    squares = float(((values - rows @ [intercept, slope]) ** 2).sum())
    wider = max(1.0, squares / (len(length) - 2))
    error = math.sqrt(float(covariance[1, 1]) * wider)
    return Fit(float(slope), error, float(intercept), exponential, squares)


def crossing(training: float, learned: float, other: float) -> float | None:
    """The number of draws n from which on training + n·learned < n·other; None where there is
    none."""
    return training / (other - learned) if other > learned else None
