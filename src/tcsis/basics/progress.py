"""A progress bar for long runs only, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

PATIENCE = 5.0
"""Seconds before the bar appears."""


@contextmanager
def late_progress(what: str, total: int, enabled: bool = True) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each of ``total`` pieces of work."""
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)
    begin = time.monotonic()

    def tick() -> None:
        bar.advance(task)
        if enabled and not bar.live.is_started and time.monotonic() - begin > PATIENCE:
            bar.start()

    try:
        yield tick
    finally:
        if bar.live.is_started:
            bar.stop()
