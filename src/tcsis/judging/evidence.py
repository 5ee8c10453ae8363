"""What a verdict looks at: the draws, their errors, their weights, and what they are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from tcsis.draws import Draws
from tcsis.judging import weights
from tcsis.judging.beside import Weighted
from tcsis.judging.evaluation import Evaluation, evaluate_states, states_of
from tcsis.judging.reference import Reference, States
from tcsis.mcmc.diagnostics import (
    Diagnosis,
    Observable,
    are_chains,
    conclude,
    observe_chains,
    overlaps,
    projections,
)
from tcsis.targets.repeatable import check_repeatable

MIN_SEQUENCE, ALIKE = 100, 6.0
"""Draws from which on neighbours are compared, and how many standard errors their correlation may
have."""
MOST_KEPT = 20_000
"""States that are compared with a population, for the sake of memory."""


@dataclass(frozen=True)
class Evidence:
    """All that is known of one method's draws, gathered once.

    ``states`` are those of the draws, chains laid end to end; ``evaluation`` is the one to judge
    by, and ``weighted`` whether that uses the weights.  ``trust`` is in the weights;
    ``observables`` and ``diagnosis`` are of chains.  ``num_effective`` independent draws would
    tell as much, at least one.
    """

    draws: Draws
    states: States
    reference: Reference
    evaluation: Evaluation
    trust: weights.Trust | None
    observables: tuple[Observable, ...]
    diagnosis: Diagnosis | None
    num_effective: float

    @property
    def weighted(self) -> bool:
        return self.evaluation.weighted and self.evaluation.uneven

    @property
    def has_exact(self) -> bool:
        """Whether more than log Z and energy is known exactly."""
        return self.reference.states is not None

    @cached_property
    def kept(self) -> Weighted:
        """Some of the states, evenly chosen, with their weights; forbidden ones are left out."""
        log_p = torch.zeros(len(self.states), dtype=torch.float64)
        if self.weighted:
            log_p = weights.weights_of(self.draws).cpu()
        useful = (self.states.energies.isfinite() & log_p.isfinite()).nonzero().flatten()
        rows = useful[torch.linspace(0, len(useful) - 1, min(MOST_KEPT, len(useful))).long()]
        return Weighted(self.states.x[rows], log_p[rows].softmax(0), self.num_effective)

    @property
    def frozen(self) -> bool:
        return frozen(self.draws)

    @property
    def sound(self) -> bool:
        """Whether there are weights, and all is well with them."""
        return self.trust is not None and self.trust.trusted

    @property
    def repairable(self) -> bool:
        """Whether the evaluation leaves out sound weights, which would repair a bias of it."""
        return self.sound and self.evaluation.uneven and not self.evaluation.weighted

    @cached_property
    def unweighted(self) -> Evaluation:
        """The evaluation of the draws as they came."""
        if not self.evaluation.weighted:
            return self.evaluation
        return evaluate_states(self.states, self.draws.log_weight, self.reference, weighted=False)

    @property
    def as_drawn(self) -> Evidence:
        """The evidence on the draws as they came; weights speak for them only if they are sound."""
        return replace(
            self,
            evaluation=self.unweighted,
            trust=self.trust if self.sound else None,
            num_effective=count_effective(self.draws, False, self.observables),
        )


def gather(draws: Draws, reference: Reference, evaluation: Evaluation | None = None) -> Evidence:
    """The evidence on draws, by weight where the weights differ and are sound.  ``evaluation``,
    where it is at hand, is one of these draws, and says whether to go by weight."""
    target = reference.target
    states = states_of(draws, target)
    if target.opaque:
        check_repeatable(target, states.x)
    draws = in_order(draws, states)
    trust = None if draws.log_weight is None else weights.trust(draws)
    if evaluation is None:
        weighted = trust is not None and trust.trusted and has_uneven_weights(draws)
        evaluation = evaluate_states(states, draws.log_weight, reference, weighted=weighted)
    observables: tuple[Observable, ...] = ()
    diagnosis = None
    if are_chains(draws):
        energies = states.energies.reshape(draws.x.shape[:-1])
        observables = observe_chains(draws, target, energies)
        diagnosis = conclude(draws, target, observables)
    num_effective = count_effective(draws, evaluation.weighted and evaluation.uneven, observables)
    return Evidence(
        draws, states, reference, evaluation, trust, observables, diagnosis, num_effective
    )


def has_uneven_weights(draws: Draws) -> bool:
    log_weight = draws.log_weight
    return log_weight is not None and not bool((log_weight == log_weight.max()).all())


def in_order(draws: Draws, states: States) -> Draws:
    """Draws of which neighbours are alike, as one chain: so are chains that were laid end to end.
    Of independent ones a correlation is above the limit once in a hundred million times."""
    if draws.x.ndim != 2 or draws.log_weight is not None or len(draws) < MIN_SEQUENCE:
        return draws
    v, x = states.target.num_values, states.x
    series = torch.cat(
        [states.energies.double()[:, None], projections(x, v), overlaps(x, x[:1])], 1
    )  # (n, m)
    series = series[:, series.amax(0) - series.amin(0) > 1e-6]  # of what varies at all
    apart = series - series.mean(0)
    alike = (apart[1:] * apart[:-1]).sum(0) / apart.square().sum(0)
    return replace(draws, x=draws.x[None]) if bool((alike > ALIKE / len(x) ** 0.5).any()) else draws


def count_effective(draws: Draws, weighted: bool, observables: tuple[Observable, ...]) -> float:
    """How many independent draws are worth as much as weighted draws, or as chains."""
    n = min(draws.x.shape[:-1].numel(), draws.worth or math.inf)
    if weighted:
        assert draws.ess is not None
        return max(1.0, draws.ess * n)
    if not observables:  # of chains too short to tell each counts as one draw
        return float(n if draws.x.ndim == 2 else len(draws))
    if frozen(draws):
        return 1.0
    return max(1.0, min(n, *(min(row.ess_bulk, row.ess_tail) for row in observables)))


def frozen(draws: Draws) -> bool:
    """Whether no chain ever moved."""
    return not bool((draws.x != draws.x[:, :1]).any())
