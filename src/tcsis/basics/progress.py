"""A progress bar on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bar(
    what: str, total: float, enabled: bool, patience: float = 0.0
) -> Iterator[Callable[..., None]]:
    """Yields a function to call with how much of ``total`` is done and what else there is to say;
    the bar appears after ``patience`` seconds."""
    columns = (
        TextColumn(what), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[said]}"), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, due = bar.add_task(what, total=total, said=""), time.monotonic() + patience

    def show(done: float, said: str = "") -> None:
        bar.update(task, completed=done, said=said)
        if enabled and time.monotonic() >= due:
            bar.start()

    try:
        show(0.0)
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
