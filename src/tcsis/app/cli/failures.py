"""Exit codes, and errors as one clear line.

| code | meaning                                    |
|------|--------------------------------------------|
| 0    | fine                                       |
| 1    | a fault of tcsis itself                    |
| 2    | usage or bad input                         |
| 3    | training diverged                          |
| 4    | bad checkpoint                             |
| 5    | a requested quality gate failed            |
| 130  | interrupted, with the state saved          |
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from typer import Abort

FINE, FAULT, USAGE, DIVERGED, CHECKPOINT, GATE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class UsageError(Protocol):
    """What the parser raises."""

    def format_message(self) -> str: ...


class RunInterruptedError(Exception):
    """The user stopped a run; the message says how to go on."""


def explain(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error as one line and return the exit code."""
    code, text = exit_code(error), one_line(error)
    if code == FAULT:
        text = f"{type(error).__name__}: {text}; this is a fault of tcsis, --debug shows where"
    if "--debug" in arguments:
        traceback.print_exception(error)
    if "--json" in arguments:
        print(json.dumps({"error": text, "exit_code": code}))
    print(f"error: {text}" if code != INTERRUPTED else text, file=sys.stderr)
    return code


def exit_code(error: Exception) -> int:
    if wrong_usage(error):
        return USAGE
    if isinstance(error, RunInterruptedError | Abort):
        return INTERRUPTED
    if "torch" in sys.modules:  # or else none of these can have been raised
        from tcsis.learn.checkpoint import CheckpointError
        from tcsis.learn.descent import DivergedError

        if isinstance(error, CheckpointError):
            return CHECKPOINT
        if isinstance(error, DivergedError):
            return DIVERGED
    return USAGE if isinstance(error, ValueError | OSError) else FAULT


def wrong_usage(error: Exception) -> TypeGuard[UsageError]:
    """Whether an error is one of the parser's, whose classes typer keeps in different places."""
    return hasattr(error, "format_message")


def one_line(error: Exception) -> str:
    text = error.format_message() if wrong_usage(error) else str(error)
    return " ".join(text.split()) or type(error).__name__
