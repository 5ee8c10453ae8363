"""Problems as other tools have them, to targets."""

from tcsis.formats.bayes import from_pgmpy

__all__ = ["from_pgmpy"]
