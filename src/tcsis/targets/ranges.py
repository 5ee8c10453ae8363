"""A family of targets along one number: an interval of β, of a field, or of the power of p̄.

    Range(parameter="beta", low=0.1, high=0.6).at(Ising(10, 0.6), 0.37)      Ising(10, 0.37)
    Range(parameter="power", low=0.2, high=1.0).at(target, 0.5)              p̄^0.5

The parameter is an argument of the target, so that files hold the family as the target and three
entries; a power is one of any target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple
from numbers import Real
from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor

from tcsis.basics.frozen import Frozen
from tcsis.targets.base import Target
from tcsis.targets.given import Given
from tcsis.targets.spec import build, describe

POWER = "power"
ROUNDING = 1e-9
"""Of a value at an end, such as 3·0.2 for 0.6, relative to the range."""


class Range(Frozen):
    """``parameter`` from ``low`` to ``high``."""

    parameter: str
    low: float
    high: float

    @model_validator(mode="after")
    def check_ends(self) -> Range:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"{self.parameter} goes from {self.low} to {self.high}: expected two finite "
                "numbers, the smaller first"
            )
        if self.parameter == POWER and not (self.low >= 0 and self.high == 1):
            raise ValueError(
                f"power goes from {self.low} to {self.high}: expected it to end at 1, the target "
                "itself, and to begin at 0 or above"
            )
        return self

    @staticmethod
    def of(interval: Mapping[str, Any]) -> Range:
        """From ``{"beta": (0.1, 0.6)}``."""
        if len(interval) != 1:
            came = ", ".join(interval) or "nothing"
            raise ValueError(
                f"the range is one of {came}: expected one parameter with its two ends, such as "
                "beta=(0.1, 0.6)"
            )
        ((parameter, ends),) = interval.items()
        try:
            low, high = (float(end) for end in ends)
        except (TypeError, ValueError):
            raise ValueError(
                f"{parameter} is {ends!r}: expected its two ends, such as {parameter}=(0.1, 0.6)"
            ) from None
        return Range(parameter=parameter, low=low, high=high)

    @staticmethod
    def parse(text: str) -> Range:
        """From "beta=0.1:0.6"."""
        parameter, _, ends = map(str.strip, text.partition("="))
        try:
            low, high = (float(end) for end in ends.split(":") if parameter)
        except ValueError:
            raise ValueError(
                f"range is {text!r}: expected a parameter and its two ends, such as beta=0.1:0.6"
            ) from None
        return Range.of({parameter: (low, high)})

    def at(self, target: Target, value: float) -> Target:
        """The member of the family of ``target``."""
        if self.parameter == POWER:
            return target if value == 1 else target.scaled(value)
        if isinstance(target, Given):  # samplers work on its free sites, which have fields alone
            raise ValueError(
                f"{target} is given something: expected a range of {POWER}, or a range of "
                f"{self.parameter} without evidence, which model.at(...).given(...) takes"
            )
        spec, tensors = describe(target)
        numbers = [name for name, one in spec.items() if isinstance(one, float)]
        if self.parameter not in numbers or self.parameter == "constant":
            known = [name for name in numbers if name != "constant"]
            raise ValueError(
                f"{target} has no number {self.parameter!r}: expected a range of "
                f"{', '.join([*known, POWER])}"
            )
        member = build({**spec, self.parameter: value}, tensors).to(target.device)
        member._cost = target._cost  # what it evaluates is counted with the target
        return member

    def end(self, target: Target) -> Target:
        """The member at ``high``."""
        return self.at(target, self.high)

    def check_end(self, target: Target) -> None:
        """Refuse a target that is not the member at ``high``."""
        own = getattr(target, self.parameter, self.high)  # none has a power
        if own != self.high:
            raise ValueError(
                f"{target} is trained for a range of {self.parameter} to {self.high:g}: expected "
                "the target at the upper end"
            )

    def least_symmetric(self, target: Target) -> Target:
        """A member whose symmetries all others have: a field, unless it is zero, tells values
        apart, and couplings, unless β is zero, may tell sites apart."""
        ends = (self.end(target), self.at(target, self.low))
        return min(ends, key=lambda end: sum(astuple(end.symmetries)))

    def read(self, given: Mapping[str, Any]) -> float:
        """The value of ``{"beta": 0.37}``, if it is one of the range."""
        inside = f"{self.parameter} from {self.low:g} to {self.high:g}"
        if list(given) != [self.parameter]:
            came = ", ".join(given) or "nothing"
            raise ValueError(f"the model is asked for at {came}: it is of {inside}")
        value = given[self.parameter]
        if isinstance(value, Tensor) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"{self.parameter} is {value!r}: expected a number, {inside}")
        number, spare = float(value), ROUNDING * (self.high - self.low)
        if not self.low - spare <= number <= self.high + spare:
            raise ValueError(
                f"{self.parameter} is {number:g}: the model was trained for {inside}; expected a "
                "value inside, or train on a longer range"
            )
        return min(max(number, self.low), self.high)

    def levels(self, n: int) -> Tensor:
        """n values from one end to the other, (n,)."""
        return torch.linspace(self.low, self.high, n, dtype=torch.float64)

    def place(self, value: float) -> float:
        """Where a value is, from -1 at ``low`` to 1 at ``high``."""
        return 2 * (value - self.low) / (self.high - self.low) - 1


def parse_value(text: str) -> dict[str, float]:
    """From "beta=0.37", what ``Range.read`` takes."""
    parameter, _, value = text.partition("=")
    try:
        return {parameter.strip(): float(value)}
    except ValueError:
        raise ValueError(
            f"at is {text!r}: expected the parameter and one value, such as beta=0.37"
        ) from None
