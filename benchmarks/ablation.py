"""What each part of the method is worth: one change at a time, at equal wall time.

    python benchmarks/ablation.py            writes docs/results/learned/ablation.{md,png}

Critical Ising, side 4 (15 s of training each) and side 10 (60 s each), method self-normalized; then
the schedules, at equal calls, on one network trained for all of them.  Finished cells are kept in
``ablation.jsonl`` and not run again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import tcsis
from tcsis.learn import presets
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.reverse import schedules
from tcsis.reverse.planning import plan_blocks

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "learned"
BETA = 0.4407
SECONDS = {4: 15.0, 10: 60.0}
NUM_DRAWS = {4: 4_000, 10: 2_000}
CALLS = {4: 24, 10: 64}
CHANGES: dict[str, dict[str, Any]] = {
    "as it is: warm, path, denoiser": {},
    "estimator: naive": {"method": {"estimator": {"kind": "naive", "num_samples": 16}}},
    "estimator: shared": {"method": {"estimator": {"kind": "shared", "num_samples": 64}}},
    "estimator: marginalised": {
        "method": {"estimator": {"kind": "marginalised", "num_samples": 64}}
    },
    "estimator: annealed": {
        "method": {"estimator": {"kind": "annealed", "num_chains": 4, "num_rungs": 16}}
    },
    "objective: cross-entropy": {"method": {"objective": "cross-entropy"}},
    "objective: score entropy": {"method": {"objective": "score-entropy"}},
    "without preconditioning": {"method": {"preconditioned": False}},
    "without symmetry": {"method": {"symmetric": False}},
    "buffer: noise": {"buffer": {"kind": "uniform"}},
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "ablation.jsonl"
    cells = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for side in SECONDS:
        for name in CHANGES:
            if not any((c["side"], c["name"]) == (side, name) for c in cells):
                cells.append(run(side, name))
                keep(path, cells)
        if not any(c["side"] == side and c["name"].startswith("schedule") for c in cells):
            cells += run_schedules(side)
            keep(path, cells)
    (FOLDER / "ablation.md").write_text(page(cells))
    picture(cells, FOLDER / "ablation.png")


def keep(path: Path, cells: list[dict[str, Any]]) -> None:
    print(json.dumps(cells[-1]), flush=True)
    path.write_text("".join(json.dumps(cell) + "\n" for cell in cells))


def config_for(side: int, change: dict[str, Any]) -> Config:
    """The self-normalized preset with Tweedie steps, which every variant can take, and one change.

    Score and naive estimates need α > 0, so all variants have a little of it at t = 1.
    """
    base = presets.fast(tcsis.targets.Ising(side=side, beta=BETA), "self-normalized")
    common = {"step": "tweedie", "noise_eps": 1e-3}
    return base.changed(method=common, num_evaluations=0, num_steps=100_000).changed(**change)


def run(side: int, name: str) -> dict[str, Any]:
    target = tcsis.targets.Ising(side=side, beta=BETA)
    model = tcsis.train(
        target, config=config_for(side, CHANGES[name]), time_budget=SECONDS[side], progress=False
    )
    return measure(side, name, model, model.sample(NUM_DRAWS[side], calls=CALLS[side], seed=1))


def run_schedules(side: int) -> list[dict[str, Any]]:
    """Parallel, sequential, blockwise and coloured on one network, then the autoregressive one."""
    target = tcsis.targets.Ising(side=side, beta=BETA)
    change = {
        "times": "mixed", "objective": "cross-entropy", "noise_eps": 0.0,
    }  # fmt: skip
    config = config_for(side, {"method": change})
    model = tcsis.train(target, config=config, time_budget=2 * SECONDS[side], progress=False)
    half, order = target.num_sites // 2, schedules.farthest_point(target)
    others = schedules.remaining(target.num_sites, schedules.last_class(target))
    tried = {
        f"schedule: parallel, {half} calls": model.schedule(half),
        f"schedule: blockwise, {half} calls": schedules.blockwise(
            plan_blocks(model.denoiser, target, half, order=order, n=256).blocks
        ),
        f"schedule: coloured one by one, {half} calls": schedules.coloured(target),
        f"schedule: coloured blocks, {half // 2} calls": schedules.coloured(
            target,
            plan_blocks(
                model.denoiser, target, half // 2,
                order=schedules.farthest_point(target, others), n=256,
            ).blocks,
        ),
        f"schedule: parallel, {2 * half} calls": model.schedule(2 * half),
        f"schedule: sequential, {2 * half} calls": schedules.sequential(order),
    }  # fmt: skip
    n = NUM_DRAWS[side]
    cells = [
        measure(side, name, model, model.sample(n, schedule=schedule, seed=1))
        for name, schedule in tried.items()
    ]
    causal = tcsis.train(target, "autoregressive", time_budget=SECONDS[side], progress=False)
    name = f"schedule: coloured one by one, {half} calls, autoregressive"
    return [*cells, measure(side, name, causal, causal.sample(n, seed=1))]


def measure(side: int, name: str, model: Learned, draws: tcsis.Draws) -> dict[str, Any]:
    row = tcsis.evaluate(draws, model.target)["correlation"]
    gap = draws.log_z - tcsis.exact.solve(model.target).log_z
    return {
        "side": side, "name": name, "train_seconds": round(model.seconds, 1),
        "calls": draws.num_network_calls / len(draws), "error": row.error, "floor": row.floor,
        "ess": draws.ess, "log_z_error": gap,
        "densities": model.num_density_calls,
    }  # fmt: skip


def page(cells: list[dict[str, Any]]) -> str:
    lines = []
    for side in SECONDS:
        lines += [
            f"\n## Side {side}, β = {BETA}\n",
            "| variant | training s | densities in training | calls | G(r) error | floor | ESS "
            "| log Z error |\n|---|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {c['name']} | {c['train_seconds']:.0f} | {c['densities']:,.0f} | {c['calls']:.0f} "
            f"| {c['error']:.4f} | {c['floor']:.4f} | {c['ess']:.3f} | {c['log_z_error']:+.3f} |"
            for c in cells
            if c["side"] == side
        ]
    return f"""# What each part is worth

`python benchmarks/ablation.py`, two cores, one seed. Each variant differs from the first line in
one thing and trains for the same wall time. Draws go through the parallel process with Tweedie
steps unless the line names a schedule, of which a perfect denoiser, too, makes an ESS below 1.
"Score entropy" is the paper's parametrisation, a network for the log-score (Eq. 6);
"cross-entropy" and "path" have one for the denoiser. Errors are of {NUM_DRAWS[4]:,} draws (side 4)
and {NUM_DRAWS[10]:,} (side 10), uncorrected. Lines with a schedule share one network, trained twice
as long on mixed times; the last is the autoregressive method instead.

![ESS of every variant](ablation.png)
{chr(10).join(lines)}
"""


def picture(cells: list[dict[str, Any]], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained", sharex=True)
    for axis, side in zip(axes, SECONDS, strict=True):
        own = [c for c in cells if c["side"] == side][::-1]
        colours = ["C1" if c["name"].startswith("schedule") else "C0" for c in own]
        axis.barh([c["name"] for c in own], [c["ess"] for c in own], color=colours)
        for height, cell in enumerate(own):
            axis.text(cell["ess"] + 0.01, height, f"{cell['ess']:.2f}", va="center", fontsize=8)
        axis.set(title=f"side {side}, β = {BETA}", xlabel="ESS")
        axis.set_xlim(0, 1.1)
        axis.tick_params(axis="y", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
