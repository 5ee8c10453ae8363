"""From draws to results: every number and every curve that a report shows.

summarise(name, evidence, levels, bins)   one method, as a ``MethodResult``
compare_results(target, draws, ...)       several on one target, as a ``Result``
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from tcsis.app.log_weights import count_weights, weight_bins
from tcsis.app.many import Whole
from tcsis.app.results import (
    MAX_PAIRS,
    Correlation,
    ExactResult,
    Frame,
    Histogram,
    Judgement,
    MethodResult,
    Observation,
    Result,
    ScorePairs,
    SiteShares,
    TargetResult,
    Traces,
    TrainingPoint,
    finite,
)
from tcsis.draws import Draws
from tcsis.judging import metrics
from tcsis.judging.evaluation import Evaluation
from tcsis.judging.evidence import Evidence, gather
from tcsis.judging.findings import Finding
from tcsis.judging.models import check_model
from tcsis.judging.reference import Reference, States
from tcsis.judging.verdict import weigh
from tcsis.judging.weights import Weigher
from tcsis.targets.base import Target
from tcsis.targets.spec import describe

NUM_STATES = 16
NUM_TRACES = 4
MAX_TRACE = 500
MAX_NAMED = 200
"""Sites whose values are shown by name."""
MAX_LEVELS = 64
"""Energies are counted level by level up to this many levels, and above it in ``NUM_BINS`` bins."""
NUM_BINS = 40
MIN_CHAINS = 8
"""From which on the spread between chains gives a standard error."""


def compare_results(
    target: Target,
    draws: Mapping[str, Draws],
    *,
    model: Weigher | None = None,
    whole: Mapping[str, Draws] | None = None,
    training_seconds: Mapping[str, float] | None = None,
    film: Sequence[tuple[Tensor, Tensor]] | None = None,
    scores: tuple[Tensor, Tensor] | None = None,
    history: Sequence[Mapping[str, float]] = (),
    config: str = "",
    commands: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Result:
    """Summarise several methods, the main one first, by name.

    A trained ``model`` of the target is a second opinion on each.  ``training_seconds`` go by the
    same names, and so does the ``whole`` of what these draws are only the first of.  ``film`` is
    one reverse trajectory, pairs of times () or (d,) and tokens (d,), noise first; ``scores`` are
    learned and exact log-scores of the same moves; ``history`` holds any of the fields of
    ``TrainingPoint``.
    """
    if not draws:
        raise ValueError("draws is empty: expected at least one method")
    reference = Reference(target)
    found = {name: gather(part, reference) for name, part in draws.items()}
    shown = (reference.states, *(evidence.states for evidence in found.values()))
    levels = energy_levels([states.energies for states in shown if states is not None])
    bins = weight_bins(found.values())
    known = {name: Whole.of(part, found[name]) for name, part in (whole or {}).items()}
    opinions = {} if model is None else {name: [check_model(e, model)] for name, e in found.items()}
    methods = [
        summarise(
            name, evidence, levels, bins, (training_seconds or {}).get(name, 0.0),
            [*opinions.get(name, []), *(known[name].findings if name in known else [])],
        )
        for name, evidence in found.items()
    ]  # fmt: skip
    return Result(
        target=describe_target(target),
        exact=summarise_exact(reference, levels),
        methods=[known[m.name].told(m) if m.name in known else m for m in methods],
        film=None if film is None else [frame(times, tokens) for times, tokens in film],
        scores=None if scores is None else thin_pairs(*scores),
        history=[TrainingPoint(**finite_entries(point)) for point in history],
        config=config,
        commands=list(commands),
        environment=dict(environment or {}),
    )  # fmt: skip


def summarise(
    name: str,
    evidence: Evidence,
    levels: Tensor,
    bins: Tensor | None,
    training_seconds: float = 0.0,
    more: Sequence[Finding | None] = (),
) -> MethodResult:
    """One method.  ``levels`` are the energies to count by, ``bins`` those of log weights, and
    ``more`` is found besides what the verdict looks at."""
    draws, states, trust = evidence.draws, evidence.states, evidence.trust
    target, weighted = states.target, evidence.weighted
    p = draws.weights if weighted else None
    return MethodResult(
        name=name,
        n=len(states),
        num_effective=evidence.num_effective,
        seconds=draws.seconds,
        training_seconds=training_seconds,
        num_density_calls=draws.num_density_calls,
        num_network_calls=draws.num_network_calls,
        acceptance=draws.acceptance,
        log_z=finite(draws.log_z),
        log_z_error=finite(draws.log_z_error),
        ess=finite(draws.ess),
        elbo=finite(draws.elbo),
        pareto_k=None if trust is None else finite(trust.pareto_k),
        weighted=weighted,
        log_weights=count_weights(evidence, bins),
        verdict=Judgement(**asdict(weigh(evidence, more))),
        rows=observations(evidence.unweighted),
        weighted_rows=observations(evidence.evaluation) if weighted else [],
        correlation=correlate(draws, target, p),
        magnetisation=magnetise(states, p) if target.num_values == 2 else None,
        energy=count_energies(states.energies, levels, p),
        states=some_states(draws.x),
        traces=trace_chains(evidence) if draws.x.ndim == 3 else None,
        sites=share_values(evidence) if target.names else [],
    )


def summarise_exact(reference: Reference, levels: Tensor) -> ExactResult | None:
    """The exact answers, and what independent exact draws show where these can be made."""
    truth, states = reference.truth, reference.states
    if truth is None:
        return None
    m = truth.magnetisation
    found = ExactResult(
        method=truth.method,
        log_z=truth.log_z,
        mean_energy=truth.mean_energy,
        correlation=None if truth.correlation is None else truth.correlation.tolist(),
        magnetisation=None if m is None else as_histogram(m.values, m.probabilities),
    )
    if states is None:
        return found
    table = truth.enumeration
    energy = (
        count_energies(states.energies, levels, None)
        if table is None
        else count_energies(-table.log_density, levels, table.p)
    )
    on_lattice = reference.target.lattice is not None
    return found.model_copy(
        update={
            "correlation_deviation": states.correlation_deviation.tolist() if on_lattice else None,
            "energy": energy,
            "states": states.x[:NUM_STATES].tolist(),
        }
    )


# -- the parts -----------------------------------------------------------------------------------


def describe_target(target: Target) -> TargetResult:
    lattice = target.lattice
    return TargetResult(
        name=repr(target),
        spec=describe(target)[0],
        num_sites=target.num_sites,
        num_values=target.num_values,
        shape=None if lattice is None else list(lattice.shape),
        boundary=None if lattice is None else lattice.boundary,
    )


def observations(evaluation: Evaluation) -> list[Observation]:
    return [
        Observation(
            name=row.name,
            estimate=short(row.estimate),
            exact=short(row.exact),
            error=finite(row.error),
            floor=finite(row.floor),
        )
        for row in evaluation.rows
    ]


def short(values: Tensor | None) -> list[float] | None:
    """A vector of at most five finite entries, as a list."""
    if values is None or values.numel() > 5 or not bool(values.isfinite().all()):
        return None
    return values.double().flatten().tolist()


def correlate(draws: Draws, target: Target, p: Tensor | None) -> Correlation | None:
    if target.lattice is None:
        return None
    x, v = draws.flat.x.cpu(), target.num_values
    marginals = metrics.site_marginals(x, v, p)
    terms = metrics.correlation_terms(x, target.lattice, marginals)  # (n, distances)
    if p is not None:  # Σ w²·(f - E f)², the variance of a weighted mean
        errors = (p.square() @ (terms - metrics.mean(terms, p)).square()).sqrt()
    else:
        if draws.x.ndim == 3 and len(draws) >= MIN_CHAINS:  # the means of chains are independent
            terms = terms.reshape(*draws.x.shape[:2], -1).mean(1)
        errors = metrics.deviation(terms) / math.sqrt(len(terms))
    return Correlation(
        values=metrics.correlation(x, v, target.lattice, p).tolist(), errors=errors.tolist()
    )


def share_values(evidence: Evidence) -> list[SiteShares]:
    """The shares of the values of the free sites, by name."""
    target, row = evidence.states.target, evidence.evaluation["site marginals"]
    found = []
    for site in target.free_sites[:MAX_NAMED].tolist():
        values = range(target.value_counts[site])
        found.append(
            SiteShares(
                site=target.names.show(site),
                values=[target.names.show_value(site, value) for value in values],
                shares=row.estimate[site, : len(values)].tolist(),
                exact=None if row.exact is None else row.exact[site, : len(values)].tolist(),
            )
        )
    return found


def magnetise(states: States, p: Tensor | None) -> Histogram:
    shares = metrics.magnetisation_histogram(states.x, p)
    return as_histogram(torch.linspace(-1, 1, len(shares)), shares)


def energy_levels(parts: list[Tensor]) -> Tensor:
    """The levels that occur in any of the parts, or the centres of even bins where they are many,
    but for a thousandth at either end."""
    every = torch.cat(parts).double()
    every = every[every.isfinite()]
    levels = every.mul(1e4).round().unique() / 1e4
    if len(levels) <= MAX_LEVELS:
        return levels
    ranked = every.sort().values
    low, high = ranked[len(ranked) // 1_000], ranked[-1 - len(ranked) // 1_000]
    edges = torch.linspace(float(low), float(high), NUM_BINS + 1, dtype=torch.float64)
    return (edges[1:] + edges[:-1]) / 2


def count_energies(values: Tensor, levels: Tensor, p: Tensor | None) -> Histogram:
    """Each energy at its nearest level."""
    values = values.double()
    finite_values = values.isfinite()
    p = None if p is None else p.cpu()[finite_values]
    edges = (levels[1:] + levels[:-1]) / 2
    index = torch.searchsorted(edges, values[finite_values])
    return as_histogram(levels, metrics.histogram(index, len(levels), p))


def as_histogram(values: Tensor, probabilities: Tensor) -> Histogram:
    return Histogram(values=values.tolist(), probabilities=probabilities.tolist())


def some_states(x: Tensor) -> list[list[int]]:
    """States to show: the last ones of different chains where there are chains."""
    apart = x.reshape(-1, *x.shape[-2:])[:, -1] if x.ndim > 2 else x
    chosen = apart if len(apart) >= NUM_STATES else x.reshape(-1, x.shape[-1])
    return chosen[torch.linspace(0, len(chosen) - 1, min(NUM_STATES, len(chosen))).long()].tolist()


def trace_chains(evidence: Evidence) -> Traces:
    num_chains, length, _ = evidence.draws.x.shape
    kept = torch.arange(0, length, math.ceil(length / MAX_TRACE))
    energies = evidence.states.energies.double().reshape(num_chains, length)
    series = energies[:NUM_TRACES, kept]
    return Traces(
        draws=kept.tolist(), energies=[[finite(e) for e in row] for row in series.tolist()]
    )


def frame(times: Tensor, tokens: Tensor) -> Frame:
    return Frame(times=times.flatten().tolist(), tokens=tokens.flatten().tolist())


def thin_pairs(learned: Tensor, truth: Tensor) -> ScorePairs:
    """At most ``MAX_PAIRS`` evenly spaced pairs, of those where both are finite."""
    learned, truth = learned.detach().flatten().cpu(), truth.detach().flatten().cpu()
    both = learned.isfinite() & truth.isfinite()
    chosen = slice(None, None, max(1, math.ceil(int(both.sum()) / MAX_PAIRS)))
    return ScorePairs(learned=learned[both][chosen].tolist(), exact=truth[both][chosen].tolist())


def finite_entries(point: Mapping[str, float]) -> dict[str, Any]:
    return {name: finite(value) for name, value in point.items()}
