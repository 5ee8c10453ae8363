"""How this process was started, as far as it can be told without torch."""

from __future__ import annotations

import os


def started_together() -> bool:
    """Whether torchrun, or what sets the same variables, has started more than one process."""
    size = os.environ.get("WORLD_SIZE", "1")
    return "RANK" in os.environ and size.isdecimal() and int(size) > 1
