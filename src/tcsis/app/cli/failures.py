"""Exit codes, and errors as one clear line.

| code | meaning                                    |
|------|--------------------------------------------|
| 0    | fine                                       |
| 1    | a fault of tcsis itself                    |
| 2    | usage or bad input                         |
| 3    | training diverged                          |
| 4    | bad checkpoint                             |
| 5    | a requested quality gate failed            |
| 6    | a file cannot be written                   |
| 7    | another rank ended, with the state saved   |
| 130  | interrupted, with the state saved          |
| 143  | ended by SIGTERM, with the state saved     |
| 129  | ended by SIGHUP, with the state saved      |
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeGuard

from typer import Abort

from tcsis.basics.files import WriteError
from tcsis.basics.launch import started_together
from tcsis.basics.memory import free_memory, spelled

FINE, FAULT, USAGE, DIVERGED, CHECKPOINT, GATE, UNWRITTEN, RANK_ENDED = 0, 1, 2, 3, 4, 5, 6, 7
INTERRUPTED = 130
SIGNALLED = 128
"""What is added to the number of a signal, as shells do."""
ALLOCATION = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
"""What torch says where Python would raise a MemoryError."""


class UsageError(Protocol):
    """What the parser raises."""

    def format_message(self) -> str: ...


class RunInterruptedError(Exception):
    """The user stopped a run; the message says how to go on."""


def explain(error: Exception, arguments: Sequence[str], signals: Sequence[int] = ()) -> int:
    """Print an error as one line and return the exit code; ``signals`` are those that came.  Of
    several ranks the first one prints."""
    code, text = exit_code(error), one_line(error)
    if code == INTERRUPTED and signals:
        code = SIGNALLED + signals[0]
    if wants_memory(error):
        text = f"there is not enough memory ({spelled(free_memory())} free): ask for less at once"
    elif code == FAULT:
        text = f"{type(error).__name__}: {text}; this is a fault of tcsis, --debug shows where"
    if started_together() and not first_to_tell():
        return code
    with suppress(OSError):  # of a terminal that was closed nobody reads this
        if "--debug" in arguments:
            traceback.print_exception(error)
        if "--json" in arguments:
            print(json.dumps({"error": text, "exit_code": code}))
        print(f"error: {text}" if code < SIGNALLED else text, file=sys.stderr)
    return code


def first_to_tell() -> bool:
    from tcsis.basics.ranks import current

    return current().first_to("tell of an error")


def exit_code(error: Exception) -> int:
    if wrong_usage(error) or wants_memory(error):
        return USAGE
    if isinstance(error, RunInterruptedError | Abort):
        return INTERRUPTED
    if isinstance(error, WriteError):
        return UNWRITTEN
    if "torch" in sys.modules:  # or else none of these can have been raised
        from tcsis.basics.ranks import RankEndedError
        from tcsis.learn.checkpoint import CheckpointError
        from tcsis.learn.descent import DivergedError

        if isinstance(error, CheckpointError):
            return CHECKPOINT
        if isinstance(error, DivergedError):
            return DIVERGED
        if isinstance(error, RankEndedError):
            return RANK_ENDED
    return USAGE if isinstance(error, ValueError | OSError) else FAULT


def wants_memory(error: Exception) -> bool:
    """Whether more memory was asked for than there is."""
    told = isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATION)
    return told or isinstance(error, MemoryError)


def wrong_usage(error: Exception) -> TypeGuard[UsageError]:
    """Whether an error is one of the parser's, whose classes typer keeps in different places."""
    return hasattr(error, "format_message")


def one_line(error: Exception) -> str:
    text = error.format_message() if wrong_usage(error) else str(error)
    return " ".join(text.split()) or type(error).__name__
