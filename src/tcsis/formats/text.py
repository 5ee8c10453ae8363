"""Files read with bounds, and refusals that name the line: what came, and what was expected.

Whatever a header declares is held against the limits below before anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 2**28
"""Of a file."""
MAX_SITES = 2**20
MAX_ENTRIES = 2**24
"""Of all tables of a target together."""
SHOWN = 40
"""Characters of a word that a refusal repeats."""


@dataclass(frozen=True)
class Place:
    """A line of a file, counted from 1; 0 where there is no line to name."""

    path: Path
    line: int = 0

    def refuse(self, what: str, expected: str) -> ValueError:
        """One sentence on what is wrong here."""
        where = f"{self.path}, line {self.line}" if self.line else str(self.path)
        return ValueError(f"{where}: {what}: expected {expected}")

    def integer(self, word: str, name: str, least: int, most: int) -> int:
        """A word as an integer within bounds."""
        try:
            number = int(word) if len(word) < 20 else None
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise self.refuse(f"{name} is {shown(word)}", f"an integer from {least} to {most}")
        return number

    def number(self, word: str, name: str) -> float:
        """A word as a finite number."""
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.refuse(f"{name} is {shown(word)}", "a finite number")
        return number


def shown(word: str) -> str:
    return repr(word if len(word) <= SHOWN else word[:SHOWN] + "…")


def read_bytes(path: str | Path) -> bytes:
    """The content of a file of bounded size."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not a file: expected the path of one")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): expected a file") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES // 2**20} MB: expected less")
    return content


def read_text(path: str | Path) -> str:
    """The content of a text file."""
    content = read_bytes(path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Place(Path(path), line).refuse(
            f"the byte {content[error.start]:#04x} is no text", "a text file in UTF-8"
        ) from None


def read_lines(path: str | Path, comments: Iterable[str] = ()) -> Iterator[tuple[Place, list[str]]]:
    """The words of every line that has any and whose first word is no mark of a comment."""
    path, comments = Path(path), tuple(comments)
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split()
        if words and not (comments and words[0].startswith(comments)):
            yield Place(path, number), words


def check_entries(place: Place, what: str, entries: int) -> None:
    """Refuse tables that are larger than memory should be asked for."""
    if entries > MAX_ENTRIES:
        raise place.refuse(
            f"{what} would take {entries:,} entries", f"at most {MAX_ENTRIES:,}; make it smaller"
        )
