"""Factor models: log p̄(x) = Σ_f table_f[x at the sites of f] + constant, over any sets of sites.

Sites may have different numbers of values; V is the largest, and a value that a site does not have
is forbidden.  An entry of -inf forbids whatever it stands for.

Tables of one site are fields h (d, V).  With g_f the table of factor f,

    felt[i, v] = h_i[v] + Σ_{f touches i} g_f[x with x_i = v]

is log p̄(x with x_i = v) but for what does not depend on v, and reads the factors of i alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import networkx
import numpy as np
import torch
from torch import Tensor

from tcsis.targets.base import MAX_CHUNK_TOKENS, Target, subtract_log_densities
from tcsis.targets.factor_tables import (
    Doubles,
    Factor,
    FlatTables,
    joined,
    read_cardinalities,
    read_factors,
)
from tcsis.targets.known import KnownSites
from tcsis.targets.names import Names
from tcsis.targets.pairwise import Pairwise, as_parameter


class Factors(Target):
    """Log-tables over sets of sites: ``Factors([((0, 1), a), ((1, 2, 5), b)], [2, 3, 2, ...])``.

    A factor is a tuple of different sites and an array with an axis for each, in that order, of as
    many entries as the site has values; ``cardinalities`` (d,) says how many that is.  Factors of
    the same sites add up.  -inf forbids.  Parameters are kept in float64 whatever ``dtype`` the
    target computes in.  ``site_names`` and ``value_names`` (those of its values for every site) are
    what ``given`` may be told in, and what tables and reports show.
    """

    def __init__(
        self,
        factors: Iterable[tuple[Sequence[int], Any]],
        cardinalities: Sequence[int] | Tensor,
        *,
        constant: float = 0.0,
        site_names: Sequence[str] | None = None,
        value_names: Sequence[Sequence[str]] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        self.cardinalities = read_cardinalities(cardinalities)
        self.num_sites, self.num_values = len(self.cardinalities), max(2, *self.cardinalities)
        self.factors, without_sites = read_factors(factors, self.cardinalities)
        self.constant = float(as_parameter("constant", constant + without_sites))
        self.names = Names.of(site_names, value_names, self.cardinalities)
        self.fields = padded_fields(self.factors, self.cardinalities, self.num_values)
        self.flat = FlatTables.of([factor for factor in self.factors if len(factor[0]) > 1])
        self.forbids_more = bool(np.isneginf(self.flat.entries).any())
        self.forbids = self.forbids_more or bool(np.isneginf(self.fields).any())
        self.differentiable = not self.forbids
        possible = torch.from_numpy(~np.isneginf(self.fields))
        self.possible = None if bool(possible.all()) else possible
        self._place(torch.device(device or "cpu"), dtype or torch.get_default_dtype())

    @classmethod
    def from_arrays(
        cls, scope_sizes: Any, scope_sites: Any, log_tables: Any, cardinalities: Any, **options: Any
    ) -> Factors:
        """From the number of sites of every factor, the sites of all of them one after the other,
        and the entries of all tables one after the other, the last axis running fastest."""
        counts, sites = np.asarray(cardinalities).tolist(), np.asarray(scope_sites).tolist()
        entries, factors, first, begin = np.asarray(log_tables, float), [], 0, 0
        for size in np.asarray(scope_sizes).tolist():
            scope = tuple(sites[first : first + size])
            shape = tuple(counts[site] for site in scope)
            end = begin + math.prod(shape)
            factors.append((scope, entries[begin:end].reshape(shape)))
            first, begin = first + size, end
        return cls(factors, counts, **options)

    @classmethod
    def from_pairwise(cls, target: Pairwise) -> Factors:
        """A pairwise target as the same law in factors, one a pair and one a site."""
        d, v = target.num_sites, target.num_values
        pairs = zip(target.edges.tolist(), target.couplings.numpy(), strict=True)
        fields = zip(range(d), target.fields.numpy(), strict=True)
        factors = [*pairs, *(((site,), field) for site, field in fields)]
        return cls(
            factors, [v] * d, constant=target.constant, dtype=target.dtype, device=target.device
        )

    # -- evaluation ------------------------------------------------------------------------------

    def _log_density(self, x: Tensor) -> Tensor:
        parts = [
            self._entries[self._entry(rows)].sum(1) + self._present(rows).sum(1) + self.constant
            for rows in self._chunks(x, len(self._start))
        ]
        return torch.cat(parts).reshape(x.shape[:-1])

    def _log_ratios(self, x: Tensor) -> Tensor:
        parts = []
        for rows in self._chunks(x, len(self._stride) * self.num_values):
            entry = self._entry(rows)
            felt = self._felt(rows, entry)
            ratios = subtract_log_densities(felt, felt.gather(-1, rows[..., None]))
            if self.forbids:
                broken, fields = self._broken(rows, entry)
                near = fields.long().index_add(1, self._site, broken[:, self._factor].long())
                elsewhere = broken.sum(1, keepdim=True) + fields.sum(1, keepdim=True) > near
                ratios = ratios.masked_fill(elsewhere[..., None], 0.0)
            parts.append(ratios)
        return torch.cat(parts).reshape(*x.shape, self.num_values)

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        rows, at = x.reshape(-1, self.num_sites), sites.reshape(-1, 1)
        factors, strides = self._factors_of[at[:, 0]], self._strides_of[at[:, 0]]  # (n, g)
        tokens = torch.minimum(rows, self._last)
        others = tokens[:, None].expand(-1, factors.shape[1], -1).gather(2, self._sites[factors])
        entry = self._start[factors] + (others * self._strides[factors]).sum(-1)
        values = torch.minimum(torch.arange(self.num_values, device=x.device), self._last[at])
        moved = entry - tokens.gather(1, at) * strides  # with the site at its first value
        index = moved[:, :, None] + values[:, None] * strides[..., None]
        felt = self._entries[index].sum(1) + self._h[at[:, 0]]
        ratios = subtract_log_densities(felt, felt.gather(-1, rows.gather(1, at)))
        if self.forbids:
            broken, fields = self._broken(rows, self._entry(rows))
            near = broken.gather(1, factors).sum(1) + fields.gather(1, at)[:, 0]
            elsewhere = broken.sum(1) + fields.sum(1) > near
            ratios = ratios.masked_fill(elsewhere[:, None], 0.0)
        return ratios.reshape(*sites.shape, self.num_values)

    def class_terms(self, x: Tensor, sites: Tensor) -> Tensor:
        """What the sites feel, also where x itself is forbidden."""
        self.count(len(x) * self.ratios_cost)
        return torch.cat(
            [
                self._felt(rows, self._entry(rows))[:, sites].double()
                for rows in self._chunks(x, len(self._stride) * self.num_values)
            ]
        )

    def class_rest(self, x: Tensor, sites: Tensor) -> Tensor:
        """The factors that touch none of the sites, and the fields of the others."""
        self.count(len(x))
        apart = torch.ones(len(self._start), dtype=torch.bool, device=x.device)
        apart[self._factors_of[sites]] = False
        others = torch.ones(self.num_sites, dtype=torch.bool, device=x.device)
        others[sites] = False
        factors = self._entries[self._entry(x)[:, apart]].double().sum(1)
        return factors + self._present(x)[:, others].double().sum(1) + self.constant

    def _taylor_log_ratios(self, x: Tensor) -> Tensor:
        return self._log_ratios(x)  # log p̄ is linear in the one-hot vector of each site

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        self.require_differentiable()
        total = (z * self._h).sum((-2, -1)) + self.constant
        for scope, table in self.factors:
            if len(scope) > 1:
                left = torch.from_numpy(table).to(z)
                left = left.expand(*z.shape[:-2], *left.shape)
                for site in reversed(scope):
                    weights = z[..., site, : left.shape[-1]]
                    shape = (*weights.shape[:-1], *[1] * (left.ndim - weights.ndim), -1)
                    left = (left * weights.reshape(shape)).sum(-1)
                total = total + left
        return total

    def _chunks(self, x: Tensor, work: int) -> tuple[Tensor, ...]:
        """States (n, d), as many at a time as memory allows that needs ``work`` numbers each."""
        return x.reshape(-1, self.num_sites).split(max(1, MAX_CHUNK_TOKENS // max(1, work)))

    def _entry(self, x: Tensor) -> Tensor:
        """Where the tables are read, (n, d) -> (n, f); of a value that a site does not have, at its
        last one."""
        tokens = torch.minimum(x, self._last)
        entry = self._start.expand(len(x), -1)
        for sites, strides in zip(self._sites.T, self._strides.T, strict=True):
            entry = entry + tokens[:, sites] * strides
        return entry

    def _present(self, x: Tensor) -> Tensor:
        """h_i[x_i], (n, d) -> (n, d)."""
        return self._h.expand(len(x), -1, -1).gather(-1, x[..., None]).squeeze(-1)

    def _felt(self, x: Tensor, entry: Tensor) -> Tensor:
        """felt[i, v] from where the tables are read, (n, d) and (n, f) -> (n, d, v)."""
        own = torch.minimum(x, self._last)[:, self._site] * self._stride
        values = torch.arange(self.num_values, device=x.device)[:, None]
        steps = (torch.minimum(values, self._last[self._site]) * self._stride).T  # (e, v)
        index = (entry[:, self._factor] - own)[..., None] + steps
        fields = self._h.expand(len(x), -1, -1)
        return fields.index_add(1, self._site, self._entries[index])

    def _broken(self, x: Tensor, entry: Tensor) -> tuple[Tensor, Tensor]:
        """Which factors and which fields forbid x, (n, f) and (n, d)."""
        return self._entries[entry].isneginf(), self._present(x).isneginf()

    # -- structure -------------------------------------------------------------------------------

    @property
    def value_counts(self) -> tuple[int, ...]:
        return self.cardinalities

    @property
    def _reads(self) -> int:
        """Entries that one density reads."""
        return len(self.flat.start) - 1 + self.num_sites

    @property
    def ratios_cost(self) -> float:
        ratios = (len(self.flat.site) + self.num_sites) * self.num_values
        return (ratios + self.forbids * self._reads) / self._reads

    @property
    def site_cost(self) -> float:
        ratios = (len(self.flat.site) / self.num_sites + 1) * self.num_values
        return (ratios + self.forbids * self._reads) / self._reads

    @cached_property
    def pairs(self) -> Tensor:
        """The pairs of sites that share a factor."""
        return torch.tensor(joined(self.factors), dtype=torch.long).reshape(-1, 2)

    @cached_property
    def colouring(self) -> Tensor | None:
        """A greedy one; None where nearly all sites share factors."""
        degree = int(torch.bincount(self.pairs.flatten(), minlength=self.num_sites).max())
        if degree > self.num_sites / 2:
            return None
        graph = networkx.Graph(self.pairs.tolist())
        graph.add_nodes_from(range(self.num_sites))
        by_site = networkx.greedy_color(graph, strategy="DSATUR")
        return torch.tensor([by_site[site] for site in range(self.num_sites)])

    # -- plain data ------------------------------------------------------------------------------

    @property
    def scope_sizes(self) -> Tensor:
        return torch.tensor([len(scope) for scope, _ in self.factors], dtype=torch.long)

    @property
    def scope_sites(self) -> Tensor:
        return torch.tensor([site for scope, _ in self.factors for site in scope]).long()

    @property
    def log_tables(self) -> Tensor:
        tables = [table.ravel() for _, table in self.factors]
        return torch.from_numpy(np.concatenate([*tables, np.zeros(0)]))

    # -- other targets ---------------------------------------------------------------------------

    def restrict(self, known: KnownSites) -> Factors:
        """The free sites, and of every table the part that agrees with what is known."""
        values, place = dict(known.pairs), {int(site): k for k, site in enumerate(known.free)}
        factors: list[Factor] = []
        for scope, table in self.factors:
            part = table[tuple(values.get(site, slice(None)) for site in scope)]
            factors.append((tuple(place[site] for site in scope if site in place), part))
        counts = [self.cardinalities[site] for site in place]
        constant = self.constant + sum(float(part) for scope, part in factors if not scope)
        factors = [factor for factor in factors if factor[0]]
        if constant == -math.inf:  # what is known contradicts itself: no value of any site will do
            factors, constant = [*factors, ((0,), np.full(counts[0], -np.inf))], 0.0
        return self._with(factors, counts, constant, self.names.among(known.free))

    def scaled(self, scale: float | Tensor) -> Target:
        if isinstance(scale, Tensor) and scale.ndim:
            return super().scaled(scale)
        factors = [(scope, times(table, float(scale))) for scope, table in self.factors]
        scaled = self._with(factors, self.cardinalities, float(scale) * self.constant, self.names)
        scaled._cost = self._cost
        return scaled

    def _with(
        self, factors: list[Factor], counts: Sequence[int], constant: float, names: Names
    ) -> Factors:
        return Factors(
            factors, counts, constant=constant, site_names=names.sites, value_names=names.values,
            dtype=self.dtype, device=self.device,
        )  # fmt: skip

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        flat, counts = self.flat, torch.tensor(self.cardinalities)
        self._h = torch.from_numpy(self.fields).to(device, dtype)
        self._entries = torch.from_numpy(flat.entries).to(device, dtype)
        whole = (flat.start, flat.sites, flat.strides, flat.site, flat.factor, flat.stride)
        placed = [torch.from_numpy(part).to(device) for part in whole]
        self._start, self._sites, self._strides, self._site, self._factor, self._stride = placed
        by_site = [torch.from_numpy(part).to(device) for part in flat.by_site(self.num_sites)]
        self._factors_of, self._strides_of = by_site
        self._last = (counts - 1).to(device)

    def __repr__(self) -> str:
        return (
            f"Factors(num_sites={self.num_sites}, num_values={self.num_values}, "
            f"num_factors={len(self.factors)})"
        )


def padded_fields(factors: Iterable[Factor], counts: Sequence[int], v: int) -> Doubles:
    """The tables of single sites, (d, v), -inf at values that a site does not have."""
    fields = np.where(np.arange(v) < np.array(counts)[:, None], 0.0, -np.inf)
    for scope, table in factors:
        if len(scope) == 1:
            fields[scope[0], : len(table)] = table
    return fields


def times(table: Doubles, scale: float) -> Doubles:
    """scale·table, in which what is forbidden stays so at every scale."""
    forbidden = np.isneginf(table)
    return np.where(forbidden, -np.inf, scale * np.where(forbidden, 0.0, table))
