"""Chains of other libraries at the target's own temperature, moved and measured as ours are.

Neither counts evaluations of the density.  The annealer of dwave-samplers samples where all of its
temperatures are the same: it is then a chain of Metropolis sweeps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsis.app.bench.chains import measure
from tcsis.app.bench.plan import Family, Result, Task
from tcsis.basics.optional import need
from tcsis.mcmc.chains import Chains
from tcsis.targets.pairwise import Pairwise
from tcsis.targets.physics import Ising

PURPOSE, EXTRA = "this chain", "bench"


def without_disorder(family: Family, side: int) -> bool:
    return isinstance(family.make(side), Ising)


def spins_alone(family: Family, side: int) -> bool:
    return family.make(side).num_values == 2


@dataclass(frozen=True)
class Mcising:
    """Simulations of mcising, one a chain; its sweep is one over all sites, or one cluster."""

    algorithm: str
    num_chains: int

    modules = ("tcsis.app.bench.others",)

    def run(self, task: Task, target: Pairwise) -> Result:
        assert isinstance(target, Ising)
        return measure(
            task, target, lambda x: Simulations(target, self.algorithm, x, task.seed),
            self.num_chains,
        )  # fmt: skip

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Dwave:
    """Sweeps of the annealer of dwave-samplers, one read a chain."""

    num_chains: int

    modules = ("tcsis.app.bench.others",)

    def run(self, task: Task, target: Pairwise) -> Result:
        return measure(task, target, lambda x: Reads(target, x, task.seed), self.num_chains)

    def describe(self, task: Task) -> dict[str, Any]:
        return asdict(self)


class Simulations(Chains):
    """mcising's simulations as chains."""

    def __init__(self, target: Ising, algorithm: str, x: Tensor, seed: int):
        library = need("mcising", PURPOSE, EXTRA)
        assert target.lattice is not None
        side, self.temperature = target.lattice.shape[0], 1 / target.beta
        self.all = [
            library.IsingSimulation(side, 1.0, 0.0, 0.0, 0.0, seed + 1 + number, algorithm)
            for number in range(len(x))
        ]
        self.place(x)

    @property
    def x(self) -> Tensor:
        spins = np.stack([one.get_spins().reshape(-1) for one in self.all])
        return torch.from_numpy((spins > 0).astype(np.uint8))

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        for one, spins in zip(self.all, (2 * x - 1).to(torch.int8).numpy(), strict=True):
            one.set_spins(spins)

    def advance(self, num_steps: int) -> float:
        for one in self.all:
            one.sweep(num_steps, temperature=self.temperature)
        return 1.0


class Reads(Chains):
    """The reads of dwave's annealer as chains: every call goes on from the states of the last."""

    def __init__(self, target: Pairwise, x: Tensor, seed: int):
        dimod = need("dimod", PURPOSE, EXTRA)
        self.sampler = need("dwave.samplers", PURPOSE, EXTRA).SimulatedAnnealingSampler()
        couplings, fields, _ = target.spin_form
        self.model = dimod.BinaryQuadraticModel("SPIN")
        self.model.add_linear_from((i, -h) for i, h in enumerate(fields.tolist()))
        self.model.add_quadratic_from(
            (i, j, -b) for (i, j), b in zip(target.edges.tolist(), couplings.tolist(), strict=True)
        )
        self.order, self.seed = list(range(target.num_sites)), seed
        self.place(x)

    @property
    def x(self) -> Tensor:
        return torch.from_numpy((self.spins > 0).astype(np.uint8))

    def place(self, x: Tensor, scale: Tensor | None = None) -> None:
        self.spins = (2 * x - 1).to(torch.int8).numpy()

    def advance(self, num_steps: int) -> float:
        self.seed += 1
        found = self.sampler.sample(
            self.model, num_reads=len(self.spins), num_sweeps=num_steps, seed=self.seed,
            beta_schedule_type="custom", beta_schedule=[1.0] * num_steps, num_sweeps_per_beta=1,
            initial_states=(self.spins, self.order),
        )  # fmt: skip
        place = np.argsort(list(found.variables))
        self.spins = np.ascontiguousarray(found.record.sample[:, place])
        return 1.0
