"""Factors as users write them, checked and added up, and as one flat array that is read at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsis.basics.checks import MAX_VALUES

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Scope = tuple[int, ...]
Factor = tuple[Scope, Doubles]

# -- what users write ----------------------------------------------------------------------------


def read_cardinalities(cardinalities: Any) -> tuple[int, ...]:
    """How many values each site has."""
    try:
        counts = tuple(operator.index(count) for count in cardinalities)
    except TypeError:
        raise ValueError(
            f"cardinalities is {cardinalities!r}: expected the number of values of every site"
        ) from None
    if not counts:
        raise ValueError("cardinalities is empty: expected at least one site")
    for site, count in enumerate(counts):
        if not 1 <= count <= MAX_VALUES:
            raise ValueError(
                f"cardinalities has {count} at site {site}: expected 1 to {MAX_VALUES} values"
            )
    return counts


def read_factors(factors: Any, cardinalities: Sequence[int]) -> tuple[list[Factor], float]:
    """Factors of one site or more, the sites of each in rising order and no two of the same sites,
    and the sum of those that have no sites."""
    merged: dict[Scope, Doubles] = {}
    constant = 0.0
    for number, factor in enumerate(factors):
        scope, table = read_factor(number, factor, cardinalities)
        order = sorted(range(len(scope)), key=scope.__getitem__)
        scope, table = tuple(scope[axis] for axis in order), table.transpose(order)
        if scope:
            merged[scope] = merged[scope] + table if scope in merged else table
        else:
            constant += float(table)
    return [(scope, np.ascontiguousarray(table)) for scope, table in merged.items()], constant


def read_factor(number: int, factor: Any, cardinalities: Sequence[int]) -> Factor:
    try:
        sites, values = factor
        scope = tuple(operator.index(site) for site in sites)
    except (TypeError, ValueError):
        raise ValueError(
            f"factor {number} is {type(factor).__name__} {str(factor)[:60]!r}: expected a tuple of "
            "sites and a table, such as ((0, 1), table)"
        ) from None
    d = len(cardinalities)
    for site in scope:
        if not 0 <= site < d:
            raise ValueError(f"factor {number} names site {site}: expected sites 0..{d - 1}")
    if len(set(scope)) < len(scope):
        raise ValueError(f"factor {number} names a site twice in {scope}: expected different sites")
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the table of factor {number} is not an array of real numbers") from None
    shape = tuple(cardinalities[site] for site in scope)
    if table.shape != shape:
        raise ValueError(
            f"the table of factor {number} has shape {table.shape}: expected {shape}, as many "
            f"values as sites {scope} have"
        )
    bad = np.isnan(table) | np.isposinf(table)
    if bad.any():
        where = [int(place[0]) for place in np.nonzero(np.atleast_1d(bad))][: table.ndim]
        raise ValueError(
            f"the table of factor {number} has {table[bad].flat[0]} at {where}: expected finite "
            "numbers, or -inf for what is forbidden"
        )
    return scope, table


# -- flat ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FlatTables:
    """Tables of two sites and more in one array.

    The entry of factor f at x is ``start[f] + Σ_k strides[f, k]·x[sites[f, k]]``.  Short rows are
    filled up with stride 0, and after the last factor stands an empty one, whose entry is 0.  An
    incidence e is a factor ``factor[e]`` with one of its sites, ``site[e]``, and the stride of
    that; they are ordered by site.
    """

    entries: Doubles
    start: Ints
    sites: Ints
    strides: Ints
    site: Ints
    factor: Ints
    stride: Ints

    @classmethod
    def of(cls, factors: Sequence[Factor]) -> FlatTables:
        width = max((len(scope) for scope, _ in factors), default=1)
        start = np.zeros(len(factors) + 1, np.int64)
        sites = np.zeros((len(factors) + 1, width), np.int64)
        strides = np.zeros_like(sites)
        for number, (scope, table) in enumerate(factors):
            start[number + 1] = start[number] + table.size
            sites[number, : len(scope)] = scope
            steps = [math.prod(table.shape[axis + 1 :]) for axis in range(len(scope))]
            strides[number, : len(scope)] = steps
        entries = np.concatenate([*(table.ravel() for _, table in factors), np.zeros(1)])
        incident = [
            (site, number, strides[number, place])
            for number, (scope, _) in enumerate(factors)
            for place, site in enumerate(scope)
        ]
        site, factor, stride = np.array(sorted(incident), np.int64).reshape(-1, 3).T.copy()
        return cls(entries, start, sites, strides, site, factor, stride)

    def by_site(self, num_sites: int) -> tuple[Ints, Ints]:
        """Factors and strides of each site, (d, g); short rows are filled up with the empty factor
        and stride 0."""
        degree = np.bincount(self.site, minlength=num_sites)
        slot = np.arange(len(self.site)) - (np.cumsum(degree) - degree)[self.site]
        factor = np.full((num_sites, max(1, int(degree.max()))), len(self.start) - 1)
        stride = np.zeros_like(factor)
        factor[self.site, slot], stride[self.site, slot] = self.factor, self.stride
        return factor, stride


def joined(factors: Iterable[Factor]) -> list[tuple[int, int]]:
    """The pairs of sites that share a factor, each once, in order."""
    return sorted(
        {
            (i, j)
            for scope, _ in factors
            for place, i in enumerate(scope)
            for j in scope[place + 1 :]
        }
    )
