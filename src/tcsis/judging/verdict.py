"""Can these draws be trusted?  One word and one sentence, from everything that is known.

Each check below looks at one kind of evidence and returns a finding, or None where it has nothing
to say.  The worst finding decides, the first of equals; trusted draws are told all reasons for it.

An error is measured in floors, the error that as many perfect draws would show on average.  One
floor of a mean is √(2/π) standard errors, so perfect draws exceed 4 floors (3.2 standard errors)
once in 700 for each independent observable, and 6 floors (4.8) once in a million.  With about four
independent observables a lattice gives fewer than one false "doubtful" in 100 sets of perfect
draws, and practically no false "failed".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.stats import binom

from tcsis.draws import Draws
from tcsis.judging import weights
from tcsis.judging.evaluation import Evaluation, Row
from tcsis.judging.evidence import Evidence, gather
from tcsis.judging.reference import Reference
from tcsis.mcmc.diagnostics import MAX_R_HAT
from tcsis.targets.base import Target

DOUBTFUL_FLOORS, FAILED_FLOORS = 4.0, 6.0
DOUBTFUL_SIGMAS, FAILED_SIGMAS = 3.2, 4.8
DOUBTFUL_CHANCE, FAILED_CHANCE = 1e-3, 1e-6

SMALL_BIAS = 0.05
"""In standard deviations of one draw: a smaller bias, though certain, is a doubt and no failure."""

ENOUGH = 1_000
"""Independent draws; with fewer, a bias of a tenth of a standard deviation may pass unseen."""

FAILED_R_HAT = 1.1
ROUNDING = 1e-5
LEVELS = ("trusted", "doubtful", "failed")


@dataclass(frozen=True)
class Verdict:
    """``level`` is "trusted", "doubtful" or "failed"; ``why`` is one plain sentence."""

    level: str
    why: str


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
    against_exact = check_exact(evidence)
    findings = [
        check_number(evidence),
        check_symmetry(evidence),
        None if bracket is None else check_bracket(bracket),
        check_chains(evidence, against_exact),
        against_exact,
        check_log_z(evidence),
        check_weights(evidence),
        check_support(evidence),
    ]
    return combine([finding for finding in findings if finding is not None])


def combine(findings: list[Verdict]) -> Verdict:
    """The worst finding as a sentence; all of them where all are good."""
    worst = max(findings, key=lambda finding: LEVELS.index(finding.level))
    why = worst.why
    if worst.level == "trusted":
        number, *reasons = (finding.why for finding in findings)
        why = f"{number}: {', '.join(reasons)}"
    return Verdict(worst.level, why[0].upper() + why[1:] + ".")


# -- the checks ----------------------------------------------------------------------------------


def check_number(evidence: Evidence) -> Verdict:
    n, worth = evidence.draws.x.shape[:-1].numel(), evidence.num_effective
    independent = "" if worth > 0.99 * n else f", worth {worth:,.0f} independent ones"
    if worth >= ENOUGH:
        return Verdict("trusted", f"{n:,} draws{independent}")
    room = DOUBTFUL_SIGMAS / math.sqrt(worth)
    needed = round_up(n * ENOUGH / worth)
    return Verdict(
        "doubtful",
        f"too few draws to tell: {n:,} draws{independent} would hide a bias of {room:.2g} standard "
        f"deviations, about {needed:,} are needed",
    )


def check_symmetry(evidence: Evidence) -> Verdict | None:
    """Where values can be exchanged, each leads in the same share of the draws."""
    target = evidence.reference.target
    symmetries, v = target.symmetries, target.num_values
    if not (symmetries.value_permutation or (symmetries.flip and v == 2)):
        return None
    shares = evidence.evaluation["modes"].estimate
    value = int(shares.argmax())
    largest = float(shares[value])
    n = max(1, round(evidence.num_effective))
    # as many draws or more with the same leader, any of the v values, if all are equally likely
    chance = min(1.0, v * float(binom.sf(math.ceil(largest * n - 0.5) - 1, n, 1 / v)))
    level = grade(-chance, -DOUBTFUL_CHANCE, -FAILED_CHANCE)
    if level == "trusted":
        balanced = Verdict(level, "the modes are as balanced as symmetry demands")
        return None if evidence.has_exact else balanced
    why = (
        f"value {value} leads in {largest:.0%} of the draws, "
        f"though the symmetry of the target makes it {1 / v:.0%}"
    )
    if float(shares.min()) < weights.MISSING / v:
        perplexity = float(torch.special.entr(shares).sum().exp())
        why += f": {weights.name_modes(perplexity / v)}"
    return Verdict(level, why)


def check_bracket(bracket: weights.Bracket) -> Verdict:
    if bracket.collapsed:
        return Verdict("failed", bracket.why)
    # by more than noise: the reference is not from this target, and shows nothing
    crossed = bracket.elbo > bracket.eubo + SMALL_BIAS
    return Verdict("doubtful" if crossed else "trusted", bracket.why)


def check_exact(evidence: Evidence) -> Verdict | None:
    """Every error in floors of as many independent draws as these are worth."""
    evaluation = evidence.evaluation
    if evaluation.method is None:
        return None
    widening = math.sqrt(evaluation.num_draws / evidence.num_effective)
    floors = {
        row.name: error_in_floors(row) / widening
        for row in evaluation.rows
        if row.error is not None
    }
    if not floors:
        return None
    name = max(floors, key=lambda name: floors[name])
    level = grade(floors[name], DOUBTFUL_FLOORS, FAILED_FLOORS)
    bias = floors[name] * math.sqrt(2 / (math.pi * evidence.num_effective))
    if level == "failed" and bias < SMALL_BIAS:
        level = "doubtful"
    row = evaluation[name]
    how = "with their weights " if evidence.weighted else ""
    if level == "trusted":
        return Verdict(
            level,
            f"{how}every observable agrees with its exact value (the worst, {name}, at "
            f"{floors[name]:.1f} times the error of perfect draws)",
        )
    times = f"{floors[name]:.1f} times" if math.isfinite(floors[name]) else "far above"
    return Verdict(
        level, f"{how}the error of the {name} is {row.error:.3g}, {times} that of perfect draws"
    )


def error_in_floors(row: Row) -> float:
    """What exceeds rounding, in floors; infinite where perfect draws never err."""
    assert row.error is not None and row.exact is not None
    excess = row.error - ROUNDING * (1 + float(row.exact.abs().max()))
    if excess <= 0 or row.floor is None:
        return 0.0
    return excess / row.floor if row.floor else math.inf


def check_log_z(evidence: Evidence) -> Verdict | None:
    draws, trust = evidence.draws, evidence.trust
    if trust is None or not trust.trusted or evidence.reference.truth is None:
        return None
    assert draws.log_z is not None and draws.log_z_error is not None
    truth = evidence.reference.truth.log_z
    gap = draws.log_z - truth
    error = draws.log_z_error + ROUNDING * (1 + abs(truth))
    level = grade(abs(gap) / error, DOUBTFUL_SIGMAS, FAILED_SIGMAS)
    if level == "trusted":
        within = f"within {abs(gap) / error:.1f} standard errors"
        return Verdict(level, f"log Z is {within if abs(gap) > error / 100 else 'exact'}")
    return Verdict(
        level,
        f"log Z from the weights is {draws.log_z:.3f} ± {draws.log_z_error:.2g} "
        f"where it is {truth:.3f}, off by {abs(gap) / error:.1f} standard errors",
    )


def check_weights(evidence: Evidence) -> Verdict | None:
    trust = evidence.trust
    if trust is None:
        return None
    if not trust.trusted:
        return Verdict("doubtful", trust.why)
    fitted = -math.inf < trust.pareto_k <= weights.MAX_PARETO_K  # not of nearly equal weights
    tail = f", Pareto k {trust.pareto_k:.2f}" if fitted else ""
    return Verdict("trusted", f"the weights are sound (ESS {trust.ess:.2f}{tail})")


def check_chains(evidence: Evidence, against_exact: Verdict | None) -> Verdict | None:
    """Chains that disagree have failed, unless all together agree with exact answers: then chains
    that nearly agree are trusted, and the others doubtful."""
    diagnosis = evidence.diagnosis
    if diagnosis is None:
        return None
    if evidence.frozen:
        return Verdict("failed", f"none of the {len(evidence.draws)} chains ever moved")
    r_hat = max(row.r_hat for row in evidence.observables)
    vouched = (
        evidence.has_exact
        and evidence.num_effective >= ENOUGH
        and against_exact is not None
        and against_exact.level == "trusted"
    )
    close = vouched and diagnosis.verdict == "not mixed" and r_hat <= FAILED_R_HAT
    if diagnosis.verdict == "mixed" or close:
        return Verdict("trusted", f"{len(evidence.draws)} chains agree (R-hat {r_hat:.3f})")
    level = "failed" if r_hat > FAILED_R_HAT and not vouched else "doubtful"
    if diagnosis.verdict == "stuck":
        return Verdict(level, f"the chains are stuck: {diagnosis.why} (R-hat {r_hat:.3f})")
    return Verdict(
        level,
        f"the chains have not mixed: {diagnosis.why}, where R-hat should be at most {MAX_R_HAT}",
    )


def check_support(evidence: Evidence) -> Verdict | None:
    """Something must speak for the draws, and what it cannot see must be said."""
    if evidence.has_exact:
        return None
    several = bool(evidence.observables) and len(evidence.draws) > 1
    if not several and evidence.trust is None:
        energy = "only their energy can be compared with an exact value"
        nothing = "the target is too large for exact answers"
        known = nothing if evidence.evaluation.method is None else energy
        return Verdict(
            "doubtful",
            f"{known}, and there are neither weights nor several chains, so nothing shows "
            "whether these draws are right",
        )
    return Verdict(
        "trusted", "though without exact answers a mode that no draw has visited stays unseen"
    )


def grade(value: float, doubtful: float, failed: float) -> str:
    """The level of a value that should be small."""
    if value > failed:
        return "failed"
    return "doubtful" if not value <= doubtful else "trusted"


def round_up(n: float) -> int:
    """To one digit: 1,234 -> 2,000."""
    place = 10 ** math.floor(math.log10(n))
    return math.ceil(n / place - 1e-9) * place
