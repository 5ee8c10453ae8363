"""Neural energies: density calls of training, where every evaluation is dear.

    python benchmarks/costly.py    writes docs/results/costly/costly.md, five minutes of a core

Calls are counted by the networks themselves, in states that they were asked for.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tcsis
from tcsis.basics.files import write_whole
from tcsis.exact import Enumeration
from tcsis.learn.config import Config
from tcsis.targets.base import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "costly"
NUM_DRAWS, SECOND = 10_000, 1e-3
"""Draws of every model, and seconds that an evaluation is taken to last in the last column."""


class Energy(nn.Module):
    """A network whose weights are normal, from a fixed seed, and which counts its states."""

    def __init__(self, seed: int, gain: float):
        super().__init__()
        self.generator, self.gain = torch.Generator().manual_seed(seed), gain
        self.num_states = 0

    def normal(self, *shape: int, scale: float) -> nn.Parameter:
        return nn.Parameter(scale * torch.randn(*shape, generator=self.generator))

    def forward(self, x: Tensor) -> Tensor:
        self.num_states += len(x)
        return self.gain * self.value(x)

    def value(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Layers(Energy):
    """Three layers over all spins."""

    def __init__(self, num_sites: int, seed: int, gain: float, width: int = 64):
        super().__init__(seed, gain)
        self.a = self.normal(num_sites, width, scale=2 / math.sqrt(num_sites))
        self.b = self.normal(width, width, scale=1.5 / math.sqrt(width))
        self.c = self.normal(width, scale=1 / math.sqrt(width))

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(torch.tanh((2 * x - 1).float() @ self.a) @ self.b) @ self.c


class Convolutions(Energy):
    """Two periodic 3×3 convolutions of 16 channels, summed over the lattice."""

    def __init__(self, side: int, num_values: int, seed: int, gain: float, width: int = 16):
        super().__init__(seed, gain)
        self.side, self.num_values = side, num_values
        self.a = self.normal(width, num_values, 3, 3, scale=2 / 3)
        self.b = self.normal(width, width, 3, 3, scale=2 / math.sqrt(9 * width))
        self.c = self.normal(width, scale=1 / math.sqrt(width))

    def value(self, x: Tensor) -> Tensor:
        z = nn.functional.one_hot(x, self.num_values).float().transpose(1, 2)
        z = z.reshape(len(x), self.num_values, self.side, self.side)
        z = nn.functional.silu(nn.functional.conv2d(around(z), self.a))
        z = torch.tanh(nn.functional.conv2d(around(z), self.b))
        return torch.einsum("nchw,c->n", z, self.c)


def around(z: Tensor) -> Tensor:
    return nn.functional.pad(z, (1, 1, 1, 1), mode="circular")


def num_modes(target: Target) -> int:
    """States that no single flip improves."""
    table = Enumeration(target)
    log_p, index = table.p.log(), torch.arange(table.num_states)
    highest = torch.ones(table.num_states, dtype=torch.bool)
    for site in range(target.num_sites):
        highest &= log_p >= log_p[index ^ (1 << site)]
    return int(highest.sum())


def trained(energy: Energy, target: Target, config: Config) -> dict[str, Any]:
    """A model of a config, its draws, and what the network was asked for on the way."""
    energy.num_states, began = 0, time.process_time()
    model = tcsis.train(target, config=config, progress=False)
    calls, cpu = energy.num_states, time.process_time() - began
    draws = model.sample(NUM_DRAWS, seed=1)
    steps, batch = model.steps, config.optimisation.batch_size
    return {
        "calls": calls, "counted": model.num_density_calls, "a state": calls / (steps * batch),
        "steps": steps, "cpu": cpu, "ess": draws.ess, "log_z": draws.log_z,
        "error": draws.log_z_error, "evaluated": model.evaluated,
    }  # fmt: skip


def full(target: Target, size: int, num_rungs: int, num_steps: int) -> Config:
    """The way of a density that is not costly, with so much annealing and so many steps."""
    source = {"kind": "population_annealing", "size": size, "num_rungs": num_rungs, "num_moved": 32}
    return tcsis.presets.fast(target).changed(
        buffer=source | {"steps_per_rung": 1, "every": 8}, num_steps=num_steps, num_evaluations=1,
        num_evaluated=1_000,
    )  # fmt: skip


def beside_ratios() -> list[str]:
    """Twenty spins, for which log Z is exact: both ways, by calls."""
    energy = Layers(20, seed=0, gain=4.0)
    costly, cheap = (tcsis.targets.from_callable(energy, 20, 2, costly=c) for c in (True, False))
    log_z, modes = Enumeration(cheap).log_z, num_modes(cheap)
    sparing = tcsis.presets.fast(costly).changed(num_evaluations=1)
    runs = [
        ("densities", costly, sparing.changed(num_steps=400)),
        ("densities", costly, sparing.changed(num_steps=2_000)),
        ("ratios, as many calls", cheap, full(cheap, 256, 10, 13)),
        ("ratios, ten times the calls", cheap, full(cheap, 512, 40, 130)),
    ]
    lines = [
        f"Twenty spins, three layers of 64, {modes} modes under single flips, log Z = {log_z:.4f}.",
        "",
        "| training asks for | steps | calls | a state | ESS | log Z - exact | standard error | "
        "CPU s | CPU s + 1 ms a call |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, target, config in runs:
        row = trained(energy, target, config)
        lines.append(
            f"| {name} | {row['steps']:,} | {row['calls']:,} | {row['a state']:.2f} | "
            f"{row['ess']:.3f} | {row['log_z'] - log_z:+.4f} | {row['error']:.4f} | "
            f"{row['cpu']:.0f} | {row['cpu'] + SECOND * row['calls']:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def by_size() -> list[str]:
    """Calls a state on lattices of several sizes and values, beside those of ratios."""
    lines = [
        "| lattice | d | V | steps | calls | recognition | first states | steps' calls a state | "
        "all calls a state | ratios: steps' calls a state | ESS |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for side, v, num_steps in ((6, 2, 600), (10, 2, 600), (14, 2, 200), (10, 5, 200)):
        d, energy = side * side, Convolutions(side, v, seed=0, gain=0.3)
        lattice = tcsis.targets.Lattice.of(side)
        costly, cheap = (
            tcsis.targets.from_callable(energy, d, v, lattice=lattice, costly=c)
            for c in (True, False)
        )
        config = tcsis.presets.fast(costly).changed(num_steps=num_steps, num_evaluations=1)
        costly.__dict__.pop("sketch", None)  # to be recognised in training, and counted there
        row = trained(energy, costly, config)
        states = num_steps * config.optimisation.batch_size
        other = trained(energy, cheap, full(cheap, 64, 1, 2))
        ratios = other["evaluated"]["training"] / (2 * config.optimisation.batch_size)
        went = row["evaluated"]
        lines.append(
            f"| {side}×{side} | {d} | {v} | {num_steps} | {row['calls']:,} | "
            f"{went['set-up']:,.0f} | {went['annealing']:,.0f} | {went['training'] / states:.3f} | "
            f"{row['a state']:.3f} | {ratios:.0f} | {row['ess']:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    text = [
        "# Costly densities",
        "",
        "`python benchmarks/costly.py`, one core: networks as log p̄, with fixed random weights.",
        "A *state* is one of the buffer's in a step of training. Calls are counted by the network",
        "itself, in states that it is asked for, everything included: recognition, first states,",
        "moves, evaluations. ESS and log Z are of 10,000 draws.",
        "",
        "## Beside the ratios of all neighbours",
        "",
        *beside_ratios(),
        "",
        "The last column is what training would take if an evaluation took a millisecond.",
        "",
        "## Calls a state, by sites and values",
        "",
        "Two periodic 3×3 convolutions of 16 channels. The steps' calls a state are one for a draw",
        "of the model and a few moves, whatever d and V are; with ratios they are those of two",
        "steps, measured in the same way (at most 2¹⁵ a step go to the ratios of a black box, so",
        "that fewer states are compared where each costs more).",
        "",
        *by_size(),
        "",
        f"CPU time of this page: {time.process_time() - began:.0f} s.",
    ]
    write_whole(FOLDER / "costly.md", "\n".join(text) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
