"""What speaks for draws that have no exact answers beside them, and what nothing could show.

Draws that nothing contradicts are trusted only where something could have: the exact log Z beside
that of sound weights, which a missing mode lowers, or a population annealed for comparison.  Else
they are "unrefuted".  So are, at best, draws of a black box: one state that nobody has met may hold
most of the probability.
"""

from __future__ import annotations

import math

from tcsis.judging.annealed import Annealed
from tcsis.judging.beside import SMALL_GAP, compare
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import DOUBTFUL_CHANCE, Finding

SMALL_ERROR = 0.02
"""Of log Z: with a larger one a mode of a tenth of the probability could be missing."""
MOST_SIGMAS, SMALL_SHIFT = 3.5, 0.1
"""Of two estimates of log Z, from which on they disagree, and what does not matter."""


def check_annealed(evidence: Evidence) -> Finding | None:
    """The draws beside a population that had no part in them, where that speaks for the target."""
    other = None if evidence.has_exact else evidence.reference.annealed
    if other is None or not other.sound:
        return None
    found = compare(evidence.kept, other, evidence.reference.target)
    if found.chance < DOUBTFUL_CHANCE and found.bias >= SMALL_GAP:
        return Finding(
            "doubtful",
            f"the {found.name} is {found.draws:.3g} in the draws and {found.other:.3g} in a "
            "population annealed for comparison, which is more than chance: one of the two misses "
            "modes or has them in wrong shares",
        )
    return check_two_log_z(evidence, other) or Finding(
        "trusted", "a population annealed for comparison agrees"
    )


def check_two_log_z(evidence: Evidence, other: Annealed) -> Finding | None:
    """Weights whose log Z lies below the annealed one have missed what annealing has met."""
    draws = evidence.draws
    if draws.log_z is None or draws.log_z_error is None or other.log_z is None:
        return None
    if not evidence.sound:
        return None
    gap = draws.log_z - other.log_z
    error = math.hypot(draws.log_z_error, other.log_z_error)
    if abs(gap) <= max(SMALL_SHIFT, MOST_SIGMAS * error):
        return None
    which = "so the draws may miss modes" if gap < 0 else "so one of the two is wrong"
    return Finding(
        "doubtful",
        f"log Z from the weights is {draws.log_z:.3f} ± {draws.log_z_error:.2g}, and "
        f"{other.log_z:.3f} ± {other.log_z_error:.2g} by annealing, {which}",
    )


def check_support(evidence: Evidence) -> Finding | None:
    """Something must speak for the draws, and what it cannot see must be said."""
    if evidence.has_exact:
        return None
    target = evidence.reference.target
    if has_exact_log_z(evidence):
        return Finding("trusted", "its being exact shows that no mode is missing")
    if target.opaque:
        size = f"{target.num_values}^{len(target.free_sites)}"
        return Finding(
            "unrefuted",
            f"the target is a black box of {size} states: a narrow mode that no draw has met would "
            "stay unseen",
        )
    other = evidence.reference.annealed
    if other is None:
        return Finding(
            "unrefuted",
            "there are no exact answers, and annealing for comparison would take too long: a mode "
            "that no draw has met would stay unseen",
        )
    if not other.sound:
        return Finding(
            "unrefuted",
            "there are no exact answers, and a population annealed for comparison kept only "
            f"{other.num_families:.0f} families, too few to speak for the target: modes that no "
            "draw has met, or wrong shares of modes, would stay unseen",
        )
    if not other.at_rest:
        return Finding(
            "unrefuted",
            "there are no exact answers, and a population annealed for comparison had not come to "
            "rest: modes that no draw has met, or wrong shares of modes, would stay unseen",
        )
    return Finding("trusted", "though without exact answers a mode that both miss stays unseen")


def has_exact_log_z(evidence: Evidence) -> bool:
    """Whether sound weights give log Z so closely that its exact value speaks for the draws."""
    error = evidence.draws.log_z_error
    known = evidence.reference.truth is not None and evidence.sound
    return known and error is not None and error <= SMALL_ERROR
