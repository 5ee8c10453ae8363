"""Where commands print to: tables and words, or one JSON object."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console, RenderableType

from tcsis.app.cli.options import PrintOptions

WIDTH = 150
"""Of tables that go to a file or a pipe."""


class Printer:
    """Words and tables go to stdout, unless that is kept for JSON or nothing; notes to stderr."""

    def __init__(self, options: PrintOptions):
        self.options = options

    @property
    def lively(self) -> bool:
        """Whether anyone looks at a progress bar."""
        return sys.stderr.isatty() and not self.options.quiet and not self.options.json

    def show(self, *parts: RenderableType) -> None:
        if self.options.json or self.options.quiet:
            return
        console = Console(highlight=False, soft_wrap=False)
        if not console.is_terminal:
            console.width = WIDTH
        for part in parts:
            console.print(part, markup=False) if isinstance(part, str) else console.print(part)

    def note(self, text: str) -> None:
        if not self.options.quiet:
            Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)

    def data(self, value: dict[str, Any]) -> None:
        """The JSON object, if that was asked for."""
        if self.options.json:
            print(json.dumps(value, allow_nan=False))
