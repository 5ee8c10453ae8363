"""Graphs in files: Gset (also called rudy), and DIMACS.

Gset      ``nodes edges``, then a line ``i j weight`` for every edge
DIMACS    comments ``c``, ``p edge nodes edges``, a line ``e i j`` for every edge, and where nodes
          have weights ``n i weight``

Nodes are numbered from 1, and so are their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from tcsis.formats.graphs import Edges, colouring, independent_set, ising, max_cut
from tcsis.formats.text import MAX_SITES, Place, read_lines
from tcsis.targets.base import Target

Problem = Literal["max-cut", "independent-set", "colouring", "ising"]
PROBLEMS = ("max-cut", "independent-set", "colouring", "ising")
MAX_EDGES = 2**22


def read_gset(
    path: str | Path,
    *,
    problem: Problem = "max-cut",
    beta: float | None = None,
    fugacity: float | None = None,
    num_values: int | None = None,
) -> Target:
    """A Gset file as a ``problem``, Max-Cut unless another is named."""
    return pose(path, gset_edges(path), problem, beta, fugacity, num_values)


def read_dimacs(
    path: str | Path,
    *,
    problem: Problem | None = None,
    beta: float | None = None,
    fugacity: float | None = None,
    num_values: int | None = None,
) -> Target:
    """A DIMACS graph as the ``problem`` that is named."""
    if problem is None:
        raise ValueError(
            f"{path} is a graph and can mean several things: expected a problem, one of "
            f"{', '.join(PROBLEMS)} (--as on the command line)"
        )
    return pose(path, dimacs_edges(path), problem, beta, fugacity, num_values)


def pose(
    path: str | Path,
    edges: Edges,
    problem: Problem,
    beta: float | None,
    fugacity: float | None,
    num_values: int | None,
) -> Target:
    """The problem on the graph; settings that it does not have are refused."""
    told = {"beta": beta, "fugacity": fugacity, "num_values": num_values}
    reads = {"max-cut": ("beta",), "ising": ("beta",), "independent-set": ("fugacity",),
             "colouring": ("num_values", "beta")}  # fmt: skip
    if problem not in reads:
        raise ValueError(f"problem is {problem!r}: expected one of {', '.join(PROBLEMS)}")
    for name, value in told.items():
        if value is not None and name not in reads[problem]:
            raise ValueError(
                f"{name} is {value} for {problem} on {path}: expected only "
                f"{' and '.join(reads[problem])}"
            )
    if problem == "colouring":
        if num_values is None:
            raise ValueError(f"num_values is missing for colouring on {path}: expected how many")
        return colouring(edges, num_values, beta=beta)
    if problem == "independent-set":
        return independent_set(edges, fugacity=1.0 if fugacity is None else fugacity)
    make = max_cut if problem == "max-cut" else ising
    return make(edges, beta=1.0 if beta is None else beta)


# -- files ---------------------------------------------------------------------------------------


def gset_edges(path: str | Path) -> Edges:
    lines = read_lines(path, ("#", "c"))
    place, words = next(lines, (Place(Path(path)), []))
    if len(words) != 2:
        raise place.refuse(f"the first line has {len(words)} words", "numbers of nodes and edges")
    d = place.integer(words[0], "the number of nodes", 1, MAX_SITES)
    m = place.integer(words[1], "the number of edges", 0, MAX_EDGES)
    found = []
    for place, words in lines:
        if len(words) not in (2, 3):
            raise place.refuse(f"the line has {len(words)} words", "two nodes and a weight")
        weight = place.number(words[2], "the weight") if len(words) == 3 else 1.0
        found.append((*ends(place, words[:2], d), weight))
    return collect(path, found, d, m, np.ones(d))


def dimacs_edges(path: str | Path) -> Edges:
    d, m, found, own = 0, 0, [], np.zeros(0)
    for place, words in read_lines(path, ("c", "#")):
        kind, rest = words[0], words[1:]
        if kind == "p":
            if d or len(rest) != 3 or rest[0] not in ("edge", "col", "edges"):
                raise place.refuse(
                    f"the line is {' '.join(words)[:40]!r}", "one p edge NODES EDGES"
                )
            d = place.integer(rest[1], "the number of nodes", 1, MAX_SITES)
            m = place.integer(rest[2], "the number of edges", 0, MAX_EDGES)
            own = np.ones(d)
        elif not d:
            raise place.refuse(f"{kind[:20]!r} stands before p", "p edge NODES EDGES first")
        elif kind == "e" and len(rest) == 2:
            found.append((*ends(place, rest, d), 1.0))
        elif kind == "n" and len(rest) == 2:
            node = place.integer(rest[0], "a node", 1, d)
            own[node - 1] = place.number(rest[1], "the weight")
        else:
            raise place.refuse(f"the line is {' '.join(words)[:40]!r}", "e I J, or n I WEIGHT")
    if not d:
        raise Place(Path(path)).refuse("there is no line p", "p edge NODES EDGES")
    # some files have every edge in both directions, and count either
    single = {(min(i, j), max(i, j)): w for i, j, w in found}
    declared = m if m == len(found) or m != len(single) else len(found)
    if declared != len(found):
        collect(path, found, d, m, own)  # which refuses
    merged = [(i, j, w) for (i, j), w in single.items()]
    return collect(path, merged, d, len(merged), own)


def ends(place: Place, words: list[str], d: int) -> tuple[int, int]:
    i, j = (place.integer(word, "a node", 1, d) for word in words)
    if i == j:
        raise place.refuse(f"node {i} is joined to itself", "two different nodes")
    return i - 1, j - 1


def collect(
    path: str | Path, found: list[tuple[int, int, float]], d: int, m: int, own: np.ndarray
) -> Edges:
    if len(found) != m:
        raise Place(Path(path)).refuse(f"there are {len(found)} edges", f"{m}, as declared")
    pairs = np.array([(i, j) for i, j, _ in found], np.int64).reshape(-1, 2)
    weights = np.array([w for *_, w in found], float)
    return Edges(pairs, weights, own, tuple(str(node + 1) for node in range(d)))
