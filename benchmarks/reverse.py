"""Reverse steps, time grids and schedules with an exact denoiser, at side 4: what a call buys.

With an exact denoiser the only error left is the scheme's own.  Writes the tables and the picture
of ``docs/results/reverse/``.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor

from tcsis import exact, reverse
from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.judging import metrics
from tcsis.noise import UniformNoise
from tcsis.reverse import planning, schedules
from tcsis.reverse.schedules import Schedule
from tcsis.reverse.steps import Step, euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.targets import Ising

BETAS = {"high": 0.28, "critical": 0.4407, "low": 0.6}
CALLS = (8, 24, 64)
RUNS = list(product(("uniform", "tuned"), CALLS))
NUM_DRAWS = 10_000
NOISE = UniformNoise(2)
COLOURS = {"euler": "#b0b0b0", "tweedie": "#1f77b4", "trapezoidal": "#d62728"}
LINES = {"uniform": "-", "tuned": "--"}


class TableDenoiser:
    """The exact denoiser of side 4, for one time vector shared by all states of a call.

    Where all sites are noisy, p_t alone is enough: p_t(x with i set to v) = Σ_u k(v|u)·C_i(u) is
    solved for the cavity C_i.  Where some are unknown, C_i is summed for each site by itself.
    """

    def __init__(self, target: Ising):
        self.num_sites = target.num_sites
        self.p = Enumeration(target).p.reshape([2] * target.num_sites)
        self.place = 2 ** torch.arange(target.num_sites - 1, -1, -1)

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        alpha = NOISE.schedule.alpha(t[0])
        base = metrics.state_index(x, 2)[:, None] - x * self.place
        index = torch.stack([base, base + self.place], dim=-1)  # (b, d, v): site i set to v
        if bool((alpha > 1e-3).all()):
            p_t = smooth(self.p, alpha.tolist(), range(self.num_sites)).flatten()[index]
            mean = p_t.mean(-1, keepdim=True)
            cavity = (p_t - (1 - alpha[:, None]) * mean).clamp_min(0)
        else:
            cavity = self.cavities(self.p, alpha.tolist(), 0, self.num_sites, index)
        return (cavity.log() + NOISE.log_kernel(x, t[:1])).log_softmax(-1)

    def cavities(self, p: Tensor, alpha: list[float], low: int, high: int, index: Tensor) -> Tensor:
        """C_i(u) for sites low..high of p summed over the kernels of all others, (b, k, v).

        The half that a site is not in is summed before its own half is divided: log2(d) sums each.
        """
        if high - low == 1:
            return p.flatten()[index[:, low : low + 1]]
        middle = (low + high) // 2
        first = smooth(p, alpha, range(middle, high))
        second = smooth(p, alpha, range(low, middle))
        parts = (
            self.cavities(first, alpha, low, middle, index),
            self.cavities(second, alpha, middle, high, index),
        )
        return torch.cat(parts, dim=1)


def smooth(p: Tensor, alpha: list[float], sites: range) -> Tensor:
    """p with the kernel applied to some of its axes."""
    for site in sites:
        halves = p.reshape(2**site, 2, -1)
        mixed = torch.lerp(halves.mean(1, keepdim=True).expand_as(halves), halves, alpha[site])
        p = mixed.reshape(p.shape)
    return p


@dataclass(frozen=True)
class Result:
    """One run: what it was, its calls a draw, the mean |error| of G(r), and its ESS."""

    beta: float
    name: str
    grid: str
    calls: float
    error: float
    ess: float


class Study:
    """A target at side 4 with its exact answers and its exact denoiser."""

    def __init__(self, beta: float):
        self.target = Ising(4, beta, dtype=torch.float64)
        self.beta = beta
        self.denoiser = TableDenoiser(self.target)
        self.truth = exact.solve(self.target).correlation[1:]
        x = exact.draw(self.target, 20_000, seed=0).x.long()
        marginals = metrics.site_marginals(x, 2)
        terms = metrics.correlation_terms(x, self.target.lattice, marginals)
        self.floor = metrics.mean_floor(terms.std(0)[1:], NUM_DRAWS)

    def run(self, name: str, grid: str, schedule: Schedule, step: Step) -> Result:
        draws = reverse.sample(self.target, self.denoiser, NOISE, schedule, step, NUM_DRAWS, seed=1)
        calls = draws.num_network_calls / NUM_DRAWS
        return Result(self.beta, name, grid, calls, self.error(draws), draws.ess)

    def error(self, draws: Draws) -> float:
        g = metrics.correlation(draws.x, 2, self.target.lattice)[1:]
        return float((g - self.truth).abs().mean())

    def parallel(self) -> list[Result]:
        """All steps and grids; the second-order step spends about one call on looking back."""
        d, results = self.target.num_sites, []
        generator = torch.Generator().manual_seed(0)
        lengths = planning.weight_lengths(self.denoiser, NOISE, d, 24, 2_000, generator)
        grids: dict[str, Callable[[int], Tensor]] = {
            "uniform": lambda k: schedules.uniform_grid(NOISE, k),
            "tuned": lambda k: planning.equal_lengths(NOISE, lengths, k),
        }
        steps = {"euler": (euler, 0), "tweedie": (tweedie, 0)}
        steps["trapezoidal"] = (Trapezoidal(self.target), 1)
        for (name, (step, fewer)), (grid, calls) in product(steps.items(), RUNS):
            if (name, calls) == ("euler", 64):
                continue  # far behind already, and a minute of running time
            schedule = schedules.parallel(d, grids[grid](calls - fewer))
            results.append(self.run(name, grid, schedule, step))
        return results

    def blockwise(self) -> list[Result]:
        """Half of the sites in blocks, the other half from the target."""
        others = schedules.remaining(16, schedules.last_class(self.target))
        order = schedules.farthest_point(self.target, others)
        results = []
        for calls in range(1, 9):
            plan = planning.plan_blocks(self.denoiser, self.target, calls, order=order, n=2_000)
            blocks = {"planned": plan.blocks, "equal": list(order.tensor_split(calls))}
            for name, parts in blocks.items():
                schedule = schedules.coloured(self.target, parts)
                results.append(
                    self.run(name, "+".join(str(len(p)) for p in parts), schedule, tweedie)
                )
        return results


# -- what it writes ------------------------------------------------------------------------------


def parallel_table(results: list[Result], floors: dict[float, float]) -> list[str]:
    lines = []
    for beta, floor in floors.items():
        lines += [
            f"\n### β = {beta}: iid floor of the error {floor:.4f}\n",
            "| step | grid | calls | mean error of G(r) | error/floor | ESS |",
            "|---|---|---:|---:|---:|---:|",
        ]
        lines += [
            f"| {r.name} | {r.grid} | {r.calls:.1f} | {r.error:.4f} | {r.error / floor:.1f} "
            f"| {r.ess:.3f} |"
            for r in sorted((r for r in results if r.beta == beta), key=lambda r: round(r.calls))
        ]
    return lines


def block_table(results: list[Result], floors: dict[float, float]) -> list[str]:
    lines = ["| β | blocks | sizes | calls | mean error of G(r) | error/floor | ESS |",
             "|---|---|---|---:|---:|---:|---:|"]  # fmt: skip
    return lines + [
        f"| {r.beta} | {r.name} | {r.grid} | {r.calls:.0f} | {r.error:.4f} "
        f"| {r.error / floors[r.beta]:.1f} | {r.ess:.3f} |"
        for r in results
    ]


def draw_picture(
    parallel: list[Result], blocks: list[Result], floors: dict[float, float], path: Path
) -> None:
    figure, axes = plt.subplots(3, 3, figsize=(12.5, 10.5), constrained_layout=True)
    for column, (beta, floor) in enumerate(floors.items()):
        error, ess, block = axes[:, column]
        for (step, colour), (grid, line) in (
            (a, b) for a in COLOURS.items() for b in LINES.items()
        ):
            runs = [r for r in parallel if (r.beta, r.name, r.grid) == (beta, step, grid)]
            calls = [r.calls for r in runs]
            style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3}
            error.loglog(calls, [r.error for r in runs], label=f"{step}, {grid}", **style)
            ess.semilogx(calls, [r.ess for r in runs], **style)
        bottom, top = error.get_ylim()
        error.axhspan(bottom / 10, floor, color="#2ca02c", alpha=0.15, linewidth=0)
        error.set_ylim(bottom, top)
        error.set_title(f"β = {beta}")
        for axis in (error, ess):
            axis.set_xticks(CALLS, [str(k) for k in CALLS])
            axis.minorticks_off()
            axis.set_xlabel("denoiser calls a draw, parallel schedule")
        for name, marker in (("planned", "o"), ("equal", "^")):
            runs = [r for r in blocks if (r.beta, r.name) == (beta, name)]
            block.plot([r.calls for r in runs], [r.ess for r in runs], marker=marker, label=name)
        block.set_xlabel("denoiser calls a draw, coloured schedule in blocks")
        for axis in (ess, block):
            axis.set_ylim(0, 1.03)
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel(
        f"mean |error of G(r)|, {NUM_DRAWS:,} draws\n(green: below the iid floor)"
    )
    axes[1, 0].set_ylabel("ESS of the path weights")
    axes[2, 0].set_ylabel("ESS of the path weights")
    axes[2, 0].legend(title="blocks", loc="lower right")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/results/reverse"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    studies = [Study(beta) for beta in BETAS.values()]
    floors = {study.beta: study.floor for study in studies}
    parallel = [result for study in studies for result in study.parallel()]
    blocks = [result for study in studies for result in study.blockwise()]
    draw_picture(parallel, blocks, floors, folder / "reverse.png")
    seconds = time.perf_counter() - begin
    text = [
        "# Reverse steps, grids and schedules with an exact denoiser",
        "",
        "    python benchmarks/reverse.py",
        "",
        f"Ising, side 4, periodic; {NUM_DRAWS:,} draws a run, one seed; {seconds:.0f} s.  The "
        "error is the mean of |G(r) - exact| over r = 1, 2 of the unweighted draws, beside what as "
        "many independent exact draws would show.  ESS is that of the path weights.  Calls are "
        "denoiser evaluations a draw, all of them counted.  An ESS below about one half rests on "
        "few large weights and varies from run to run.",
        "",
        "![error and ESS against calls](reverse.png)",
        "",
        "## Parallel schedules: all sites share t",
        *parallel_table(parallel, floors),
        "",
        "## Coloured schedules in blocks: 8 sites by the denoiser, 8 from the target",
        "",
        *block_table(blocks, floors),
        "",
    ]
    (folder / "reverse.md").write_text("\n".join(text))
    print(f"{folder / 'reverse.md'}: {seconds:.0f} s")


if __name__ == "__main__":
    main()
