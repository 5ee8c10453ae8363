"""The reverse process: from noise to weighted draws, step by step along a schedule."""

from tcsis.reverse.loop import sample
from tcsis.reverse.planning import plan_blocks, tuned_grid
from tcsis.reverse.steps import euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal

__all__ = [
    "Trapezoidal",
    "euler",
    "plan_blocks",
    "sample",
    "tuned_grid",
    "tweedie",
]
