"""What the readers of this package make: spins, tables of pairs, or factors, with their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tcsis.basics.checks import MAX_VALUES
from tcsis.formats.text import MAX_ENTRIES
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise, check_beta

Doubles = NDArray[np.float64]
SPIN, BINARY = ("-1", "1"), ("0", "1")
"""Names of the two values of a variable."""
WHOLE = re.compile("0|-?[1-9][0-9]*")
"""An integer as Python writes it."""
LARGE = 1e5
"""Log densities from which on single precision may be off by a hundredth, and double is taken."""
MAX_CONSTANT = 1e12
"""Beside a larger one even double precision would lose the differences that make the law."""


def quadratic(
    edges: Any, couplings: Any, fields: Any, offset: float, values: tuple[str, str], beta: float
) -> Pairwise:
    """log p̄(x) = -β·(Σ_e q_e z_i z_j + Σ_i a_i z_i + offset), with z the numbers that the
    ``values`` are called: ±1 or 0 and 1.  ``edges`` (m, 2), q (m,), a (d,).  Couplings of zero are
    left out, for a graph that is full of them looks dense to whatever goes by its edges."""
    beta, z = check_beta(beta), np.array([float(value) for value in values])
    couplings, fields = np.asarray(couplings, float), np.asarray(fields, float)
    for biases in (couplings, fields):
        if not np.isfinite(biases).all():
            raise ValueError(f"a bias is {biases[~np.isfinite(biases)][0]:g}: expected a number")
    coupled = couplings != 0
    tables = -beta * couplings[coupled, None, None] * np.multiply.outer(z, z)
    own = -beta * np.multiply.outer(fields, z)
    edges = np.asarray(edges, np.int64).reshape(-1, 2)[coupled]
    constant = -beta * float(offset)
    size = abs(tables).max((1, 2), initial=0.0).sum() + abs(own).max(1, initial=0.0).sum()
    dtype = precision(float(size), constant)
    return Pairwise(edges, tables, own, constant=constant, dtype=dtype).named(value_names=values)


def precision(size: float, constant: float = 0.0) -> torch.dtype | None:
    """Double where log densities of this ``size`` beside a ``constant`` are large, else None, which
    is the default."""
    if abs(constant) > MAX_CONSTANT:
        raise ValueError(
            f"the offset comes to {constant:g} in log p̄: expected at most {MAX_CONSTANT:g}, beside "
            "which differences are kept; take it off, it does not change the law"
        )
    return torch.float64 if size + abs(constant) > LARGE else None


def total_size(factors: Iterable[tuple[tuple[int, ...], Doubles]]) -> float:
    """The largest log density that tables can add up to; what they forbid does not count."""
    return sum(float(abs(t[np.isfinite(t)]).max(initial=0.0)) for _, t in factors)


def pairs_or_factors(
    factors: Sequence[tuple[tuple[int, ...], Doubles]],
    value_counts: Sequence[int],
    constant: float = 0.0,
) -> Pairwise | Factors:
    """``Pairwise`` where every site has the same number of values, no factor more than two sites,
    and nothing is forbidden; ``Factors`` otherwise."""
    check_memory(factors, value_counts)
    dtype = precision(total_size(factors), constant)
    if not is_pairwise(factors, value_counts):
        return Factors(factors, value_counts, constant=constant, dtype=dtype)
    fields = np.zeros((len(value_counts), value_counts[0]))
    edges, couplings = [], []
    for scope, table in factors:
        if len(scope) == 2:
            edges.append(scope)
            couplings.append(table)
        elif scope:
            fields[scope[0]] += table
        else:
            constant += float(table)
    tables = np.array(couplings).reshape(-1, value_counts[0], value_counts[0])
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return Pairwise(pairs, tables, fields, constant=constant, dtype=dtype)


def is_pairwise(
    factors: Iterable[tuple[tuple[int, ...], Doubles]], value_counts: Sequence[int]
) -> bool:
    if len(set(value_counts)) > 1 or not 2 <= value_counts[0] <= MAX_VALUES:
        return False
    return all(len(scope) <= 2 and bool(np.isfinite(table).all()) for scope, table in factors)


def check_memory(
    factors: Sequence[tuple[tuple[int, ...], Doubles]], value_counts: Sequence[int]
) -> None:
    """Refuse what a factor model would need too much memory for: its tables, a value for every
    site, and a list of factors for every site, which are as long as the longest of them."""
    degree = np.zeros(len(value_counts), np.int64)
    for scope, _ in factors:
        if len(scope) > 1:
            degree[list(scope)] += 1
    width = max((len(scope) for scope, _ in factors), default=0)
    sizes = {
        "its tables have": sum(table.size for _, table in factors),
        "its sites have": len(value_counts) * max(value_counts),
        "the factors of its sites take": len(value_counts) * int(degree.max()),
        "the sites of its factors take": len(factors) * width,
    }
    for what, entries in sizes.items():
        if entries > MAX_ENTRIES:
            raise ValueError(
                f"the model is too large: {what} {entries:,} entries: expected at most "
                f"{MAX_ENTRIES:,}"
            )


def label(labels: Iterable[Any]) -> tuple[str, ...] | None:
    """Names from the labels of a library; None where they are the numbers of the sites."""
    labels = list(labels)
    if labels == list(range(len(labels))):
        return None
    names = tuple(str(one) for one in labels)
    if len(set(names)) < len(names):
        names = tuple(repr(one) for one in labels)  # 1 and "1"
    return names


def unlabel(names: tuple[str, ...] | None, num_sites: int) -> list[Any]:
    """Labels for a library from names: integers again where a name is one."""
    if names is None:
        return list(range(num_sites))
    return [int(name) if WHOLE.fullmatch(name) else name for name in names]
