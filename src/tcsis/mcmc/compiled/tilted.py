"""Heat-bath sweeps with a field of its own for every chain: p̄(x)^scale·exp(Σ_i fields_c[i, x_i]).

With fields log k_t(x_t^i | v) this is the posterior of x_0 given x_t, which walkers follow.  As in
``odds`` and ``values``, logarithms come in base 2.  An infinite field holds a site at a value.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32
from numpy.typing import ArrayLike

from tcsis.mcmc.compiled import factors, values
from tcsis.mcmc.compiled import odds as spins
from tcsis.mcmc.compiled.arrays import Bytes, Counts, Singles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.factors import FactorArrays
from tcsis.mcmc.compiled.lanes import WIDTH, in_blocks
from tcsis.mcmc.compiled.moves import Arrays, check, run
from tcsis.mcmc.compiled.skeleton import make_block_sweep

find_odds, gibbs_spins = spins.find_odds, spins.gibbs_lanes
draw_lanes, set_lanes = values.draw_lanes, values.set_lanes

LOG2_E = 1 / math.log(2)
UNSCALED = np.ones((1, WIDTH), np.float32)


class TiltedModel(NamedTuple):
    """``tilt`` is what the fields add, (blocks, d, WIDTH) or (blocks, d, v, WIDTH)."""

    untilted: spins.OddsModel | values.ValueModel | factors.FactorModel
    tilt: Singles
    rows: int


def sweep_tilted(
    model: Arrays,
    x: Bytes,
    streams: Words,
    num_sweeps: int,
    fields: Singles,
    scale: ArrayLike = 1.0,
) -> Counts:
    """Update the sites in order 0..d-1, ``num_sweeps`` times, by the heat bath, chain c in the
    fields (chains, d, v) of its own; the number of changes, (chains,)."""
    scales = check(model, x, streams, scale)
    if fields.shape != (*x.shape, model.num_values):
        raise ValueError(
            f"fields has shape {fields.shape}: expected {(*x.shape, model.num_values)}, one field "
            "for each value of each site of each chain"
        )
    fields = fields.astype(np.float32) * float32(LOG2_E)
    if isinstance(model, FactorArrays):
        felt = factors.factor_model(model, True, scales)
        tilted = TiltedModel(felt, in_blocks(fields), felt.rows)
        return run(sweep_tilted_factors, x, streams, num_sweeps, x.shape[1], tilted)[0]
    if model.num_values == 2:
        tilt = in_blocks(fields[..., 1] - fields[..., 0])
        odds = spins.odds_model(model, True, scales)
        tilted = TiltedModel(odds, tilt, odds.rows)
        return run(sweep_tilted_spins, x, streams, num_sweeps, x.shape[1], tilted)[0]
    logits = values.value_model(model, True, scales)
    tilted = TiltedModel(logits, in_blocks(fields), logits.rows)
    return run(sweep_tilted_values, x, streams, num_sweeps, x.shape[1], tilted)[0]


@jit(forceinline=True)
def update_spins(
    model: Any, block: int, site: int, lanes: Bytes, u: Words,
    recent: Bytes, drawn: Any, odds: Singles,
) -> None:  # fmt: skip
    """V = 2: tilt (blocks, d, WIDTH) is what the fields add to the log-odds of value 1."""
    find_odds(model.untilted, site, lanes, odds)
    for lane in range(WIDTH):
        scaled = odds[0, lane] * model.untilted.scale[block, lane]
        odds[0, lane] = scaled + model.tilt[block, site, lane]
    gibbs_spins(site, lanes, odds, UNSCALED, 0, u, recent)


def over_values(find_logits: Any) -> Any:
    """Updates of one site in all lanes: tilt (blocks, d, v, WIDTH) is the fields."""

    @jit(forceinline=True)
    def update_values(
        model: Any, block: int, site: int, lanes: Bytes, u: Words,
        recent: Bytes, drawn: Bytes, logits: Singles,
    ) -> None:  # fmt: skip
        find_logits(model.untilted, site, lanes, logits)
        for value in range(model.tilt.shape[2]):
            for lane in range(WIDTH):
                scaled = logits[value, lane] * model.untilted.scale[block, lane]
                logits[value, lane] = scaled + model.tilt[block, site, value, lane]
        draw_lanes(site, logits, UNSCALED, 0, u, drawn)
        set_lanes(site, lanes, drawn, recent)

    return update_values


sweep_tilted_spins = make_block_sweep(update_spins)
sweep_tilted_values = make_block_sweep(over_values(values.find_logits))
sweep_tilted_factors = make_block_sweep(over_values(factors.find_logits))
