"""Pairwise targets without cycles: an order and conditionals in which they are exact.

With every site after its parent, p(x_k | x_<k) = p(x_k | its parent).  Children tell their parents
what is below them,

    a_k[w] = h_k[w] + Σ_{c child of k} m_c[w],        m_k[u] = log Σ_w exp(J[u, w] + a_k[w]),

and then log p(x_k = w | parent = u) = J[u, w] + a_k[w] up to a constant, which is linear in the
one-hot vector of u.
"""

from __future__ import annotations

import networkx
from torch import Tensor

from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise


def parents(target: Target) -> dict[int, int | None] | None:
    """The parent of every site, parents first; None where there are cycles, or may be."""
    if not isinstance(target, Pairwise):
        return None
    graph = networkx.Graph(target.edges.tolist())
    graph.add_nodes_from(range(target.num_sites))
    if not networkx.is_forest(graph):
        return None
    found: dict[int, int | None] = {}
    for tree in sorted(map(sorted, networkx.connected_components(graph))):
        found[tree[0]] = None
        found |= {child: parent for parent, child in networkx.bfs_edges(graph, tree[0])}
    return found


def conditionals(target: Pairwise, parent: dict[int, int | None]) -> dict[int, Tensor]:
    """log p(x_k = w | parent = u) up to a constant, (v, v) for every site with a parent and (1, v)
    for every root."""
    neighbours, tables = target.neighbour_tables  # own value first
    below = target.fields.clone()
    law: dict[int, Tensor] = {}
    for site in reversed(parent):
        above = parent[site]
        if above is None:
            law[site] = below[site][None]
            continue
        slot = int((neighbours[site] == above).nonzero()[0])
        law[site] = tables[site, slot].T + below[site]
        below[above] += law[site].logsumexp(1)
    return law
