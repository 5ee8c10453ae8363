"""Draws against the truth: every estimate beside its exact value, its error and its floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tcsis.draws import Draws
from tcsis.draws.reading import as_draws
from tcsis.judging import metrics
from tcsis.judging.reference import Reference, States
from tcsis.targets.base import Target

MAX_ENERGY_BINS = 64


@dataclass(frozen=True)
class Row:
    """One observable.  ``error`` is |estimate - exact|, averaged over the entries of a vector, or a
    total variation; ``floor`` is what the same number of independent exact draws would show."""

    name: str
    estimate: Tensor
    exact: Tensor | None = None
    error: float | None = None
    floor: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """The rows of ``evaluate``, by name: ``evaluation["correlation"].error``.  ``uneven`` says
    whether the draws have weights that differ, and ``weighted`` whether weights were used."""

    rows: tuple[Row, ...]
    num_draws: int
    method: str | None
    weighted: bool
    uneven: bool

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} is not among {', '.join(row.name for row in self.rows)}")

    def table(self) -> Table:
        """A table for the terminal."""
        truth = f"exact by {self.method}" if self.method else "no exact answer at this size"
        weighting = ("weighted, " if self.weighted else "unweighted, ") if self.uneven else ""
        title = f"{self.num_draws:,} draws, {weighting}{truth}"
        table = Table(title=title, title_justify="left")
        table.add_column("observable")
        for name in ("estimate", "exact", "error", "iid floor", "error/floor"):
            table.add_column(name, justify="right")
        for row in self.rows:
            ratio = row.error / row.floor if row.error is not None and row.floor else None
            table.add_row(
                row.name, show(row.estimate), show(row.exact), number(row.error),
                number(row.floor), "" if ratio is None else f"{ratio:.1f}",
            )  # fmt: skip
        return table

    def __str__(self) -> str:
        console = Console(width=110, highlight=False)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get()


def evaluate(draws: Any, target: Target, *, weighted: bool = False) -> Evaluation:
    """Compare draws with the exact answers for their target.

    ``draws`` is a ``Draws``, tokens (..., d), or what else ``tcsis.as_draws`` takes.  With
    ``weighted`` the estimates use the draws' importance weights.  Where the target is too large for
    exact answers the estimates stand alone.
    """
    if isinstance(draws, Tensor) and draws.ndim:
        draws = draws.reshape(-1, draws.shape[-1])
    draws = as_draws(draws, target)
    if weighted and draws.log_weight is None:
        raise ValueError(
            "weighted is set but the draws carry no log_weight: expected weighted=False"
        )
    return evaluate_states(
        states_of(draws, target), draws.log_weight, Reference(target), weighted=weighted
    )


def states_of(draws: Draws, target: Target) -> States:
    """The states of draws, chains laid end to end; those of another target are refused."""
    return States(target, target.check(draws.flat.x.to(target.device)).cpu())


def evaluate_states(
    drawn: States, log_weight: Tensor | None, reference: Reference, *, weighted: bool
) -> Evaluation:
    """The same for states (n, d) and their log weights (n,), against a reference at hand."""
    log_weight = None if log_weight is None else log_weight.double().flatten()
    weights = log_weight.softmax(0).cpu() if weighted and log_weight is not None else None
    if weights is not None and not bool((weights > 0).all()):
        # a draw without weight may be a forbidden state, of infinite energy
        kept = weights > 0
        drawn, weights = States(drawn.target, drawn.x[kept]), weights[kept]
    rows = Comparison(drawn, weights, reference).rows()
    uneven = log_weight is not None and bool((log_weight.diff() != 0).any())
    return Evaluation(tuple(rows), len(drawn), reference.method, weighted, uneven)


Observe = Callable[[States, Tensor | None], Tensor]
"""Averages over states, by weights (n,) where there are any."""


class Comparison:
    """The draws, their exact answers and a reference of exact draws, while rows are made."""

    def __init__(self, drawn: States, weights: Tensor | None, reference: Reference):
        self.drawn, self.x, self.weights = drawn, drawn.x, weights
        self.target, self.truth, self.exact = reference.target, reference.truth, reference.states
        # for the deviation of observables; of the draws themselves where there are no exact ones
        self.reference = drawn if self.exact is None else self.exact

    def rows(self) -> list[Row]:
        """Every observable that makes sense for the target."""
        rows = [self.energy(), self.sites()]
        if self.target.lattice is not None:
            rows.append(self.correlation())
        if self.compares_pairs() and self.target.pairs is not None and len(self.target.pairs):
            rows.append(self.pairs(self.target.pairs.cpu()))
        if self.target.num_values == 2:
            rows.append(self.magnetisation())
        rows += [self.modes(), self.energy_histogram()]
        if self.truth is not None and self.truth.enumeration is not None:
            rows.append(self.states())
        return rows

    def compares_pairs(self) -> bool:
        """Whether pairs say what G(r) does not: where there is none, or none that is exact."""
        if self.target.lattice is None:
            return True
        return self.truth is not None and self.truth.method == "elimination"

    def energy(self) -> Row:
        truth = (
            None
            if self.truth is None
            else torch.tensor(self.truth.mean_energy, dtype=torch.float64)
        )
        deviation = metrics.deviation(self.reference.energies)
        return self.of_means("energy", mean_energy, truth, deviation)

    def sites(self) -> Row:
        truth = None if self.truth is None else self.truth.site_marginals
        p = self.reference.marginals if truth is None else truth
        p = p.clamp(0, 1)  # rounding may put a sum of probabilities a hair above one
        return self.of_means("site marginals", site_marginals, truth, (p * (1 - p)).sqrt())

    def correlation(self) -> Row:
        truth = self.truth.correlation if self.truth is not None else None
        deviation = self.reference.correlation_deviation[1:]
        return self.of_means(
            "correlation", correlation, None if truth is None else truth[1:], deviation
        )

    def pairs(self, edges: Tensor) -> Row:
        def observe(states: States, weights: Tensor | None) -> Tensor:
            return metrics.pair_correlations(states.x, self.target.num_values, edges, weights)

        truth = None
        if self.truth is not None and self.truth.pair_same is not None:
            marginals = self.truth.site_marginals
            assert marginals is not None
            ends = marginals[edges[:, 0]], marginals[edges[:, 1]]
            truth = metrics.connected(self.truth.pair_same, *ends)
        terms = metrics.connected_terms(self.reference.x, edges, self.reference.marginals)
        first = metrics.deviation(terms)
        p = self.reference.marginals
        second = metrics.second_order(p[edges[:, 0]], p[edges[:, 1]]) / len(self.x) ** 0.5
        return self.of_means("pair correlations", observe, truth, first.hypot(second))

    def magnetisation(self) -> Row:
        estimate = metrics.magnetisation_histogram(self.x, self.weights)
        truth = self.truth.magnetisation if self.truth is not None else None
        if truth is not None:
            return self.of_histogram("magnetisation", estimate, truth.probabilities)
        reference = metrics.magnetisation_histogram(self.reference.x)
        return self.against_reference("magnetisation", estimate, reference)

    def modes(self) -> Row:
        v = self.target.num_values
        estimate = metrics.mode_shares(self.x, v, self.weights)
        if self.target.symmetries.value_permutation:
            truth = torch.full((v,), 1 / v, dtype=torch.float64)
            return self.of_histogram("modes", estimate, truth)
        return self.against_reference("modes", estimate, metrics.mode_shares(self.reference.x, v))

    def energy_histogram(self) -> Row:
        reference = self.reference.energies
        quantiles = torch.linspace(0, 1, MAX_ENERGY_BINS, dtype=reference.dtype)[1:-1]
        levels = reference.sort().values[(quantiles * (len(reference) - 1)).long()]
        # a hair above a level, so that rounding cannot throw equal energies into two bins
        edges = (levels + 1e-5 * (1 + levels.abs())).unique()
        bins = len(edges) + 1

        def binned(energies: Tensor, weights: Tensor | None) -> Tensor:
            return metrics.histogram(torch.searchsorted(edges, energies), bins, weights)

        estimate = binned(self.drawn.energies, self.weights)
        if self.truth is not None and self.truth.enumeration is not None:
            table = self.truth.enumeration
            energies = (-table.log_density).to(edges.dtype)
            return self.of_histogram("energy histogram", estimate, binned(energies, table.p))
        return self.against_reference("energy histogram", estimate, binned(reference, None))

    def states(self) -> Row:
        assert self.truth is not None and self.truth.enumeration is not None
        table = self.truth.enumeration
        index = metrics.state_index(self.x[:, self.target.free_sites], self.target.num_values)
        estimate = metrics.histogram(index, table.num_states, self.weights)
        return self.of_histogram("states", estimate, table.p)

    # -- an estimate, its truth and its floor, as a row ---------------------------------------

    def of_means(self, name: str, observe: Observe, truth: Tensor | None, deviation: Tensor) -> Row:
        """Means beside their truth, or beside those of exact draws, which have an error too."""
        estimate, num_told = observe(self.drawn, self.weights), len(self.x)
        if truth is None and self.exact is not None:
            truth, num_told = observe(self.exact, None), self.num_both
        floor = metrics.mean_floor(deviation, num_told) if len(self.reference) > 1 else None
        error = None if truth is None else float((estimate - truth).abs().mean())
        return Row(name, estimate, truth, error, floor)

    @property
    def num_both(self) -> int:
        """The draws that tell as much as those that are judged and the exact ones differ by."""
        assert self.exact is not None
        return max(1, round(1 / (1 / len(self.x) + 1 / len(self.exact))))

    def of_histogram(self, name: str, estimate: Tensor, truth: Tensor) -> Row:
        floor = metrics.total_variation_floor(truth, len(self.x))
        return Row(name, estimate, truth, metrics.total_variation(estimate, truth), floor)

    def against_reference(self, name: str, estimate: Tensor, reference: Tensor) -> Row:
        """A histogram whose truth is a histogram of exact draws, with an error of its own.  The
        floor is of what both have together: a rare bin that the exact draws have met too seldom
        would make it too low."""
        if self.exact is None:
            return Row(name, estimate)
        n, m = len(self.x), len(self.exact)
        pooled = (n * estimate + m * reference) / (n + m)
        floor = metrics.total_variation_floor(pooled, self.num_both)
        return Row(name, estimate, reference, metrics.total_variation(estimate, reference), floor)


def mean_energy(states: States, weights: Tensor | None) -> Tensor:
    return metrics.mean(states.energies, weights)


def site_marginals(states: States, weights: Tensor | None) -> Tensor:
    return metrics.site_marginals(states.x, states.target.num_values, weights)


def correlation(states: States, weights: Tensor | None) -> Tensor:
    """G(r) for r = 1..max_distance."""
    lattice = states.target.lattice
    assert lattice is not None
    return metrics.correlation(states.x, states.target.num_values, lattice, weights)[1:]


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.5f}"


def show(value: Tensor | None) -> str:
    """A number, a short vector, or the size of a long one."""
    if value is None:
        return ""
    if value.numel() == 1:
        return f"{value.item():.5f}"
    if value.numel() <= 5:
        return " ".join(f"{entry:.4f}" for entry in value.flatten().tolist())
    return f"{value.numel()} values"
