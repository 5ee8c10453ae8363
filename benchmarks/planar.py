"""Planar spins without field, exactly: how large, how cold, how fast, and whether draws are right.

Writes the tables and the picture of ``docs/results/exact/``.  Times are CPU seconds of one core,
machine code already there.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy import stats

from tcsis import exact
from tcsis.exact import TooColdError, kac_ward, planar_draws, torus, transfer
from tcsis.exact.compiled import DOUBLE_DOUBLES, DOUBLES
from tcsis.targets import Pairwise, SpinGlass

SEED = 1
SIDES = (16, 32, 64, 128, 256)
WIDTH = 12
BETAS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
BOND_BETAS = (1.0, 2.0, 3.0)
NUM_CHECKED = 20_000


def timed(action: Callable, *arguments: object) -> tuple[float, object]:
    start = time.process_time()
    result = action(*arguments)
    return time.process_time() - start, result


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def glass(side: int | tuple[int, int], beta: float, boundary: str = "open") -> SpinGlass:
    return SpinGlass(side, beta, seed=SEED, boundary=boundary, dtype=torch.float64)


def sizes() -> str:
    """log Z, energy and all bonds of larger and larger glasses at β = 1."""
    kac_ward.solve(kac_ward.read(glass(4, 6.0)))  # compiles
    torus.solve_torus(torus.read(glass(4, 1.0, "periodic")))
    rows = []
    for side in SIDES:
        reading, model = timed(kac_ward.read, glass(side, 1.0))
        seconds, result = timed(kac_ward.solve, model)
        wrapped = "—"
        if side <= 64:
            wrapped = f"{timed(torus.solve_torus, torus.read(glass(side, 1.0, 'periodic')))[0]:.1f}"
        rows.append([
            f"{side}×{side}", f"{result.log_z:.6f}", f"{result.error:.0e}", f"{reading:.2f}",
            f"{seconds:.2f}", wrapped,
        ])  # fmt: skip
    head = ["side", "log Z", "its error, estimated", "embedding, s", "solving, s", "periodic, s"]
    return table(head, rows)


def accuracy() -> str:
    """Against the transfer matrix at width 12, in doubles and in double-doubles."""
    rows = []
    for beta in BETAS:
        target = glass(WIDTH, beta)
        truth, model = transfer.solve(target), kac_ward.read(target)
        row = [f"{beta:g}"]
        for numbers in (DOUBLES, DOUBLE_DOUBLES):
            result = kac_ward.solve_in(model, numbers)
            row += [
                f"{abs(result.log_z - truth.log_z):.0e}", f"{result.error:.0e}",
                f"{abs(result.mean_energy - truth.mean_energy):.0e}",
            ]  # fmt: skip
        rows.append([*row, f"{worst_bond(target):.0e}" if beta in BOND_BETAS else ""])
    head = ["β", "log Z, doubles", "estimated", "energy", "log Z, double-doubles", "estimated",
            "energy", "worst bond"]  # fmt: skip
    return table(head, rows)


def worst_bond(target: SpinGlass) -> float:
    """The largest error of E[s_i s_j]: with the bond turned around, Z is multiplied by
    cosh 2β - E[s_i s_j]·sinh 2β."""
    model, log_z, worst = kac_ward.read(target), transfer.log_z(target), 0.0
    found = kac_ward.solve(model).correlations
    for bond, beta in enumerate(model.beta):
        couplings = target.couplings.clone()
        couplings[bond] *= -1
        other = Pairwise(target.edges, couplings, target.fields, lattice=target.lattice)
        ratio = math.exp(transfer.log_z(other) - log_z)
        expected = (math.cosh(2 * beta) - ratio) / math.sinh(2 * beta)
        worst = max(worst, abs(found[bond] - expected))
    return worst


def drawing() -> str:
    """Plans and draws at several sizes and temperatures."""
    rows = []
    for side, beta in ((16, 1.0), (16, 2.0), (16, 3.0), (32, 1.0), (32, 2.0), (32, 3.0), (64, 1.0)):
        model, n = kac_ward.read(glass(side, beta)), 1000 if side < 64 else 100
        log_z = kac_ward.solve(model).log_z
        generator = torch.Generator().manual_seed(0)
        planner = planar_draws.Planner(model)
        planning, plan = timed(planner.plan, DOUBLES)
        seconds, _ = timed(planar_draws.draw, model, log_z, n, generator)
        uniform = np.random.default_rng(0).random((n, side * side))
        off = planar_draws.errors(model, log_z, *plan.draw(uniform))
        spoilt = ~(off <= planar_draws.TOLERATED)
        rows.append([
            f"{side}×{side}", f"{beta:g}", f"{planning:.2f}", f"{n:,}", f"{seconds:.1f}",
            f"{spoilt.mean():.1%}",
        ])  # fmt: skip
    head = ["side", "β", "plan, s", "draws", "all, s", "made again in double-doubles"]
    return table(head, rows)


def coldest() -> str:
    """The coldest of a row of temperatures at which log Z and 100 draws are not refused."""
    rows = []
    for side in (12, 16, 32, 64):
        found = {}
        for what, betas in (("solve", np.arange(4.0, 16.0)), ("draw", np.arange(2.0, 7.0, 0.5))):
            for beta in betas.tolist():
                try:
                    if what == "solve":
                        kac_ward.solve(kac_ward.read(glass(side, beta)))
                    elif side < 64:
                        exact.draw(glass((side, side), beta), 100) if side > 14 else drawn(beta)
                except TooColdError:
                    break
                found[what] = beta
        rows.append([
            f"{side}×{side}", f"{found['solve']:g}", f"{found['draw']:g}" if side < 64 else "",
        ])  # fmt: skip
    return table(["±J glass", "log Z up to β", "draws up to β"], rows)


def drawn(beta: float, n: int = 100) -> torch.Tensor:
    model = kac_ward.read(glass(WIDTH, beta))
    generator = torch.Generator().manual_seed(2)
    return planar_draws.draw(model, kac_ward.solve(model).log_z, n, generator)


def overlaps(x: torch.Tensor) -> torch.Tensor:
    spins = 2.0 * x.double() - 1
    return (spins[::2] * spins[1::2]).mean(1)


def checks() -> str:
    """χ² of draws at width 12: bonds against their means, overlaps against the transfer matrix."""
    rows = []
    for beta in BOND_BETAS:
        target = glass(WIDTH, beta)
        ours = drawn(beta, NUM_CHECKED)
        theirs = transfer.draw(target, NUM_CHECKED, torch.Generator().manual_seed(3))
        correlations = torch.from_numpy(kac_ward.solve(kac_ward.read(target)).correlations)
        i, j = target.edges.T
        spins = 2.0 * ours.double() - 1
        bonds = spins[:, i] * spins[:, j]
        # independent sums of squares need independent bonds: project on the principal ones
        value, vector = torch.linalg.eigh(bonds.T.cov())
        kept = value > 1e-3 * value.max()
        z = (bonds.mean(0) - correlations) @ vector[:, kept] / (value[kept] / NUM_CHECKED).sqrt()
        by_bonds = stats.chi2.sf(float((z**2).sum()), int(kept.sum()))
        edges = torch.linspace(-1, 1, 25, dtype=torch.float64)
        counts = torch.stack([torch.histogram(overlaps(x), edges).hist for x in (ours, theirs)])
        counts = counts[:, counts.sum(0) > 10]
        by_overlaps = stats.chi2_contingency(counts.numpy()).pvalue
        rows.append([f"{beta:g}", f"{int(kept.sum())}", f"{by_bonds:.2f}", f"{by_overlaps:.2f}"])
    head = ["β", "independent sums of bonds", "p of their χ²", "p of the χ² of overlaps"]
    return table(head, rows)


def picture(path: Path) -> None:
    """Heat capacity of a glass, beside that of draws; a draw, and its overlap with another."""
    betas = np.linspace(0.1, 3.0, 59)
    step, side = 1e-3, 32
    capacity = []
    for beta in betas:
        # E/β is the energy at fixed couplings, and C = -β²·dE/dβ
        up, down = (
            kac_ward.solve(kac_ward.read(glass(side, b))).mean_energy / b
            for b in (beta + step, beta - step)
        )
        capacity.append(-(beta**2) * (up - down) / (2 * step) / side**2)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), width_ratios=(1.4, 1, 1))
    axes[0].plot(betas, capacity, color="#1f77b4", label="Kac–Ward")
    for k, beta in enumerate((0.5, 0.8, 1.2, 1.8)):
        target, n = glass(side, beta), 1000
        energy = target.energy(exact.draw(target, n, seed=5).x.long())
        variance = float(energy.var()) / side**2
        axes[0].errorbar(
            beta, variance, 2 * variance * math.sqrt(2 / n), fmt="o", color="#d62728",
            label="variance of 1,000 exact draws, ±2σ" if k == 0 else None,
        )  # fmt: skip
    axes[0].set(xlabel="β", ylabel="heat capacity a site", title="±J glass, 32×32, open")
    axes[0].legend(frameon=False)
    x = 2.0 * exact.draw(glass(64, 1.5), 2, seed=6).x.double() - 1
    for axis, spins, title in (
        (axes[1], x[0], "an exact draw, 64×64, β = 1.5"),
        (axes[2], x[0] * x[1], "where it agrees with another"),
    ):
        axis.imshow(spins.reshape(64, 64), cmap="gray", vmin=-1, vmax=1)
        axis.set(title=title, xticks=[], yticks=[])
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/exact"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    page = f"""# Planar models

±J glasses without field on open square lattices, couplings of seed {SEED}, by
[Kac–Ward determinants](../../exact.md). `python benchmarks/planar.py` writes this page; times are
CPU seconds of one core, with machine code already compiled.

## How large

log Z, mean energy and the correlation of every bond at β = 1.

{sizes()}

## How right

Against the transfer matrix at width {WIDTH}: absolute errors of log Z and mean energy, and the
error that the method estimates itself; the worst of all bonds, by the transfer matrix with that
bond turned around.  log Z itself is of the order of 100 to 2,000, so that 1e-13 to 1e-12 is the
last digit of a double.

{accuracy()}

## How cold

{coldest()}

## Draws

{drawing()}

{NUM_CHECKED:,} draws at width {WIDTH}, tested against exact bonds and against draws by the transfer
matrix.

{checks()}

![Heat capacity of a glass, and two draws](planar.png)
"""
    (folder / "planar.md").write_text(page)
    picture(folder / "planar.png")


if __name__ == "__main__":
    main()
