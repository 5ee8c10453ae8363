"""Can these draws be trusted?  One word and one sentence, from everything that is known.

Each check of ``tcsis.judging.checks`` looks at one kind of evidence.  The worst finding decides,
the first of equals; trusted draws are told all reasons for it.

Weighted draws get two answers, for two uses: what the states are worth as they come, and what
averages with their weights are worth.  Only draws that hold both ways are "trusted"; draws that
hold with their weights alone are "trusted by weight".  Draws that nothing contradicts, where little
could, are "unrefuted".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tcsis.draws.reading import as_draws
from tcsis.judging import weights
from tcsis.judging.as_drawn import check_as_drawn
from tcsis.judging.checks import (
    check_bracket,
    check_chains,
    check_exact,
    check_fingerprint,
    check_forbidden,
    check_log_z,
    check_number,
    check_weights,
)
from tcsis.judging.conditionals import check_conditionals
from tcsis.judging.evaluation import Evaluation
from tcsis.judging.evidence import Evidence, gather
from tcsis.judging.findings import Finding, capitalised, combine, sentence
from tcsis.judging.models import check_model
from tcsis.judging.reference import Reference
from tcsis.judging.support import check_annealed, check_support
from tcsis.judging.symmetry import check_symmetry
from tcsis.targets.base import Target

MOSTLY = 0.5
"""Share of forbidden draws from which on their weights are no excuse."""
REMEDY = "use their weights, draws.resample() or model.chain()"
HOLDING = {"trusted": "trusted by weight", "unrefuted": "unrefuted"}
"""Answers that hold, and what they are called if they hold with weights alone."""


@dataclass(frozen=True)
class Verdict:
    """``level`` is "trusted", "trusted by weight", "unrefuted", "doubtful" or "failed"; ``why``
    says why.

    ``as_drawn`` is the answer for the states as they come and ``by_weight`` that for averages with
    their weights, None where there are no weights that differ.  "trusted" holds of both.
    """

    level: str
    why: str
    as_drawn: Finding
    by_weight: Finding | None = None

    def __str__(self) -> str:
        return f"{self.level}. {self.why}"


def judge(
    draws: Any,
    target: Target,
    *,
    model: weights.Weigher | None = None,
    evaluation: Evaluation | None = None,
    bracket: weights.Bracket | None = None,
) -> Verdict:
    """Judge draws by exact answers, symmetry, weights, chains, what each site does given the
    others, a population annealed for comparison where there are no exact answers, and their number.
    A log density that is no function of the state alone is refused.

    ``draws`` are ``Draws`` or anybody's, as ``tcsis.as_draws`` takes them.  A ``model`` that was
    trained for the target is a second opinion: both together bound log Z from both sides, and show
    modes that either misses.  Weights are used where they are uneven and sound.  ``evaluation``,
    where it is at hand, is one of these draws, and says whether to judge them with their weights;
    ``bracket`` is one of ``tcsis.judging.weights``.
    """
    evidence = gather(as_draws(draws, target), Reference(target), evaluation)
    return weigh(
        evidence,
        [
            None if bracket is None else check_bracket(bracket),
            None if model is None else check_model(evidence, model),
        ],
    )


def weigh(evidence: Evidence, more: Sequence[Finding | None] = ()) -> Verdict:
    """The verdict on evidence that is at hand, and on what else was found."""
    of_weights = [check_log_z(evidence), check_weights(evidence)]
    shifted = check_as_drawn(evidence)
    if not evidence.weighted and (evidence.trust is None or evidence.sound):
        only = combine([*check_states(evidence, more, 0.0, shifted), *of_weights, *last(evidence)])
        return Verdict(only.level, sentence(only.why), spoken(only))
    drawn = evidence.as_drawn
    as_drawn = combine([*check_states(drawn, more, 0.0, shifted), *last(drawn)])
    # weights that are not sound answer for nothing
    of_states = (
        check_states(evidence, more, MOSTLY, None)
        if evidence.weighted
        else [check_number(evidence), check_fingerprint(evidence)]
    )
    by_weight = combine([*of_states, *of_weights, *last(evidence)])
    level, why = conclude(as_drawn, by_weight, shifted, evidence.weighted)
    return Verdict(level, sentence(why), spoken(as_drawn), spoken(by_weight))


def check_states(
    evidence: Evidence,
    more: Sequence[Finding | None],
    most_forbidden: float,
    shifted: Finding | None,
) -> list[Finding | None]:
    """What the states say, with weights or without, and what is known of them besides."""
    against_exact = check_exact(evidence)
    return [
        check_number(evidence),
        check_fingerprint(evidence),
        check_forbidden(evidence, most_forbidden),
        shifted,
        check_symmetry(evidence),
        *more,
        check_chains(evidence, against_exact),
        against_exact,
        check_conditionals(evidence),
    ]


def last(evidence: Evidence) -> list[Finding | None]:
    """What speaks for the draws in the end."""
    return [check_annealed(evidence), check_support(evidence)]


def conclude(
    as_drawn: Finding, by_weight: Finding, shifted: Finding | None, weighted: bool
) -> tuple[str, str]:
    """Both answers in one word and its reason.  The weights decide where averages are ``weighted``
    by them; where they are not sound, the worse of the two answers."""
    worse = as_drawn.worse_than(by_weight)
    if by_weight.level in HOLDING and worse:
        only = f"only with their weights: as they come, {as_drawn.why}; {REMEDY}"
        return HOLDING[by_weight.level], f"{only}. {capitalised(by_weight.why)}"
    if by_weight.level in HOLDING:
        plain = "" if shifted is None else f"; as they come, {shifted.why}"
        return by_weight.level, by_weight.why + plain
    if worse and not weighted:
        return as_drawn.level, f"as they come, {as_drawn.why}. {capitalised(by_weight.why)}"
    doubted = as_drawn.level not in HOLDING and as_drawn.why != by_weight.why
    if worse or (doubted and not weighted):
        return by_weight.level, f"{by_weight.why}. As they come, {as_drawn.why}"
    return by_weight.level, by_weight.why


def spoken(finding: Finding) -> Finding:
    return Finding(finding.level, sentence(finding.why))
