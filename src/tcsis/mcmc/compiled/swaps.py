"""Swaps between the copies of a chain at neighbouring scales of a ladder.

Copies trade scales and stay where they are: ``rows`` (chains, copies) says which state is at each
scale.  With i < j neighbours on the ladder, a swap has probability

    min(1, exp((λ_i - λ_j)·(log p̄(x_j) - log p̄(x_i)))),

which leaves the product of all p̄^λ invariant.
"""

from __future__ import annotations

import math

from tcsis.mcmc.compiled.arrays import Counts, Doubles, Words
from tcsis.mcmc.compiled.cache import jit
from tcsis.mcmc.compiled.random import UNIT, advance, load_stream, store_stream


@jit(nogil=True)
def swap_neighbours(
    first: int, ladder: Doubles, log_density: Doubles, rows: Counts, streams: Words
) -> int:
    """Swap scales first and first + 1, first + 2 and first + 3, ... of every chain, and return how
    many swaps were accepted.  ``log_density`` (states,) is not tempered; ``rows`` and ``streams``
    (4, chains) change in place."""
    accepted = 0
    for chain in range(len(rows)):
        state = load_stream(streams, chain)
        for low in range(first, len(ladder) - 1, 2):
            hot, cold = rows[chain, low], rows[chain, low + 1]
            gain = log_density[cold] - log_density[hot]
            log_ratio = (ladder[low] - ladder[low + 1]) * gain
            u, state = advance(state)
            # not a number where both are forbidden: they stay
            if log_ratio >= 0 or (u + 0.5) / UNIT < math.exp(log_ratio):
                rows[chain, low], rows[chain, low + 1] = cold, hot
                accepted += 1
        store_stream(state, streams, chain)
    return accepted
