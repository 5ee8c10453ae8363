"""Tables of positive numbers, and cliques, which are products of them with one site to sum out.

A table is kept as numbers of at most 1 with their scale aside.  Where a product might have entries
so small that no float64 is left for them, logarithms are added instead, which is slower.  A clique
is worked through one value of its site at a time, so that no array is larger than its message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tcsis.targets.factor_tables import Doubles, Scope

SAFE = 600.0
"""Range of logarithms over which products stay clear of the smallest float64, e^-708."""


@dataclass(frozen=True, eq=False)
class Table:
    """exp(log_scale)·values over the sites of ``scope``, or exp(log_scale + values) where they are
    ``logs``.  The largest is 1, and every positive one at least e^-span."""

    scope: Scope
    values: Doubles
    log_scale: float
    span: float
    logs: bool

    @classmethod
    def of_logs(cls, scope: Scope, values: Doubles, log_scale: float = 0.0) -> Table:
        """From logarithms, and kept as numbers where these are safe."""
        peak = float(values.max())
        if peak == -math.inf:
            return nothing(scope, values.shape)
        values = values - peak
        span = -float(values.min(where=values > -np.inf, initial=0.0))
        logs = span > SAFE / 2
        return cls(scope, values if logs else np.exp(values), log_scale + peak, span, logs)

    @classmethod
    def of_numbers(cls, scope: Scope, values: Doubles, log_scale: float, span: float) -> Table:
        """From numbers of which the least positive is known to be at least e^-span; it is looked
        for where that is not much."""
        peak = float(values.max())
        if not peak:
            return nothing(scope, values.shape)
        values /= peak
        if span > SAFE / 4:
            span = -math.log(float(values.min(where=values > 0, initial=1.0)))
        return cls(scope, values, log_scale + math.log(peak), span, False)

    @property
    def logarithms(self) -> Doubles:
        if self.logs:
            return self.values
        with np.errstate(divide="ignore"):
            return np.log(self.values)


def nothing(scope: Scope, shape: tuple[int, ...]) -> Table:
    """A table that is zero everywhere."""
    return Table(scope, np.zeros(shape), -math.inf, 0.0, False)


class Clique:
    """A product of ``tables`` that all begin with one site, of ``count`` values, and whose other
    sites are among the ``later`` ones, of which there are ``counts`` values, in the same order."""

    def __init__(self, count: int, later: Scope, counts: tuple[int, ...], tables: Sequence[Table]):
        self.count, self.later, self.counts = count, later, counts
        self.tables = sorted(tables, key=lambda table: table.values.size)
        self.log_scale = sum(table.log_scale for table in tables)
        self.span = sum(table.span for table in tables)
        self.logs = self.span > SAFE or any(table.logs for table in tables)

    def among(self, table: Table) -> tuple[int, ...]:
        """The shape in which a table at a value of the first site stands beside the others."""
        there = {*table.scope}
        pairs = zip(self.later, self.counts, strict=True)
        return tuple(count if site in there else 1 for site, count in pairs)

    def product(self, value: int) -> Doubles:
        """The numbers, or ``logs``, at a value of the first site, over the later ones."""
        total = np.ones((1,) * len(self.later))
        for table in self.tables:
            part = table.values[value].reshape(self.among(table))
            full = total.shape == self.counts and total.ndim > 0
            total = np.multiply(total, part, out=total if full else None)
        return total

    @cached_property
    def logarithms(self) -> list[Doubles]:
        """Those of the tables, which are kept no longer than the clique."""
        return [table.logarithms for table in self.tables]

    def sum_of_logs(self, value: int) -> Doubles:
        total = np.zeros((1,) * len(self.later))
        for table, logs in zip(self.tables, self.logarithms, strict=True):
            part = logs[value].reshape(self.among(table))
            full = total.shape == self.counts and total.ndim > 0
            total = np.add(total, part, out=total if full else None)
        return total

    # -- up --------------------------------------------------------------------------------------

    def message(self) -> Table:
        """The sum over the first site."""
        if self.log_scale == -math.inf:
            return nothing(self.later, self.counts)
        if self.logs:
            total = self.sum_of_logs(0)
            for value in range(1, self.count):
                total = np.logaddexp(total, self.sum_of_logs(value))
            return Table.of_logs(self.later, total, self.log_scale)
        total = self.product(0)
        for value in range(1, self.count):
            total += self.product(value)
        span = self.span + math.log(self.count)
        return Table.of_numbers(self.later, total, self.log_scale, span)

    def greatest(self) -> Doubles:
        """The largest logarithm over the values of the first site, over the later ones."""
        total = self.sum_of_logs(0)
        for value in range(1, self.count):
            total = np.maximum(total, self.sum_of_logs(value))
        return total

    # -- down ------------------------------------------------------------------------------------

    def share(self, message: Table, law: Doubles) -> Doubles:
        """What the product has to be multiplied with to be a law: the ``law`` of the later sites
        over the sum, with the scale of the clique; a logarithm where the clique has ``logs``."""
        shift = message.log_scale - self.log_scale
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.logs:
                share = np.log(law) - message.logarithms - shift
            else:
                share = law / (message.values * math.exp(shift))
        # where the sum is nothing, so is the law
        return np.where(law > 0, share, -np.inf if self.logs else 0.0)

    def law(self, value: int, share: Doubles) -> Doubles:
        """P(x_site = value, later sites)."""
        if self.logs:
            return np.exp(self.sum_of_logs(value) + share)
        return self.product(value) * share

    def log_weights(self, x: NDArray[np.int64]) -> Doubles:
        """Logarithms of what every value of the first site weighs where the later ones have the
        values of states x (later, n): (count, n)."""
        place = {site: row for row, site in enumerate(self.later)}
        total = np.zeros((self.count, x.shape[1]))
        for table in self.tables:
            index = np.zeros(x.shape[1], np.int64)
            for site, count in zip(table.scope[1:], table.values.shape[1:], strict=True):
                index = index * count + x[place[site]]
            part = table.values.reshape(self.count, -1)[:, index]
            with np.errstate(divide="ignore"):
                total += part if table.logs else np.log(part)
        return total


def onto(law: Doubles, sites: Scope, some: Scope) -> Doubles:
    """The law of some of the sites, with an axis for each in their order."""
    left = tuple(site for site in sites if site in some)
    law = law.sum(tuple(axis for axis, site in enumerate(sites) if site not in some))
    return law.transpose([left.index(site) for site in some])
