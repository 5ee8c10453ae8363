"""The any-time method: calls, evidence, lattices large and disordered, and the time a draw takes.

    python benchmarks/any_time.py [WORDS]    writes docs/results/any_time/any_time.md

Every cell is one training run with one core (``OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1``).  Finished
cells are kept in ``cells.jsonl`` and not run again; to repeat one, delete its line.  With words,
such as "glass" or "seed 1", only the cells that have all of them are run.  "speed" measures draws a
second and the time of a call instead, with both cores, on a machine that should be idle.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch

import tcsis
from tcsis.basics.files import whole_file, write_whole
from tcsis.learn.learned import Learned
from tcsis.targets import Ising, SpinGlass
from tcsis.targets.base import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "any_time"
CELLS, SPEED = FOLDER / "cells.jsonl", FOLDER / "speed.json"
NUM_DRAWS, NUM_GIVEN, NUM_SETS = 16_384, 4_096, 20
SEEDS = (0, 1, 2)
SIDES = (10, 16, 24, 32)
Cell = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """``calls`` that draws are made with, the ``known`` sites of sets of evidence, and the seconds
    that training may take."""

    name: str
    target: Target
    calls: tuple[int, ...]
    known: tuple[int, ...] = ()
    budget: float = 220.0


TEN = (50, 33, 24, 16, 8)
SETTINGS = [
    Setting("Ising 10×10, β = 0.4407", Ising(10, 0.4407), TEN, known=(10, 50)),
    Setting("Ising 10×10, β = 0.28", Ising(10, 0.28), TEN),
    Setting("Ising 10×10, β = 0.6", Ising(10, 0.6), TEN),
    Setting("Ising 16×16, β = 0.4407", Ising(16, 0.4407), (128, 64, 33, 24, 16), budget=480),
    Setting("±J glass 8×8, β = 1", SpinGlass(8, 1.0, seed=0), (32, 24, 16)),
    Setting("±J glass 8×8, β = 2", SpinGlass(8, 2.0, seed=0), (32, 24, 16)),
]


def main(words: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "speed" in words:
        write_whole(SPEED, json.dumps(speed(), indent=1) + "\n")
        words = ["nothing"]
    for seed in SEEDS:
        for setting in SETTINGS:
            wanted = all(word in f"{setting.name} / seed {seed}" for word in words)
            if wanted and (setting.name, seed) not in {(c["setting"], c["seed"]) for c in kept()}:
                line = json.dumps(run(setting, seed), ensure_ascii=False)
                print(line, flush=True)
                with CELLS.open("ab", buffering=0) as file:
                    file.write(f"{line}\n".encode())
    write_whole(FOLDER / "any_time.md", page(kept()))
    with whole_file(FOLDER / "calls.png") as path:
        picture_of_calls(kept(), path)


def kept() -> list[Cell]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


# -- one cell --------------------------------------------------------------------------------------


def run(setting: Setting, seed: int) -> Cell:
    """Train, draw in several numbers of calls, and given several sets of evidence."""
    target = setting.target
    model = tcsis.train(target, "any-time", seed=seed, time_budget=setting.budget, progress=False)
    log_z = tcsis.exact.solve(target).log_z
    return {
        "setting": setting.name, "seed": seed, "train_seconds": round(model.seconds, 1),
        "steps": model.history[-1]["step"],
        "weights": sum(weights.numel() for weights in model.module.parameters()),
        "calls": [of_calls(model, calls, log_z, seed) for calls in setting.calls],
        "evidence": [of_evidence(model, known, log_z, seed) for known in setting.known],
    }  # fmt: skip


def of_calls(model: Learned, calls: int, log_z: float, seed: int) -> Cell:
    model.schedule(calls)  # the plan is made before, and not part of the draws' time
    draws = model.sample(NUM_DRAWS, calls=calls, seed=100 + seed)
    cell: Cell = {
        "calls": draws.num_network_calls / NUM_DRAWS, "ess": draws.ess,
        "log_z_error": draws.log_z - log_z, "log_z_spread": draws.log_z_error,
        "per_second": round(NUM_DRAWS / draws.seconds),
    }  # fmt: skip
    if model.target.num_sites <= 100:
        found = tcsis.evaluate(draws, model.target, weighted=False)
        correlation = found["correlation"]
        cell |= {"error": correlation.error, "floor": correlation.floor}
    return cell


def of_evidence(model: Learned, known: int, log_z: float, seed: int) -> Cell:
    """Random sets of that many sites with the values of exact draws."""
    target = model.target
    x = tcsis.exact.draw(target, NUM_SETS, seed=300 + seed).x
    generator = torch.Generator().manual_seed(seed)
    ess, sigmas = [], []
    for state in x:
        sites = torch.randperm(target.num_sites, generator=generator)[:known]
        given = model.given(dict(zip(sites.tolist(), state[sites].tolist(), strict=True)))
        draws = given.sample(NUM_GIVEN, seed=seed)
        ess.append(draws.ess)
        found = given.log_evidence(NUM_GIVEN, seed=seed)
        truth = tcsis.exact.solve(given.target).log_z - log_z
        sigmas.append((found.log_p - truth) / found.error)
    return {"known": known, "ess": ess, "sigmas": sigmas}


# -- speed -----------------------------------------------------------------------------------------


def speed() -> Cell:
    """Draws a second at side 10, and milliseconds a call by side, of untrained networks."""
    torch.set_num_threads(2)
    return {
        "calls": [seconds_a_call(side) for side in SIDES], "threads": torch.get_num_threads(),
        "profile": profile(),
    }  # fmt: skip


def untrained(side: int) -> Learned:
    target = Ising(side, 0.4407)
    config = tcsis.presets.fast(target, "any-time")
    return Learned(target, config, config.new_model(target, seed=0))


def profile(num_shown: int = 9) -> list[tuple[str, float]]:
    """Where the time of draws at side 10 goes, on one core: shares by operation."""
    model = untrained(10)
    torch.set_num_threads(1)
    model.sample(NUM_DRAWS)
    with torch.profiler.profile() as found:
        model.sample(NUM_DRAWS)
    torch.set_num_threads(2)
    spent = {row.key: row.self_cpu_time_total for row in found.key_averages()}
    total = sum(spent.values())
    first = sorted(spent, key=spent.__getitem__, reverse=True)[:num_shown]
    return [(name.removeprefix("aten::"), spent[name] / total) for name in first]


def seconds_a_call(side: int, n: int = 4_096) -> Cell:
    model = untrained(side)
    model.sample(n)
    begin = time.perf_counter()
    draws = model.sample(n)
    seconds = time.perf_counter() - begin
    calls = draws.num_network_calls / n
    return {"side": side, "calls": calls, "per_second": n / seconds,
            "microseconds": 1e6 * seconds / n / calls}  # fmt: skip


# -- page ------------------------------------------------------------------------------------------


def page(cells: list[Cell]) -> str:
    return f"""# The any-time method

`python benchmarks/any_time.py`, preset `fast`, one core a run (`OMP_NUM_THREADS=1
NUMBA_NUM_THREADS=1`), seeds as each row names them, {NUM_DRAWS:,} draws. One network serves all
rows of a setting: the blocks for every number of calls are planned from its own pilot draws. ESS is
the smallest of the seeds, the error (mean absolute, of G(r), as drawn) and log Z error the largest,
training time the longest. The last colour class is drawn from the target and takes no call. The
draws a second of the second row of a setting include the making of plans. The runs at 16×16 had to
share their core: alone, training makes more steps in the same time.

{calls_table(cells)}

![ESS against calls](calls.png)

## Evidence

The same networks, which were trained for no evidence in particular, given random sites with the
values of exact draws: {NUM_SETS} sets a seed, {NUM_GIVEN:,} draws each. log P(evidence) is compared
with the transfer matrix, in its own standard errors.

{evidence_table(cells)}

{speed_part()}"""


def calls_table(cells: list[Cell]) -> str:
    lines = [
        "| target | seeds | training s | weights | calls | ESS | error | floor | log Z error "
        "| draws/s |\n|---|---|---|---|---|---|---|---|---|---|"
    ]
    for setting in SETTINGS:
        own = [cell for cell in cells if cell["setting"] == setting.name]
        for number in range(len(setting.calls) if own else 0):
            rows = [cell["calls"][number] for cell in own]
            error = max(row.get("error", math.nan) for row in rows)
            floor = rows[0].get("floor", math.nan)
            log_z = max((row["log_z_error"] for row in rows), key=abs)
            lines.append(
                f"| {setting.name} | {' '.join(str(cell['seed']) for cell in own)} "
                f"| {max(cell['train_seconds'] for cell in own):.0f} | {own[0]['weights']:,} "
                f"| {setting.calls[number]} | {min(row['ess'] for row in rows):.4f} "
                f"| {shown(error)} | {shown(floor)} | {log_z:+.4f} "
                f"| {min(row['per_second'] for row in rows):,} |"
            )
    return "\n".join(lines)


def shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def evidence_table(cells: list[Cell]) -> str:
    lines = [
        "| target | known sites | sets | smallest ESS | median ESS | log P off by, σ (largest) "
        "| within 2σ |\n|---|---|---|---|---|---|---|"
    ]
    for setting in SETTINGS:
        own = [cell for cell in cells if cell["setting"] == setting.name]
        for number, known in enumerate(setting.known if own else ()):
            ess = sorted(value for cell in own for value in cell["evidence"][number]["ess"])
            sigmas = [abs(value) for cell in own for value in cell["evidence"][number]["sigmas"]]
            near = sum(value < 2 for value in sigmas) / len(sigmas)
            lines.append(
                f"| {setting.name} | {known} | {len(ess)} | {ess[0]:.3f} "
                f"| {ess[len(ess) // 2]:.3f} "
                f"| {max(sigmas):.1f} | {near:.0%} |"
            )
    return "\n".join(lines)


def speed_part() -> str:
    if not SPEED.exists():
        return ""
    found = json.loads(SPEED.read_text())
    first = found["calls"][0]["microseconds"]
    rows = "\n".join(
        f"| {row['side']} | {row['calls']:.0f} | {row['per_second']:,.0f} "
        f"| {row['microseconds']:.2f} | {row['microseconds'] / first:.2f} |"
        for row in found["calls"]
    )
    return f"""## Speed

`python benchmarks/any_time.py speed`: draws with {found["threads"]} threads, one site a call, in
batches of 2,048. A call reads the 128 nearest known sites and no more, so that its time hardly
grows with the lattice.

| side | calls | draws/s | µs a call and draw | against side 10 |
|---|---|---|---|---|
{rows}

Where the time goes at side 10, on one core, by operation: {profile_line(found["profile"])}.
"""


def profile_line(profile: list[tuple[str, float]]) -> str:
    return ", ".join(f"`{name}` {share:.0%}" for name, share in profile)


def picture_of_calls(cells: list[Cell], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for setting in SETTINGS:
        own = [cell["calls"] for cell in cells if cell["setting"] == setting.name]
        if own:
            worst = [min(rows[k]["ess"] for rows in own) for k in range(len(setting.calls))]
            axes.plot(setting.calls, worst, "o-", label=setting.name, markersize=4)
    axes.set_xscale("log")
    axes.set_xticks([8, 16, 24, 33, 50, 64, 128], labels=["8", "16", "24", "33", "50", "64", "128"])
    axes.minorticks_off()
    axes.set(xlabel="network calls a draw", ylabel="ESS, worst seed", ylim=(0.6, 1.01))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130, format="png")
    plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
