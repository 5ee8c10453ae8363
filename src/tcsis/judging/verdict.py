"""Can these draws be trusted?  One word and one sentence, from everything that is known.

Each check of ``tcsis.judging.checks`` looks at one kind of evidence.  The worst finding decides,
the first of equals; trusted draws are told all reasons for it.

Weighted draws get two answers, for two uses: what the states are worth as they come, and what
averages with their weights are worth.  Only draws that hold both ways are "trusted"; draws that
hold with their weights alone are "trusted by weight".
"""

from __future__ import annotations

from dataclasses import dataclass

from tcsis.draws import Draws
from tcsis.judging import weights
from tcsis.judging.as_drawn import check_as_drawn
from tcsis.judging.checks import (
    check_bracket,
    check_chains,
    check_exact,
    check_log_z,
    check_number,
    check_support,
    check_symmetry,
    check_weights,
)
from tcsis.judging.evaluation import Evaluation
from tcsis.judging.evidence import Evidence, gather
from tcsis.judging.findings import Finding, capitalised, combine, sentence
from tcsis.judging.reference import Reference
from tcsis.targets.base import Target

REMEDY = "use their weights, draws.resample() or model.chain()"


@dataclass(frozen=True)
class Verdict:
    """``level`` is "trusted", "trusted by weight", "doubtful" or "failed"; ``why`` says why.

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
    draws: Draws,
    target: Target,
    *,
    evaluation: Evaluation | None = None,
    bracket: weights.Bracket | None = None,
) -> Verdict:
    """Judge draws by exact answers, symmetry, weights, chains and their number.

    Weights are used where they are uneven and sound.  ``evaluation``, where it is at hand, is one
    of these draws, and says whether to judge them with their weights; ``bracket`` is one of
    ``tcsis.judging.weights``.
    """
    return weigh(gather(draws, Reference(target), evaluation), bracket)


def weigh(evidence: Evidence, bracket: weights.Bracket | None = None) -> Verdict:
    """The verdict on evidence that is at hand."""
    number, shifted = check_number(evidence), check_as_drawn(evidence)
    of_states = check_states(evidence, bracket)
    of_weights = [check_log_z(evidence), check_weights(evidence), check_support(evidence)]
    if not evidence.weighted and (evidence.trust is None or evidence.sound):
        only = combine([number, shifted, *of_states, *of_weights])
        return Verdict(only.level, sentence(only.why), spoken(only))
    drawn = evidence.as_drawn
    as_drawn = combine(
        [check_number(drawn), shifted, *check_states(drawn, bracket), check_support(drawn)]
    )
    # weights that are not sound answer for nothing
    by_weight = combine([number, *(of_states if evidence.weighted else []), *of_weights])
    level, why = conclude(as_drawn, by_weight, shifted, evidence.weighted)
    return Verdict(level, sentence(why), spoken(as_drawn), spoken(by_weight))


def check_states(evidence: Evidence, bracket: weights.Bracket | None) -> list[Finding | None]:
    """What the evaluation says, with weights or without."""
    against_exact = check_exact(evidence)
    return [
        check_symmetry(evidence),
        None if bracket is None else check_bracket(bracket),
        check_chains(evidence, against_exact),
        against_exact,
    ]


def conclude(
    as_drawn: Finding, by_weight: Finding, shifted: Finding | None, weighted: bool
) -> tuple[str, str]:
    """Both answers in one word and its reason.  The weights decide where averages are ``weighted``
    by them; where they are not sound, the worse of the two answers."""
    worse = as_drawn.worse_than(by_weight)
    if by_weight.level == "trusted" and worse:
        only = f"only with their weights: as they come, {as_drawn.why}; {REMEDY}"
        return "trusted by weight", f"{only}. {capitalised(by_weight.why)}"
    if by_weight.level == "trusted":
        plain = "" if shifted is None else f"; as they come, {shifted.why}"
        return "trusted", by_weight.why + plain
    if worse and not weighted:
        return as_drawn.level, f"as they come, {as_drawn.why}. {capitalised(by_weight.why)}"
    doubted = as_drawn.level != "trusted" and as_drawn.why != by_weight.why
    if worse or (doubted and not weighted):
        return by_weight.level, f"{by_weight.why}. As they come, {as_drawn.why}"
    return by_weight.level, by_weight.why


def spoken(finding: Finding) -> Finding:
    return Finding(finding.level, sentence(finding.why))
