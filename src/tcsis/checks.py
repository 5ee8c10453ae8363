"""Refusals that many modules share."""

from __future__ import annotations


def check_counts(**counts: int) -> None:
    """Every count must be an integer of at least one; the keyword is its name."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name} is {count!r}: expected an integer of at least 1")
