"""How far each estimator of the score is off, and what it costs.

    python benchmarks/estimators.py

Side 4, where enumeration gives the exact score: x_t from p_t, the error of log p_t(y)/p_t(x) over
states, sites and flips, against the densities spent on a state.  Writes ``estimators.md`` and
``estimators.png`` to ``docs/results/estimators``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from tcsis import identity
from tcsis.exact import Enumeration
from tcsis.noise import UniformNoise
from tcsis.targets import Ising, Target, counting

SIDE = 4
BETAS = (0.28, 0.4407, 0.6)
ALPHAS = (0.4, 0.7, 0.9)
NUM_STATES = 200
NUM_NAIVE_STATES = 40  # one state of the largest run costs 17,000 densities
FOLDER = Path(__file__).parents[1] / "docs" / "results" / "estimators"

NOISE = UniformNoise(2)


@dataclass(frozen=True)
class Case:
    """States x_t with their time, an x_0 each was made from, and their exact log score."""

    target: Target
    x_0: Tensor
    x_t: Tensor
    t: Tensor
    log_score: Tensor

    def head(self, n: int) -> Case:
        return Case(self.target, self.x_0[:n], self.x_t[:n], self.t[:n], self.log_score[:n])


@dataclass(frozen=True)
class Point:
    method: str
    setting: str
    cost: float
    rmse: float
    error: float


LogScore = Callable[[Case, int, torch.Generator], Tensor]


@dataclass(frozen=True)
class Method:
    """``log_score`` of a case for each of ``sizes``, on the first ``num_states`` states."""

    name: str
    size: str
    sizes: tuple[int, ...]
    log_score: LogScore
    colour: str
    marker: str
    num_states: int = NUM_STATES


def naive(case: Case, k: int, generator: torch.Generator) -> Tensor:
    return identity.naive_log_score(
        case.target, NOISE, case.x_t, case.t, num_samples=k, generator=generator
    )


def one_shot(estimator: Callable[..., Tensor]) -> LogScore:
    def log_score(case: Case, k: int, generator: torch.Generator) -> Tensor:
        denoiser = estimator(
            case.target, NOISE, case.x_t, case.t, num_samples=k, generator=generator
        )
        return NOISE.log_score_from_denoiser(denoiser.double(), case.x_t, case.t)

    return log_score


def annealed(case: Case, k: int, generator: torch.Generator) -> Tensor:
    denoiser = identity.annealed(
        case.target, NOISE, case.x_t, case.t, num_chains=k, num_rungs=8, generator=generator
    )
    return NOISE.log_score_from_denoiser(denoiser.double(), case.x_t, case.t)


def warm(case: Case, k: int, generator: torch.Generator) -> Tensor:
    denoiser, _ = identity.warm(
        case.target, NOISE, case.x_t, case.t, case.x_0, num_sweeps=k, generator=generator
    )
    return NOISE.log_score_from_denoiser(denoiser.double(), case.x_t, case.t)


METHODS = (
    Method("naive", "draws", (10, 100, 1000), naive, "tab:gray", "s", NUM_NAIVE_STATES),
    Method("shared", "draws", (10, 100, 1000), one_shot(identity.shared), "tab:orange", "v"),
    Method(
        "marginalised", "draws", (10, 100, 1000), one_shot(identity.marginalised), "tab:blue", "o"
    ),
    Method("coloured", "draws", (10, 100, 1000), one_shot(identity.coloured), "tab:green", "^"),
    Method("annealed, 8 rungs", "chains", (2, 8, 32, 128), annealed, "tab:red", "D"),
    Method("warm", "sweeps", (1, 4, 16, 64), warm, "tab:purple", "*"),
)


def make_case(table: Enumeration, target: Target, alpha: float, seed: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    x_0 = table.draw(NUM_STATES, generator).long()
    t = torch.full((NUM_STATES,), 1 - alpha, dtype=torch.float64)
    x_t = NOISE.draw(x_0, t, generator=generator)
    denoiser = table.denoiser(NOISE, x_t, t)
    return Case(target, x_0, x_t, t, NOISE.log_score_from_denoiser(denoiser, x_t, t))


def measure(method: Method, size: int, case: Case) -> Point:
    """RMSE over states, sites and flips; its standard error from the spread between states."""
    case = case.head(method.num_states)
    with counting(case.target) as cost:
        log_score = method.log_score(case, size, torch.Generator().manual_seed(size))
    other = torch.nn.functional.one_hot(case.x_t, 2) == 0
    square = (log_score - case.log_score)[other].reshape(case.x_t.shape).square().mean(-1)
    rmse = float(square.mean().sqrt())
    error = float(square.std()) / len(square) ** 0.5 / (2 * rmse)
    return Point(
        method.name,
        f"{size:,} {method.size if size > 1 else method.size[:-1]}",
        cost.densities / len(case.x_t),
        rmse,
        error,
    )


def measure_all() -> dict[tuple[float, float], list[Point]]:
    points = {}
    for beta in BETAS:
        target = Ising(SIDE, beta)
        table = Enumeration(target)
        for alpha in ALPHAS:
            case = make_case(table, target, alpha, seed=0)
            points[beta, alpha] = [
                measure(method, size, case) for method in METHODS for size in method.sizes
            ]
    return points


def plot(points: dict[tuple[float, float], list[Point]]) -> None:
    figure, axes = plt.subplots(
        len(BETAS), len(ALPHAS), figsize=(11, 10), sharex=True, sharey=True, layout="constrained"
    )
    for ax, ((beta, alpha), here) in zip(axes.flat, points.items(), strict=True):
        for method in METHODS:
            own = [point for point in here if point.method == method.name]
            ax.errorbar(
                [point.cost for point in own], [point.rmse for point in own],
                [point.error for point in own],
                color=method.colour, marker=method.marker, markersize=6, linewidth=1.3,
                capsize=2, label=method.name,
            )  # fmt: skip
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"β = {beta}, α = {alpha}", fontsize=11)
        ax.grid(which="major", alpha=0.35)
    axes[0, 0].set_ylim(0.01, 10)
    figure.supxlabel("densities per state")
    figure.supylabel("RMSE of the log score")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(METHODS), frameon=False)
    figure.savefig(FOLDER / "estimators.png", dpi=110)


def markdown(points: dict[tuple[float, float], list[Point]], seconds: float) -> str:
    cases = list(points)
    rows = ["| estimator | | densities | " + " | ".join(f"{b}, {a}" for b, a in cases) + " |"]
    rows.append("|---|---|---:|" + "---:|" * len(cases))
    for here in zip(*points.values(), strict=True):
        values = " | ".join(f"{point.rmse:.3f}" for point in here)
        first = here[0]
        rows.append(f"| {first.method} | {first.setting} | {first.cost:,.0f} | {values} |")
    return TEXT.format(
        table="\n".join(rows), seconds=seconds, states=NUM_STATES, naive_states=NUM_NAIVE_STATES
    )


TEXT = """# Estimators of the score: error against cost

`python benchmarks/estimators.py` ({seconds:.0f} s on one core)

Ising, side 4, periodic. {states} states x_t drawn from p_t ({naive_states} for `naive`), shared times; RMSE of
log p_t(y)/p_t(x) over states, sites and flips, against enumeration. Columns are β, α. Costs are densities per state;
all ratios of a state count as one density here, as the target is pairwise. `warm` starts from the very x_0 that x_t
was made from, an exact posterior draw, which a buffer only approximates; its cost contains a density to check x_0.

{table}

![RMSE of the log score against densities per state](estimators.png)

- `naive` with 17,000 densities is behind `marginalised` with 200 in every column, if hardly at β = 0.28, α = 0.9.
- `coloured` is ahead of `marginalised` in every column, at the same cost.
- `annealed` at equal cost is behind `coloured` at β = 0.28, level with it at 0.4407 and ahead at 0.6 (for α = 0.4 only
  from some hundred densities on).
- `warm` is the cheapest start. More sweeps help little at β = 0.6, α = 0.4: there some x_t leave the sign of the
  magnetisation open, and sweeps from one x_0 seldom cross over.
"""  # noqa: E501


def main() -> None:
    torch.set_num_threads(1)
    begin = time.perf_counter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    points = measure_all()
    plot(points)
    text = markdown(points, time.perf_counter() - begin)
    (FOLDER / "estimators.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
