"""The objective that looks at both sides: states of the buffer, and draws of the model's own.

    S = half the mean squared distance of gaps log p̄ - log q from their centre          over both
    C = cross-entropy with the identity's conditionals p(x_k | all other sites)      over the buffer
    L = S + min(1, S)·C

Own draws show mass that the target does not have; the cross-entropy, for x from p -E_p[log q] but
for a constant, has its least value where q = p and nowhere else.  Its noise goes as S does.

The sites of the last class are summed out of p̄ (``tcsis.learn.models.last``).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from tcsis.learn.models.last import complete
from tcsis.mcmc.kernel import decide
from tcsis.targets.base import Target

MOST_GAP = 8.0
"""Log weights are cut at this distance from their centre: e^8 is as good as never or always."""
NUM_CENTRED = 4
"""Rounds in which the centre of cut gaps is found."""
MOST_DENSITIES, FEWEST = 2**15, 8
"""Evaluations of a black box that the conditionals of a batch may cost, and the fewest states that
are asked for them."""

# -- what is minimised ----------------------------------------------------------------------------


def together(parts: Tensor, entropy: Tensor) -> Tensor:
    """S + min(1, S)·C from what every state adds to S, (b,), and C."""
    return parts.mean() + parts.detach().mean().clamp_max(1.0) * entropy


def spread_parts(gap: Tensor, log_q: Tensor) -> Tensor:
    """What every state adds to the spread of gaps log p̄ - log q, (b, ...) -> (b, ...): half the
    square of its distance from the centre, along the first axis, and linear in it beyond
    ``MOST_GAP``.  A forbidden state counts as just beyond, and pulls at log q (b, ...) with
    ``MOST_GAP`` and no more."""
    with torch.no_grad():
        centre = gap.where(gap.isfinite(), torch.nan).nanmedian(0).values.nan_to_num()
        for _ in range(NUM_CENTRED):
            centre = centre + (gap - centre).clamp(-MOST_GAP, MOST_GAP).mean(0)
        beyond = centre - MOST_GAP + log_q
    gap = torch.where(gap.isneginf(), beyond - log_q, gap)
    return huber_loss(gap, centre.expand_as(gap), delta=MOST_GAP, reduction="none")


def num_compared(target: Target, n: int) -> int:
    """Of n states, how many are asked for the conditionals of all their sites."""
    return max(FEWEST, min(n, int(MOST_DENSITIES / target.ratios_cost)))


def exchanged(
    target: Target, x: Tensor, y: Tensor, gap: Tensor, last: Tensor | None,
    generator: torch.Generator,
) -> Tensor:  # fmt: skip
    """Independence Metropolis: y (b, d), drawn from q, replaces x with probability
    min(1, w(y)/w(x)), which leaves p invariant whatever q is; ``gap`` (2b,) holds the log weights
    of x and of y.  The last class of y is drawn where it is taken."""
    log_w, log_w_new = gap.chunk(2)
    accepted = decide((log_w_new - log_w).clamp_max(0).where(~log_w.isneginf(), 0.0), generator)
    rows = (accepted & ~log_w_new.isneginf()).nonzero().squeeze(1)
    return x.index_copy(0, rows, complete(target, y[rows], last, generator)[0]) if len(rows) else x
