"""The page and the picture of the zoo, from its cells."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from zoo_targets import Case

REQUIRED_ESS, REQUIRED_SIGMAS = 0.9, 4.0
COLOURS = {
    "trusted": "#1b7837", "trusted by weight": "#4393c3", "doubtful": "#e08214",
    "failed": "#b2182b", "error": "black",
}  # fmt: skip
"""Of a verdict, or of a run that did not come to one; the worst last."""

LEVELS = list(COLOURS)
MARKERS = {"error": "x", "failed": "s", "doubtful": "^"}
NONE = "–"

Cell = dict[str, Any]


def page(cases: Sequence[Case], cells: list[Cell], num_draws: int, num_state_draws: int) -> str:
    return f"""# A zoo of targets

`python benchmarks/zoo.py`, two processes side by side with one core each
(`OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1`): every target is trained with the seeds that its row
names, each for at most two minutes (Ising 16×16, ±J 12×12 and SK with 64 sites five) and otherwise
with the defaults of `tcsis.train`, and gives {num_draws:,} draws.

{summary_sentence(cells)}

![ESS of every cell](zoo.png)

## By family

{family_table(cases, cells)}
## By target

Every column shows the worst of the seeds. log Z is the distance from the exact value in standard
errors, where one is known (SK with 64 sites has none). Site errors are mean absolute errors of
P(x_i = v), of the draws as they come and with their weights, beside the error that as many perfect
draws would show (floor). A draw leaks if its weight is below e⁻⁵ of the mean weight; forbidden ones
are among these. The mode is one part of the states whose probability is known: the draws in which
value 1 (Potts and the two far modes: 0) leads, in which the even sites of the hard squares do, or
the one state that holds nearly everything; shown is the seed farthest off. The verdict of
`tcsis.judge` is followed by its two answers, for the draws as they come and with their weights.

{case_table(cases, cells)}
## Every state

{num_state_draws:,} draws of the Ising models of 4×4 sites with a field, all 65,536 states at once:
total variation from the exact probabilities, the worst of the seeds, beside that of as many perfect
draws.

{state_table(cases, cells)}
## What the verdict says

The sentence for the worst seed of each target.

{verdict_table(cases, cells)}"""


def reached(cell: Cell) -> bool:
    """Whether ESS and log Z are as required."""
    return (cell.get("ess") or 0) >= REQUIRED_ESS and (
        cell.get("log_z_sigmas") or 0
    ) <= REQUIRED_SIGMAS


def summary_sentence(cells: list[Cell]) -> str:
    good, broken = sum(map(reached, cells)), sum("error" in cell for cell in cells)
    return (
        f"Of {len(cells)} cells, {good} reach an ESS of {REQUIRED_ESS} with log Z within "
        f"{REQUIRED_SIGMAS:.0f} standard errors, and {broken} ended with an error."
    )


# -- tables ----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def family_table(cases: Sequence[Case], cells: list[Cell]) -> str:
    head = ("family", "targets", "cells", "reached", "smallest ESS", "median ESS", "log Z, σ",
            "leak", "verdicts")  # fmt: skip
    rows = []
    for family in dict.fromkeys(case.family for case in cases):
        own = [cell for cell in cells if cell["family"] == family]
        if own:
            ess = [cell.get("ess") or 0.0 for cell in own]
            levels = Counter(map(level_of, own))
            rows.append([
                family, str(len({cell["case"] for cell in own})), str(len(own)),
                str(sum(map(reached, own))), f"{min(ess):.3f}", f"{statistics.median(ess):.3f}",
                number(worst(own, "log_z_sigmas"), ".1f"), number(worst(own, "leak"), ".2%"),
                ", ".join(f"{levels[level]} {level}" for level in LEVELS if levels[level]),
            ])  # fmt: skip
    return table(head, rows)


def case_table(cases: Sequence[Case], cells: list[Cell]) -> str:
    head = ("target", "method", "seeds", "ESS", "log Z, σ", "site error", "weighted", "floor",
            "leak", "forbidden", "mode", "mode, weighted", "mode, exact", "verdict", "as drawn",
            "by weight", "training s", "steps", "draws/s")  # fmt: skip
    return table(head, [case_row(case.name, own) for case, own in measured(cases, cells)])


def case_row(name: str, own: list[Cell]) -> list[str]:
    methods = sorted({cell["method"] for cell in own if "method" in cell})
    return [
        name, ", ".join(methods) or NONE, " ".join(str(cell["seed"]) for cell in own),
        f"{min(cell.get('ess') or 0.0 for cell in own):.3f}",
        number(worst(own, "log_z_sigmas"), ".1f"),
        number(worst(own, "site_error"), ".4f"), number(worst(own, "site_error_weighted"), ".4f"),
        number(worst(own, "site_floor"), ".4f"),
        number(worst(own, "leak"), ".2%"), number(worst(own, "forbidden"), ".2%"),
        number(farthest(own, "mode"), ".4f"), number(farthest(own, "mode_weighted"), ".4f"),
        number(worst(own, "mode_exact"), ".4f"), level_of(worst_cell(own)),
        worst_level(own, "as_drawn"), worst_level(own, "by_weight"),
        number(worst(own, "train_seconds"), ".0f"), number(least(own, "steps"), ",.0f"),
        number(least(own, "draws_per_second"), ",.0f"),
    ]  # fmt: skip


def state_table(cases: Sequence[Case], cells: list[Cell]) -> str:
    names = ("states_tv", "states_tv_weighted", "states_tv_floor")
    rows = [
        [case.name, *(number(worst(own, name), ".5f") for name in names)]
        for case, own in measured(cases, cells)
        if case.all_states
    ]
    return table(("target", "total variation", "weighted", "floor"), rows)


def verdict_table(cases: Sequence[Case], cells: list[Cell]) -> str:
    rows = []
    for case, own in measured(cases, cells):
        cell = worst_cell(own)
        sentence = cell.get("error") or cell.get("why", "")
        rows.append([case.name, str(cell["seed"]), level_of(cell), sentence.replace("|", "\\|")])
    return table(("target", "seed", "verdict", "why"), rows)


def measured(cases: Sequence[Case], cells: list[Cell]) -> list[tuple[Case, list[Cell]]]:
    """The cases that have cells, each with its own."""
    pairs = [(case, [cell for cell in cells if cell["case"] == case.name]) for case in cases]
    return [(case, own) for case, own in pairs if own]


def worst(cells: list[Cell], key: str) -> float | None:
    """The largest, where anything is known."""
    return max((cell[key] for cell in cells if cell.get(key) is not None), default=None)


def least(cells: list[Cell], key: str) -> float | None:
    return min((cell[key] for cell in cells if cell.get(key) is not None), default=None)


def farthest(cells: list[Cell], key: str) -> float | None:
    """The value farthest from the exact share of the mode."""
    known = [cell for cell in cells if cell.get(key) is not None]
    return max(known, key=lambda c: abs(c[key] - c["mode_exact"]))[key] if known else None


def worst_cell(cells: list[Cell]) -> Cell:
    """An error first, then by verdict, then by ESS."""
    return max(cells, key=lambda cell: (LEVELS.index(level_of(cell)), -(cell.get("ess") or 0.0)))


def worst_level(cells: list[Cell], key: str) -> str:
    """The worst of one of the verdict's two answers."""
    return max((cell[key] for cell in cells if key in cell), key=LEVELS.index, default=NONE)


def level_of(cell: Cell) -> str:
    return "error" if "error" in cell else cell["verdict"]


def number(value: float | None, how: str) -> str:
    return NONE if value is None else format(value, how)


# -- picture ---------------------------------------------------------------------------------------


def picture(cases: Sequence[Case], cells: list[Cell], path: Path) -> None:
    """A line a target, grouped by family; a dot a seed at its ESS, coloured by its verdict."""
    shown = measured(cases, cells)
    families = list(dict.fromkeys(case.family for case, _ in shown))
    shown.sort(key=lambda pair: families.index(pair[0].family))
    figure, axis = plt.subplots(figsize=(9, 1.2 + 0.235 * len(shown)), layout="constrained")
    for height, (case, own) in enumerate(shown):
        if families.index(case.family) % 2:
            axis.axhspan(height - 0.5, height + 0.5, color="0.95", zorder=0)
        axis.plot([0, 1], [height, height], color="0.85", linewidth=0.5, zorder=1)
        for cell in own:
            dot(axis, cell, height)
    axis.axvline(REQUIRED_ESS, color="0.3", linewidth=1, linestyle="--", zorder=1)
    axis.set_yticks(range(len(shown)), [case.name for case, _ in shown], fontsize=8)
    axis.set(xlim=(-0.03, 1.03), ylim=(len(shown) - 0.5, -0.5), xlabel="ESS of each training seed")
    axis.spines[["top", "right"]].set_visible(False)
    label_families(axis, [case.family for case, _ in shown])
    add_legend(figure)
    figure.savefig(path, dpi=130, format="png")
    plt.close(figure)


def dot(axis: Any, cell: Cell, height: int) -> None:
    """A cross at zero for a run that ended with an error before it had an ESS."""
    level = level_of(cell)
    axis.scatter(
        cell.get("ess") or 0.0, height, color=COLOURS[level], marker=MARKERS.get(level, "o"), s=26,
        alpha=0.75, zorder=3,
    )  # fmt: skip


def label_families(axis: Any, families: list[str]) -> None:
    """The name of each family to the right of its lines."""
    for family in dict.fromkeys(families):
        places = [height for height, other in enumerate(families) if other == family]
        axis.text(1.045, statistics.mean(places), family, va="center", fontsize=8, color="0.3")


def add_legend(figure: Any) -> None:
    handles = [
        plt.Line2D([], [], color=colour, marker=MARKERS.get(level, "o"), linestyle="", label=level)
        for level, colour in COLOURS.items()
    ]
    required = plt.Line2D([], [], color="0.3", linestyle="--", label=f"required, {REQUIRED_ESS}")
    figure.legend(
        handles=[*handles, required], loc="outside upper center", ncols=6, frameon=False, fontsize=8
    )
