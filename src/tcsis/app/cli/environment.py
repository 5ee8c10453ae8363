"""What OpenMP, MKL and numba read once, when they are loaded: it has to be said before that."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def set_environment(arguments: Sequence[str]) -> None:
    """Threads that sleep while they wait, as spinning ones are in the way of each other where the
    cores are shared; and as many as ``--threads`` says.  A process that has loaded torch already,
    to call the command line from Python, keeps what it has."""
    if "torch" in sys.modules:
        return
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    threads = threads_asked_for(arguments)
    if threads is not None:
        os.environ.update(dict.fromkeys(THREADS, threads))


def threads_asked_for(arguments: Sequence[str]) -> str | None:
    """The number after ``--threads``, if it is one; what is wrong with another is said later."""
    found = None
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--threads":
            found = value if equals else after
    return found if found is not None and found.isdecimal() and int(found) else None
