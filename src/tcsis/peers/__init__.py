"""Other neural samplers, each under its own name, to be compared with."""

from tcsis.peers import leaps

__all__ = ["leaps"]
