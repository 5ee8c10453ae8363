"""Problems on graphs, from networkx or from edges.

ising             log p̄(x) = β·Σ_ij w_ij s_i s_j,  spins s = ±1, on and up for token 1
max_cut           log p̄(x) = β·Σ_ij w_ij·[x_i ≠ x_j]
independent_set   log p̄(x) = log λ·Σ_i w_i x_i,  no two neighbours both in the set
colouring         log p̄(x) = 0 where neighbours differ, -inf elsewhere; with β, -β a clash
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import networkx
import numpy as np

from tcsis.basics.checks import check_num_values
from tcsis.basics.files import write_whole
from tcsis.formats.models import (
    SPIN,
    Doubles,
    check_memory,
    label,
    pairs_or_factors,
    precision,
    quadratic,
)
from tcsis.formats.text import MAX_ENTRIES
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise, check_beta

GHOST = "ghost"
"""The site that stands for the fields where only couplings can be written."""


@dataclass(frozen=True)
class Edges:
    """A graph as arrays: ``pairs`` (m, 2) of different sites, each with a weight, a weight for
    every site (d,), and names of the sites."""

    pairs: np.ndarray
    weights: Doubles
    site_weights: Doubles
    names: tuple[str, ...] | None = None

    @property
    def num_sites(self) -> int:
        return len(self.site_weights)


def read_graph(graph: Any, weight: str = "weight") -> Edges:
    """The edges of an undirected networkx graph, in the order of its nodes, with the attribute
    ``weight`` of edges and nodes, 1 where there is none; parallel edges are kept."""
    if isinstance(graph, Edges):
        return graph
    if not isinstance(graph, networkx.Graph) or graph.is_directed():
        raise ValueError(
            f"graph is a {type(graph).__name__}: expected an undirected networkx.Graph"
        )
    nodes = list(graph.nodes)
    if not nodes:
        raise ValueError("graph has no nodes: expected at least one")
    place: dict[Hashable, int] = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([[place[u], place[v]] for u, v in graph.edges()], np.int64).reshape(-1, 2)
    loops = (pairs[:, 0] == pairs[:, 1]).nonzero()[0]
    if len(loops):
        raise ValueError(
            f"graph joins {nodes[pairs[loops[0], 0]]!r} to itself: expected different nodes"
        )
    try:
        weights = np.array([float(w) for *_, w in graph.edges(data=weight, default=1.0)])
        own = np.array([float(w) for _, w in graph.nodes(data=weight, default=1.0)])
    except (TypeError, ValueError):
        raise ValueError(f"graph has a {weight} that is no number: expected numbers") from None
    if not np.isfinite(weights).all() or not np.isfinite(own).all():
        raise ValueError(f"graph has a {weight} that is not finite: expected finite numbers")
    return Edges(pairs, weights, own, label(nodes))


# -- problems ------------------------------------------------------------------------------------


def ising(graph: Any, *, beta: float = 1.0, weight: str = "weight") -> Pairwise:
    """Spins with the weights of edges as couplings."""
    edges = read_graph(graph, weight)
    fields = np.zeros(edges.num_sites)
    target = quadratic(edges.pairs, -edges.weights, fields, 0.0, SPIN, beta)
    return target.named(edges.names, SPIN)


def max_cut(graph: Any, *, beta: float = 1.0, weight: str = "weight") -> Pairwise:
    """Two sides, with β times the weight of the edges between them as log density; edges of weight
    zero are left out."""
    edges = read_graph(graph, weight)
    between = check_beta(beta) * np.array([[0.0, 1.0], [1.0, 0.0]])
    weighty = edges.weights != 0
    tables = edges.weights[weighty, None, None] * between
    fields = np.zeros((edges.num_sites, 2))
    target = Pairwise(
        edges.pairs[weighty], tables, fields, dtype=precision(beta * abs(edges.weights).sum())
    )
    return target.named(edges.names)


def independent_set(graph: Any, *, fugacity: float = 1.0, weight: str = "weight") -> Factors:
    """Sets of nodes of which no two are neighbours, each with the probability λ^size; where nodes
    have weights, λ^(their sum)."""
    edges = read_graph(graph, weight)
    if not isinstance(fugacity, Real) or not math.isfinite(fugacity) or fugacity <= 0:
        raise ValueError(f"fugacity is {fugacity!r}: expected a number above 0")
    apart = np.array([[0.0, 0.0], [0.0, -np.inf]])
    own = math.log(fugacity) * edges.site_weights
    factors = [((i, j), apart) for i, j in edges.pairs.tolist()]
    fields = [((site,), np.array([0.0, gain])) for site, gain in enumerate(own) if gain]
    counts = [2] * edges.num_sites
    check_memory([*factors, *fields], counts)
    target = Factors([*factors, *fields], counts)
    return target.named(edges.names, ("out", "in"))


def colouring(
    graph: Any, num_values: int, *, beta: float | None = None, weight: str = "weight"
) -> Pairwise | Factors:
    """Colours of which neighbours have different ones; with ``beta``, every edge whose ends have
    the same costs β times its weight."""
    edges, v = read_graph(graph, weight), check_num_values(num_values)
    if len(edges.pairs) * v * v > MAX_ENTRIES:
        raise ValueError(
            f"{len(edges.pairs):,} edges of {v}×{v} tables are too many: expected at most "
            f"{MAX_ENTRIES:,} entries; take fewer colours"
        )
    same = np.eye(v, dtype=bool)
    if beta is None:
        tables = [np.where(same, -np.inf, 0.0)] * len(edges.pairs)
    else:
        tables = [np.where(same, -check_beta(beta) * w, 0.0) for w in edges.weights]
    pairs = [(i, j) for i, j in edges.pairs.tolist()]
    factors = list(zip(pairs, tables, strict=True))
    return pairs_or_factors(factors, [v] * edges.num_sites).named(edges.names)


# -- and back ------------------------------------------------------------------------------------


def to_max_cut(target: Pairwise) -> networkx.Graph:
    """A graph whose cuts are the log densities of a target of two values,

        log p̄(x) = Σ w_ij·[x_i ≠ x_j] + constant,

    with the ``constant`` among the attributes of the graph.  Fields are edges to a further node,
    the ghost, which is at value 1."""
    if not isinstance(target, Pairwise) or target.num_values != 2:
        raise ValueError(f"target is {target}: expected a Pairwise of two values")
    strength, fields, constant = target.spin_form  # J s_i s_j = J - 2J·[x_i ≠ x_j]
    names = target.site_names or tuple(str(site) for site in range(target.num_sites))
    graph = networkx.Graph(constant=constant + float(strength.sum() + fields.sum()))
    graph.add_nodes_from(names)
    for (i, j), coupling in zip(target.edges.tolist(), strength.tolist(), strict=True):
        graph.add_edge(names[i], names[j], weight=-2 * coupling)
    if bool(fields.any()):
        ghost = next(name for name in (GHOST, GHOST + "'", GHOST + "''") if name not in names)
        for name, field in zip(names, fields.tolist(), strict=True):
            graph.add_edge(name, ghost, weight=-2 * field)
    return graph


def write_gset(graph: Any, path: str | Path, *, weight: str = "weight") -> None:
    """Write a graph as a Gset file: numbers of nodes and edges, then ``i j weight`` from 1 on."""
    edges = read_graph(graph, weight)
    lines = [f"{edges.num_sites} {len(edges.pairs)}"]
    for (i, j), w in zip(edges.pairs.tolist(), edges.weights.tolist(), strict=True):
        lines.append(f"{i + 1} {j + 1} {int(w) if w.is_integer() and abs(w) < 2**53 else repr(w)}")
    write_whole(path, "\n".join(lines) + "\n")
