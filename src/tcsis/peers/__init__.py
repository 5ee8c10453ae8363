"""Other neural samplers, each under its own name and all by one interface, to be compared with."""

from tcsis.peers import leaps, mdns, van

__all__ = ["leaps", "mdns", "van"]
