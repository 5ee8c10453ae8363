"""Planar graphs as rotation systems: faces, and the signs that make Kac–Ward matrices real.

Bond e of a graph has two *half-edges*, 2e at its first site and 2e + 1 at its second; h̄ = h ^ 1 is
the other half of h.  An embedding in the plane is the cyclic order of the half-edges around every
site, cut open somewhere: the ``rank`` of each.  Nothing else of a drawing matters.

In a drawing with straight bonds the Kac–Ward matrix has the entry exp(iα/2) for a bond h followed
by h', α the angle turned between them.  With θ_h the direction of h in [0, 2π), α is
θ_h' - θ_h̄ ∓ π, the sign being that of rank(h') - rank(h̄), so that up to a diagonal similarity

    T(h, h') = τ_h·sign(rank(h') - rank(h̄)),    τ_h = -τ_h̄ = ±1,

which is real.  The τ follow from the faces alone.  Walking around a face turns by ±2π, so that the
product of T along it is -1, where the step over the cut of a site counts as +1; this fixes all τ
but those on a spanning tree, and those can be chosen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import networkx
import numpy as np
from networkx.algorithms.planar_drawing import triangulate_embedding


@dataclass(frozen=True, eq=False)
class Embedding:
    """A graph in the plane: ``edges`` (m, 2) of ``num_sites`` sites, and the ``rank`` (2m,) of
    every half-edge in the cyclic order around its site, all in the same sense."""

    num_sites: int
    edges: np.ndarray
    rank: np.ndarray

    @property
    def site(self) -> np.ndarray:
        """The site of each half-edge, (2m,)."""
        return self.edges.reshape(-1)

    @cached_property
    def degree(self) -> np.ndarray:
        return np.bincount(self.site, minlength=self.num_sites)

    @cached_property
    def around(self) -> tuple[np.ndarray, np.ndarray]:
        """All half-edges site by site in cyclic order, (2m,), and where sites start, (d + 1,)."""
        first = np.concatenate([[0], self.degree.cumsum()])
        ordered = np.empty(len(self.site), dtype=np.int64)
        ordered[first[self.site] + self.rank] = np.arange(len(self.site))
        return ordered, first

    @cached_property
    def next_in_face(self) -> np.ndarray:
        """The half-edge that follows h on the walk around its face: the one before h̄, (2m,)."""
        ordered, first = self.around
        other = np.arange(len(self.site)) ^ 1
        site = self.site[other]
        return ordered[first[site] + (self.rank[other] - 1) % self.degree[site]]

    @cached_property
    def face(self) -> np.ndarray:
        """The number of the face that each half-edge walks around, (2m,)."""
        step, face, count = self.next_in_face.tolist(), [-1] * len(self.site), 0
        for h in range(len(face)):
            if face[h] < 0:
                while face[h] < 0:
                    face[h] = count
                    h = step[h]
                count += 1
        return np.array(face, dtype=np.int64)

    @cached_property
    def sign(self) -> np.ndarray:
        """τ, (2m,)."""
        over_cut = self.rank[np.arange(len(self.site)) ^ 1] == 0
        corner = np.where(over_cut, 1, -1)
        tau = np.tile([1, -1], len(self.edges))
        product = np.ones(int(self.face.max(initial=-1)) + 1, dtype=np.int64)
        np.multiply.at(product, self.face, corner * tau)
        for face, bond in reversed(dual_forest(self)):
            if bond < 0:  # the last face of its part: Euler's formula has settled its sign
                assert product[face] == -1
            elif product[face] != -1:
                tau[2 * bond : 2 * bond + 2] *= -1
                product[self.face[2 * bond : 2 * bond + 2]] *= -1
        return tau


def dual_forest(graph: Embedding) -> list[tuple[int, int]]:
    """All faces, those nearer to a root first, each with the bond across which it was reached; -1
    for a root."""
    sides = graph.face.reshape(-1, 2)
    ordered = np.argsort(graph.face, kind="stable")
    first = np.searchsorted(graph.face[ordered], np.arange(int(graph.face.max(initial=-1)) + 2))
    ordered_list, across = ordered.tolist(), sides[:, ::-1].reshape(-1).tolist()
    seen, forest = [False] * (len(first) - 1), []
    for root in range(len(seen)):
        if seen[root]:
            continue
        seen[root], queue = True, deque([(root, -1)])
        while queue:
            face, bond = queue.popleft()
            forest.append((face, bond))
            for h in ordered_list[first[face] : first[face + 1]]:
                if not seen[across[h]]:
                    seen[across[h]] = True
                    queue.append((across[h], h // 2))
    return forest


def embed(num_sites: int, edges: np.ndarray) -> Embedding | None:
    """The graph in the plane, or None where it has no place there.  Every pair of ``edges`` (m, 2)
    is to occur once."""
    graph = networkx.Graph(edges.tolist())
    graph.add_nodes_from(range(num_sites))
    planar, rotation = networkx.check_planarity(graph)
    return of_rotation(num_sites, edges, rotation) if planar else None


def triangulated(graph: Embedding) -> Embedding:
    """The same with bonds added, after its own, until it is connected and every face is a
    triangle."""
    ordered, first = graph.around
    rotation = networkx.PlanarEmbedding()
    rotation.add_nodes_from(range(graph.num_sites))
    far = graph.site[ordered ^ 1].tolist()
    for site in range(graph.num_sites):
        last = None
        for other in far[first[site] : first[site + 1]]:
            rotation.add_half_edge(site, other, cw=last)
            last = other
    rotation, _ = triangulate_embedding(rotation)
    own = {(i, j) for i, j in graph.edges.tolist()}
    added = [(i, j) for i, j in rotation.edges() if i < j and not {(i, j), (j, i)} & own]
    edges = np.concatenate([graph.edges, np.array(added, dtype=np.int64).reshape(-1, 2)])
    return of_rotation(graph.num_sites, edges, rotation)


def of_rotation(num_sites: int, edges: np.ndarray, rotation: networkx.PlanarEmbedding) -> Embedding:
    half = {}
    for e, (i, j) in enumerate(edges.tolist()):
        half[i, j], half[j, i] = 2 * e, 2 * e + 1
    rank = np.zeros(2 * len(edges), dtype=np.int64)
    for site in range(num_sites):
        for place, other in enumerate(rotation.neighbors_cw_order(site)):
            rank[half[site, other]] = place
    return Embedding(num_sites, edges.reshape(-1, 2), rank)
