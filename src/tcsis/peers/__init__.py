"""Other neural samplers, each under its own name, to be compared with."""

from tcsis.peers import dnfs, leaps, sdds

__all__ = ["dnfs", "leaps", "sdds"]
