"""Sampling without learning: error against cost, and blocks of sites at side 6.

    python benchmarks/learning_free.py [FOLDER]     # under ten minutes on two cores

Every error is that of unweighted draws and stands beside its floor.  The blocks at side 6 have a
long-run estimate for a denoiser: carried walkers, many of them.
"""

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch

import tcsis
from tcsis import mcmc
from tcsis.reverse import plan_blocks, schedules
from tcsis.reverse.unlearned import carried_walkers, learning_free
from tcsis.targets import Ising, Target

NUM_DRAWS = 10_000
CRITICAL = 0.4407
SETTINGS = [(4, 0.28), (4, CRITICAL), (4, 0.6), (10, 0.28), (10, CRITICAL)]
GLAUBER_SWEEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NUM_WEIGHTED = 500
WALKERS_AT_SIDE_SIX = 256
NUM_PILOT = 128
CALLS_AT_SIDE_SIX = (3, 4, 6, 9, 12, 18)


def correlation_row(draws: tcsis.Draws, target: Target) -> tuple[float, float]:
    row = tcsis.evaluate(draws, target)["correlation"]
    assert row.error is not None and row.floor is not None
    return row.error, row.floor


def joint_lines() -> list[str]:
    """One line of the table for every setting."""
    lines = [
        "| side | β | G(r) error | floor | ratio | weighted error | ESS | log Z - exact | "
        "densities a draw | seconds | Glauber densities for that error |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for side, beta in SETTINGS:
        target = Ising(side, beta)
        draws = learning_free(target).sample(NUM_DRAWS, seed=1)
        error, floor = correlation_row(draws, target)
        weighted = tcsis.evaluate(draws, target, weighted=True)["correlation"].error
        gap = draws.log_z - tcsis.exact.solve(target).log_z
        cost = draws.num_density_calls / NUM_DRAWS
        lines.append(
            f"| {side} | {beta} | {error:.5f} | {floor:.5f} | {error / floor:.1f} | "
            f"{weighted:.5f} | {draws.ess:.2f} | {gap:+.4f} ± {draws.log_z_error:.4f} | "
            f"{cost:.0f} | {draws.seconds:.0f} | {glauber_cost(target, max(error, 2 * floor))} |"
        )
        print(lines[-1], flush=True)
    return lines


def glauber_cost(target: Ising, error: float) -> str:
    """Densities a chain (sweeps) after which Glauber from noise has an error as small as this."""
    for sweeps in GLAUBER_SWEEPS:
        steps = sweeps * target.num_sites
        draws = mcmc.sample(
            target, "glauber", num_chains=NUM_DRAWS, num_steps=steps, burn_in=steps - 1, seed=2,
            progress=False,
        )  # fmt: skip
        if correlation_row(draws, target)[0] <= error:
            return f"{sweeps}"
    return f"> {GLAUBER_SWEEPS[-1]}"


def walker_lines() -> list[str]:
    """Carried walkers at side 10: what more of them buy."""
    target = Ising(10, CRITICAL)
    truth = tcsis.exact.solve(target).log_z
    lines = [
        "| walkers | G(r) error | floor | ESS | log Z - exact | densities a draw | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for walkers in (4, 16, 64):
        sampler = learning_free(target, carried_walkers(walkers, num_rungs=200))
        draws = sampler.sample(NUM_WEIGHTED, seed=1)
        error, floor = correlation_row(draws, target)
        lines.append(
            f"| {walkers} | {error:.5f} | {floor:.5f} | {draws.ess:.2f} | "
            f"{draws.log_z - truth:+.3f} ± {draws.log_z_error:.3f} | "
            f"{draws.num_density_calls / NUM_WEIGHTED:.0f} | {draws.seconds:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def side_six() -> tuple[list[str], list[tuple[int, float]]]:
    """ESS against calls for planned blocks, the last colour class exact."""
    target = Ising(6, CRITICAL)
    others = schedules.remaining(36, schedules.last_class(target))
    order = schedules.farthest_point(target, others)
    walkers = carried_walkers(WALKERS_AT_SIDE_SIX, num_rungs=100)
    sampler = learning_free(target, walkers)
    pilot = walkers(target, sampler.noise, torch.Generator().manual_seed(4))
    lines, points = ["| calls | ESS | G(r) error | floor |", "|---|---|---|---|"], []
    for calls in CALLS_AT_SIDE_SIX:
        plan = plan_blocks(pilot, target, calls, order=order, n=NUM_PILOT)
        schedule = schedules.coloured(target, plan.blocks)
        draws = sampler.sample(NUM_WEIGHTED, schedule=schedule, seed=3)
        error, floor = correlation_row(draws, target)
        points.append((calls, draws.ess or 0.0))
        lines.append(f"| {calls} | {draws.ess:.3f} | {error:.5f} | {floor:.5f} |")
        print(lines[-1], flush=True)
    return lines, points


def draw_side_six(points: list[tuple[int, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    calls, ess = zip(*points, strict=True)
    axes.plot(calls, ess, "o-", color="#2a5d9f")
    axes.set(
        xlabel="denoiser calls", ylabel="effective share of the draws (ESS)", ylim=(0, 1.02),
        title=f"Side 6, β = {CRITICAL}: blocks of 18 sites, then the other 18 exactly",
    )  # fmt: skip
    axes.set_xticks(calls)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def main(folder: Path) -> None:
    begin = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    joint, walkers = joint_lines(), walker_lines()
    blocks, points = side_six()
    draw_side_six(points, folder / "blocks_side_6.png")
    text = [
        "# Sampling without learning",
        "",
        "Made by `python benchmarks/learning_free.py`, which took "
        f"{time.perf_counter() - begin:.0f} s with torch {torch.__version__}.",
        "",
        f"## One joint posterior draw a step, {NUM_DRAWS:,} independent draws",
        "",
        "`tcsis.learning_free(target).sample(10_000, seed=1)`: 500 sweeps of annealing, then 32 "
        "steps from noise with 4 posterior sweeps each. A density is one evaluation of log p̄ or "
        "one sweep. The last column is the number of Glauber sweeps from uniform noise, for as "
        "many chains, after which the error is as small (or within twice the floor, if that is "
        "more).",
        "",
        *joint,
        "",
        f"## Carried walkers as a denoiser, side 10, β = 0.4407, 50 calls, {NUM_WEIGHTED} draws",
        "",
        "Sites one by one, the odd half exactly; path weights with E[w] = Z. More walkers make a "
        "better denoiser, and the effective share of the draws shows it.",
        "",
        *walkers,
        "",
        f"## Planned blocks at side 6, {WALKERS_AT_SIDE_SIX} carried walkers, {NUM_WEIGHTED} draws",
        "",
        *blocks,
        "",
        "![ESS against denoiser calls](blocks_side_6.png)",
        "",
    ]
    (folder / "learning_free.md").write_text("\n".join(text))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/results/learning_free"))
