"""Learned samplers on every setting, three training seeds each, against exact answers.

    python benchmarks/learned.py [WORDS]    writes docs/results/learned/learned.md

Every cell is one training run and 10,000 uncorrected draws.  Finished cells are kept in
``cells.jsonl`` and not run again.  With words, such as "unbiased" or "seed 1", only the cells that
have all of them are run, so that several processes can share the work, one a core.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import torch

import tcsis
from tcsis.targets.base import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "learned"
CELLS = FOLDER / "cells.jsonl"
NUM_DRAWS = 10_000
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Setting:
    name: str
    target: Target
    method: str = "autoregressive"

    @property
    def key(self) -> str:
        return f"{self.name} / {self.method}"


def random_graph(seed: int = 0) -> Target:
    """A random 3-regular graph of 20 sites with couplings ±1, at β = 1."""
    graph = networkx.random_regular_graph(3, 20, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    couplings = torch.zeros(20, 20, dtype=torch.float64)
    for i, j in sorted(tuple(sorted(edge)) for edge in graph.edges):
        sign = 2.0 * torch.randint(2, (), generator=generator) - 1
        couplings[i, j] = couplings[j, i] = sign
    return tcsis.targets.Pairwise.from_spins(couplings, beta=1.0)


def ising(side: int, beta: float) -> tuple[str, Target]:
    return f"Ising {side}×{side}, β = {beta}", tcsis.targets.Ising(side=side, beta=beta)


SMALL = [ising(4, beta) for beta in (0.28, 0.4407, 0.6)]
LARGE = [ising(10, beta) for beta in (0.28, 0.4407)]
SETTINGS = [
    *[Setting(*named) for named in (*SMALL, *LARGE, ising(10, 0.6))],
    Setting("Potts V=3, 6×6, β = 1.005", tcsis.targets.Potts(side=6, num_values=3, beta=1.005)),
    Setting("±J, random 3-regular, 20 sites, β = 1", random_graph()),
    *[Setting(*named, "self-normalized") for named in (*SMALL, *LARGE)],
    *[Setting(*named, "unbiased") for named in (*SMALL, *LARGE)],
]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for setting in SETTINGS:
            name = f"{setting.key} / seed {seed}"
            wanted = all(word in name for word in sys.argv[1:])
            if wanted and not any((c["setting"], c["seed"]) == (setting.key, seed) for c in kept()):
                line = json.dumps(run(setting, seed))
                print(line, flush=True)
                with CELLS.open("a") as file:
                    file.write(line + "\n")
    (FOLDER / "learned.md").write_text(page(kept()))


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


def run(setting: Setting, seed: int) -> dict[str, Any]:
    """Train, draw, compare."""
    target = setting.target
    model = tcsis.train(target, setting.method, seed=seed, progress=False)
    draws = model.sample(NUM_DRAWS, seed=100 + seed)
    exact = tcsis.exact.solve(target)
    plain, weighted = (tcsis.evaluate(draws, target, weighted=w) for w in (False, True))
    name = "correlation" if target.lattice is not None else "pair correlations"
    spins = 2 * draws.x.double() - 1
    return {
        "setting": setting.key, "seed": seed, "weights": count(model.module),
        "train_seconds": round(model.seconds, 1),
        "calls": draws.num_network_calls / NUM_DRAWS,
        "error": plain[name].error, "weighted_error": weighted[name].error,
        "site_error": plain["site marginals"].error, "site_floor": plain["site marginals"].floor,
        "floor": plain[name].floor, "ess": draws.ess,
        "log_z_error": draws.log_z - exact.log_z, "log_z_spread": draws.log_z_error,
        "positive": float((spins.sum(1) > 0).double().mean()) if target.num_values == 2 else None,
        "negative": float((spins.sum(1) < 0).double().mean()) if target.num_values == 2 else None,
        "sample_seconds": round(draws.seconds, 2),
        "densities": model.num_density_calls,
    }  # fmt: skip


def count(module: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in module.parameters())


def page(cells: list[dict[str, Any]]) -> str:
    """The table, a row a setting, means over the seeds."""
    head = (
        "| setting | seeds | weights | training s | calls | error | floor | error, weighted | ESS "
        "| log Z error | draws/s |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    parts = []
    for title, method in (
        ("Autoregressive (the default)", "autoregressive"),
        ("Self-normalized", "self-normalized"),
        ("Unbiased", "unbiased"),
    ):
        rows = [
            row(setting.name, [c for c in cells if c["setting"] == setting.key])
            for setting in SETTINGS
            if setting.method == method
        ]
        if any(rows):
            parts.append(f"## {title}\n\n{head}{''.join(rows)}")
    return f"""# Learned samplers

`python benchmarks/learned.py`, preset `fast`, two runs side by side with one core each
(`OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1`): for each setting training runs with seeds 0, 1, 2
and {NUM_DRAWS:,} uncorrected draws each. Errors are the mean absolute error of
G(r) (of all pair correlations for the graph, which has no lattice), averaged over the seeds, beside
the error that as many perfect independent draws would show (floor). ESS is the smallest of the
seeds, log Z error the largest, training time the longest. Weighted errors use the path weights.
The training seconds of unbiased, side 10, β = 0.4407 are those of a repetition, as the first runs
had to share their core. The rows of the self-normalized and unbiased methods were measured with
networks of before and on slower machines; what they do today is in
[the parallel process](../parallel/parallel.md).

{chr(10).join(parts)}"""


def row(name: str, cells: list[dict[str, Any]]) -> str:
    if not cells:
        return ""  # not yet measured

    def mean(key: str) -> float:
        return statistics.mean(float(c[key]) for c in cells)

    speed = NUM_DRAWS / mean("sample_seconds")
    worst_z = max((float(c["log_z_error"]) for c in cells), key=abs)
    return (
        f"| {name} | {len(cells)} | {cells[0]['weights']:,} "
        f"| {max(c['train_seconds'] for c in cells):.0f} | {mean('calls'):.1f} "
        f"| {mean('error'):.4f} | {mean('floor'):.4f} "
        f"| {mean('weighted_error'):.4f} | {min(c['ess'] for c in cells):.3f} | {worst_z:+.4f} "
        f"| {speed:,.0f} |\n"
    )


if __name__ == "__main__":
    main()
