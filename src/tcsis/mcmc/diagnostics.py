"""Have the chains arrived, and how many independent draws are they worth?

Split rank-normalised R-hat and effective sample sizes (Vehtari et al. 2021), from ``arviz-stats``,
of the energy, of the order parameter, and of what tells modes apart that these two cannot: every
site, overlaps with states that the chains themselves have drawn, random projections.  An indicator
has two levels, so for a site ranks change nothing and R-hat is worked out for all sites at once.

With many series the largest R-hat is larger, also of chains that have mixed; the limit grows with
their number (``r_hat_limit``).

These formulas take a chain that never moves for a perfect one, so chains are first asked whether
they move at all, and, where symmetry says that every mode must be visited equally, whether they
ever left their mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from arviz_stats.base import array_stats
from rich.table import Table
from scipy.stats import f
from torch import Tensor

from tcsis.basics.checks import make_generator
from tcsis.draws import Draws
from tcsis.targets.base import Target

MAX_R_HAT = 1.01
"""Of one series of long chains."""
MOST_SHOWN = 1_000
MIN_DRAWS = 4
NUM_OVERLAPS, NUM_PROJECTIONS, NUM_WORST_SITES = 4, 4, 2
RARE, USUAL = 1e-3, 0.05
"""Chance that chains of independent draws exceed the limit, and that one series of chains that
just pass exceeds ``MAX_R_HAT``."""
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
    smallest effective sample size of all observables, zero for stuck chains; ``limit`` is what the
    largest R-hat of so many series may be."""

    verdict: str
    why: str
    ess: float
    ess_per_second: float
    ess_per_density_call: float
    observables: tuple[Observable, ...]
    limit: float = MAX_R_HAT

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
            f"{MIN_DRAWS} draws a chain, or {2 * MIN_DRAWS} of a single one"
        )
    energies = target.energy(draws.x.to(target.device))
    return conclude(draws, target, observe_chains(draws, target, energies))


def are_chains(draws: Draws) -> bool:
    """Whether the draws are chains, long enough for R-hat."""
    least = MIN_DRAWS if len(draws) > 1 else 2 * MIN_DRAWS
    return draws.x.ndim == 3 and draws.x.shape[1] >= least


def observe_chains(draws: Draws, target: Target, energies: Tensor) -> tuple[Observable, ...]:
    """Energy, from ``energies`` (chain, draw), order parameter, and the worst of the sites, of the
    overlaps and of the projections; of chains stuck or not."""
    x, v = draws.x.cpu(), target.num_values
    groups = {
        "overlaps": overlaps(x, far_states(x)),
        "projections": projections(x, v),
        "sites": worst_sites(x, v),
    }
    return (
        observe("energy", energies.double().cpu().numpy()),
        observe("order parameter", order_parameter(x, v)),
        *(worst_of(name, series) for name, series in groups.items()),
    )


def conclude(draws: Draws, target: Target, observables: tuple[Observable, ...]) -> Diagnosis:
    """The diagnosis from what was observed; of stuck chains no number means anything."""
    stuck = why_stuck(draws.x.cpu(), target)
    if stuck is not None:
        nothing = tuple(Observable(row.name, float("nan"), 0.0, 0.0) for row in observables)
        return Diagnosis("stuck", stuck, 0.0, 0.0, 0.0, nothing)
    ess = min(min(row.ess_bulk, row.ess_tail) for row in observables)
    worst = max(observables, key=lambda row: row.r_hat)
    limit = r_hat_limit(len(draws), draws.x.shape[1], num_series(target))
    mixed = worst.r_hat <= limit
    why = f"R-hat of the {worst.name} is {shown(worst.r_hat)}, {ess:.0f} effective draws"
    return Diagnosis(
        "mixed" if mixed else "not mixed",
        why,
        ess,
        ess / draws.seconds if draws.seconds else float("nan"),
        ess / draws.num_density_calls if draws.num_density_calls else float("nan"),
        observables,
        limit,
    )


# -- R-hat ----------------------------------------------------------------------------------------


def shown(r_hat: float) -> str:
    """R-hat in words: of chains that hardly moved its digits mean nothing."""
    return f"{r_hat:.3f}" if r_hat < MOST_SHOWN else f"above {MOST_SHOWN:,}"


def r_hat_limit(num_chains: int, num_draws: int, num_series: int) -> float:
    """What the largest R-hat of so many series may be.

    Halves of chains of m = ``num_draws``//2 draws each, k of them, have R̂² = 1 + (F·τ - 1)/m where
    F ~ F(k-1, k(m-1)) and τ is the autocorrelation time.  The limit is the larger of what
    independent draws (τ = 1) exceed once in 1,000 times, and of 1.01 made wider as the quantile of
    F grows from one series to all of them.
    """
    k, m = halves(num_chains), num_draws * num_chains // halves(num_chains)
    degrees = (k - 1, k * (m - 1))
    independent = math.sqrt(1 + (f.isf(RARE / num_series, *degrees) - 1) / m)
    wider = f.isf(USUAL / num_series, *degrees) / f.isf(USUAL, *degrees)
    return max(independent, math.sqrt(1 + (MAX_R_HAT**2 - 1) * wider))


def halves(num_chains: int) -> int:
    """Into how many parts chains are split."""
    return 2 * num_chains if num_chains > 1 else 4


def num_series(target: Target) -> int:
    """How many R-hats are looked at, those of ranks twice: as they are, and folded."""
    sites = target.num_sites * num_indicators(target.num_values)
    return sites + 2 * (2 + NUM_OVERLAPS + NUM_PROJECTIONS)


def num_indicators(num_values: int) -> int:
    """Values of a site whose shares say all: one of two."""
    return 1 if num_values == 2 else num_values


def observe(name: str, values: np.ndarray) -> Observable:
    """The diagnostics of one series (chain, draw)."""
    if (values == values.flat[0]).all():  # which says nothing for or against mixing
        return Observable(name, 1.0, float(values.size), float(values.size))
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat = float(array_stats.rhat(several(values), **axes))
        bulk = float(array_stats.ess(values, method="bulk", **axes))
        tail = float(array_stats.ess(values, method="tail", prob=(0.05, 0.95), **axes))
    if np.isnan(r_hat):  # chains that each stand still, at different places
        return Observable(name, np.inf, 0.0, 0.0)
    # on few levels a quantile may hold every draw; then there is no tail to judge
    return Observable(name, r_hat, bulk, bulk if np.isnan(tail) else tail)


def several(values: np.ndarray) -> np.ndarray:
    """A single chain as two, which are split once more, (1, draw) -> (2, draw//2)."""
    if len(values) > 1 or values.shape[1] < 2 * MIN_DRAWS:
        return values
    half = values.shape[1] // 2
    return values[:, : 2 * half].reshape(2, half)


def worst_of(name: str, series: Tensor) -> Observable:
    """The largest R-hat and the smallest sizes of several series (chain, draw, m)."""
    rows = [observe(name, values.numpy()) for values in series.unbind(-1)]
    return Observable(
        name,
        max(row.r_hat for row in rows),
        min(row.ess_bulk for row in rows),
        min(row.ess_bulk for row in rows),  # these have no tails that mean anything
    )


# -- series that tell modes apart -----------------------------------------------------------------


def far_states(x: Tensor) -> Tensor:
    """Drawn states as far apart in chains and time as they can be, (chain, draw, d) -> (m, d)."""
    chains = torch.linspace(0, len(x) - 1, NUM_OVERLAPS).long()
    times = torch.linspace(x.shape[1] - 1, x.shape[1] // 2, NUM_OVERLAPS).long()
    return x[chains, times]


def overlaps(x: Tensor, states: Tensor) -> Tensor:
    """Share of the sites on which a state agrees with each of some states, (..., d) and (m, d) ->
    (..., m)."""
    return torch.stack([(x == state).double().mean(-1) for state in states], -1)


def projections(x: Tensor, num_values: int) -> Tensor:
    """Σ_i c_i(x_i) with random c, always the same, (..., d) -> (..., m)."""
    generator = make_generator(0, "projections")
    table = torch.randn(
        num_values, x.shape[-1], NUM_PROJECTIONS, dtype=torch.float64, generator=generator
    )
    total = torch.zeros(*x.shape[:-1], NUM_PROJECTIONS, dtype=torch.float64)
    for value in range(num_values):
        total += (x == value).double() @ table[value]
    return total


def worst_sites(x: Tensor, num_values: int) -> Tensor:
    """The indicators [x_i = v] with the largest R-hat, (chain, draw, d) -> (chain, draw, m)."""
    values = range(num_values - num_indicators(num_values), num_values)
    r_hat = torch.cat([site_r_hats((x == value).double()) for value in values])
    worst = r_hat.topk(min(NUM_WORST_SITES, len(r_hat))).indices.tolist()
    d = x.shape[-1]
    return torch.stack([(x[..., k % d] == values[k // d]).double() for k in worst], -1)


def site_r_hats(values: Tensor) -> Tensor:
    """Split R-hat of many series at once, (chain, draw, m) -> (m,)."""
    parts = halves(len(values)) // len(values)
    length = values.shape[1] // parts
    split = values[:, : parts * length].reshape(-1, length, values.shape[-1])
    within = split.var(1).mean(0)
    between = split.mean(1).var(0)
    r_hat = ((length - 1) / length + between / within).sqrt()
    # still in every chain: at one place, or at different ones
    return torch.where(within > 0, r_hat, torch.where(between > 0, torch.inf, 1.0))


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
