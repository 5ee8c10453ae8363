"""log p̄ of whole states, lane by lane, in float64.

In agreement form every bond adds b to the lanes in which its sites agree, which the compiler turns
into vector instructions.  Whatever else there is, tables of pairs and factors, is read in one flat
array, at ``first[f] + Σ_k strides[f, k]·x[sites[f, k]]``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy import uint8

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.factors import FactorArrays
from tcsis.mcmc.compiled.lanes import WIDTH, load_sites
from tcsis.mcmc.compiled.moves import Arrays, check_states
from tcsis.mcmc.compiled.threads import share_out


class AgreementModel(NamedTuple):
    """``strength`` (m,) of ``pairs`` (m, 2); the first of the ``fields`` (d, v) of a site is 0."""

    pairs: Ints
    strength: Doubles
    fields: Doubles
    has_fields: bool
    constant: float


class FlatModel(NamedTuple):
    """``first`` (f,), ``sites`` and ``strides`` (f, k), rows filled up with stride 0; ``last`` (d,)
    is the last value of a site, read in place of one that it has not."""

    entries: Doubles
    first: Ints
    sites: Ints
    strides: Ints
    last: Ints
    fields: Doubles
    constant: float


def log_densities(model: Arrays, x: Bytes) -> Doubles:
    """log p̄ of states x (chains, d), (chains,)."""
    check_states(model, x)
    total = np.empty(len(x))
    arrays = density_model(model)
    add_up = add_agreements if isinstance(arrays, AgreementModel) else add_entries
    share_out(add_up, len(x), x.shape[1], WIDTH, x, total, arrays)
    return total


@lru_cache(maxsize=8)
def density_model(model: Arrays) -> AgreementModel | FlatModel:
    """The arrays that densities need, kept for those that ask again."""
    if isinstance(model, FactorArrays):
        flat = model.flat
        return FlatModel(
            flat.entries, as_ints(flat.start), as_ints(flat.sites), as_ints(flat.strides),
            model.counts - np.int32(1), model.fields, model.constant,
        )  # fmt: skip
    site = np.repeat(np.arange(model.num_sites, dtype=np.int32), np.diff(model.start))
    once = site < model.neighbours  # every bond is there from each end
    pairs = np.stack([site[once], model.neighbours[once]], axis=1)
    if model.agreement is not None:
        return AgreementModel(
            pairs, model.agreement[once], model.fields, model.has_fields, model.constant
        )
    v = model.num_values
    return FlatModel(
        model.tables.reshape(-1), model.table_index[once] * np.int32(v * v), pairs,
        np.tile(np.array([v, 1], np.int32), (len(pairs), 1)),
        np.full(model.num_sites, v - 1, np.int32), model.fields, model.constant,
    )  # fmt: skip


def as_ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int32)


@jit(nogil=True)
def add_agreements(first: int, stop: int, x: Bytes, total: Doubles, model: Any) -> None:
    """total (chains,) of chains first..stop-1 of x (chains, d)."""
    for start in range(first, stop, WIDTH):
        lanes, sums = load_sites(x, start), np.full(WIDTH, model.constant)
        for bond in range(len(model.pairs)):
            i, j, b = model.pairs[bond, 0], model.pairs[bond, 1], model.strength[bond]
            for lane in range(WIDTH):
                sums[lane] += b if lanes[i, lane] == lanes[j, lane] else 0.0
        if model.has_fields:
            for site in range(x.shape[1]):
                for value in range(1, model.fields.shape[1]):
                    h = model.fields[site, value]
                    for lane in range(WIDTH):
                        sums[lane] += h if lanes[site, lane] == uint8(value) else 0.0
        for lane in range(min(WIDTH, stop - start)):
            total[start + lane] = sums[lane]


@jit(nogil=True)
def add_entries(first: int, stop: int, x: Bytes, total: Doubles, model: Any) -> None:
    """As ``add_agreements``."""
    for start in range(first, stop, WIDTH):
        lanes, sums = load_sites(x, start), np.full(WIDTH, model.constant)
        for factor in range(len(model.first)):
            for lane in range(WIDTH):
                place = model.first[factor]
                for k in range(model.sites.shape[1]):
                    site = model.sites[factor, k]
                    place += model.strides[factor, k] * min(lanes[site, lane], model.last[site])
                sums[lane] += model.entries[place]
        for site in range(x.shape[1]):
            for lane in range(WIDTH):
                sums[lane] += model.fields[site, lanes[site, lane]]
        for lane in range(min(WIDTH, stop - start)):
            total[start + lane] = sums[lane]
