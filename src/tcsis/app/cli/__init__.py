"""The command line: parse, call, print.  Nothing here imports torch before a command needs it."""

from tcsis.app.cli.app import main

__all__ = ["main"]
