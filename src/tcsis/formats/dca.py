"""Couplings of tools for direct-coupling analysis, as bmDCA and adabmDCA write them.

    J i j a b value        coupling of the values a of site i and b of site j
    h i a value            field of the value a of site i

log p̄(x) = Σ J_ij(x_i, x_j) + Σ h_i(x_i).  Sites are numbered from 0, and values are numbers from 0
or letters; a letter gives the value its name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tcsis.basics.checks import MAX_VALUES
from tcsis.formats.text import MAX_SITES, Place, check_entries, read_lines
from tcsis.targets.pairwise import Pairwise

AMINO_ACIDS, RNA, DNA = "-ACDEFGHIKLMNPQRSTVWY", "-ACGU", "-ACGT"
"""A gap and the letters of a sequence, in alphabetical order."""
ALPHABETS = (RNA, DNA, AMINO_ACIDS)


def read_dca(path: str | Path) -> Pairwise:
    """A Potts model from its couplings and fields."""
    fields: dict[tuple[int, str], float] = {}
    couplings: dict[tuple[int, int], dict[tuple[str, str], float]] = {}
    for place, words in read_lines(path, ("#",)):
        if words[0] == "h" and len(words) == 4:
            site = place.integer(words[1], "a site", 0, MAX_SITES - 1)
            fields[site, words[2]] = place.number(words[3], "the field")
        elif words[0] == "J" and len(words) == 6:
            i, j = (place.integer(word, "a site", 0, MAX_SITES - 1) for word in words[1:3])
            if i == j:
                raise place.refuse(f"site {i} is coupled to itself", "two different sites")
            a, b = words[3:5] if i < j else words[4:2:-1]
            table = couplings.setdefault((min(i, j), max(i, j)), {})
            table[a, b] = place.number(words[5], "the coupling")
        else:
            raise place.refuse(
                f"the line is {' '.join(words)[:40]!r}", "J I J A B VALUE or h I A VALUE"
            )
    if not fields:
        raise Place(Path(path)).refuse("there are no fields", "lines h I A VALUE")
    return assemble(Place(Path(path)), fields, couplings)


def assemble(
    place: Place,
    fields: dict[tuple[int, str], float],
    couplings: dict[tuple[int, int], dict[tuple[str, str], float]],
) -> Pairwise:
    """The target, once its sites and values are known: all of them have a field."""
    letters = {a for _, a in fields} | {a for t in couplings.values() for pair in t for a in pair}
    values = order_values(place, letters)
    d = 1 + max(site for site, _ in fields)
    beyond = max((pair[1] for pair in couplings), default=0)
    if beyond >= d or len({site for site, _ in fields}) < d:
        raise place.refuse(
            f"sites go up to {max(d - 1, beyond)} and not all of them have fields",
            "a line h for every site",
        )
    v = len(values)
    check_entries(place, "the couplings", len(couplings) * v * v + d * v)
    h, tables = np.zeros((d, v)), np.zeros((len(couplings), v, v))
    for (site, a), field in fields.items():
        h[site, values[a]] = field
    for table, entries in zip(tables, couplings.values(), strict=True):
        for (a, b), coupling in entries.items():
            table[values[a], values[b]] = coupling
    target = Pairwise(np.array(list(couplings), np.int64).reshape(-1, 2), tables, h)
    named = not any(value.isdecimal() for value in values)
    return target.named(value_names=tuple(values)) if named else target


def order_values(place: Place, found: set[str]) -> dict[str, int]:
    """The place of every value: numbers by their size, letters as their alphabet has them."""
    if all(value.isdecimal() for value in found):
        most = max(place.integer(value, "a value", 0, MAX_VALUES - 1) for value in found)
        return {str(value): value for value in range(max(2, most + 1))}
    for alphabet in ALPHABETS:
        if found <= set(alphabet):
            return {letter: k for k, letter in enumerate(alphabet)}
    strange = sorted(found - set(AMINO_ACIDS))
    raise place.refuse(
        f"a value is {strange[0][:20]!r}" if strange else "values are mixed",
        f"numbers below {MAX_VALUES}, or letters of {AMINO_ACIDS}",
    )
