"""A phase diagram from one trained model: the Ising lattice of side 10 from β = 0.1 to 0.6.

    python examples/phase_diagram.py [FOLDER]

One network is trained for the whole range, which takes some minutes of a core the first time; its
run is kept in the folder and goes on there where it was stopped.  Draws at values of β that it was
not trained at give <|m|>, energy, heat capacity, Binder's cumulant and log Z, beside exact curves.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table
from scipy.interpolate import CubicSpline

import tcsis
from tcsis.learn import checkpoint

LOW, HIGH = 0.1, 0.6
NUM_DRAWS, NUM_BLOCKS = 16_384, 16
SLOPES = ("slope", "slope_error")
DRAWN, EXACT = "#c1440e", "#2a5d9f"
TITLES = {
    "magnetisation": "⟨|m|⟩", "energy": "energy per site, -⟨S⟩/d",
    "heat capacity": "heat capacity per site, β² Var(S)/d",
    "binder": "Binder cumulant, 1 - ⟨m⁴⟩/3⟨m²⟩²", "log Z": "log Z per site",
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """At one β: observables by name, standard errors of those that are drawn, and what log Z is
    made of."""

    beta: float
    observables: dict[str, float]
    errors: dict[str, float]
    log_z: float
    log_z_error: float
    slope: float
    """E[S], S = Σ s_i s_j, the slope of log Z in β."""
    slope_error: float = 0.0
    ess: float = 1.0


# -- drawn ----------------------------------------------------------------------------------------


def measured(model: tcsis.Learned, beta: float, n: int, seed: int) -> Point:
    """Averages over n weighted draws; standard errors from blocks of them."""
    one = model.at(beta=beta)
    draws = one.sample(n, seed=seed)
    s = one.target.log_density(draws.x.long()).double().numpy() / beta
    m = 2 * draws.x.double().mean(1).numpy() - 1
    weights, d = draws.weights.numpy(), draws.x.shape[1]
    blocks = [
        averages(beta, d, s[rows], m[rows], weights[rows])
        for rows in np.array_split(np.arange(n), NUM_BLOCKS)
    ]
    errors = {
        name: float(np.std([block[name] for block in blocks])) / NUM_BLOCKS**0.5
        for name in blocks[0]
    }
    found = averages(beta, d, s, m, weights) | {"log Z": draws.log_z / d}
    return Point(
        beta, found, errors | {"log Z": draws.log_z_error / d}, draws.log_z, draws.log_z_error,
        float(weights @ s), errors["energy"] * d, draws.ess,
    )  # fmt: skip


def averages(
    beta: float, d: int, s: np.ndarray, m: np.ndarray, weights: np.ndarray
) -> dict[str, float]:
    def mean(values: np.ndarray) -> float:
        return float(np.average(values, weights=weights))

    slope = mean(s)
    return {
        "magnetisation": mean(abs(m)), "energy": -slope / d,
        "heat capacity": beta**2 * mean((s - slope) ** 2) / d,
        "binder": 1 - mean(m**4) / (3 * mean(m**2) ** 2),
    }  # fmt: skip


# -- exact ----------------------------------------------------------------------------------------


def solved(side: int, betas: np.ndarray) -> list[Point]:
    """The same by the transfer matrix; Var(S) is the slope of E[S], by a spline through them."""
    d, found = side**2, [tcsis.exact.solve(tcsis.targets.Ising(side, beta)) for beta in betas]
    slopes = [-one.mean_energy / beta for one, beta in zip(found, betas, strict=True)]
    variances = CubicSpline(betas, slopes).derivative()(betas)
    points = []
    for beta, one, slope, variance in zip(betas, found, slopes, variances, strict=True):
        m = one.magnetisation
        observables = {
            "magnetisation": float(m.probabilities @ m.values.abs()), "energy": -slope / d,
            "heat capacity": beta**2 * variance / d,
            "binder": 1 - m.moment(4) / (3 * m.moment(2) ** 2), "log Z": one.log_z / d,
        }  # fmt: skip
        points.append(Point(beta, observables, {}, one.log_z, 0.0, slope))
    return points


def integrated(points: list[Point]) -> tuple[np.ndarray, np.ndarray]:
    """log Z at every β from that at the first, by d log Z/dβ = E[S], and its standard errors.  A
    spline, and so its integral, is linear in the slopes: Σ_k A_jk·slope_k."""
    betas = [point.beta for point in points]
    a = CubicSpline(betas, np.eye(len(betas))).antiderivative()(betas)
    slopes, errors = (np.array([getattr(p, name) for p in points]) for name in SLOPES)
    spread = np.hypot(points[0].log_z_error, np.linalg.norm(a * errors, axis=1))
    return points[0].log_z + a @ slopes, spread


# -- told -----------------------------------------------------------------------------------------


def print_table(drawn: list[Point], exact: list[Point]) -> None:
    table = Table(title="One model, log Z by its weights and by integration of E[S]")
    for name in ("β", "ESS", "log Z", "off", "its error", "integrated, off", "⟨|m|⟩", "exact"):
        table.add_column(name, justify="right")
    for one, truth, through in zip(drawn, exact, integrated(drawn)[0], strict=True):
        table.add_row(
            f"{one.beta:.4f}", f"{one.ess:.4f}", f"{one.log_z:.4f}",
            f"{one.log_z - truth.log_z:+.4f}", f"{one.log_z_error:.4f}",
            f"{through - truth.log_z:+.4f}", f"{one.observables['magnetisation']:.4f}",
            f"{truth.observables['magnetisation']:.4f}",
        )  # fmt: skip
    Console(width=110).print(table)


def picture(drawn: list[Point], exact: list[Point], curve: list[Point], path: Path) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
    for cell, (name, title) in zip(axes.flat, TITLES.items(), strict=False):
        cell.plot(
            [point.beta for point in curve], [point.observables[name] for point in curve],
            color=EXACT, lw=1.2, label="exact",
        )  # fmt: skip
        cell.errorbar(
            [point.beta for point in drawn], [point.observables[name] for point in drawn],
            [2 * point.errors[name] for point in drawn], fmt="o", ms=3.5, color=DRAWN, lw=1,
            label="drawn, ± 2 standard errors",
        )  # fmt: skip
        cell.set(title=title, xlabel="β")
    axes[0, 1].legend(frameon=False)
    draw_check(axes[1, 2], drawn, exact)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_check(axes: Axes, drawn: list[Point], exact: list[Point]) -> None:
    """How far log Z is off, by the weights and by integration."""
    betas = np.array([point.beta for point in drawn])
    truth = np.array([point.log_z for point in exact])
    own = np.array([point.log_z for point in drawn])
    axes.axhline(0, color=EXACT, lw=1)
    through, errors = integrated(drawn)
    axes.errorbar(
        betas, through - truth, 2 * errors, fmt="s", ms=3.5, color="grey", lw=1,
        label="∫ ⟨S⟩ dβ from the first",
    )  # fmt: skip
    axes.errorbar(
        betas, own - truth, [2 * point.log_z_error for point in drawn], fmt="o", ms=3.5,
        color=DRAWN, lw=1, label="mean weight",
    )  # fmt: skip
    axes.set(title="log Z - exact", xlabel="β")
    axes.legend(frameon=False, loc="upper left", borderpad=0)


def main(
    folder: Path, side: int = 10, preset: str = "fast", steps: int | None = None,
    num_draws: int = NUM_DRAWS, num_betas: int = 26, num_exact: int = 51,
) -> tuple[list[Point], list[Point]]:  # fmt: skip
    """Drawn and exact at some values of β of the exact curve."""
    run = folder / "run"
    model = tcsis.train_range(
        tcsis.targets.Ising(side, HIGH), preset, beta=(LOW, HIGH), steps=steps, folder=run,
        resume=checkpoint.exists(run / checkpoint.CHECKPOINT),
    )  # fmt: skip
    print(f"{model.seconds:.0f} s: {model.account}")
    curve = solved(side, np.linspace(LOW, HIGH, num_exact))
    chosen = np.linspace(0, num_exact - 1, num_betas).round().astype(int)
    exact = [curve[number] for number in np.unique(chosen)]
    drawn = [
        measured(model, float(point.beta), num_draws, seed)
        for seed, point in enumerate(exact, 1)  # errors that are independent, so that they add up
    ]
    print_table(drawn, exact)
    path = folder / "phase_diagram.png"
    picture(drawn, exact, curve, path)
    print(f"picture: {path}")
    return drawn, exact


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/phase_diagram"))
