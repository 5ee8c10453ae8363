"""What a verdict looks at: the draws, their errors, their weights, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass

from tcsis.draws import Draws
from tcsis.judging import weights
from tcsis.judging.evaluation import Evaluation
from tcsis.mcmc.diagnostics import MIN_DRAWS, Observable, observe, order_parameter
from tcsis.targets.base import Target


@dataclass(frozen=True)
class Evidence:
    """Draws with an evaluation of them, the trust in their weights and the R-hats of their chains,
    where there are any.  ``num_effective`` independent draws would tell as much."""

    draws: Draws
    target: Target
    evaluation: Evaluation
    trust: weights.Trust | None
    observables: tuple[Observable, ...]
    num_effective: float

    @property
    def has_exact(self) -> bool:
        """Whether more than log Z and energy is known exactly."""
        return self.evaluation.method not in (None, "kaufman")

    @property
    def weighted(self) -> bool:
        return self.evaluation.weighting == "weighted, "

    @property
    def frozen(self) -> bool:
        return frozen(self.draws)


def gather(draws: Draws, target: Target, evaluation: Evaluation) -> Evidence:
    trust = None if draws.log_weight is None else weights.trust(draws)
    observables = observe_chains(draws, target)
    weighted = evaluation.weighting == "weighted, "
    num_effective = count_effective(draws, observables, weighted)
    return Evidence(draws, target, evaluation, trust, observables, num_effective)


# -- weights -------------------------------------------------------------------------------------


def uses_weights(draws: Draws) -> bool:
    """Whether the draws have weights that differ and that a few draws do not dominate."""
    if draws.log_weight is None or bool((draws.log_weight == draws.log_weight.max()).all()):
        return False
    return weights.trust(draws).trusted


# -- chains --------------------------------------------------------------------------------------


def effective_draws(draws: Draws, target: Target, *, weighted: bool = False) -> float:
    """How many independent draws would be worth as much as weighted draws or chains."""
    return count_effective(draws, observe_chains(draws, target), weighted)


def observe_chains(draws: Draws, target: Target) -> tuple[Observable, ...]:
    """R-hat and effective sizes of energy and order parameter; nothing for independent draws."""
    if draws.x.ndim != 3 or draws.x.shape[1] < MIN_DRAWS:
        return ()
    energy = target.energy(draws.x.to(target.device)).double().cpu().numpy()
    order = order_parameter(draws.x.cpu(), target.num_values)
    return observe("energy", energy), observe("order parameter", order)


def count_effective(draws: Draws, observables: tuple[Observable, ...], weighted: bool) -> float:
    """How many independent draws are worth as much, at least one."""
    n = draws.x.shape[:-1].numel()
    if weighted:
        assert draws.ess is not None
        return max(1.0, draws.ess * n)
    if not observables:
        return float(n)
    if frozen(draws):
        return 1.0
    return max(1.0, min(n, *(min(row.ess_bulk, row.ess_tail) for row in observables)))


def frozen(draws: Draws) -> bool:
    """Whether no chain ever moved."""
    return not bool((draws.x != draws.x[:, :1]).any())
