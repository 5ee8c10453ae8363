"""Signals that ask a process to end: each raises like ctrl-C, and can be made to wait."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOMENT = 0.05
"""Seconds after which a signal comes again that nobody heard."""

Handler = Callable[[int, FrameType | None], Any]


class StopError(KeyboardInterrupt):
    """What a signal raises; ``number`` is that of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """SIGINT, SIGTERM and SIGHUP raise ``StopError`` meanwhile; yields the signals that came."""
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise StopError(number)

    with handled_by(stop), repeated():
        yield came


def ignore(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing."""


def ignore_all() -> None:
    """Hear no more signals, in a process that is about to end and has something to say; whoever
    changed the handlers before puts them back."""
    for number in heard():
        signal.signal(number, ignore)


@contextmanager
def repeated() -> Iterator[None]:
    """A signal that raises where Python drops exceptions, in a finaliser or a callback from C,
    comes again a moment later."""
    before, coming = sys.unraisablehook, []

    def hook(dropped: Any) -> None:
        if isinstance(dropped.exc_value, StopError):
            again = (os.getpid(), dropped.exc_value.number)
            coming.append(threading.Timer(MOMENT, os.kill, again))
            coming[-1].start()
        else:
            before(dropped)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in coming:
            timer.cancel()


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Signals wait until the block ends, and then do what they would have done; yields a function
    that tells whether one is waiting.  A second one does not wait."""
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            waiting.clear()
            signal.signal(number, before[number])
            signal.raise_signal(number)
        else:
            waiting.append(number)

    with handled_by(wait) as before:
        yield lambda: bool(waiting)
    if waiting:
        signal.raise_signal(waiting[0])


@contextmanager
def handled_by(handler: Handler) -> Iterator[dict[int, Any]]:
    """The handler in the place of those before, which are yielded."""
    before = heard()
    for number in before:
        signal.signal(number, handler)
    try:
        yield before
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def heard() -> dict[int, Any]:
    """The handlers that may be changed.  What is ignored, as ``nohup`` and shells have it for what
    they run in the background, stays so; and none but the main thread may change any."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in STOPS}
    return {number: old for number, old in handlers.items() if old is not signal.SIG_IGN}
