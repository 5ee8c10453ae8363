"""Single-site updates of factor models.

As in ``values`` everything follows from the logits of a site, h_i(v) + Σ_f g_f(x with x_i = v) over
the factors that touch it.  What is forbidden has the logit ``FORBIDDEN`` a factor that forbids it:
a chain never enters, and one that starts outside goes where fewest factors are broken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, Ints, Singles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import WIDTH, in_blocks
from tcsis.mcmc.compiled.skeleton import make_step, make_sweep
from tcsis.mcmc.compiled.values import choose_lanes, choose_value
from tcsis.targets.factor_tables import FlatTables
from tcsis.targets.factors import Factors

FORBIDDEN = np.float32(-1e30)
"""In place of -inf, of which differences are not numbers."""

LEAST_SCALE = 1e-20
"""In place of zero, at which everything is equally likely but what is forbidden."""


@dataclass(frozen=True, eq=False)
class FactorArrays:
    """``fields`` (d, v) and ``entries`` of all tables.  The factors of site i are ``start[i]`` to
    ``start[i + 1]``: the ``first`` entry of each and the ``stride`` of the site in it, which has
    ``counts[i]`` values; its other sites are ``others[e]`` to ``others[e + 1]`` of ``site``,
    ``step`` and ``last``, the last value that the other site has, read in place of one that it has
    not.  The same tables factor by factor, in float64, are ``flat``."""

    fields: Doubles
    constant: float
    flat: FlatTables
    entries: Singles
    start: Ints
    first: Ints
    stride: Ints
    counts: Ints
    others: Ints
    site: Ints
    step: Ints
    last: Ints

    @classmethod
    def of(cls, target: Factors) -> FactorArrays:
        """The arrays of ``target``; make them once and keep them."""
        flat, counts = target.flat, np.array(target.cardinalities)
        start = np.searchsorted(flat.site, np.arange(target.num_sites + 1))
        own = flat.sites[flat.factor] == flat.site[:, None]  # (e, k)
        other = (flat.strides[flat.factor] > 0) & ~own
        others = np.concatenate([[0], np.cumsum(other.sum(1))])
        arrays = (
            start, flat.start[flat.factor], flat.stride, counts, others,
            flat.sites[flat.factor][other], flat.strides[flat.factor][other],
            counts[flat.sites[flat.factor][other]] - 1,
        )  # fmt: skip
        return cls(
            target.fields, target.constant, flat, as_singles(flat.entries),
            *(part.astype(np.int32) for part in arrays),
        )  # fmt: skip

    @property
    def num_values(self) -> int:
        return self.fields.shape[1]


class FactorModel(NamedTuple):
    """As ``FactorArrays``; ``scale``, ``gibbs`` and ``rows`` as in ``ValueModel``."""

    fields: Singles
    entries: Singles
    start: Ints
    first: Ints
    stride: Ints
    counts: Ints
    others: Ints
    site: Ints
    step: Ints
    last: Ints
    scale: Singles
    gibbs: bool
    rows: int


def as_singles(values: Doubles) -> Singles:
    return np.maximum(values, FORBIDDEN).astype(np.float32)


def factor_model(model: FactorArrays, gibbs: bool, scale: Doubles) -> FactorModel:
    scale_2 = np.maximum(scale, LEAST_SCALE) / math.log(2)
    return FactorModel(
        as_singles(model.fields), model.entries, model.start, model.first, model.stride,
        model.counts, model.others, model.site, model.step, model.last,
        in_blocks(scale_2.astype(np.float32)), gibbs, model.num_values + 2,
    )  # fmt: skip


@jit(forceinline=True)
def find_logits(model: Any, site: int, lanes: Bytes, logits: Singles) -> None:
    v = model.fields.shape[1]
    for value in range(v):
        for lane in range(WIDTH):
            logits[value, lane] = model.fields[site, value]
    for entry in range(model.start[site], model.start[site + 1]):
        stride = model.stride[entry]
        begin, end = model.others[entry], model.others[entry + 1]
        for lane in range(WIDTH):
            place = model.first[entry]
            for other in range(begin, end):
                there = min(lanes[model.site[other], lane], model.last[other])
                place += model.step[other] * there
            for value in range(model.counts[site]):
                logits[value, lane] += model.entries[place + value * stride]


@jit(forceinline=True)
def update_lanes(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, drawn: Bytes, work: Singles,
) -> None:  # fmt: skip
    find_logits(model, site, lanes, work)
    choose_lanes(model, block, site, lanes, u, recent, drawn, work)


@jit(forceinline=True)
def update_site(model: Any, chain: int, site: int, x: Bytes, u: Any, logits: Singles) -> bool:
    for value in range(model.fields.shape[1]):
        logits[value] = model.fields[site, value]
    for entry in range(model.start[site], model.start[site + 1]):
        place = model.first[entry]
        for other in range(model.others[entry], model.others[entry + 1]):
            there = min(x[chain, model.site[other]], model.last[other])
            place += model.step[other] * there
        for value in range(model.counts[site]):
            logits[value] += model.entries[place + value * model.stride[entry]]
    return choose_value(model, chain, site, x, u, logits)


sweep_factors = make_sweep(update_lanes, update_site)
step_factors = make_step(update_site)
