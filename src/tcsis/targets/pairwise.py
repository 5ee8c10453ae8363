"""Pairwise targets on any graph: log p̄(x) = Σ_e J_e[x_i, x_j] + Σ_i h_i[x_i] + constant.

Two values are spins ±1, for every 2×2 table is a constant, two fields and one s·s coupling, and J s
holds the field that the neighbours of every site exert on it, with J sparse or dense as the graph
is.  With more values the entries, or for ratios the rows, of the tables are picked and added up.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import networkx
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from tcsis.basics.checks import check_integer, check_num_values
from tcsis.targets.base import MAX_CHUNK_TOKENS, Symmetries, Target, check_finite
from tcsis.targets.known import KnownSites
from tcsis.targets.lattice import Lattice

DENSE_FRACTION = 0.2
"""Above this share of non-zero entries J is kept as a dense matrix."""

SPINS = torch.tensor([-1.0, 1.0], dtype=torch.float64)


class Pairwise(Target):
    """Couplings ``J[e](u, v)`` on the edges of a graph and fields ``h[i](v)`` on its sites.

    ``edges`` is (m, 2) pairs of different sites, ``couplings`` (m, v, v) with the first value index
    belonging to the first site of the pair, ``fields`` (d, v).  Repeated pairs add up.  Parameters
    are kept in float64 whatever ``dtype`` the target computes in.
    """

    differentiable = True
    ratios_cost = 1.0
    opaque = False

    def __init__(
        self,
        edges: Any,
        couplings: Any,
        fields: Any,
        *,
        constant: float = 0.0,
        lattice: Lattice | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        fields = as_parameter("fields", fields)
        if fields.ndim != 2 or fields.shape[1] < 2:
            raise ValueError(
                f"fields has shape {tuple(fields.shape)}: expected (num_sites, num_values) "
                "with num_values at least 2"
            )
        self.num_sites = check_integer("num_sites", fields.shape[0])
        self.num_values = check_num_values(fields.shape[1])
        if lattice is not None and lattice.num_sites != self.num_sites:
            raise ValueError(
                f"lattice of shape {lattice.shape} has {lattice.num_sites} sites: "
                f"expected {self.num_sites}, as fields has"
            )
        self.fields = fields
        self.edges, self.couplings = merge_edges(edges, couplings, self.num_sites, self.num_values)
        self.constant = float(as_parameter("constant", constant))
        self.lattice = lattice
        self.symmetries = self._find_symmetries()
        self._place(torch.device(device or "cpu"), dtype or torch.get_default_dtype())

    @staticmethod
    def from_spins(
        couplings: Any, fields: Any = 0.0, *, beta: float = 1.0, **options: Any
    ) -> Pairwise:
        """log p̄ = β·(Σ_{i<j} J_ij s_i s_j + Σ_i h_i s_i), spins ±1, J symmetric of shape (d, d)."""
        matrix, field = as_parameter("couplings", couplings), as_parameter("fields", fields)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"couplings has shape {tuple(matrix.shape)}: expected a square matrix")
        if field.shape not in ((), (len(matrix),)):
            raise ValueError(
                f"fields has shape {tuple(field.shape)}: expected a number or ({len(matrix)},)"
            )
        check_symmetric(matrix, matrix.T)
        beta = check_beta(beta)
        edges = matrix.triu(1).nonzero()
        strength = beta * matrix[edges[:, 0], edges[:, 1]]
        tables = strength[:, None, None] * torch.outer(SPINS, SPINS)
        return Pairwise(edges, tables, beta * field.expand(len(matrix))[:, None] * SPINS, **options)

    @staticmethod
    def from_dense(couplings: Any, fields: Any = None, **options: Any) -> Pairwise:
        """A (d, d, v, v) array with J[i, j, u, v] = J[j, i, v, u], each pair counted once."""
        array = as_parameter("couplings", couplings)
        if array.ndim != 4 or array.shape[0] != array.shape[1] or array.shape[2] != array.shape[3]:
            raise ValueError(f"couplings has shape {tuple(array.shape)}: expected (d, d, v, v)")
        check_symmetric(array, array.permute(1, 0, 3, 2))
        d, v = array.shape[0], array.shape[2]
        edges = array.flatten(2).ne(0).any(-1).triu(1).nonzero()
        fields = torch.zeros(d, v) if fields is None else as_parameter("fields", fields)
        if fields.shape != (d, v):
            raise ValueError(f"fields has shape {tuple(fields.shape)}: expected (d, v) = {(d, v)}")
        return Pairwise(edges, array[edges[:, 0], edges[:, 1]], fields, **options)

    # -- evaluation --------------------------------------------------------------------------

    def _log_density(self, x: Tensor) -> Tensor:
        if self.num_values > 2:
            return self._of_tables(x.reshape(-1, self.num_sites)).reshape(x.shape[:-1])
        phi = self._embed(x)
        return self._quadratic(phi, self._coupling_field(phi)).reshape(x.shape[:-1])

    def _log_ratios(self, x: Tensor) -> Tensor:
        if self.num_values > 2:
            total = self._fields_felt(x.reshape(-1, self.num_sites))
            total = total.reshape(*x.shape, self.num_values)
            return total - total.gather(-1, x[..., None])
        total = (self._coupling_field(self._embed(x)) + self._h).reshape(x.shape)[..., None]
        # field·(s_new - s_old), which is ±2·field or zero
        return total * (2 * torch.arange(2, device=x.device) - 2 * x[..., None])

    def _of_tables(self, x: Tensor) -> Tensor:
        """Σ_e J_e[x_i, x_j] + Σ_i h_i[x_i], (n, d) -> (n,): an entry of each table."""
        tables, fields = self._placed_entries
        v, edges = self.num_values, self.edges.to(x.device)
        first = torch.arange(len(edges), device=x.device) * v * v
        parts = []
        for rows in x.split(max(1, MAX_CHUNK_TOKENS // max(1, len(edges)))):
            entry = first + rows[:, edges[:, 0]] * v + rows[:, edges[:, 1]]
            own = fields.expand(len(rows), -1, -1).gather(-1, rows[..., None]).sum((1, 2))
            parts.append(tables[entry].sum(1) + own + self._constant)
        return torch.cat(parts)

    def _fields_felt(self, x: Tensor) -> Tensor:
        """h_i[u] + Σ_j J_ij[u, x_j], (n, d) -> (n, d, v): a row of each table."""
        rows, neighbours, fields = self._placed_rows
        d, v = self.num_sites, self.num_values
        first = torch.arange(neighbours.numel(), device=x.device).reshape(neighbours.shape) * v
        parts = []
        for some in x.split(max(1, MAX_CHUNK_TOKENS // (neighbours.numel() + d * v))):
            row = (first + some[:, neighbours]).flatten(0, 1)  # (n·d, degree)
            felt = embedding_bag(row, rows, mode="sum")
            parts.append(felt.reshape(len(some), d, v) + fields)
        return torch.cat(parts)

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        neighbours, tables, fields = self._placed_tables
        tokens = x.gather(-1, neighbours[sites])  # (..., degree)
        index = tokens[..., None, None].expand(*tokens.shape, self.num_values, 1)
        # tables: (..., degree, v of the site, v of the neighbour)
        total = tables[sites].gather(-1, index).squeeze(-1).sum(-2) + fields[sites]
        return total - total.gather(-1, x.gather(-1, sites[..., None]))

    def _taylor_log_ratios(self, x: Tensor) -> Tensor:
        return self._log_ratios(x)  # log p̄ is linear in the one-hot vector of each site

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        phi = z @ self._spins if self.num_values == 2 else z
        phi = phi.reshape(-1, self._h.numel())
        return self._quadratic(phi, self._coupling_field(phi)).reshape(z.shape[:-2])

    def mean_field(self, z: Tensor) -> Tensor:
        """h_i[u] + Σ_j J_ij[u, ·]·z_j, the log density of each value of a site while the others are
        at the weights z, (..., d, v) -> (..., d, v), up to a constant a site."""
        phi = z @ self._spins if self.num_values == 2 else z
        field = self._coupling_field(phi.reshape(-1, self._h.numel())) + self._h
        field = field.reshape(*z.shape[:-1], -1)
        return field * self._spins if self.num_values == 2 else field

    def _embed(self, x: Tensor) -> Tensor:
        """Spins φ(x), (..., d) -> (n, d)."""
        return (x.to(self.dtype) * 2 - 1).reshape(-1, self.num_sites)

    def _coupling_field(self, phi: Tensor) -> Tensor:
        """Σ_j J_ij φ_j, (n, d·r) -> (n, d·r)."""
        return (self._j @ phi.T).T

    def _quadratic(self, phi: Tensor, coupling_field: Tensor) -> Tensor:
        return (phi * (0.5 * coupling_field + self._h)).sum(-1) + self._constant

    # -- structure ---------------------------------------------------------------------------

    @property
    def site_cost(self) -> float:
        return 1 / self.num_sites

    @cached_property
    def spin_form(self) -> tuple[Tensor, Tensor, float]:
        """V = 2 only: (couplings (m,), fields (d,), constant) with
        log p̄ = Σ_e J_e s_i s_j + Σ_i h_i s_i + constant."""
        j = torch.einsum("euv,u,v->e", self.couplings, SPINS, SPINS) / 4
        field = self.fields @ SPINS / 2
        for end, axis in ((0, "u"), (1, "v")):
            share = torch.einsum(f"euv,{axis}->e", self.couplings, SPINS) / 4
            field = field.index_add(0, self.edges[:, end], share)
        constant = self.couplings.mean((1, 2)).sum() + self.fields.mean(1).sum() + self.constant
        return j, field, float(constant)

    @property
    def pairs(self) -> Tensor:
        return self.edges

    @cached_property
    def degree(self) -> int:
        """The largest number of neighbours of a site."""
        return int(torch.bincount(self.edges.flatten(), minlength=self.num_sites).max())

    @cached_property
    def neighbour_tables(self) -> tuple[Tensor, Tensor]:
        """(d, degree) neighbours of each site and (d, degree, v, v) coupling tables, own value
        first; short rows are filled up with the site itself and a table of zeros."""
        d, v = self.num_sites, self.num_values
        site = self.edges.T.flatten()
        other = self.edges.flip(1).T.flatten()
        table = torch.cat([self.couplings, self.couplings.transpose(1, 2)])
        order = site.argsort(stable=True)
        site, other, table = site[order], other[order], table[order]
        first = torch.searchsorted(site, torch.arange(d))
        slot = torch.arange(len(site)) - first[site]
        neighbours = torch.arange(d)[:, None].repeat(1, max(self.degree, 1))
        tables = torch.zeros(d, max(self.degree, 1), v, v, dtype=torch.float64)
        neighbours[site, slot], tables[site, slot] = other, table
        return neighbours, tables

    @cached_property
    def colouring(self) -> Tensor | None:
        """The lattice's own colouring, or a greedy one; None where the graph is nearly complete."""
        if self.lattice is not None:
            colour = self.lattice.colouring()
            if bool((colour[self.edges[:, 0]] != colour[self.edges[:, 1]]).all()):
                return colour
        if self.degree > self.num_sites / 2:
            return None
        graph = networkx.Graph(self.edges.tolist())
        graph.add_nodes_from(range(self.num_sites))
        by_site = networkx.greedy_color(graph, strategy="DSATUR")
        return torch.tensor([by_site[site] for site in range(self.num_sites)])

    def restrict(self, known: KnownSites) -> Pairwise:
        """The pairs of free sites.  A pair with a known site is a field of the other, a pair of
        known sites and the field of one are constants."""
        x, given = known.complete(torch.zeros(len(known.free), dtype=torch.long)), known.mask
        (i, j), tables, fields = self.edges.T, self.couplings, self.fields.clone()
        for site, other, table in ((i, j, tables), (j, i, tables.transpose(1, 2))):
            felt = (~given[site] & given[other]).nonzero().squeeze(1)
            fields.index_add_(0, site[felt], table[felt, :, x[other[felt]]])
        inside = given[i] & given[j]
        constant = tables[inside, x[i[inside]], x[j[inside]]].sum()
        constant += self.fields[known.sites, known.values].sum()
        left = ~given[i] & ~given[j]
        place = (~given).cumsum(0) - 1  # of each free site among them
        return Pairwise(
            place[self.edges[left]], tables[left], fields[known.free],
            constant=self.constant + float(constant), dtype=self.dtype, device=self.device,
        )  # fmt: skip

    def scaled(self, scale: float | Tensor) -> Target:
        if isinstance(scale, Tensor) and scale.ndim:
            return super().scaled(scale)
        scale = float(scale)
        scaled = Pairwise(
            self.edges, scale * self.couplings, scale * self.fields,
            constant=scale * self.constant, lattice=self.lattice,
            dtype=self.dtype, device=self.device,
        )  # fmt: skip
        scaled.symmetries, scaled.names = self.symmetries, self.names
        scaled._cost = self._cost
        return scaled

    def _find_symmetries(self) -> Symmetries:
        flat_fields = bool((self.fields == self.fields[:, :1]).all())
        if self.num_values == 2:
            permutable = not bool(self.spin_form[1].any())
        else:  # every table of the form a + b·[u = v]
            same = self.couplings.diagonal(dim1=1, dim2=2)
            other = self.couplings[:, 0, 1]
            off = ~torch.eye(self.num_values, dtype=torch.bool)
            permutable = flat_fields and bool(
                (same == same[:, :1]).all() and (self.couplings[:, off] == other[:, None]).all()
            )
        return Symmetries(
            flip=permutable and self.num_values == 2,
            value_permutation=permutable,
            translations=self._translation_invariant(),
        )

    def _translation_invariant(self) -> bool:
        if self.lattice is None or not self.lattice.periodic:
            return False
        if not bool((self.fields == self.fields[:1]).all()):
            return False
        for axis in range(len(self.lattice.shape)):
            shift = self.lattice.sites.roll(-1, axis).flatten()
            edges, couplings = merge_edges(
                shift[self.edges], self.couplings, self.num_sites, self.num_values
            )
            if not torch.equal(edges, self.edges) or not torch.equal(couplings, self.couplings):
                return False
        return True

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        if self.num_values == 2:
            strength, field, constant = self.spin_form
            index, value = self.edges.T, strength
        else:
            field, constant = self.fields.flatten(), self.constant
            index, value = self._one_hot_entries()
        size = len(field)
        index, value = torch.cat([index, index.flip(0)], dim=1), value.repeat(2)
        matrix = torch.sparse_coo_tensor(index, value, (size, size), check_invariants=False)
        matrix = matrix.coalesce()
        if matrix.values().numel() > DENSE_FRACTION * size**2:
            matrix = matrix.to_dense()
        self._j, self._h = matrix.to(device, dtype), field.to(device, dtype)
        self._spins = SPINS.to(device, dtype)
        self._constant = constant
        for name in ("_placed_tables", "_placed_entries", "_placed_rows"):
            self.__dict__.pop(name, None)

    def _one_hot_entries(self) -> tuple[Tensor, Tensor]:
        """Row, column (2, n) and value (n,) of the non-zero entries J[(i,u), (j,v)], i < j."""
        edge, u, v = self.couplings.nonzero().T
        i, j = self.edges[edge].T
        index = torch.stack([i * self.num_values + u, j * self.num_values + v])
        return index, self.couplings[edge, u, v]

    @cached_property
    def _placed_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        neighbours, tables = self.neighbour_tables
        return (
            neighbours.to(self.device),
            tables.to(self.device, self.dtype),
            self.fields.to(self.device, self.dtype),
        )

    @cached_property
    def _placed_entries(self) -> tuple[Tensor, Tensor]:
        """All entries of the tables, (m·v·v,), and the fields, (d, v)."""
        fields = self.fields.to(self.device, self.dtype)
        return self.couplings.flatten().to(self.device, self.dtype), fields

    @cached_property
    def _placed_rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """What each neighbour exerts at each of its values, (d·degree·v, v), neighbours and
        fields."""
        neighbours, tables, fields = self._placed_tables
        return tables.transpose(2, 3).reshape(-1, self.num_values), neighbours, fields

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_sites={self.num_sites}, num_values={self.num_values}, "
            f"num_edges={len(self.edges)})"
        )


def merge_edges(edges: Any, couplings: Any, d: int, v: int) -> tuple[Tensor, Tensor]:
    """Edges with i < j, sorted, each once, with the tables of repeated pairs added up."""
    try:
        edges = torch.as_tensor(edges)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"edges is {edges!r}: expected pairs of sites") from None
    couplings = as_parameter("couplings", couplings)
    if edges.numel() == 0 and couplings.numel() == 0:
        return torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, v, v, dtype=torch.float64)
    if edges.dtype.is_floating_point or edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(
            f"edges has dtype {edges.dtype} and shape {tuple(edges.shape)}: "
            "expected integer pairs of shape (num_edges, 2)"
        )
    if couplings.shape != (len(edges), v, v):
        raise ValueError(
            f"couplings has shape {tuple(couplings.shape)}: "
            f"expected (num_edges, v, v) = {(len(edges), v, v)}"
        )
    if int(edges.min()) < 0 or int(edges.max()) >= d:
        raise ValueError(
            f"edges name sites from {int(edges.min())} to {int(edges.max())}: expected 0..{d - 1}"
        )
    loops = (edges[:, 0] == edges[:, 1]).nonzero()
    if len(loops):
        site = int(edges[int(loops[0])][0])
        raise ValueError(f"edges joins site {site} to itself: put such a term into fields")
    swap = edges[:, 0] > edges[:, 1]
    couplings = torch.where(swap[:, None, None], couplings.transpose(1, 2), couplings)
    ordered, place = edges.long().sort(dim=1).values.unique(dim=0, return_inverse=True)
    merged = torch.zeros(len(ordered), v, v, dtype=torch.float64)
    return ordered, merged.index_add(0, place, couplings)


def as_parameter(name: str, value: Any) -> Tensor:
    """A finite float64 tensor on the CPU."""
    try:
        parameter = torch.as_tensor(value).detach()
        if not hasattr(value, "dtype") and parameter.dtype.is_floating_point:
            parameter = torch.as_tensor(value, dtype=torch.float64)  # numbers of Python are that
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} is {value!r}: expected numbers") from None
    if parameter.is_complex():
        raise ValueError(f"{name} is complex: expected real numbers")
    parameter = parameter.to("cpu", torch.float64)
    check_finite(name, parameter)
    return parameter


def check_symmetric(couplings: Tensor, transposed: Tensor) -> None:
    """Refuse couplings where J_ij and J_ji differ, or with a term of a site with itself."""
    d = len(couplings)
    differ = (couplings != transposed).reshape(d, d, -1).any(-1)
    if bool(differ.any()):
        i, j = differ.nonzero()[0].tolist()
        raise ValueError(
            f"couplings is not symmetric: [{i}, {j}] and [{j}, {i}] differ; "
            "expected one value for each pair (J + J.T if J is triangular, half of it if it is not)"
        )
    own = couplings.reshape(d, d, -1).ne(0).any(-1).diagonal().nonzero()
    if len(own):
        raise ValueError(
            f"couplings has a diagonal entry at site {int(own[0])}: expected none; put it in fields"
        )


def check_beta(beta: float) -> float:
    """β as a finite float."""
    try:
        value = float(beta)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"beta is {beta!r}: expected a finite number")
    return value
