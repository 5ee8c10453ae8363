"""Clauses: DIMACS ``.cnf``, and ``.wcnf`` of Max-SAT.

A clause is a factor over its variables that is 0 but at the one assignment that breaks it, where it
is -inf, or -β·weight for a soft clause:

    log p̄(x) = -β·(weight of the soft clauses that x breaks), -inf where it breaks a hard one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcsis.formats.models import Doubles, check_memory, precision, total_size
from tcsis.formats.text import MAX_SITES, Place, read_lines
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import check_beta

MAX_LITERALS = 12
"""Of a clause, whose table has 2 to that power entries."""
MAX_CLAUSES = 2**22
Clause = dict[int, int]
"""The value of each variable that breaks it."""


def read_cnf(path: str | Path, *, beta: float | None = None) -> Factors:
    """All assignments that satisfy every clause alike; with ``beta``, every broken clause costs
    β."""
    parts = Clauses(Path(path), "cnf")
    cost = np.inf if beta is None else check_beta(beta)
    return parts.target([(clause, cost) for clause in parts.plain()])


def read_wcnf(path: str | Path, *, beta: float = 1.0) -> Factors:
    """Weighted clauses, the weight first: ``p wcnf VARIABLES CLAUSES TOP`` with hard clauses of
    weight TOP, or without a line p and with hard clauses marked ``h``."""
    parts, beta = Clauses(Path(path), "wcnf"), check_beta(beta)
    return parts.target(
        [(clause, w if w == np.inf else beta * w) for clause, w in parts.weighted()]  # hard stay so
    )


@dataclass
class Clauses:
    """A file of clauses, and how many variables it has."""

    path: Path
    kind: str
    num_variables: int = 0
    declared: bool = False

    def plain(self) -> Iterator[Clause]:
        """The clauses of a ``.cnf``, which may run over lines and end with 0."""
        clause: list[str] = []
        place, count, expected = Place(self.path), 0, 0
        for place, words in self.lines():
            if words[0] == "p":
                expected = self.declare(place, words, 4)
                continue
            if not self.declared:
                raise place.refuse(f"{words[0][:20]!r} stands before p", "p cnf VARIABLES CLAUSES")
            for word in words:
                if word != "0":
                    clause.append(word)
                    continue
                count += 1
                yield from self.read(place, clause)
                clause = []
        if clause:
            raise place.refuse("the last clause has no end", "0 after its literals")
        self.check_count(count, expected)

    def weighted(self) -> Iterator[tuple[Clause, float]]:
        """The clauses of a ``.wcnf``, one a line, with their weights; hard ones weigh infinity."""
        top, count, expected = np.inf, 0, None
        for place, words in self.lines():
            if words[0] == "p":
                expected = self.declare(place, words, 5)
                top = place.number(words[4], "the top weight") if len(words) == 5 else np.inf
                continue
            if words[-1] != "0" or len(words) < 2:
                raise place.refuse("the clause has no end", "a weight, literals and 0")
            hard = words[0] == "h"
            weight = np.inf if hard else place.number(words[0], "the weight")
            if weight < 0:
                raise place.refuse(f"the weight is {weight:g}", "a number of at least 0")
            count += 1
            for clause in self.read(place, words[1:-1]):
                yield clause, np.inf if weight >= top else weight
        if expected is not None:
            self.check_count(count, expected)

    def lines(self) -> Iterator[tuple[Place, list[str]]]:
        for place, words in read_lines(self.path, ("c", "#")):
            if words[0] == "%":  # with which some old files end
                return
            yield place, words

    def declare(self, place: Place, words: list[str], most: int) -> int:
        """The line p: variables are counted, and the number of clauses is returned."""
        if self.declared or not 4 <= len(words) <= most or words[1] != self.kind:
            raise place.refuse(
                f"the line is {' '.join(words)[:40]!r}", f"one p {self.kind} VARIABLES CLAUSES"
            )
        if self.num_variables:
            raise place.refuse("clauses stand before p", f"p {self.kind} first, or none at all")
        self.declared = True
        self.num_variables = place.integer(words[2], "the number of variables", 1, MAX_SITES)
        return place.integer(words[3], "the number of clauses", 0, MAX_CLAUSES)

    def read(self, place: Place, literals: list[str]) -> Iterator[Clause]:
        """The clause, unless it holds always."""
        most = self.num_variables if self.declared else MAX_SITES
        clause: Clause = {}
        holds = False
        for word in literals:
            literal = place.integer(word, "a literal", -most, most)
            if literal == 0:
                raise place.refuse("0 stands inside a clause", "it at the end only")
            breaks = int(literal < 0)
            holds = holds or clause.setdefault(abs(literal) - 1, breaks) != breaks
        if not clause:
            raise place.refuse("the clause is empty and breaks always", "at least one literal")
        if len(clause) > MAX_LITERALS:
            raise place.refuse(
                f"the clause has {len(clause)} variables",
                f"at most {MAX_LITERALS}; split it with further variables",
            )
        if not self.declared:
            self.num_variables = max(self.num_variables, 1 + max(clause))
        if not holds:
            yield clause

    def check_count(self, count: int, expected: int) -> None:
        if count != expected:
            raise Place(self.path).refuse(f"there are {count} clauses", f"{expected}, as declared")

    def target(self, clauses: list[tuple[Clause, float]]) -> Factors:
        if not self.num_variables:
            raise Place(self.path).refuse("there are no variables", "clauses")
        factors = [(tuple(clause), table(clause, cost)) for clause, cost in clauses]
        counts = [2] * self.num_variables
        check_memory(factors, counts)
        names = [str(variable + 1) for variable in range(self.num_variables)]
        dtype = precision(total_size(factors))
        return Factors(factors, counts, dtype=dtype).named(names, ("false", "true"))


def table(clause: Clause, cost: float) -> Doubles:
    """0, and -cost where the clause breaks."""
    made = np.zeros((2,) * len(clause))
    made[tuple(clause.values())] = -cost
    return made
