"""Chains and populations, a class for every kind of way to run them."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tcsis.app.bench.autocorrelation import MAX_SIGMAS, error_of, off
from tcsis.app.bench.chains import measure
from tcsis.app.bench.plan import Family, Result, Task
from tcsis.mcmc.annealing import Population
from tcsis.mcmc.runner import population_annealing, start_chains
from tcsis.mcmc.tempering import ParallelTempering
from tcsis.targets.base import uncounted
from tcsis.targets.pairwise import Pairwise

FEWEST_FAMILIES = 50.0
"""Effective families below which a population says nothing."""


def cluster_moves(family: Family, side: int) -> bool:
    return family.ferromagnet


@dataclass(frozen=True)
class Kernel:
    """Compiled chains of one kernel, all at the target's own temperature."""

    kernel: str
    num_chains: int

    modules = ("tcsis.app.bench.ways",)

    def run(self, task: Task, target: Pairwise) -> Result:
        return measure(
            task, target, lambda x: start_chains(target, self.kernel, x, task.seed),
            self.num_chains,
        )  # fmt: skip

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tempering:
    """Parallel tempering of heat-bath sweeps; a step moves all copies of a chain so many sweeps and
    swaps some, and only the coldest is observed."""

    num_chains: int
    steps_per_swap: int

    modules = ("tcsis.app.bench.ways",)

    def run(self, task: Task, target: Pairwise) -> Result:
        scales = task.family.ladder.scales(task.side)
        kernel = ParallelTempering("gibbs", scales, self.steps_per_swap)
        return measure(
            task, target, lambda x: start_chains(target, kernel, x, task.seed), self.num_chains
        )

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self) | {"scales": list(task.family.ladder.scales(task.side))}


@dataclass(frozen=True)
class Annealing:
    """Populations one after the other; replicas of one family count as one draw."""

    num_replicas: int
    steps_per_rung: int

    modules = ("tcsis.app.bench.ways",)

    def run(self, task: Task, target: Pairwise) -> Result:
        truth = task.family.truth(target)
        self.anneal(task, target, rungs=2, seed=task.seed)  # which may compile
        found: list[Population] = []
        began = time.process_time()
        while time.process_time() - began < task.seconds or not found:
            seed = 1 + task.seed + len(found)
            found.append(self.anneal(task, target, self.num_rungs(task), seed))
        seconds = time.process_time() - began
        replicas = self.num_replicas * len(found)
        families = sum(1 / population.log_z_error**2 for population in found)
        with uncounted(target):
            energies = torch.cat([target.energy(p.x.flatten(0, -2).long()) for p in found]).double()
        energy = float(energies.mean())
        error = error_of(float(energies.std()), truth.energy_spread, families)
        refused = None
        if families < FEWEST_FAMILIES:
            refused = f"{families:.2g} effective families in all, {FEWEST_FAMILIES:.0f} are wanted"
        elif truth.energy is not None and (far := off(energy, error, truth.energy)) > MAX_SIGMAS:
            refused = f"the energy is {far:.1f} standard errors off"
        return Result(
            seconds=seconds / replicas,
            densities=sum(p.num_density_calls for p in found) / replicas,
            draw=replicas / families,
            relative_error=None if refused else spread(found),
            refused=refused,
            detail="effective families",
            num_draws=replicas,
            energy=energy,
            energy_error=error,
            exact_energy=truth.energy,
        )

    def anneal(self, task: Task, target: Pairwise, rungs: int, seed: int) -> Population:
        return population_annealing(
            target, "gibbs", num_replicas=self.num_replicas, num_rungs=rungs,
            steps_per_rung=self.steps_per_rung, seed=seed,
        )  # fmt: skip

    def num_rungs(self, task: Task) -> int:
        return task.family.ladder.rungs * task.side

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self) | {"num_rungs": self.num_rungs(task)}


def spread(populations: list[Population]) -> float | None:
    """The standard error of the mean number of families, as a share of it."""
    if len(populations) < 2:
        return None
    sizes = torch.tensor([1 / p.log_z_error**2 for p in populations], dtype=torch.float64)
    return float(sizes.std() / sizes.mean()) / math.sqrt(len(sizes))
