"""The reverse process: from noise to weighted draws, step by step along a schedule."""

from tcsis.reverse.loop import sample

__all__ = ["sample"]
