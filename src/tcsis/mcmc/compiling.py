"""Chains have to be compiled once on a machine, and whoever waits for that is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from tcsis.mcmc.compiled.cache import told

NOTE = "compiling chains, once on this machine (about 10 s)"


@contextmanager
def compiling_said(enabled: bool) -> Iterator[None]:
    """One note on standard error, where somebody looks at it, when something is compiled that is
    not kept on disk."""
    console, said = Console(stderr=True, highlight=False), False

    def tell() -> None:
        nonlocal said
        if not said and (console.is_terminal or console.is_jupyter):
            console.print(NOTE)
        said = True

    with told(tell if enabled else lambda: None):
        yield
