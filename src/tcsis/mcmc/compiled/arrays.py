"""A pairwise target as plain arrays, in the form the compiled loops read.

Where every table is a + b·[u = v], which includes every target with V = 2, the log density is

    log p̄(x) = Σ_e b_e·[x_i = x_j] + Σ_i h_i(x_i) + constant        (agreement form)

with h_i(0) = 0; spins have b = 2J and h_i(1) = 2h_i.  Any other target keeps its tables.

The neighbours of site i, and what belongs to the bonds to them, are entries ``start[i]`` to
``start[i + 1]`` of the arrays of length 2m; every bond is there twice, once from each end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tcsis.targets import Pairwise

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]
Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]

AGREEMENT_TOLERANCE = 1e-12
"""Tables this close to a + b·[u = v], relative to the largest entry, count as that."""


@dataclass(frozen=True, eq=False)
class PairwiseArrays:
    """``start`` (d + 1,), ``neighbours`` (2m,), ``fields`` (d, v), and for the bonds either
    ``agreement`` (2m,) or ``tables`` (n, v, v), own value first, with ``table_index`` (2m,)."""

    start: Ints
    neighbours: Ints
    fields: Doubles
    constant: float
    agreement: Doubles | None
    tables: Doubles
    table_index: Ints

    @classmethod
    def of(cls, target: Pairwise) -> PairwiseArrays:
        """The arrays of ``target``; make them once and keep them."""
        edges, couplings = target.edges.numpy(), target.couplings.numpy()
        if target.num_values == 2:
            strength, field, constant = target.spin_form
            j, h = strength.numpy(), field.numpy()
            fields = np.stack([np.zeros_like(h), 2 * h], axis=1)
            return cls._from_agreement(edges, 2 * j, fields, constant - j.sum() - h.sum())
        fields = target.fields.numpy() - target.fields.numpy()[:, :1]
        constant = target.constant + float(target.fields[:, 0].sum())
        split = split_agreement(couplings)
        if split is not None:
            a, b = split
            return cls._from_agreement(edges, b, fields, constant + a.sum())
        start, neighbours, edge = adjacency(edges, target.num_sites)
        both_ways = np.concatenate([couplings, couplings.transpose(0, 2, 1)])
        tables, index = np.unique(both_ways, axis=0, return_inverse=True)
        return cls(
            start, neighbours, fields, constant, None,
            tables, index.reshape(-1)[edge].astype(np.int32),
        )  # fmt: skip

    @classmethod
    def _from_agreement(
        cls, edges: NDArray[np.int64], b: Doubles, fields: Doubles, constant: float
    ) -> PairwiseArrays:
        edges, b = edges[b != 0], b[b != 0]
        start, neighbours, edge = adjacency(edges, len(fields))
        v = fields.shape[1]
        return cls(
            start, neighbours, fields, float(constant), b[edge % max(len(b), 1)],
            np.zeros((0, v, v)), np.zeros(0, dtype=np.int32),
        )  # fmt: skip

    @property
    def num_sites(self) -> int:
        return self.fields.shape[0]

    @property
    def num_values(self) -> int:
        return self.fields.shape[1]

    @cached_property
    def has_fields(self) -> bool:
        """Whether some site prefers a value by itself."""
        return bool(self.fields.any())

    @cached_property
    def opposite(self) -> Bytes:
        """1 where a bond favours different values, (2m,)."""
        assert self.agreement is not None
        return (self.agreement < 0).astype(np.uint8)

    @cached_property
    def padded_neighbours(self) -> tuple[Ints, Bytes]:
        """Neighbours and ``opposite`` as (d, g) arrays, g ≥ 1 the largest degree; short rows are
        filled up with the site itself and 0."""
        degree = np.diff(self.start)
        site = np.repeat(np.arange(self.num_sites), degree)
        slot = np.arange(len(site)) - self.start[site]
        g = max(1, int(degree.max()))
        neighbours = np.tile(np.arange(self.num_sites, dtype=np.int32)[:, None], (1, g))
        opposite = np.zeros((self.num_sites, g), dtype=np.uint8)
        neighbours[site, slot], opposite[site, slot] = self.neighbours, self.opposite
        return neighbours, opposite

    @cached_property
    def levels(self) -> tuple[Doubles, Ints]:
        """The different values of |b|, (n,), and which of them a bond has, (2m,)."""
        assert self.agreement is not None
        values, index = np.unique(np.abs(self.agreement), return_inverse=True)
        return values, index.astype(np.int32)

    @cached_property
    def spin_odds(self) -> tuple[Singles, Singles]:
        """V = 2: offset (d,) and weight (2m,) of the log-odds of value 1 at site i,
        h_i(1) + Σ_j b_ij (2x_j - 1) = offset_i + Σ_j weight_ij x_j."""
        assert self.agreement is not None
        site = np.repeat(np.arange(self.num_sites), np.diff(self.start))
        pull = np.bincount(site, weights=self.agreement, minlength=self.num_sites)
        offset = self.fields[:, 1] - pull
        return offset.astype(np.float32), (2 * self.agreement).astype(np.float32)

    @cached_property
    def site_classes(self) -> tuple[Doubles, Ints]:
        """V = 2: the different (degree, h(1)) of sites, (n, 2), and the class of each."""
        kinds = np.stack([np.diff(self.start), self.fields[:, 1]], axis=1)
        classes, index = np.unique(kinds, axis=0, return_inverse=True)
        return classes, index.reshape(-1).astype(np.int32)


def adjacency(edges: NDArray[np.int64], d: int) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """``start`` (d + 1,), ``neighbours`` (2m,) and, for each entry, the number of its edge; m is
    added to that when the entry looks along the edge backwards."""
    site, other = edges.T.reshape(-1), edges[:, ::-1].T.reshape(-1)
    order = np.lexsort((other, site))
    start = np.searchsorted(site[order], np.arange(d + 1))
    return start.astype(np.int32), other[order].astype(np.int32), order


def split_agreement(tables: Doubles) -> tuple[Doubles, Doubles] | None:
    """a (m,) and b (m,) with tables (m, v, v) = a + b·[u = v], or None where there are none."""
    a = tables[:, 0, 1]
    b = tables[:, 0, 0] - a
    gap = np.abs(tables - a[:, None, None] - b[:, None, None] * np.eye(tables.shape[1]))
    tolerance = AGREEMENT_TOLERANCE * np.abs(tables).max(initial=0)
    return (a, b) if gap.max(initial=0) <= tolerance else None
