"""Have the chains arrived, and how many independent draws are they worth?

Split rank-normalised R-hat and bulk and tail effective sample sizes (Vehtari et al. 2021), from
``arviz-stats``, of the energy and of the order parameter.  These formulas take a chain that never
moves for a perfect one, so chains are first asked whether they move at all, and, where symmetry
says that every mode must be visited equally, whether they ever left their mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from rich.table import Table
from torch import Tensor

from tcsis.draws import Draws
from tcsis.targets.base import Target

MAX_R_HAT = 1.01
MIN_DRAWS = 4
MIN_DRAWS_FOR_MODES = 20
MAX_STATES_COMPARED = 16


@dataclass(frozen=True)
class Observable:
    """R-hat near 1 says that the chains agree; the others count independent draws."""

    name: str
    r_hat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True)
class Diagnosis:
    """``verdict`` is "mixed", "not mixed" or "stuck", and ``why`` a sentence.  ``ess`` is the
    smallest effective sample size of all observables, zero for stuck chains."""

    verdict: str
    why: str
    ess: float
    ess_per_second: float
    ess_per_density_call: float
    observables: tuple[Observable, ...]

    def table(self) -> Table:
        """A table for the terminal."""
        table = Table(title=f"{self.verdict}: {self.why}", title_justify="left")
        table.add_column("observable")
        for name in ("R-hat", "ESS bulk", "ESS tail"):
            table.add_column(name, justify="right")
        for row in self.observables:
            table.add_row(
                row.name, f"{row.r_hat:.4f}", f"{row.ess_bulk:.0f}", f"{row.ess_tail:.0f}"
            )
        return table


def diagnose(draws: Draws, target: Target) -> Diagnosis:
    """Judge chains ``draws.x`` (chain, draw, site)."""
    if not isinstance(draws, Draws):
        raise ValueError(f"draws is a {type(draws).__name__}: expected Draws")
    if not are_chains(draws):
        raise ValueError(
            f"draws.x has shape {tuple(draws.x.shape)}: expected (chain, draw, site) with at least "
            f"{MIN_DRAWS} draws a chain"
        )
    energies = target.energy(draws.x.to(target.device))
    return conclude(draws, target, observe_chains(draws, target, energies))


def are_chains(draws: Draws) -> bool:
    """Whether the draws are chains, long enough for R-hat."""
    return draws.x.ndim == 3 and draws.x.shape[1] >= MIN_DRAWS


def observe_chains(draws: Draws, target: Target, energies: Tensor) -> tuple[Observable, ...]:
    """Energy, from ``energies`` (chain, draw), and order parameter of chains, stuck or not."""
    return (
        observe("energy", energies.double().cpu().numpy()),
        observe("order parameter", order_parameter(draws.x.cpu(), target.num_values)),
    )


def conclude(draws: Draws, target: Target, observables: tuple[Observable, ...]) -> Diagnosis:
    """The diagnosis from what was observed; of stuck chains no number means anything."""
    stuck = why_stuck(draws.x.cpu(), target)
    if stuck is not None:
        nothing = tuple(Observable(row.name, float("nan"), 0.0, 0.0) for row in observables)
        return Diagnosis("stuck", stuck, 0.0, 0.0, 0.0, nothing)
    ess = min(min(row.ess_bulk, row.ess_tail) for row in observables)
    worst = max(observables, key=lambda row: row.r_hat)
    mixed = worst.r_hat <= MAX_R_HAT
    why = f"R-hat of {worst.name} is {worst.r_hat:.3f}, {ess:.0f} effective draws"
    return Diagnosis(
        "mixed" if mixed else "not mixed",
        why,
        ess,
        ess / draws.seconds if draws.seconds else float("nan"),
        ess / draws.num_density_calls if draws.num_density_calls else float("nan"),
        observables,
    )


def observe(name: str, values: np.ndarray) -> Observable:
    """The diagnostics of one series (chain, draw)."""
    if (values == values.flat[0]).all():  # which says nothing for or against mixing
        return Observable(name, 1.0, float(values.size), float(values.size))
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat = float(array_stats.rhat(values, **axes))
        bulk = float(array_stats.ess(values, method="bulk", **axes))
        tail = float(array_stats.ess(values, method="tail", prob=(0.05, 0.95), **axes))
    if np.isnan(r_hat):  # chains that each stand still, at different places
        return Observable(name, np.inf, 0.0, 0.0)
    # on few levels a quantile may hold every draw; then there is no tail to judge
    return Observable(name, r_hat, bulk, bulk if np.isnan(tail) else tail)


def order_parameter(x: Tensor, num_values: int) -> np.ndarray:
    """The magnetisation for V = 2, else the share of the sites with value 0; (chain, draw)."""
    if num_values == 2:
        return (x.double().mean(-1) * 2 - 1).numpy()
    return (x == 0).double().mean(-1).numpy()


def expected_frozen(x: Tensor, frozen: Tensor) -> float:
    """How many chains of independent draws would repeat one of the frozen chains' states all the
    way, if that state is as frequent as it is in all chains together."""
    states = x[frozen, 0].unique(dim=0)[:MAX_STATES_COMPARED]
    shares = [float((x == state).all(-1).double().mean()) for state in states]
    return sum(share ** x.shape[1] for share in shares) * len(x)


def why_stuck(x: Tensor, target: Target) -> str | None:
    """A sentence if some chains do not move, or never leave a mode they must leave."""
    frozen = ~(x[:, 1:] != x[:, :1]).any(-1).any(-1)  # (chain,)
    count = int(frozen.sum())
    if count == len(x) or count > 3 + 3 * expected_frozen(x, frozen):
        return f"{count} of {len(x)} chains never moved"
    if target.symmetries.value_permutation and x.shape[1] >= MIN_DRAWS_FOR_MODES:
        counts = np.stack([(x == v).sum(-1).numpy() for v in range(target.num_values)], axis=-1)
        leader = np.where(  # the leading value, -1 where two tie
            (counts == counts.max(-1, keepdims=True)).sum(-1) > 1, -1, counts.argmax(-1)
        )
        single = int((leader == leader[:, :1]).all(-1).sum())
        if single:
            return (
                f"{single} of {len(x)} chains stayed in one mode, "
                "though the symmetry of the target makes all modes equally likely"
            )
    return None
