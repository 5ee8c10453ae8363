"""Max-Cut and spin glasses: energies at falling temperature, ground states, fair draws, beside the
samplers of D-Wave at equal CPU time.

python examples/cuts_and_glasses.py [FOLDER]
"""

import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TypeVar

import matplotlib

matplotlib.use("Agg")

import dimod
import matplotlib.pyplot as plt
import networkx
import numpy as np
import torch
from dwave.samplers import (
    PlanarGraphSolver,
    SimulatedAnnealingSampler,
    SteepestDescentSampler,
    TreeDecompositionSolver,
)
from scipy.stats import chisquare

import tcsis
from tcsis import formats
from tcsis.targets import SpinGlass

SIDE, BETAS, NUM_READS = 24, (0.5, 1.0, 1.5, 2.0, 3.0), 500
FAIR_SIDE, FAIR_BETA, NUM_FAIR = 6, 3.0, 10_000
GLASSES = (*(("open", seed) for seed in (1, 4, 6, 7)), *(("periodic", seed) for seed in (1, 2, 7)))
"""Those of seeds 0 to 7 that have between 20 and 300 ground states."""
LONG, NARROW = 100, 8
COLD = 12.0  # where exp(-4β) counts for nothing, and log Z counts the ground states
HOT = 0.1

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What comes of it, and the seconds of the processor that it took."""
    begin = process_time()
    result = work()
    return result, process_time() - begin


def spins(target: tcsis.targets.Pairwise) -> dimod.BinaryQuadraticModel:
    """The energy -log p̄ of a target as a model of dimod."""
    return formats.to_bqm(target).change_vartype("SPIN", inplace=False)


def anneal(bqm: dimod.BinaryQuadraticModel, num_reads: int, num_sweeps: int, **settings):
    """Energies of simulated annealing, (num_reads,), and its states."""
    record = SimulatedAnnealingSampler().sample(
        bqm, num_reads=num_reads, num_sweeps=num_sweeps, seed=1, **settings
    ).record  # fmt: skip
    return record.energy, record.sample


def as_long_as(seconds: float, work: Callable[[int], Result], pilot: int) -> tuple[Result, float]:
    """Work of a size that takes about as many seconds, from a pilot run of a smaller one."""
    work(pilot)  # which may compile
    _, each = timed(lambda: work(pilot))
    return timed(lambda: work(max(pilot, round(pilot * seconds / each))))


# -- energies at falling temperature -------------------------------------------------------------


@dataclass(frozen=True)
class Energies:
    """Mean energies at one β: exact, and by sampler (mean, standard error, lowest, seconds)."""

    beta: float
    exact: float
    found: dict[str, tuple[float, float, float, float]]


def falling(side: int, betas: Sequence[float], num_reads: int) -> list[Energies]:
    """A ±J glass on an open lattice, drawn from through dimod; the others have the same time."""
    bqm = spins(SpinGlass(side, 1.0, seed=1, boundary="open"))
    rows = []
    for beta in betas:
        target = formats.from_bqm(bqm, beta=beta)
        exact = tcsis.exact.solve(target).mean_energy / beta

        def ours(beta: float = beta) -> tuple[np.ndarray, float]:
            found = tcsis.TCSISSampler().sample(bqm, num_reads=num_reads, beta=beta, seed=2)
            return found.record.energy, num_reads

        def theirs(num_sweeps: int, beta: float = beta) -> tuple[np.ndarray, float]:
            return anneal(bqm, num_reads, num_sweeps, beta_range=(HOT, beta))[0], num_reads

        def held(num_sweeps: int, beta: float = beta) -> tuple[np.ndarray, float]:
            """Half of the sweeps at β itself."""
            schedule = np.linspace(HOT, 2 * beta - HOT, num_sweeps).clip(max=beta)
            settings = {"beta_schedule_type": "custom", "beta_schedule": schedule}
            return anneal(bqm, num_reads, num_sweeps, **settings)[0], num_reads

        def population(
            num_rungs: int, target: tcsis.targets.Pairwise = target, beta: float = beta
        ) -> tuple[np.ndarray, float]:
            """Replicas of one family are alike: all are worth 1/Σ(share of a family)² draws."""
            draws = tcsis.mcmc.population_annealing(
                target, num_replicas=num_reads, num_rungs=num_rungs, seed=3
            )
            energies = -target.log_density(draws.x[:, 0]).double().numpy() / beta
            return energies, draws.log_z_error**-2

        ours()  # which compiles
        exact_draws, seconds = timed(ours)
        runs = {
            "exact draws": (exact_draws, seconds),
            "simulated annealing": as_long_as(seconds, theirs, 50),
            "annealing, held at β": as_long_as(seconds, held, 50),
            "population annealing": as_long_as(seconds, population, 5),
        }
        found = {
            name: (e.mean(), e.std() / math.sqrt(worth), e.min(), s)
            for name, ((e, worth), s) in runs.items()
        }
        rows.append(Energies(beta, exact, found))
    return rows


# -- ground states -------------------------------------------------------------------------------


def torus(long: int, narrow: int, seed: int) -> networkx.Graph:
    """A toroidal grid with weights ±1, as the generator rudy makes them for Gset."""
    graph = networkx.grid_2d_graph(long, narrow, periodic=True)
    signs = np.random.default_rng(seed).choice([-1, 1], graph.number_of_edges())
    for edge, sign in zip(graph.edges, signs.tolist(), strict=True):
        graph.edges[edge]["weight"] = sign
    return graph


def ground_states(side: int) -> list[tuple[str, float, float, str, float, float]]:
    """Name, lowest energy and seconds of ours, name, energy and seconds of another's."""
    rows = []
    for name, target in (
        (f"±J glass {side // 2}×{side // 2}", SpinGlass(side // 2, 1.0, seed=1, boundary="open")),
        ("Max-Cut, 3-regular, 100 nodes",
         formats.max_cut(networkx.random_regular_graph(3, 100, seed=1))),
    ):  # fmt: skip
        (_, best), seconds = timed(lambda target=target: tcsis.exact.most_probable(target))
        bqm = spins(target)
        other, others = timed(lambda bqm=bqm: TreeDecompositionSolver().sample(bqm))
        rows.append((name, -best, seconds, "tree decomposition", other.first.energy, others))
    glass = SpinGlass(side, 1.0, seed=1, boundary="open")
    cold = tcsis.TCSISSampler().sample(spins(glass), num_reads=100, beta=3.0)  # compiles
    cold, seconds = timed(
        lambda: tcsis.TCSISSampler().sample(spins(glass), num_reads=100, beta=3.0)
    )
    other, others = timed(lambda: PlanarGraphSolver().sample(spins(glass)))
    lowest = cold.first.energy
    rows.append((f"±J glass {side}×{side}, lowest of 100 draws at β = 3", lowest, seconds,
                 "planar graph solver", other.first.energy, others))  # fmt: skip
    return rows


# -- states of equal energy ----------------------------------------------------------------------


@dataclass(frozen=True)
class Fairness:
    """How often each of the ``number`` ground states came, by sampler, most frequent first."""

    glass: str
    number: int
    counts: dict[str, np.ndarray]

    def chance(self, name: str) -> float:
        """That fair draws differ as much, by χ²."""
        return float(chisquare(self.counts[name]).pvalue)


def count(states: np.ndarray, number: int) -> np.ndarray:
    """How often each state came, (number,), with zeros for those that never did."""
    _, times = np.unique(states, axis=0, return_counts=True)
    counts = np.zeros(number)
    counts[: len(times)] = np.sort(times)[::-1]
    return counts


def by_weight(draws: tcsis.Draws, seed: int = 0) -> np.ndarray:
    """Independent draws without weights: each is kept with the probability w/max w."""
    chance = (draws.log_weight - draws.log_weight.max()).exp()
    uniform = torch.rand(len(chance), generator=torch.Generator().manual_seed(seed))
    return draws.x[uniform < chance].numpy()


def fairness(side: int, boundary: str, seed: int, num_draws: int, steps: int) -> Fairness:
    """Ground states of a small ±J glass, which are counted exactly, as the samplers find them."""
    cold = SpinGlass(side, COLD, seed=seed, boundary=boundary, dtype=torch.float64)
    _, most = tcsis.exact.most_probable(cold)
    number = round(math.exp(tcsis.exact.solve(cold).log_z - most))
    lowest = -most / COLD
    target = SpinGlass(side, FAIR_BETA, seed=seed, boundary=boundary, dtype=torch.float64)

    def ground(draws: tcsis.Draws) -> tcsis.Draws:
        return draws[-target.log_density(draws.x) / FAIR_BETA < lowest + 1]

    model = tcsis.train(target, steps=steps, progress=False)
    learned = ground(model.sample(num_draws, seed=1))
    tempered = tcsis.mcmc.sample(
        target, "tempering", num_chains=num_draws // 10, num_steps=500, burn_in=499, progress=False
    )
    counts = {
        "exact draws": count(ground(tcsis.exact.draw(target, num_draws, seed=2)).x.numpy(), number),
        "learned, by weight": count(by_weight(learned), number),
        "tempering": count(ground(tempered.flat).x.numpy(), number),
    }
    bqm = spins(SpinGlass(side, 1.0, seed=seed, boundary=boundary))
    for num_sweeps in (100, 1_000):
        energies, states = anneal(bqm, num_draws, num_sweeps)
        counts[f"annealing, {num_sweeps:,} sweeps"] = count(states[energies < lowest + 1], number)
    return Fairness(f"{boundary}, seed {seed}", number, counts)


# -- Max-Cut from a file -------------------------------------------------------------------------


@dataclass(frozen=True)
class Cuts:
    """The best cut and its seconds, by solver; of annealing for as many seconds each."""

    exact: float
    seconds: float
    theirs: float
    their_seconds: float
    found: dict[str, list[tuple[float, float]]]


def cuts(path: Path, long: int, narrow: int) -> Cuts:
    formats.write_gset(torus(long, narrow, seed=1), path)
    target = formats.read(path)  # log p̄ is the weight of the cut
    (_, best), seconds = timed(lambda: tcsis.exact.most_probable(target))
    bqm = spins(target)
    tree, their_seconds = timed(lambda: TreeDecompositionSolver().sample(bqm))
    cold = formats.read(path, beta=6.0)

    def annealing(num_sweeps: int) -> float:
        return -anneal(bqm, 10, num_sweeps)[0].min()

    def descent(num_reads: int) -> float:
        return -SteepestDescentSampler().sample(bqm, num_reads=num_reads, seed=1).first.energy

    def population(num_rungs: int) -> float:
        draws = tcsis.mcmc.population_annealing(cold, num_replicas=500, num_rungs=num_rungs)
        return float(target.log_density(draws.x).max())

    runs = {"simulated annealing": (annealing, 100), "population annealing": (population, 5),
            "steepest descent": (descent, 100)}  # fmt: skip
    found = {
        name: [as_long_as(seconds * share, work, pilot) for share in (1 / 16, 1 / 4, 1)]
        for name, (work, pilot) in runs.items()
    }
    return Cuts(best, seconds, -tree.first.energy, their_seconds, found)


# -- what it says --------------------------------------------------------------------------------


def print_energies(rows: Sequence[Energies]) -> None:
    print("| β | exact ⟨E⟩ | " + " | ".join(f"{name}, lowest, s" for name in rows[0].found) + " |")
    print("|---:" * (2 + len(rows[0].found)) + "|")
    for row in rows:
        cells = [
            f"{mean - row.exact:+.2f} ± {error:.2f}, {lowest:.0f}, {seconds:.1f}"
            for mean, error, lowest, seconds in row.found.values()
        ]
        print(f"| {row.beta} | {row.exact:.2f} | " + " | ".join(cells) + " |")


def print_fairness(glasses: Sequence[Fairness]) -> None:
    names = list(glasses[0].counts)
    print("\n| 6×6 glass | ground states | " + " | ".join(names) + " |")
    print("|---:" * (2 + len(names)) + "|")
    for glass in glasses:
        chances = [
            f"{glass.chance(name):.2g} ({int(glass.counts[name].sum()):,})" for name in names
        ]
        print(f"| {glass.glass} | {glass.number} | " + " | ".join(chances) + " |")


def picture(rows: Sequence[Energies], glass: Fairness, cut: Cuts, sites: int, path: Path) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for name in rows[0].found:
        mean = [(row.found[name][0] - row.exact) / sites for row in rows]
        error = [row.found[name][1] / sites for row in rows]
        left.errorbar([row.beta for row in rows], mean, error, marker="o", ms=4, label=name)
    left.axhline(0, color="grey", lw=0.8)
    left.set(xlabel="β", ylabel="mean energy - exact, a site", title="At equal CPU time")
    left.legend(fontsize=8)
    for name, counts in glass.counts.items():
        share = counts / counts.mean()
        middle.plot(np.arange(1, len(share) + 1), share, marker=".", label=name)
    middle.axhline(1, color="grey", lw=0.8)
    middle.set(
        xlabel=f"the {glass.number} ground states, by frequency",
        ylabel="frequency over its mean",
        title="States of equal energy",
    )
    middle.legend(fontsize=8)
    for name, found in cut.found.items():
        if name != "steepest descent":  # far below
            best, seconds = zip(*found, strict=True)
            right.plot(seconds, best, marker="o", ms=4, label=name)
    right.axhline(cut.exact, color="grey", lw=0.8)
    right.plot(cut.seconds, cut.exact, "k*", ms=10, label="elimination, exact")
    right.plot(cut.their_seconds, cut.theirs, "k^", ms=6, label="tree decomposition, exact")
    right.set(xscale="log", xlabel="CPU seconds", ylabel="best cut", title="Max-Cut on a torus")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = falling(SIDE, BETAS, NUM_READS)
    print_energies(rows)
    print("\n| model | ours | s | another's | s |\n|---|---:|---:|---:|---:|")
    for name, ours, seconds, other, theirs, others in ground_states(SIDE):
        print(f"| {name} | {ours:.0f} | {seconds:.2f} | {other}: {theirs:.0f} | {others:.2f} |")
    glasses = [fairness(FAIR_SIDE, *glass, NUM_FAIR, 400) for glass in GLASSES]
    print_fairness(glasses)
    with tempfile.TemporaryDirectory() as place:
        cut = cuts(Path(place) / "torus.gset", LONG, NARROW)
    print("\n| solver | best cut (CPU s) |\n|---|---:|")
    print(f"| elimination, exact | {cut.exact:.0f} ({cut.seconds:.1f}) |")
    print(f"| tree decomposition, exact | {cut.theirs:.0f} ({cut.their_seconds:.1f}) |")
    for name, found in cut.found.items():
        print(f"| {name} | {', '.join(f'{best:.0f} ({seconds:.1f})' for best, seconds in found)} |")
    picture(rows, glasses[2], cut, SIDE**2, folder / "cuts_and_glasses.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
