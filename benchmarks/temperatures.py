"""One network for a range of targets, at values that training never met.

    python benchmarks/temperatures.py [WORDS]    writes docs/results/scale/temperatures.md

Every setting is one training run with one core (``OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1``), whose
state is kept under ``runs/temperatures``.  Finished settings are kept in ``temperatures.jsonl``
and not run again; to repeat one, delete its line and its run.  A run that was stopped by Ctrl-C
goes on where it was, and its processor time is added up.  With words, such as "glass", only
settings that have all of them are run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tcsis
from tcsis.basics.files import write_whole
from tcsis.learn.learned import Learned
from tcsis.targets import Ising, SpinGlass
from tcsis.targets.base import Target

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results" / "scale"
CELLS, PAGE = FOLDER / "temperatures.jsonl", FOLDER / "temperatures.md"
NUM_DRAWS = 16_384
Cell = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """A target with the ends of a range of ``parameter``, and the values it is asked for at."""

    name: str
    slug: str
    target: Target
    parameter: str
    ends: tuple[float, float]
    values: tuple[float, ...]
    steps: int


BETAS = (0.125, 0.175, 0.225, 0.275, 0.325, 0.375, 0.4125, 0.4407, 0.475, 0.525, 0.58)
COLD = (0.35, 0.5, 0.65, 0.8, 0.95, 1.1, 1.25, 1.4, 1.55, 1.75, 1.95)
FIELDS = (-0.19, -0.15, -0.11, -0.075, -0.035, 0.002, 0.035, 0.075, 0.11, 0.15, 0.19)
SETTINGS = [
    Setting("Ising 10×10", "ising", Ising(10, 0.6), "beta", (0.1, 0.6), BETAS, 6_000),
    Setting(
        "±J glass 8×8", "glass", SpinGlass(8, 2.0, seed=0), "beta", (0.3, 2.0), COLD, 1_500
    ),
    Setting(
        "Ising 6×6 in a field, β = 0.3", "field", Ising(6, 0.3), "field", (-0.2, 0.2), FIELDS, 400
    ),
]  # fmt: skip


def main(words: list[str]) -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for setting in SETTINGS:
        wanted = all(word in f"{setting.name} {setting.slug}" for word in words)
        if wanted and setting.name not in {cell["setting"] for cell in kept()}:
            line = json.dumps(run(setting), ensure_ascii=False)
            with CELLS.open("ab", buffering=0) as file:
                file.write(f"{line}\n".encode())
    write_whole(PAGE, page(kept()))


def kept() -> list[Cell]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


def run(setting: Setting) -> Cell:
    folder = ROOT / "runs" / "temperatures" / setting.slug
    clock, begun = folder / "cpu.json", folder.exists()
    before = json.loads(clock.read_text()) if clock.exists() else 0.0
    cpu = before - time.process_time()
    try:
        model = tcsis.train_range(
            setting.target, steps=setting.steps, folder=folder, resume=begun, progress=False,
            **{setting.parameter: setting.ends},
        )  # fmt: skip
    finally:  # also where a signal ends it
        cpu += time.process_time()
        write_whole(clock, json.dumps(cpu))
    return {
        "setting": setting.name, "parameter": setting.parameter, "ends": setting.ends,
        "steps": model.steps, "levels": model.config.method.levels,
        "cpu_seconds": round(cpu), "seconds": round(model.seconds),
        "densities": model.num_density_calls,
        "weights": sum(weights.numel() for weights in model.module.parameters()),
        "rows": [at(model, setting, value) for value in setting.values],
    }  # fmt: skip


def at(model: Learned, setting: Setting, value: float) -> Cell:
    one = model.at(**{setting.parameter: value})
    draws = one.sample(NUM_DRAWS, seed=1)
    found = tcsis.evaluate(draws, one.target, weighted=False)["correlation"]
    weighted = tcsis.evaluate(draws, one.target, weighted=True)["correlation"]
    truth = tcsis.exact.solve(one.target).log_z
    row = {
        "value": value, "ess": draws.ess, "error": found.error, "weighted": weighted.error,
        "floor": found.floor,
        "log_z_off": draws.log_z - truth, "log_z_error": draws.log_z_error,
        "calls": draws.num_network_calls / NUM_DRAWS,
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


# -- page ------------------------------------------------------------------------------------------


def page(cells: list[Cell]) -> str:
    return f"""# One network for a range of temperatures

`python benchmarks/temperatures.py`: `tcsis.train_range`, preset `fast`, seed 0, one core a run
(`OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1`). Each table is of one trained network, asked at values
that are none of its levels, with {NUM_DRAWS:,} draws each. The error is the mean absolute one of
G(r) by weighted draws, beside that of the draws as they come, and its floor what as many exact
draws would show; log Z is beside the transfer matrix, σ the standard error that the draws give
themselves.

{"".join(part(cell) for cell in cells)}"""


def part(cell: Cell) -> str:
    rows = "\n".join(
        f"| {row['value']:g} | {row['ess']:.4f} | {row['weighted']:.4f} | {row['error']:.4f} "
        f"| {row['floor']:.4f} | {row['weighted'] / row['floor']:.1f} "
        f"| {row['log_z_off']:+.4f} | {row['log_z_error']:.4f} |"
        for row in cell["rows"]
    )
    low, high = cell["ends"]
    return f"""## {cell["setting"]}

{cell["parameter"]} from {low:g} to {high:g}, {cell["levels"]} levels, {cell["weights"]:,} weights.
Training took {cell["cpu_seconds"]:,} seconds of one core ({cell["seconds"]:,} by the clock, beside
other work) for {cell["steps"]:,} steps with {cell["densities"]:,.0f} evaluations of the density,
annealing and evaluations among them. A draw takes {cell["rows"][0]["calls"]:.0f} network calls.

| {cell["parameter"]} | ESS | G(r) error | as drawn | floor | error/floor | log Z off by | its σ |
|---|---|---|---|---|---|---|---|
{rows}

"""


if __name__ == "__main__":
    main(sys.argv[1:])
