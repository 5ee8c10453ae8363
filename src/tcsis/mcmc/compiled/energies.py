"""log p̄ of many states, summed in float64."""

from __future__ import annotations

from typing import Any

from numba import njit

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints


@njit(cache=True, nogil=True)
def sum_agreements(
    first: int, stop: int, x: Bytes, total: Doubles, start: Ints, neighbours: Ints,
    agreement: Doubles, fields: Doubles,
) -> None:  # fmt: skip
    """Add Σ_e b_e·[x_i = x_j] + Σ_i h_i(x_i) to total (chains,)."""
    for chain in range(first, stop):
        for site in range(x.shape[1]):
            value = x[chain, site]
            pairs = 0.0
            for entry in range(start[site], start[site + 1]):
                pairs += agreement[entry] if x[chain, neighbours[entry]] == value else 0.0
            total[chain] += 0.5 * pairs + fields[site, value]


@njit(cache=True, nogil=True)
def sum_tables(
    first: int, stop: int, x: Bytes, total: Doubles, start: Ints, neighbours: Ints,
    tables: Doubles, table_index: Ints, fields: Doubles,
) -> None:  # fmt: skip
    """Add Σ_e J_e(x_i, x_j) + Σ_i h_i(x_i) to total (chains,)."""
    for chain in range(first, stop):
        for site in range(x.shape[1]):
            value = x[chain, site]
            pairs = 0.0
            for entry in range(start[site], start[site + 1]):
                pairs += tables[table_index[entry], value, x[chain, neighbours[entry]]]
            total[chain] += 0.5 * pairs + fields[site, value]
