"""The log weights of draws as a histogram, with the shares of its tails."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from tcsis.app.results import Histogram, LogWeights
from tcsis.judging import metrics, weights
from tcsis.judging.evidence import Evidence

NUM_BINS = 40
LOWEST = -20.0
"""In log w - log Ẑ: what lies below is counted in the first bin."""
NARROWEST = 0.1
"""Width of all bins together."""


def weight_bins(found: Iterable[Evidence]) -> Tensor | None:
    """Edges of bins for all methods whose weights differ, (NUM_BINS + 1,), or None."""
    parts = [excess(evidence) for evidence in found if has_histogram(evidence)]
    if not parts:
        return None
    every = torch.cat(parts)
    low, high = max(LOWEST, float(every.min())), float(every.max())
    narrow = max(0.0, NARROWEST - (high - low)) / 2
    low, high = low - narrow, high + narrow
    return torch.linspace(low, high, NUM_BINS + 1, dtype=torch.float64)


def count_weights(evidence: Evidence, edges: Tensor | None) -> LogWeights | None:
    if edges is None or not has_histogram(evidence):
        return None
    log_weight = weights.weights_of(evidence.draws)
    drawn = excess(evidence)
    allowed = len(drawn) / len(log_weight)
    shares = allowed * metrics.histogram(torch.searchsorted(edges[1:-1], drawn), len(edges) - 1)
    return LogWeights(
        histogram=Histogram(
            values=((edges[1:] + edges[:-1]) / 2).tolist(), probabilities=shares.tolist()
        ),
        leak=weights.leak(log_weight),
        forbidden=weights.forbidden(log_weight),
    )


def has_histogram(evidence: Evidence) -> bool:
    return evidence.evaluation.uneven and len(excess(evidence)) > 0


def excess(evidence: Evidence) -> Tensor:
    """log w - log Ẑ of the draws that are not forbidden, (n,)."""
    log_weight = weights.weights_of(evidence.draws).cpu()
    log_z = log_weight.logsumexp(0) - math.log(len(log_weight))
    return log_weight[log_weight > -math.inf] - log_z
