"""Bayesian networks in the Bayesian Interchange Format, as repositories of networks have them.

    network NAME { }
    variable smoking { type discrete [ 2 ] { yes, no }; }
    probability ( cancer | smoking ) { (yes) 0.03, 0.97; (no) 0.01, 0.99; }
    probability ( smoking ) { table 0.3, 0.7; }

A row ``(states of the parents) numbers;`` has the probabilities of the states of the first
variable; ``default numbers;`` is for the rows that are not there; ``table numbers;`` is the whole
table, the first variable running slowest and the last parent fastest.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tcsis.basics.checks import MAX_VALUES
from tcsis.formats.models import Doubles, check_memory
from tcsis.formats.text import MAX_SITES, Place, check_entries, read_text, shown
from tcsis.targets.factors import Factors

TOKEN = re.compile(
    r'(?P<gap>\s+|//[^\n]*|/\*.*?\*/)|(?P<mark>[{}()\[\]|,;])|"(?P<quoted>[^"\n]*)"'
    r'|(?P<word>[^\s{}()\[\]|,;"]+)|(?P<wrong>.)',
    re.DOTALL,
)
MARKS = set("{}()[]|,;")
SLACK = 0.02
"""By how much the probabilities of a row may miss 1: files give two digits of them."""


@dataclass
class Network:
    """States of every variable, and the tables: child and parents, and log-probabilities."""

    states: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, tuple[list[str], Doubles]] = field(default_factory=dict)


class Tokens:
    """Marks and words of a file, with their lines."""

    def __init__(self, path: Path):
        self.path, self.at, line = path, 0, 1
        self.found: list[tuple[int, str, bool]] = []
        for match in TOKEN.finditer(read_text(path)):
            text = match[0]
            if match["wrong"] is not None:
                raise Place(path, line).refuse(f"{text!r} stands alone", "a closing quote")
            if match["gap"] is None:
                quoted = match["quoted"]
                token = text if quoted is None else quoted
                self.found.append((line, token, match["mark"] is not None))
            line += text.count("\n")
        self.last_line = line

    @property
    def place(self) -> Place:
        """Where the last token stood."""
        return Place(self.path, self.found[self.at - 1][0] if self.at else 1)

    @property
    def more(self) -> bool:
        return self.at < len(self.found)

    def peek(self) -> str:
        """The next token, marks and words alike; nothing at the end."""
        return self.found[self.at][1] if self.more else ""

    def take(self, expected: str) -> str:
        if not self.more:
            raise Place(self.path, self.last_line).refuse("the file ends", expected)
        self.at += 1
        return self.found[self.at - 1][1]

    def mark(self, mark: str) -> None:
        came = self.take(repr(mark))
        if came != mark or not self.found[self.at - 1][2]:
            raise self.place.refuse(f"{shown(came)} stands here", repr(mark))

    def word(self, expected: str) -> str:
        came = self.take(expected)
        if self.found[self.at - 1][2] or not came:
            raise self.place.refuse(f"{shown(came)} stands here", expected)
        return came

    def words(self, end: str, expected: str) -> list[str]:
        """Words with or without commas between, up to a mark."""
        found = [self.word(expected)]
        while self.peek() != end:
            if self.peek() == ",":
                self.mark(",")
            found.append(self.word(expected))
        self.mark(end)
        return found

    def skip_to(self, end: str) -> None:
        while self.take(repr(end)) != end:
            pass


def read_bif(path: str | Path) -> Factors:
    """The joint law of a network, with its names."""
    tokens, network = Tokens(Path(path)), Network()
    while tokens.more:
        kind = tokens.word("network, variable or probability")
        if kind == "network":
            tokens.skip_to("}")
        elif kind == "variable":
            read_variable(tokens, network)
        elif kind == "probability":
            read_probability(tokens, network)
        else:
            raise tokens.place.refuse(f"{shown(kind)} begins a block", "variable or probability")
    return as_factors(Place(Path(path)), network)


def as_factors(place: Place, network: Network) -> Factors:
    names = list(network.states)
    missing = [name for name in names if name not in network.tables]
    if missing or not names:
        raise place.refuse(f"there is no probability of {', '.join(missing[:3]) or 'any variable'}",
                           "a block for every variable")  # fmt: skip
    site = {name: k for k, name in enumerate(names)}
    factors = [
        (tuple(site[one] for one in (name, *parents)), table)
        for name, (parents, table) in network.tables.items()
    ]
    counts = [len(states) for states in network.states.values()]
    check_memory(factors, counts)
    values = list(network.states.values())
    return Factors(factors, counts, site_names=names, value_names=values)


# -- blocks --------------------------------------------------------------------------------------


def read_variable(tokens: Tokens, network: Network) -> None:
    name = tokens.word("the name of a variable")
    if name in network.states:
        raise tokens.place.refuse(f"variable {shown(name)} is there already", "different names")
    if len(network.states) == MAX_SITES:
        raise tokens.place.refuse("there are too many variables", f"at most {MAX_SITES}")
    tokens.mark("{")
    while (word := tokens.take("type or }")) != "}":
        if word == "property":
            tokens.skip_to(";")
        elif word == "type" and name not in network.states:
            network.states[name] = read_states(tokens)
        else:
            raise tokens.place.refuse(f"{shown(word)} stands here", "type, property or }")
    if name not in network.states:
        raise tokens.place.refuse(f"variable {shown(name)} has no type", "type discrete [ K ] {…};")


def read_states(tokens: Tokens) -> list[str]:
    kind = tokens.word("discrete")
    if kind != "discrete":
        raise tokens.place.refuse(f"the type is {shown(kind)}", "discrete")
    tokens.mark("[")
    count = tokens.place.integer(tokens.word("how many states"), "the number of states", 1,
                                 MAX_VALUES)  # fmt: skip
    tokens.mark("]")
    tokens.mark("{")
    states = tokens.words("}", "a state")
    tokens.mark(";")
    if len(states) != count or len(set(states)) < count:
        raise tokens.place.refuse(f"there are {len(set(states))} different states", str(count))
    return states


def read_probability(tokens: Tokens, network: Network) -> None:
    tokens.mark("(")
    name = known(tokens, network, tokens.word("a variable"))
    parents: list[str] = []
    if tokens.peek() == "|":
        tokens.mark("|")
        parents = [known(tokens, network, one) for one in tokens.words(")", "a variable")]
    else:
        tokens.mark(")")
    if len({name, *parents}) < 1 + len(parents):
        raise tokens.place.refuse("a variable is named twice", "different variables")
    if name in network.tables:
        raise tokens.place.refuse(f"{shown(name)} has a probability already", "one of each")
    network.tables[name] = parents, read_body(tokens, network, name, parents)


def known(tokens: Tokens, network: Network, name: str) -> str:
    if name not in network.states:
        raise tokens.place.refuse(f"{shown(name)} is no variable", "one that is declared above")
    return name


def read_body(tokens: Tokens, network: Network, name: str, parents: list[str]) -> Doubles:
    """The log table, the variable first and its parents after it."""
    shape = tuple(len(network.states[one]) for one in (name, *parents))
    check_entries(tokens.place, f"the table of {shown(name)}", math.prod(shape))
    table = np.full(shape, np.nan)
    tokens.mark("{")
    while (word := tokens.take("a row or }")) != "}":
        if word == "property":
            tokens.skip_to(";")
        elif word == "table":
            table[:] = numbers(tokens, math.prod(shape)).reshape(shape)
        elif word == "default":
            absent = np.isnan(table[0])  # of no parents a single one, and then a row
            table[:, absent] = numbers(tokens, shape[0]).reshape(-1, 1)
        elif word == "(":
            states = tokens.words(")", "the state of a parent")
            at = indices(tokens, network, parents, states)
            rows = np.moveaxis(table, 0, -1)  # a view, the variable last
            if not np.isnan(rows[at]).all():
                raise tokens.place.refuse("the row is there already", "each row once")
            rows[at] = numbers(tokens, shape[0])
        else:
            raise tokens.place.refuse(f"{shown(word)} stands here", "table, (states) or }")
    check_sums(tokens.place, name, table)
    with np.errstate(divide="ignore"):  # log 0 is -inf, which forbids
        return np.log(table)


def indices(
    tokens: Tokens, network: Network, parents: list[str], states: list[str]
) -> tuple[int, ...]:
    if len(states) != len(parents):
        raise tokens.place.refuse(f"the row names {len(states)} states", f"{len(parents)} of them")
    for parent, state in zip(parents, states, strict=True):
        if state not in network.states[parent]:
            listing = ", ".join(network.states[parent][:8])
            raise tokens.place.refuse(f"{shown(state)} is no state of {shown(parent)}", listing)
    pairs = zip(parents, states, strict=True)
    return tuple(network.states[parent].index(state) for parent, state in pairs)


def numbers(tokens: Tokens, count: int) -> Doubles:
    """So many numbers of at least 0, up to a semicolon."""
    words = tokens.words(";", "a probability")
    if len(words) != count:
        raise tokens.place.refuse(f"there are {len(words)} probabilities", str(count))
    found = np.array([tokens.place.number(word, "a probability") for word in words])
    if (found < 0).any():
        raise tokens.place.refuse(f"a probability is {found.min():g}", "at least 0")
    return found


def check_sums(place: Place, name: str, table: Doubles) -> None:
    if np.isnan(table).any():
        raise place.refuse(f"the table of {shown(name)} is not full", "a row for all states")
    worst = float(table.sum(0).flat[np.abs(table.sum(0) - 1).argmax()])
    if abs(worst - 1) > SLACK:
        raise place.refuse(f"probabilities of {shown(name)} add up to {worst:.4g}", "1")
