"""The paper's own settings on this machine: what a step costs, and a shortened run.

    python benchmarks/paper_presets.py       writes docs/results/learned/paper_presets.{md,png}

Each preset trains for a while, is resumed from its checkpoint, and draws; the time of a step gives
the time that all the steps of the paper's Table 1 would take.  The shortened run has the naive
estimator at side 4, β = 0.28, with a higher rate for its fewer steps.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import tcsis
from tcsis.learn import checkpoint, presets

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "learned"
BETA = 0.28
METHODS = ("self-normalized", "unbiased")
FIRST_STEPS = 5
MOST_STEPS = 300
MOST_SECONDS = 100.0
NUM_DRAWS = 20
SHORT = {"steps": 320, "rate": 1e-4, "evaluations": 8, "draws": 1_000}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "paper_presets.json"
    found = json.loads(path.read_text()) if path.exists() else {"presets": [], "short": []}
    for side in (4, 10):
        for method in METHODS:
            if not any((c["side"], c["method"]) == (side, method) for c in found["presets"]):
                found["presets"].append(measure(side, method))
                print(found["presets"][-1], flush=True)
                path.write_text(json.dumps(found, indent=1))
    if not found["short"]:
        found["short"] = shortened()
        path.write_text(json.dumps(found, indent=1))
    (FOLDER / "paper_presets.md").write_text(page(found))
    picture(found["short"], FOLDER / "paper_presets.png")


def measure(side: int, method: str) -> dict[str, Any]:
    """Train, resume and draw; ``steps`` are those of both parts."""
    target = tcsis.targets.Ising(side=side, beta=BETA)
    config = presets.paper(target, method).changed(num_evaluations=0)
    with tempfile.TemporaryDirectory() as folder:
        common = {"config": config, "folder": folder, "progress": False}
        tcsis.train(target, steps=FIRST_STEPS, **common)  # fills the buffer, which takes a while
        before = record(folder)
        most = before["seconds"] + MOST_SECONDS
        model = tcsis.train(target, steps=MOST_STEPS, time_budget=most, resume=True, **common)
        after = record(folder)
    draws = model.sample(NUM_DRAWS, seed=0)
    steps = after["step"] - before["step"]
    each = {name: (after[name] - before[name]) / steps for name in ("seconds", "num_density_calls")}
    return {
        "side": side, "method": method, "steps": after["step"],
        "weights": sum(p.numel() for p in model.module.parameters()),
        "seconds_a_step": each["seconds"], "all_steps": config.num_steps,
        "densities_a_step": each["num_density_calls"],
        "seconds_a_draw": draws.seconds / NUM_DRAWS,
        "calls": draws.num_network_calls / NUM_DRAWS,
    }  # fmt: skip


def record(folder: str) -> dict[str, Any]:
    """Steps, seconds and densities so far, as the checkpoint has them."""
    return checkpoint.load(Path(folder) / "checkpoint")[1]


def shortened() -> list[dict[str, float]]:
    target = tcsis.targets.Ising(side=4, beta=BETA)
    config = presets.paper(target).changed(
        optimisation={"learning_rate": SHORT["rate"]},
        num_steps=SHORT["steps"],
        num_evaluations=SHORT["evaluations"],
        num_evaluated=SHORT["draws"],
    )
    return tcsis.train(target, config=config, seed=0, progress=False).history


def page(found: dict[str, Any]) -> str:
    rows = "".join(
        f"| {c['side']} | {c['method']} | {c['weights']:,} | {c['steps']} | "
        f"{c['densities_a_step']:,.0f} | {c['seconds_a_step']:.2f} | {c['all_steps']:,} | "
        f"{c['seconds_a_step'] * c['all_steps'] / 3600:,.0f} | {c['seconds_a_draw']:.2f} |\n"
        for c in found["presets"]
    )
    points = "".join(
        f"| {c['step']} | {c['seconds']:.0f} | {c['loss']:.3f} | {c['error']:.4f} "
        f"| {c['floor']:.4f} | {c['ess']:.3f} |\n"
        for c in found["short"]
    )
    return f"""# The paper's presets here

`python benchmarks/paper_presets.py`, one core. `preset="paper"` holds the paper's Table 1: DiT, N,
proposal, rate, steps, batch. Each preset was trained, stopped, resumed from its checkpoint and
drawn from, for at most {MOST_STEPS} steps or {MOST_SECONDS:.0f} seconds after the first
{FIRST_STEPS}, which are not counted; the hours are what all of Table 1's steps would take at that
pace. Ising, β = {BETA}.

| side | method | weights | steps | densities a step | s a step | of Table 1 | hours | s a draw |
|---|---|---|---|---|---|---|---|---|
{rows}
## A shortened run

Side 4, self-normalized, the paper's naive estimator (N = 500), noise as proposal, score entropy and
Euler steps; {SHORT["steps"]:,} steps at a rate of {SHORT["rate"]:g} in place of 50,000 at 1e-5.
Errors are of {SHORT["draws"]:,} uncorrected draws with 24 calls, of the averaged weights.

![Loss and error of the shortened run](paper_presets.png)

| step | s | loss | G(r) error | floor | ESS |
|---|---|---|---|---|---|
{points}"""


def picture(history: list[dict[str, float]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    steps = [record["step"] for record in history]
    left.plot(steps, [record["loss"] for record in history], "o-", color="C0")
    left.set(xlabel="step", ylabel="loss (score entropy, one batch)")
    right.semilogy(steps, [record["error"] for record in history], "o-", color="C1", label="error")
    right.axhline(history[0]["floor"], color="black", lw=1, ls="--", label="floor")
    right.set(xlabel="step", ylabel="mean |G(r) error|")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
