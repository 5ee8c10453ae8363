"""Is log p̄ a function of the state alone?

A network that was left in training mode, noise, or statistics of the batch give the same state
another value at another time or in other company.  Weights, log Z and every verdict are then of no
distribution at all, and nothing in them shows it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.targets.base import Target

NUM_PROBES = 16


def check_repeatable(target: Target, x: Tensor) -> None:
    """Evaluate states x (n, d), some of them if they are many, again: once more as they are, in
    another order, in two halves, and one alone; and refuse a log density that differs, naming the
    state and both values."""
    rows = torch.linspace(0, len(x) - 1, min(NUM_PROBES, len(x))).long()
    x = target.check(x[rows].to(target.device))
    first = target.log_density(x).double()
    order = torch.arange(len(x) - 1, -1, -1, device=x.device)
    half = (len(x) + 1) // 2
    for part in (
        torch.arange(len(x), device=x.device),
        order,
        order[:half],
        order[half:],
        order[:1],
    ):
        if not len(part):
            continue
        again = target.log_density(x[part]).double()
        tolerance = target.rounding * (1 + again.abs())
        differs = (again != first[part]) & ~((again - first[part]).abs() <= tolerance)
        if bool(differs.any()):
            row = int(part[int(differs.nonzero()[0])])
            now = float(again[int(differs.nonzero()[0])])
            raise ValueError(
                f"log_density gives {float(first[row]):.9g} and then {now:.9g} at the same state "
                f"{x[row].tolist()}: expected a function of the state alone; switch off dropout "
                "(model.eval()), noise, and whatever depends on the other states of a batch"
            )
