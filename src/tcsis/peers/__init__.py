"""Other neural samplers, each under its own name and all by one interface, to be compared with."""

from tcsis.peers import dnfs, leaps, mdns, sdds, van

__all__ = ["dnfs", "leaps", "mdns", "sdds", "van"]
