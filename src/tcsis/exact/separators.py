"""A planar graph taken apart by short paths, for draws that go from the large to the small.

The graph is triangulated.  The sites drawn so far, F, are connected, which makes each part R of the
rest a disc: the triangles that touch R are bounded by bonds between sites of F, the *boundary* of
R.  Paths from the sites of R along a breadth-first tree to the boundary, two of them and the bond
that joins their ends, cut the disc in two; the pair is the shortest among those that leave neither
side more than ``BALANCE`` of its triangles (R. J. Lipton and R. E. Tarjan, SIAM J. Appl. Math. 36,
177 (1979)).  Its sites are drawn next, and what remains falls into smaller parts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tcsis.exact.planar import Embedding

LEAF = 10
"""Parts of up to this many sites are drawn at once."""

BALANCE = 0.7


@dataclass(frozen=True)
class Part:
    """A part R of the graph, what bounds it, and which of its sites are drawn first.

    ``boundary`` are bonds that span its boundary; bond k of ``tree`` leads from what is drawn
    before to site k of ``sites``.
    """

    region: list[int]
    boundary: list[int]
    sites: list[int]
    tree: list[int]


class Triangles:
    """The neighbours, bonds and triangles of a triangulated graph, as lists."""

    def __init__(self, graph: Embedding):
        ordered, first = graph.around
        self.edges = graph.edges.tolist()
        self.half = [ordered[first[i] : first[i + 1]].tolist() for i in range(graph.num_sites)]
        self.site = graph.site.tolist()
        self.face = graph.face.tolist()
        corner = np.argsort(graph.face, kind="stable")
        start = np.searchsorted(graph.face[corner], np.arange(int(graph.face.max(initial=-1)) + 2))
        self.of_face = [corner[a:b].tolist() for a, b in pairwise(start)]


def dissect(graph: Embedding) -> list[Part]:
    """All parts of a triangulated graph, each after those that bound it.  The first site drawn, a
    neighbour of as many as possible, is in none of them."""
    triangles = Triangles(graph)
    root = int(graph.degree.argmax())
    parts, waiting = [], components(triangles, [i for i in range(graph.num_sites) if i != root])
    while waiting:
        region = waiting.pop()
        part = cut(triangles, region)
        parts.append(part)
        drawn = set(part.sites)
        waiting += components(triangles, [i for i in region if i not in drawn])
    return parts


def components(graph: Triangles, sites: list[int]) -> list[list[int]]:
    """The connected parts of the graph on ``sites``."""
    left, parts = set(sites), []
    for site in sites:
        if site not in left:
            continue
        left.remove(site)
        part = [site]
        for i in part:
            for h in graph.half[i]:
                j = graph.site[h ^ 1]
                if j in left:
                    left.remove(j)
                    part.append(j)
        parts.append(part)
    return parts


def cut(graph: Triangles, region: list[int]) -> Part:
    inside = set(region)
    faces = {graph.face[h] for i in region for h in graph.half[i]}
    boundary = spanning_bonds(graph, inside, faces)
    parent, depth = breadth_first(graph, region, inside)
    if len(region) <= LEAF:
        chosen = region
    else:
        ends = best_pair(graph, inside, faces, parent, depth)
        chosen = paths(graph, ends, parent)
    sites = sorted(chosen, key=depth.__getitem__)
    return Part(region, boundary, sites, [parent[site] // 2 for site in sites])


def spanning_bonds(graph: Triangles, inside: set[int], faces: set[int]) -> list[int]:
    """Bonds of a tree on the boundary, out of those that the triangles of the region have there."""
    root: dict[int, int] = {}

    def find(i: int) -> int:
        while root.setdefault(i, i) != i:
            root[i] = i = root[root[i]]
        return i

    bonds = []
    for face in faces:
        for h in graph.of_face[face]:
            i, j = graph.site[h], graph.site[h ^ 1]
            if i not in inside and j not in inside and find(i) != find(j):
                root[find(i)] = find(j)
                bonds.append(h // 2)
    return bonds


def breadth_first(
    graph: Triangles, region: list[int], inside: set[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The half-edge towards the boundary, and the number of steps to it, of every site inside."""
    parent, depth, queue = {}, {}, deque[int]()
    for i in region:
        for h in graph.half[i]:
            if graph.site[h ^ 1] not in inside:
                parent[i], depth[i] = h, 1
                queue.append(i)
                break
    while queue:
        i = queue.popleft()
        for h in graph.half[i]:
            j = graph.site[h ^ 1]
            if j in inside and j not in parent:
                parent[j], depth[j] = h ^ 1, depth[i] + 1
                queue.append(j)
    return parent, depth


def best_pair(
    graph: Triangles,
    inside: set[int],
    faces: set[int],
    parent: dict[int, int],
    depth: dict[int, int],
) -> tuple[int, int]:
    """The ends of the shortest two paths that cut the region well; bonds that are not in the tree
    join its triangles to a tree, and those on one side of a bond are a branch of that."""
    in_tree = {h // 2 for h in parent.values()}
    first = next(iter(faces))
    order, across = [first], {first: -1}
    for face in order:
        for h in graph.of_face[face]:
            crossable = graph.site[h] in inside or graph.site[h ^ 1] in inside
            other = graph.face[h ^ 1]
            if crossable and h // 2 not in in_tree and other not in across:
                across[other] = h
                order.append(other)
    size = dict.fromkeys(order, 1)
    choices = []
    for face in reversed(order[1:]):
        h = across[face]
        size[graph.face[h]] += size[face]
        share = max(size[face], len(order) - size[face]) / len(order)
        ends = graph.site[h], graph.site[h ^ 1]
        length = sum(depth.get(end, 0) for end in ends)
        choices.append((max(share, BALANCE), length, ends))
    return min(choices)[2]


def paths(graph: Triangles, ends: tuple[int, int], parent: dict[int, int]) -> list[int]:
    """The sites on the paths from both ends to the boundary."""
    found: dict[int, None] = {}
    for site in ends:
        while site in parent and site not in found:
            found[site] = None
            site = graph.site[parent[site] ^ 1]
    return list(found)
