"""Networks in the format of the UAI competitions.

    MARKOV (or BAYES), the number of variables, how many values each has, the number of factors; for
    each factor how many variables it has and which; for each factor how many entries its table has
    and the entries, the last variable running fastest.

Entries are factors of p̄ and not their logarithms; 0 forbids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tcsis.basics.checks import MAX_VALUES
from tcsis.formats.models import pairs_or_factors
from tcsis.formats.text import MAX_ENTRIES, MAX_SITES, Place, check_entries, read_text
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise

MAX_FACTORS = 2**22
ROUNDED = 0.01
"""By which rounded probabilities may sum to something else than 1."""


class Words:
    """The words of a file, one after the other, with their lines."""

    def __init__(self, path: str | Path):
        self.last = Place(Path(path))
        self.words = self._walk(Path(path), read_text(path))

    def _walk(self, path: Path, text: str) -> Iterator[tuple[Place, str]]:
        for number, line in enumerate(text.splitlines(), 1):
            place = Place(path, number)
            for word in line.split():
                yield place, word

    def next(self, name: str) -> str:
        found = next(self.words, None)
        if found is None:
            raise self.last.refuse("the file ends", name)
        self.last, word = found
        return word

    def integer(self, name: str, least: int, most: int) -> int:
        return self.last.integer(self.next(name), name, least, most)


def read_uai(path: str | Path) -> Pairwise | Factors:
    """A Markov or Bayesian network."""
    words = Words(path)
    kind = words.next("MARKOV or BAYES")
    if kind.upper() not in ("MARKOV", "BAYES"):
        raise words.last.refuse(f"the file begins with {kind[:40]!r}", "MARKOV or BAYES")
    d = words.integer("the number of variables", 1, MAX_SITES)
    counts = [words.integer("a number of values", 1, MAX_VALUES) for _ in range(d)]
    scopes = [read_scope(words, d) for _ in range(words.integer("factors", 0, MAX_FACTORS))]
    left = MAX_ENTRIES
    factors = []
    for scope in scopes:
        shape = tuple(counts[site] for site in scope)
        size = math.prod(shape)
        check_entries(words.last, "the tables", MAX_ENTRIES - left + size)
        left -= size
        declared = words.integer("the number of entries", 0, MAX_ENTRIES)
        if declared != size:
            raise words.last.refuse(f"a table of {declared} entries", f"{size}, as its sites have")
        factors.append((scope, read_table(words, shape)))
        if kind.upper() == "BAYES":
            check_sums(words.last, *factors[-1])
    if (extra := next(words.words, None)) is not None:
        raise extra[0].refuse(f"{extra[1][:40]!r} stands after the last table", "the end")
    return pairs_or_factors(factors, counts)


def read_scope(words: Words, d: int) -> tuple[int, ...]:
    size = words.integer("the variables of a factor", 0, min(d, 32))
    scope = tuple(words.integer("a variable", 0, d - 1) for _ in range(size))
    if len(set(scope)) < size:
        raise words.last.refuse("a factor names a variable twice", "different variables")
    return scope


def check_sums(place: Place, scope: tuple[int, ...], table: np.ndarray) -> None:
    """Refuse what is no p(last variable | the others): some tools write other orders."""
    sums = np.exp(table).sum(-1)
    worst = float(sums.flat[np.abs(sums - 1).argmax()])
    if not scope or abs(worst - 1) > ROUNDED:
        raise place.refuse(
            f"the table of variables {' '.join(map(str, scope)) or 'none'} sums to {worst:g} over "
            "its last",
            "1, as in a BAYES file; say MARKOV for factors of any kind",
        )


def read_table(words: Words, shape: tuple[int, ...]) -> np.ndarray:
    """The logarithm of a table."""
    entries = np.empty(math.prod(shape))
    for k in range(len(entries)):
        word = words.next("an entry of a table")
        entries[k] = words.last.number(word, "an entry")
        if entries[k] < 0:
            raise words.last.refuse(f"an entry is {word[:40]}", "at least 0")
    if not entries.any():
        raise words.last.refuse("a table has no entry above 0", "some states to be allowed")
    with np.errstate(divide="ignore"):
        return np.log(entries).reshape(shape)
