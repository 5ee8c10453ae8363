"""How this process was started, as far as it can be told without torch."""

from __future__ import annotations

import os
from dataclasses import dataclass


def started_together() -> bool:
    """Whether torchrun, or what sets the same variables, has started more than one process."""
    size = os.environ.get("WORLD_SIZE", "1")
    return "RANK" in os.environ and size.isdecimal() and int(size) > 1


@dataclass(frozen=True)
class Rank:
    """Process ``number`` of ``world``, from 0; the first is told what others only help with."""

    number: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.world:
            raise ValueError(
                f"RANK is {self.number} and WORLD_SIZE {self.world}: expected a rank from 0 to "
                "WORLD_SIZE - 1"
            )

    @property
    def leads(self) -> bool:
        return self.number == 0


def this_rank() -> Rank:
    """What the environment says; a process by itself where it says nothing."""
    given = {name: os.environ.get(name, default) for name, default in DEFAULTS.items()}
    for name, text in given.items():
        if not text.isdecimal():
            raise ValueError(f"{name} is {text!r}: expected a number, as torchrun sets it")
    return Rank(int(given["RANK"]), int(given["WORLD_SIZE"]))


DEFAULTS = {"RANK": "0", "WORLD_SIZE": "1"}
