"""log p̄ of many states, summed in float64, chains side by side as in ``lanes``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import uint8

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints, PairwiseArrays
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import WIDTH, load_sites, store_columns


class EnergyModel(NamedTuple):
    """Bonds by ``agreement`` (2m,), or by ``tables`` (n, v, v) where there are any."""

    start: Ints
    neighbours: Ints
    fields: Doubles
    agreement: Doubles
    tables: Doubles
    table_index: Ints
    constant: float


def energy_model(model: PairwiseArrays) -> EnergyModel:
    agreement = np.zeros(0) if model.agreement is None else model.agreement
    return EnergyModel(
        model.start, model.neighbours, model.fields, agreement, model.tables, model.table_index,
        model.constant,
    )  # fmt: skip


@jit(nogil=True)
def sum_energies(first: int, stop: int, x: Bytes, energies: Doubles, model: Any) -> None:
    """log p̄ of chains first..stop-1 of x (chains, d) into energies (1, chains)."""
    for block in range(first, stop, WIDTH):
        lanes = load_sites(x, block)
        total = np.full((1, WIDTH), model.constant)
        for site in range(x.shape[1]):
            _add_fields(lanes, site, model, total)
            for entry in range(model.start[site], model.start[site + 1]):
                if model.neighbours[entry] < site:  # each bond from its later end
                    _add_bond(lanes, site, entry, model, total)
        store_columns(total, block, energies)


@jit(forceinline=True)
def _add_fields(lanes: Bytes, site: int, model: Any, total: Doubles) -> None:
    for value in range(1, model.fields.shape[1]):
        field = model.fields[site, value]
        if field != 0:
            for lane in range(WIDTH):
                total[0, lane] += field if lanes[site, lane] == uint8(value) else 0.0


@jit(forceinline=True)
def _add_bond(lanes: Bytes, site: int, entry: int, model: Any, total: Doubles) -> None:
    other = model.neighbours[entry]
    if len(model.tables):
        table = model.table_index[entry]
        for lane in range(WIDTH):
            total[0, lane] += model.tables[table, lanes[site, lane], lanes[other, lane]]
    else:
        b = model.agreement[entry]
        for lane in range(WIDTH):
            total[0, lane] += b if lanes[site, lane] == lanes[other, lane] else 0.0
