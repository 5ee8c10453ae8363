"""Bayesian networks given evidence: elimination, Gibbs chains and learned samplers beside pgmpy.

python examples/bayesian_networks.py [FOLDER]

The networks are the 24 that ship with pgmpy.  Of each, one state is drawn and three of its leaves
are observed.  Seconds are of the processor.
"""

import gzip
import math
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from pgmpy.inference import VariableElimination
from pgmpy.readwrite import BIFReader

import tcsis

NETWORKS = (
    "asia", "cancer", "earthquake", "sachs", "survey", "alarm", "barley", "child", "insurance",
    "mildew", "water", "hailfinder", "hepar2", "win95pts", "andes", "diabetes", "link", "munin1",
    "munin2", "munin3", "munin4", "pathfinder", "pigs", "munin",
)  # fmt: skip
SAMPLED = ("cancer", "asia", "sachs", "child", "alarm", "win95pts")
NUM_OBSERVED, NUM_QUERIES, NUM_DRAWS = 3, 5, 10_000
COLOURS = {"gibbs": "#c1440e", "learned": "#2a5d9f"}
MEANS = {"gibbs": "annealed by Gibbs sweeps", "learned": "learned, by weight"}
"""How log P(evidence) is had, for chains alone do not give it."""


# -- networks --------------------------------------------------------------------------------------


def load(name: str) -> Any:
    """A network from the files of pgmpy's wheel, its rounded tables normalised."""
    path = files("pgmpy") / "utils" / "example_models" / f"{name}.bif.gz"
    network = BIFReader(string=gzip.decompress(path.read_bytes()).decode()).get_model()
    for table in network.get_cpds():
        table.normalize()
    return network


def observed(network: Any, target: tcsis.targets.Factors) -> dict[str, str]:
    """The states of some leaves in one draw of the network."""
    state = tcsis.exact.draw(target, 1, seed=1).x[0].tolist()
    assert target.site_names is not None and target.value_names is not None
    leaves = {*network.get_leaves()}
    sites = [site for site, name in enumerate(target.site_names) if name in leaves]
    return {
        target.site_names[site]: target.value_names[site][state[site]]
        for site in sites[:NUM_OBSERVED]
    }


# -- exact -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """Elimination beside pgmpy: the differences of log P(evidence) and of marginals."""

    name: str
    num_nodes: int
    log_p: float
    log_p_gap: float
    marginals_gap: float
    seconds: float
    pgmpy_seconds: float


def beside_pgmpy(name: str) -> Beside:
    network = load(name)
    target = tcsis.formats.from_pgmpy(network, dtype=torch.float64)
    evidence = observed(network, target)
    begin = time.process_time()
    truth = tcsis.exact.solve(target.given(evidence))
    seconds = time.process_time() - begin
    begin = time.process_time()
    log_p, laws = ask_pgmpy(network, target, evidence)
    pgmpy_seconds = time.process_time() - begin
    assert truth.site_marginals is not None and target.site_names is not None
    gaps = [
        float((truth.site_marginals[target.site_names.index(node), : len(law)] - law).abs().max())
        for node, law in laws.items()
    ]
    return Beside(
        name, target.num_sites, truth.log_z, abs(truth.log_z - log_p), max(gaps), seconds,
        pgmpy_seconds,
    )  # fmt: skip


def ask_pgmpy(
    network: Any, target: tcsis.targets.Factors, evidence: dict[str, str]
) -> tuple[float, dict[str, torch.Tensor]]:
    """log P(evidence), one observation after the other, and the laws of some nodes given it."""
    peer = VariableElimination(network)

    def law(node: str, given: dict[str, str]) -> torch.Tensor:
        found = peer.query([node], evidence=given or None, show_progress=False)
        assert target.site_names is not None and target.value_names is not None
        names = target.value_names[target.site_names.index(node)]
        order = [list(map(str, found.state_names[node])).index(name) for name in names]
        return torch.as_tensor(found.values)[order]

    assert target.site_names is not None and target.value_names is not None
    log_p, before = 0.0, dict[str, str]()
    for node, state in evidence.items():
        names = target.value_names[target.site_names.index(node)]
        log_p += math.log(law(node, before)[names.index(state)])
        before[node] = state
    free = [node for node in target.site_names if node not in evidence]
    asked = free[:: max(1, len(free) // NUM_QUERIES)]
    return log_p, {node: law(node, evidence) for node in asked}


# -- samplers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """Draws given the evidence: the mean error of the marginals and that of as many exact draws,
    log P(evidence) - exact with its standard error, the ESS of weighted draws, and the verdict."""

    network: str
    method: str
    error: float
    floor: float
    log_p_gap: float
    log_p_error: float
    ess: float | None
    verdict: str
    why: str
    seconds: float


def by_gibbs(name: str, given: tcsis.targets.Target) -> Sampled:
    """Chains for the marginals, and a population annealed by the same sweeps for log P."""
    begin = time.process_time()
    chains = tcsis.mcmc.sample(
        given, "gibbs", num_chains=100, num_steps=100 + NUM_DRAWS // 5, burn_in=100, thin=20,
        progress=False,
    )  # fmt: skip
    annealed = tcsis.mcmc.population_annealing(given, "gibbs", num_replicas=2_000)
    seconds = time.process_time() - begin
    return measured(name, "gibbs", chains, given, annealed.log_z, annealed.log_z_error, seconds)


def by_learning(name: str, given: tcsis.targets.Target, steps: int) -> Sampled:
    """A network is normalised, so that log Z of what is given is log P(evidence)."""
    begin = time.process_time()
    model = tcsis.train(given, steps=steps, progress=False)
    draws = model.sample(NUM_DRAWS, seed=1)
    seconds = time.process_time() - begin
    assert draws.log_z is not None and draws.log_z_error is not None
    return measured(name, "learned", draws, given, draws.log_z, draws.log_z_error, seconds)


def measured(
    name: str, method: str, draws: tcsis.Draws, given: tcsis.targets.Target, log_p: float,
    log_p_error: float, seconds: float,
) -> Sampled:  # fmt: skip
    row = tcsis.evaluate(draws, given, weighted=draws.log_weight is not None)["site marginals"]
    verdict = tcsis.judge(draws, given)
    assert row.error is not None and row.floor is not None
    return Sampled(
        name, method, row.error, row.floor, log_p - tcsis.exact.solve(given).log_z, log_p_error,
        draws.ess, verdict.level, verdict.why, seconds,
    )  # fmt: skip


def sampled(name: str, steps: int) -> list[Sampled]:
    network = load(name)
    target = tcsis.formats.from_pgmpy(network, dtype=torch.float64)
    given = target.given(observed(network, target))
    return [by_gibbs(name, given), by_learning(name, given, steps)]


# -- tables and picture ----------------------------------------------------------------------------


def print_exact(rows: list[Beside]) -> None:
    print("| network | nodes | log P(evidence) | difference | of marginals | ours, s | pgmpy, s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        print(
            f"| {row.name} | {row.num_nodes:,} | {row.log_p:.6f} | {row.log_p_gap:.0e} "
            f"| {row.marginals_gap:.0e} | {row.seconds:.2f} | {row.pgmpy_seconds:.2f} |"
        )


def print_sampled(rows: list[Sampled]) -> None:
    print("| network | method | error | floor | log P - exact | ESS | verdict | s |")
    print("|---|---|---:|---:|---:|---:|---|---:|")
    for row in rows:
        ess = "" if row.ess is None else f"{row.ess:.3f}"
        print(
            f"| {row.network} | {row.method} | {row.error:.4f} | {row.floor:.4f} "
            f"| {row.log_p_gap:+.4f} ± {row.log_p_error:.4f} | {ess} | {row.verdict} "
            f"| {row.seconds:.1f} |"
        )
    for row in rows:
        print(f"{row.network}, {row.method}: {row.verdict}. {row.why}")


def draw(exact: list[Beside], rows: list[Sampled], path: Path) -> None:
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12.4, 5), layout="constrained", width_ratios=[1.2, 1, 1]
    )
    places = range(len(exact))
    smallest = 1e-17  # where nothing differs
    left.plot([max(row.log_p_gap, smallest) for row in exact], places, "o", label="log P(evidence)")
    left.plot([max(row.marginals_gap, smallest) for row in exact], places, "x", label="marginals")
    left.set(xscale="log", xlim=(smallest / 2, 1e-8), xlabel="difference from pgmpy")
    left.set_yticks(places, [f"{row.name}, {row.num_nodes:,}" for row in exact], fontsize=8)
    left.set_title("elimination, 24 networks", fontsize=10)
    left.invert_yaxis()
    left.legend(frameon=False)
    names = list(dict.fromkeys(row.network for row in rows))
    for shift, (method, colour) in zip((-0.15, 0.15), COLOURS.items(), strict=True):
        own = [row for row in rows if row.method == method]
        heights = [names.index(row.network) + shift for row in own]
        middle.plot([row.error / row.floor for row in own], heights, "o", color=colour)
        for row, height in zip(own, heights, strict=True):
            middle.annotate(
                row.verdict, (row.error / row.floor, height), (6, -3), color=colour, fontsize=8,
                textcoords="offset points",
            )  # fmt: skip
        gaps = [row.log_p_gap for row in own]
        bars = [2 * row.log_p_error for row in own]
        right.errorbar(
            gaps, heights, xerr=bars, fmt="o", color=colour, label=MEANS[method], capsize=2
        )
    for place in (middle, right):
        place.set_yticks(range(len(names)), names)
        place.set_ylim(len(names) - 0.5, -0.5)
    middle.axvline(1, color="grey", lw=0.8)
    middle.set(xscale="log", xlim=(0.3, 3_000), xlabel="error of marginals over its floor")
    middle.set_title("draws given evidence, and the verdict", fontsize=10)
    right.axvline(0, color="grey", lw=0.8)
    right.set_xscale("symlog", linthresh=0.1)
    right.set_xticks([-1, -0.1, 0, 0.1, 1], ["-1", "-0.1", "0", "0.1", "1"])
    right.set(xlabel="difference from exact, ± 2 errors", ylim=(len(names) + 0.5, -0.5))
    right.set_title("log P(evidence)", fontsize=10)
    right.legend(frameon=False, loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    exact = [beside_pgmpy(name) for name in NETWORKS]
    print_exact(exact)
    rows = [row for name in SAMPLED for row in sampled(name, steps=1_000)]
    print_sampled(rows)
    draw(exact, rows, folder / "bayesian_networks.png")
    print(f"processor: {time.process_time():.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
