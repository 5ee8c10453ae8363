"""A finding: a level and the reason for it; and how several become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("trusted", "trusted by weight", "unrefuted", "doubtful", "failed")
"""From the best to the worst; the second is for the whole of a verdict only.  Of unrefuted draws
nothing is known to be wrong, and little could be."""

DOUBTFUL_CHANCE, FAILED_CHANCE = 1e-3, 1e-6

SMALL_BIAS = 0.05
"""In standard deviations of one draw: a smaller bias, though certain, is a doubt and no failure,
and not even a doubt of draws whose weights repair it."""


@dataclass(frozen=True)
class Finding:
    """``level`` is "trusted", "unrefuted", "doubtful" or "failed"; ``why`` says why in plain
    words."""

    level: str
    why: str

    def worse_than(self, other: Finding) -> bool:
        return LEVELS.index(self.level) > LEVELS.index(other.level)


def combine(findings: Iterable[Finding | None]) -> Finding:
    """The worst finding, the first of equals; all of them, led by the first, if none is bad."""
    made = [finding for finding in findings if finding is not None]
    worst = max(made, key=lambda finding: LEVELS.index(finding.level))
    if worst.level not in ("trusted", "unrefuted"):
        return worst
    number, *reasons = (finding.why for finding in made if finding.level == "trusted")
    good = f"{number}: {', '.join(reasons)}" if reasons else number
    if worst.level == "trusted":
        return Finding("trusted", good)
    return Finding("unrefuted", f"nothing contradicts them and little could ({good}); {worst.why}")


def capitalised(words: str) -> str:
    return words[0].upper() + words[1:]


def sentence(words: str) -> str:
    return capitalised(words) + "."


def grade(value: float, doubtful: float, failed: float) -> str:
    """The level of a value that should be small."""
    if value > failed:
        return "failed"
    return "doubtful" if not value <= doubtful else "trusted"


def grade_chance(chance: float) -> str:
    """The level of what happens to perfect draws with this probability."""
    return grade(-chance, -DOUBTFUL_CHANCE, -FAILED_CHANCE)


def milder(level: str, other: str) -> str:
    return min(level, other, key=LEVELS.index)


def percent(share: float) -> str:
    """Three digits of it: 43.3%, 0.24%."""
    return f"{100 * share:.3g}%"
