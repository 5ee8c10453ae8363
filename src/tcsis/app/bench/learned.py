"""Trained samplers: the price of a draw, the share of the draws that count, training apart.

An ESS is believed where the log Z that comes with it is the exact one and exact draws weigh no more
than the sampler has shown, so that no mode is missing; where nothing exact is known, where the
verdict says nothing against the draws.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tcsis.app.bench.autocorrelation import MAX_SIGMAS, ROUNDING, error_of, off
from tcsis.app.bench.plan import Family, Result, Task, Truth
from tcsis.draws import Draws
from tcsis.judging import verdict, weights
from tcsis.learn import presets
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import train
from tcsis.targets.pairwise import Pairwise

DRAWING_SEED = 100
PARTS = 8
"""Of the draws, from whose ESS its error is taken."""
BELIEVED = ("trusted", "trusted by weight", "unrefuted")
MOST_ALONE = 8


def by_displacement(family: Family, side: int) -> bool:
    """Where sites share weights."""
    return family.ferromagnet


def by_site(family: Family, side: int) -> bool:
    """Where they do not, and on small lattices to compare."""
    return not family.ferromagnet or side <= MOST_ALONE


@dataclass(frozen=True)
class Trained:
    """The preset ``fast`` of a method, until its time is over or, where they are given, its steps
    are made; then draws whose ESS is looked at."""

    method: str
    num_draws: int
    steps: int | None = None

    modules = ("tcsis.app.bench.learned",)

    def run(self, task: Task, target: Pairwise) -> Result:
        truth = task.family.truth(target)
        config = presets.fast(target, self.method).changed(num_evaluations=0)
        began = time.process_time()
        model = train(
            target, config=config, seed=task.seed, steps=self.steps, progress=False,
            time_budget=task.seconds if self.steps is None else None,
        )  # fmt: skip
        training = time.process_time() - began
        model.sample(2, seed=DRAWING_SEED)  # which may compile, or plan
        began = time.process_time()
        draws = model.sample(self.num_draws, seed=DRAWING_SEED + task.seed)
        seconds = (time.process_time() - began) / len(draws)
        assert draws.ess is not None
        energy, error = mean_energy(draws, target, truth)
        refused = doubt(draws, target, model, truth)
        gap, gap_error = log_z_gap(draws, truth)
        return Result(
            seconds=seconds,
            densities=draws.num_density_calls / len(draws),
            draw=1 / max(draws.ess, 1 / len(draws)),
            relative_error=None if refused else ess_error(draws),
            refused=refused,
            detail="1/ESS",
            num_draws=len(draws),
            ess=draws.ess,
            energy=energy,
            energy_error=error,
            exact_energy=truth.energy,
            log_z_gap=gap,
            log_z_error=gap_error,
            training_seconds=training,
            training_densities=model.num_density_calls,
        )

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self)


def mean_energy(draws: Draws, target: Pairwise, truth: Truth) -> tuple[float, float]:
    """The mean of -log p̄ by weight, and its standard error."""
    assert draws.weights is not None
    energies, share = target.energy(draws.x.long()).double(), draws.weights.double()
    mean, worth = float(share @ energies), 1 / float(share.square().sum())
    found = float((share.square() @ (energies - mean).square() * worth).sqrt())
    return mean, error_of(found, truth.energy_spread, worth)


def log_z_gap(draws: Draws, truth: Truth) -> tuple[float | None, float | None]:
    if truth.log_z is None or draws.log_z is None or not math.isfinite(draws.log_z):
        return None, None
    return draws.log_z - truth.log_z, draws.log_z_error


def doubt(draws: Draws, target: Pairwise, model: Learned, truth: Truth) -> str | None:
    """Why the ESS is not to be believed, if it is not."""
    trust = weights.trust(draws)
    if not trust.trusted:
        return trust.why
    if truth.draws is None or truth.log_z is None:
        found = verdict.judge(draws, target)
        return None if found.level in BELIEVED else f"{found.level}: {found.why}"
    gap, error = log_z_gap(draws, truth)
    if gap is None or error is None:
        return "log Z is not finite"
    far = abs(gap) / math.hypot(error, ROUNDING * (1 + abs(truth.log_z)))
    if far > MAX_SIGMAS:
        return f"log Z is {far:.1f} standard errors off"
    assert truth.energy is not None
    if (far := off(*mean_energy(draws, target, truth), truth.energy)) > MAX_SIGMAS:
        return f"the energy is {far:.1f} standard errors off"
    bracket = weights.bracket(draws, weights.upper_bound(model, truth.draws))
    return bracket.why if bracket.collapsed else None


def ess_error(draws: Draws) -> float:
    """The standard error of the ESS as a share of it, from that of parts of the draws."""
    assert draws.log_weight is not None
    parts = torch.stack(
        [(2 * w.logsumexp(0) - (2 * w).logsumexp(0)).exp() / len(w)
         for w in draws.log_weight.double().chunk(PARTS)]
    )  # fmt: skip
    return float(parts.std() / parts.mean()) / math.sqrt(PARTS)
