"""What each kind of evidence says of draws: a finding, or None where it has nothing to say.

An error is measured in floors, the error that as many perfect draws would show on average.  One
floor of a mean is √(2/π) standard errors, so perfect draws exceed 4 floors (3.2 standard errors)
once in 700 for each independent observable, and 6 floors (4.8) once in a million.  With about four
independent observables a lattice gives fewer than one false "doubtful" in 100 sets of perfect
draws, and practically no false "failed".
"""

from __future__ import annotations

import math

from tcsis.judging import weights
from tcsis.judging.evaluation import Row
from tcsis.judging.evidence import Evidence
from tcsis.judging.findings import SMALL_BIAS, Finding, grade, milder, percent
from tcsis.mcmc.diagnostics import shown

DOUBTFUL_FLOORS, FAILED_FLOORS = 4.0, 6.0
DOUBTFUL_SIGMAS, FAILED_SIGMAS = 3.2, 4.8

ENOUGH = 1_000
"""Independent draws; with fewer, a bias of a tenth of a standard deviation may pass unseen."""

FAILED_R_HAT = 1.1
ROUNDING = 1e-5


def check_fingerprint(evidence: Evidence) -> Finding | None:
    """Draws that say which target they are of must be of this one."""
    made_for = evidence.draws.fingerprint
    if made_for is None:
        return None
    unweighted = evidence.draws.log_weight is None
    found = made_for.contradiction(evidence.reference.target, up_to_constant=unweighted)
    return None if found is None else Finding("failed", f"these draws {found}")


def check_forbidden(evidence: Evidence, least: float = 0.0) -> Finding | None:
    """States of probability zero, more than a share of ``least``: their mean energy is infinite,
    however few they are."""
    forbidden = evidence.states.energies == math.inf
    count, n = int(forbidden.sum()), len(forbidden)
    if count <= least * n:
        return None
    why = f"{count:,} of {n:,} draws ({percent(count / n)}) are states that the target forbids"
    return Finding("failed", why)


def check_number(evidence: Evidence) -> Finding:
    n, worth = evidence.draws.x.shape[:-1].numel(), evidence.num_effective
    independent = "" if worth > 0.99 * n else f", worth {worth:,.0f} independent ones"
    if worth >= ENOUGH:
        return Finding("trusted", f"{n:,} draws{independent}")
    room = DOUBTFUL_SIGMAS / math.sqrt(worth)
    needed = round_up(n * ENOUGH / worth)
    many = f"{n:,} draws" if n > 1 else "one draw"
    return Finding(
        "doubtful",
        f"too few draws to tell: {many}{independent} would hide a bias of {room:.2g} standard "
        f"deviations, about {needed:,} are needed",
    )


def check_bracket(bracket: weights.Bracket) -> Finding:
    if bracket.collapsed:
        return Finding("failed", bracket.why)
    # by more than noise: the reference is not from this target, and shows nothing
    crossed = bracket.elbo > bracket.eubo + SMALL_BIAS
    return Finding("doubtful" if crossed else "trusted", bracket.why)


def check_exact(evidence: Evidence) -> Finding | None:
    """Every error in floors of as many independent draws as these are worth."""
    evaluation = evidence.evaluation
    if evaluation.method is None:
        return None
    widening = math.sqrt(evaluation.num_draws / evidence.num_effective)
    floors = {
        row.name: error_in_floors(row, rounding(evidence)) / widening
        for row in evaluation.rows
        if row.error is not None
    }
    if not floors:
        return None
    name = max(floors, key=lambda name: floors[name])
    level = grade(floors[name], DOUBTFUL_FLOORS, FAILED_FLOORS)
    bias = floors[name] * math.sqrt(2 / (math.pi * evidence.num_effective))
    if bias < SMALL_BIAS:
        level = "trusted" if evidence.repairable else milder(level, "doubtful")
    row = evaluation[name]
    how = "with their weights " if evidence.weighted else ""
    if level == "trusted" and floors[name] > DOUBTFUL_FLOORS:
        return Finding(level, f"no observable is off by more than {bias:.1g} standard deviations")
    if level == "trusted":
        whole = "every observable agrees with its exact value"
        part = f"what is known exactly ({', '.join(floors)}) agrees"
        return Finding(
            level,
            f"{how}{whole if evidence.has_exact else part} (the worst, {name}, at "
            f"{floors[name]:.1f} times the error of perfect draws)",
        )
    times = f"{floors[name]:.1f} times" if math.isfinite(floors[name]) else "far above"
    return Finding(
        level, f"{how}the error of the {name} is {row.error:.3g}, {times} that of perfect draws"
    )


def rounding(evidence: Evidence) -> float:
    """Of averages, relative to 1 + their size: little for targets in double precision, which large
    constants ask for."""
    return min(ROUNDING, evidence.reference.target.rounding)


def error_in_floors(row: Row, rounding: float) -> float:
    """What exceeds rounding, in floors; infinite where perfect draws never err."""
    assert row.error is not None and row.exact is not None
    excess = row.error - rounding * (1 + float(row.exact.abs().max()))
    if excess <= 0 or row.floor is None:
        return 0.0
    return excess / row.floor if row.floor else math.inf


def check_log_z(evidence: Evidence) -> Finding | None:
    draws, trust = evidence.draws, evidence.trust
    if trust is None or not trust.trusted or evidence.reference.truth is None:
        return None
    if evidence.num_effective < weights.FEWEST:  # an error of so few is none
        return None
    assert draws.log_z is not None and draws.log_z_error is not None
    truth = evidence.reference.truth.log_z
    gap = draws.log_z - truth
    error = draws.log_z_error + rounding(evidence) * (1 + abs(truth))
    level = grade(abs(gap) / error, DOUBTFUL_SIGMAS, FAILED_SIGMAS)
    if level == "trusted":
        within = f"within {abs(gap) / error:.1f} standard errors"
        return Finding(level, f"log Z is {within if abs(gap) > error / 100 else 'exact'}")
    return Finding(
        level,
        f"log Z from the weights is {draws.log_z:.3f} ± {draws.log_z_error:.2g} "
        f"where it is {truth:.3f}, off by {abs(gap) / error:.1f} standard errors",
    )


def check_weights(evidence: Evidence) -> Finding | None:
    trust = evidence.trust
    if trust is None:
        return None
    if not trust.trusted:
        log_weight = weights.weights_of(evidence.draws)
        share = weights.leak(log_weight) - weights.forbidden(log_weight)
        leaks = f"; by these weights {percent(share)} of the draws leak" if share > 0 else ""
        return Finding("doubtful", trust.why + leaks)
    fitted = -math.inf < trust.pareto_k <= weights.MAX_PARETO_K  # not of nearly equal weights
    tail = f", Pareto k {trust.pareto_k:.2f}" if fitted else ""
    return Finding("trusted", f"the weights are sound (ESS {trust.ess:.2f}{tail})")


def check_chains(evidence: Evidence, against_exact: Finding | None) -> Finding | None:
    """Chains that disagree have failed, unless all together agree with exact answers: then chains
    that nearly agree are trusted, and the others doubtful."""
    diagnosis = evidence.diagnosis
    if diagnosis is None:
        return check_short_chains(evidence)
    if evidence.frozen:
        return Finding("failed", standing(len(evidence.draws)))
    r_hat = max(row.r_hat for row in evidence.observables)
    vouched = (
        evidence.has_exact
        and evidence.num_effective >= ENOUGH
        and against_exact is not None
        and against_exact.level == "trusted"
    )
    if diagnosis.verdict == "mixed":
        return Finding("trusted", f"{agreeing(len(evidence.draws))} (R-hat {shown(r_hat)})")
    if vouched and diagnosis.verdict == "not mixed" and r_hat <= FAILED_R_HAT:
        return Finding(
            "trusted",
            f"though the chains have not quite mixed (R-hat {shown(r_hat)}, at most "
            f"{diagnosis.limit:.3f} is good), all together are right",
        )
    level = "failed" if r_hat > FAILED_R_HAT and not vouched else "doubtful"
    if diagnosis.verdict == "stuck":
        return Finding(level, f"the chains are stuck: {diagnosis.why} (R-hat {shown(r_hat)})")
    return Finding(
        level,
        f"the chains have not mixed: {diagnosis.why}, where R-hat should be at most "
        f"{diagnosis.limit:.3f}",
    )


def check_short_chains(evidence: Evidence) -> Finding | None:
    """Chains too short for R-hat, which count as one draw each."""
    if evidence.draws.x.ndim != 3 or evidence.draws.x.shape[1] == 1:
        return None
    num_chains, num_draws = evidence.draws.x.shape[:2]
    few = f"{num_draws} draws are too few of a chain to show whether it has arrived"
    level = "trusted" if evidence.has_exact else "doubtful"
    return Finding(level, f"{few}, so each of the {num_chains:,} chains counts as one draw")


def standing(num_chains: int) -> str:
    several = f"none of the {num_chains} chains ever moved"
    return several if num_chains > 1 else "the one chain never moved"


def agreeing(num_chains: int) -> str:
    return f"{num_chains} chains agree" if num_chains > 1 else "the parts of the one chain agree"


def round_up(n: float) -> int:
    """To one digit: 1,234 -> 2,000."""
    place = 10 ** math.floor(math.log10(n))
    return math.ceil(n / place - 1e-9) * place
