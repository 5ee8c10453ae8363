"""Single-site updates for V = 2 where all couplings have one strength: probabilities from a table.

With Δ = scale·(log p̄ after flipping site i - log p̄), a flip has probability σ(Δ) by the Gibbs rule
and min(1, e^Δ) by the Metropolis rule.  Here Δ follows from a small integer,

    code = number of bonds of i that are not satisfied + stride·x_i,

with stride = 0 where no site has a field of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.tuple import tuple_setitem
from numpy import uint8
from scipy.special import expit

from tcsis.mcmc.compiled.arrays import Bytes, Ints, PairwiseArrays, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.lanes import CHUNK, WIDTH
from tcsis.mcmc.compiled.random import thresholds
from tcsis.mcmc.compiled.skeleton import make_step, make_sweep

MAX_CODES = 14
MAX_CLASSES = 64
"""Larger tables are slower than computing the probabilities."""


class TableModel(NamedTuple):
    """Rows of ``neighbours`` and ``opposite``, (d, g), are filled up with the site itself, which
    never disagrees.  ``table`` (classes, codes) holds the threshold of a flip by class of site and
    code.  ``slots`` and ``codes`` are there for their lengths, g and the number of codes: loops
    over a length that the compiler knows are unrolled, and that is most of the speed."""

    neighbours: Ints
    opposite: Bytes
    site_class: Ints
    table: Words
    stride: np.uint8
    slots: tuple[int, ...]
    codes: tuple[np.uint32, ...]
    rows: int = 0


def table_model(model: PairwiseArrays, gibbs: bool, scale: float) -> TableModel | None:
    """The table at one scale, or None where there is none or only a large one."""
    strengths, _ = model.levels
    classes, site_class = model.site_classes
    if len(strengths) > 1 or len(classes) > MAX_CLASSES:
        return None
    neighbours, opposite = model.padded_neighbours
    spins, per_spin = (-1, 1) if model.has_fields else (0,), neighbours.shape[1] + 1
    if per_spin * len(spins) > MAX_CODES:
        return None
    degree, field = classes.T[:, :, None]  # (classes, 1)
    gain = strengths.sum() * (2 * np.arange(per_spin) - degree)  # (classes, codes of one spin)
    log_ratio = scale * np.concatenate([gain - spin * field for spin in spins], axis=1)
    table = thresholds(expit(log_ratio) if gibbs else np.exp(np.minimum(log_ratio, 0)))
    return TableModel(
        neighbours, opposite, site_class, table, np.uint8(per_spin if model.has_fields else 0),
        (0,) * neighbours.shape[1], tuple(table[0]),
    )  # fmt: skip


@jit(forceinline=True)
def flip_lanes(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, code: Bytes, work: Any,
) -> None:  # fmt: skip
    """Looking up row[code] by comparing with every code is faster than an indexed load."""
    _find_codes(model, site, lanes, code)
    row = _table_row(model, site)
    for lane in range(WIDTH):
        threshold = row[0]
        for m in range(1, len(row)):
            threshold = row[m] if code[lane] == uint8(m) else threshold
        flip = uint8(u[site % CHUNK, lane] < threshold)
        lanes[site, lane] = uint8(lanes[site, lane] ^ flip)
        recent[lane] = uint8(recent[lane] + flip)


@jit(forceinline=True)
def _find_codes(model: Any, site: int, lanes: Bytes, code: Bytes) -> None:
    for lane in range(WIDTH):
        code[lane] = uint8(lanes[site, lane] * model.stride)
    for slot in range(len(model.slots)):
        other, opposite = model.neighbours[site, slot], model.opposite[site, slot]
        for lane in range(WIDTH):
            differs = uint8(lanes[other, lane] ^ lanes[site, lane])
            code[lane] = uint8(code[lane] + uint8(differs ^ opposite))


@jit(forceinline=True)
def _table_row(model: Any, site: int) -> Any:
    """The thresholds of a site as a tuple, which stays in registers throughout a lane loop."""
    row = model.codes
    for code in range(len(row)):
        threshold = model.table[model.site_class[site], code]
        # an intrinsic: the compiler itself supplies the first argument that its type names
        row = tuple_setitem(row, code, threshold)  # type: ignore[call-arg]
    return row


@jit(forceinline=True)
def flip_site(model: Any, chain: int, site: int, x: Bytes, u: Any, work: Any) -> Any:
    value = x[chain, site]
    code = value * model.stride
    for slot in range(len(model.slots)):
        code += (x[chain, model.neighbours[site, slot]] ^ value) ^ model.opposite[site, slot]
    if u < model.table[model.site_class[site], code]:
        x[chain, site] = uint8(1) - value
        return 1
    return 0


sweep_table = make_sweep(flip_lanes, flip_site)
step_table = make_step(flip_site)
