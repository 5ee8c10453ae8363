"""Exact answers for the five Ising settings of the paper: a table and one picture.

python examples/exact_answers.py [FOLDER]
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

import tcsis

SETTINGS = [(4, 0.28), (4, 0.4407), (4, 0.6), (10, 0.28), (10, 0.4407)]
COLOURS = {0.28: "#c1440e", 0.4407: "#3b7d4f", 0.6: "#2a5d9f"}
NUM_DRAWS = 10_000

Answer = tuple[tuple[int, float], tcsis.exact.Exact]


def print_table(answers: list[tcsis.exact.Exact], floors: list[float]) -> None:
    table = Table(title="Periodic Ising lattice, spins ±1, each bond once", title_justify="left")
    for name in ("side", "β", "log Z", "mean energy", "G(1)", "G(side/2)", "⟨m²⟩", "G floor"):
        table.add_column(name, justify="right")
    table.add_column("method")
    for (side, beta), answer, floor in zip(SETTINGS, answers, floors, strict=True):
        table.add_row(
            str(side), f"{beta}", f"{answer.log_z:.6f}", f"{answer.mean_energy:.6f}",
            f"{answer.correlation[1]:.6f}", f"{answer.correlation[-1]:.6f}",
            f"{answer.magnetisation.moment(2):.6f}", f"{floor:.5f}", answer.method,
        )  # fmt: skip
    Console(width=110).print(table)


def draw_correlations(axes: Axes, side: int, answers: list[Answer]) -> None:
    for (_, beta), answer in answers:
        g = answer.correlation
        axes.plot(range(len(g)), g, "o-", color=COLOURS[beta], label=f"β = {beta}")
    axes.set(title=f"side {side}", xlabel="distance r", ylabel="two-point correlation G(r)")
    axes.set(ylim=(0, 1.03), xticks=range(side // 2 + 1))
    axes.legend(frameon=False)


def draw_magnetisations(axes: Axes, side: int, answers: list[Answer]) -> None:
    for (_, beta), answer in answers:
        m = answer.magnetisation
        axes.plot(
            m.values, m.probabilities * len(m.values) / 2, "o-", ms=3, color=COLOURS[beta],
            label=f"β = {beta}",
        )  # fmt: skip
    axes.set(title=f"side {side}", xlabel="magnetisation per site m", ylabel="density of m")
    axes.set(yscale="log", ylim=(2e-3, 20), xlim=(-1.03, 1.03))


def draw_lattices(cells: Iterable[Axes]) -> None:
    for axes, (side, beta) in zip(cells, SETTINGS, strict=True):
        x = tcsis.exact.draw(tcsis.targets.Ising(side, beta), 1, seed=4).x
        axes.imshow(x.reshape(side, side), cmap="Greys", vmin=-0.2, vmax=1.2)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"side {side}, β = {beta}", fontsize=9)


def main(folder: Path) -> None:
    targets = [tcsis.targets.Ising(side, beta) for side, beta in SETTINGS]
    answers = [tcsis.exact.solve(target) for target in targets]
    floors = [
        tcsis.evaluate(tcsis.exact.draw(target, NUM_DRAWS, seed=0), target)["correlation"].floor
        for target in targets
    ]
    print_table(answers, floors)
    print(f"G floor: expected mean |error| of G(r) for {NUM_DRAWS:,} independent exact draws.")
    pairs = list(zip(SETTINGS, answers, strict=True))
    figure = plt.figure(figsize=(10.5, 9), layout="constrained")
    curves, pictures = figure.subfigures(2, 1, height_ratios=[3, 1])
    axes = curves.subplots(2, 2)
    for column, side in enumerate((4, 10)):
        chosen = [pair for pair in pairs if pair[0][0] == side]
        draw_correlations(axes[0, column], side, chosen)
        draw_magnetisations(axes[1, column], side, chosen)
    draw_lattices(pictures.subplots(1, len(SETTINGS)))
    figure.suptitle("Ising model: exact correlation, magnetisation and one exact draw each")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "exact_answers.png"
    figure.savefig(path, dpi=130)
    print(f"picture: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
