"""A target with names of sites and values, of two and of three."""

import math

import numpy as np
import pytest

from tcsis.targets.factors import Factors


@pytest.fixture(scope="session")
def weather() -> Factors:
    """Three sites: sky (clear, cloudy, rain), grass (dry, wet), dog (in, out)."""
    grass = np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    dog = np.array([[[0.3, 1.0], [0.6, 0.2]], [[0.2, 0.8], [0.5, 0.1]], [[0.1, -1.0], [0.9, -0.5]]])
    return Factors(
        [((0,), [math.log(2), 0.0, -0.3]), ((0, 1), grass), ((0, 1, 2), dog)],
        [3, 2, 2],
        site_names=["sky", "grass", "dog"],
        value_names=[["clear", "cloudy", "rain"], ["dry", "wet"], ["in", "out"]],
    )
