"""Draws beside a trained model: log Z from both sides, and the modes that either misses.

    E_model[log w] <= log Z <= E_draws[log w],    w = p̄/q of the model,

where the left side holds for any model, and the right side for draws that follow the target.  What
the model misses of them has weights far above all that its own draws show.  What the draws miss of
the model shows in no weight, for log p̄ - log q of the states that are there is what it should be:
it shows where averages over the draws differ from those over the model's own, by weight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.basics.checks import make_generator
from tcsis.draws import Draws, systematic_resample
from tcsis.judging import weights
from tcsis.judging.beside import SMALL_GAP, Weighted, compare
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import (
    DOUBTFUL_CHANCE,
    SMALL_BIAS,
    Finding,
    grade_chance,
    percent,
)

NUM_DRAWS = 4_000
"""Of the model, and of the draws that it weighs."""
SEED = 5_051_989
"""Of these, one that nobody is likely to have drawn what is to be judged with."""


def check_model(evidence: Evidence, model: weights.Weigher) -> Finding | None:
    """A model without sound weights, or one that lacks what the draws have, says nothing of them,
    and that is said."""
    if evidence.evaluation.uneven and not evidence.weighted:
        return None  # draws whose weights are not sound are of no law that is known
    own, x = own_draws(evidence, model), reference_states(evidence)
    trust = weights.trust(own)
    if not trust.trusted:
        return Finding("trusted", f"though the model says nothing of them, for its {trust.why}")
    found = weights.bracket(own, weights.upper_bound(model, x, seed=SEED))
    if found.collapsed:
        missing = weights.name_modes(found.coverage)
        return Finding(
            "trusted",
            f"though the model reaches only {percent(found.coverage)} of them, {missing}, and says "
            "nothing of the rest",
        )
    return check_averages(evidence, own, found)


def own_draws(evidence: Evidence, model: weights.Weigher) -> Draws:
    """Of the model, once it is known to be of this target."""
    own = weights.check_weigher(model).sample(NUM_DRAWS, seed=SEED).signed(model.target)
    assert own.fingerprint is not None
    wrong = own.fingerprint.contradiction(evidence.reference.target, up_to_constant=False)
    if wrong is not None:
        raise ValueError(f"the draws of the model {wrong}: expected a model of this target")
    return own


def reference_states(evidence: Evidence) -> Tensor:
    """As many of the draws as are independent, up to ``NUM_DRAWS``, (n, d): evenly chosen, or by
    weight."""
    kept = evidence.kept
    n = max(1, min(NUM_DRAWS, len(kept.x), int(kept.num_effective)))
    if evidence.weighted:
        generator = make_generator(SEED, "reference states")
        return kept.x[systematic_resample(kept.p.log(), generator, n)]
    return kept.x[torch.linspace(0, len(kept.x) - 1, n).long()]


def check_averages(evidence: Evidence, own: Draws, bracket: weights.Bracket) -> Finding:
    """Averages over the draws beside those over the model's own."""
    assert own.weights is not None and own.ess is not None
    useful = own.weights.cpu() > 0
    beside = Weighted(
        own.x.cpu().long()[useful], own.weights.cpu()[useful], max(1.0, own.ess * len(own))
    )
    found = compare(evidence.kept, beside, evidence.reference.target)
    if found.chance < DOUBTFUL_CHANCE and found.bias >= SMALL_GAP:
        return Finding(
            grade_chance(found.chance),
            f"the {found.name} is {found.draws:.3g} in the draws and {found.other:.3g} by the "
            "weighted draws of the model, which has all that the draws have: they are wrong, or "
            "miss modes",
        )
    sides = f"log Z is above {bracket.elbo:.3f} by the model and below {bracket.eubo:.3f} by them"
    if bracket.elbo > bracket.eubo + SMALL_BIAS:
        return Finding("doubtful", f"{sides}, which cannot be: they are not from this target")
    return Finding("trusted", f"the model agrees ({sides})")
