"""Large lattices: the default, grown from smaller ones, against exact answers.

    python benchmarks/scale.py [WORDS]    writes docs/results/scale/lattices.md and lattices.png
    python benchmarks/scale.py overlaps   of the glass, beside exact draws, for the page

Every cell is one training run of so many steps with one core (``OMP_NUM_THREADS=1
NUMBA_NUM_THREADS=1``), and 16,384 draws.  Models go to runs/scale, finished cells to
``lattices.jsonl``, and are not run again; to repeat one, delete its line.  With words, such as
"Potts" or "24×24", only the cells that have all of them are run.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch

import tcsis
from tcsis.basics.files import whole_file, write_whole
from tcsis.draws import Draws
from tcsis.learn.learned import Learned
from tcsis.targets import Ising, Potts, SpinGlass
from tcsis.targets.base import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "scale"
CELLS, MODELS = FOLDER / "lattices.jsonl", Path("runs") / "scale"
OVERLAPS = FOLDER / "overlaps.json"
NUM_DRAWS, NUM_EXACT = 16_384, 2_048
CRITICAL = math.log1p(math.sqrt(2)) / 2
Cell = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A target, the steps that its training takes, what the preset is changed by, and the case with
    whose model it begins, in place of smaller lattices of its own."""

    name: str
    target: Target
    steps: int
    calls: tuple[int | None, ...] = (None,)
    changes: dict[str, Any] = field(default_factory=dict)
    start: str | None = None


SIXTEEN: tuple[int | None, ...] = (None, 64, 32)
CURVE = {"num_evaluations": 12}
GLASS = Case("±J glass 16×16, open, β = 1", SpinGlass(16, 1.0, seed=0, boundary="open"), 3_000)
CASES = [
    Case("Ising 16×16, β = 0.4407", Ising(16, 0.4407), 1_200, SIXTEEN, CURVE),
    Case("Ising 15×15, β = 0.4407", Ising(15, 0.4407), 1_200),
    Case("Ising 24×24, β = 0.4407", Ising(24, 0.4407), 600, (None,), CURVE,
         "Ising 16×16, β = 0.4407"),
    Case("Ising 32×32, β = 0.4407", Ising(32, 0.4407), 600, (None,), CURVE,
         "Ising 24×24, β = 0.4407"),
    Case("Ising 16×16, β = 0.28", Ising(16, 0.28), 250, SIXTEEN),
    Case("Ising 24×24, β = 0.28", Ising(24, 0.28), 150, start="Ising 16×16, β = 0.28"),
    Case("Ising 32×32, β = 0.28", Ising(32, 0.28), 100, start="Ising 24×24, β = 0.28"),
    Case("Ising 16×16, β = 0.6", Ising(16, 0.6), 1_000, SIXTEEN),
    Case("Ising 24×24, β = 0.6", Ising(24, 0.6), 400, start="Ising 16×16, β = 0.6"),
    Case("Ising 32×32, β = 0.6", Ising(32, 0.6), 200, start="Ising 24×24, β = 0.6"),
    Case("Potts V = 3, 16×16, β = 1.005", Potts(16, 3, 1.005), 2_000, SIXTEEN),
    Case("Potts V = 3, 16×16, β = 0.5", Potts(16, 3, 0.5), 150, SIXTEEN),
    Case("Potts V = 3, 16×16, β = 1.2", Potts(16, 3, 1.2), 900, SIXTEEN),
    GLASS,
    Case("Potts V = 4, 16×16, β = 0.5", Potts(16, 4, 0.5), 100, SIXTEEN),
    Case("Potts V = 4, 16×16, β = 1.0986", Potts(16, 4, 1.0986), 800, SIXTEEN),
    Case("Potts V = 4, 16×16, β = 1.3", Potts(16, 4, 1.3), 400, SIXTEEN),
]  # fmt: skip


def main(words: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if words == ["overlaps"]:
        write_whole(OVERLAPS, json.dumps(overlaps(GLASS), indent=1) + "\n")
        words = ["nothing"]
    for case in CASES:
        if all(word in case.name for word in words) and case.name not in {
            c["case"] for c in kept()
        }:
            line = json.dumps(run(case), ensure_ascii=False)
            print(line, flush=True)
            with CELLS.open("ab", buffering=0) as file:
                file.write(f"{line}\n".encode())
    write_whole(FOLDER / "lattices.md", page(kept()))
    with whole_file(FOLDER / "lattices.png") as path:
        picture(kept(), path)


def kept() -> list[Cell]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


# -- one cell --------------------------------------------------------------------------------------


def run(case: Case) -> Cell:
    begun, busy = time.perf_counter(), time.process_time()
    start = None if case.start is None else tcsis.load(MODELS / case.start)
    config = tcsis.presets.fast(case.target).changed(num_steps=case.steps, **case.changes)
    model = tcsis.train(case.target, config=config, start=start, progress=False)
    cell: Cell = {
        "case": case.name, "method": model.kind, "steps": case.steps,
        "grows": [list(shape) for shape in config.grows] if start is None else [],
        "start": case.start,
        "seconds": round(time.perf_counter() - begun), "cpu": round(time.process_time() - busy),
        "spent": {what: round(seconds, 1) for what, seconds in model.spent.items()},
        "weights": sum(weights.numel() for weights in model.module.parameters()),
        "curve": [[record["seconds"], record["ess"]] for record in model.history],
    }  # fmt: skip
    model.save(MODELS / case.name)
    reference = true_energy(case.target)
    cell["draws"] = [of_calls(model, calls, reference) for calls in case.calls]
    return cell


def true_energy(target: Target) -> Draws | None:
    """Independent exact draws, where there are any to be had."""
    try:
        return tcsis.exact.draw(target, NUM_EXACT, seed=7)
    except ValueError:
        return None


def of_calls(model: Learned, calls: int | None, reference: Draws | None) -> Cell:
    draws = model.sample(NUM_DRAWS, calls=calls, seed=100)
    assert draws.log_weight is not None and draws.weights is not None
    cell: Cell = {
        "calls": round(draws.num_network_calls / NUM_DRAWS), "ess": draws.ess,
        "log_z": draws.log_z, "log_z_spread": draws.log_z_error,
        "variance": float(draws.log_weight.var()), "per_second": round(NUM_DRAWS / draws.seconds),
        "verdict": tcsis.judge(draws, model.target).level if calls is None else None,
    }  # fmt: skip
    try:
        truth = tcsis.exact.solve(model.target)
        cell["log_z_error"] = draws.log_z - truth.log_z
    except ValueError:
        pass
    if model.target.num_values == 2 and model.target.symmetries.translations:
        m = (2 * draws.x.double() - 1).mean(-1)
        cell["positive"] = float((m > 0).double().mean() + (m == 0).double().mean() / 2)
    if reference is not None:
        cell["energy_sigmas"] = apart(draws, reference, model.target)
    return cell


def apart(draws: Draws, reference: Draws, target: Target) -> float:
    """Mean energies by weight and of exact draws: their difference in standard errors."""
    e, f = (target.energy(d.x.long()).double() for d in (draws, reference))
    w = draws.weights
    assert w is not None
    w = w / w.sum()
    mean = (w * e).sum()
    variance = (w.square() * (e - mean).square()).sum() + f.var() / len(f)
    return float((mean - f.mean()) / variance.sqrt())


# -- overlaps --------------------------------------------------------------------------------------


def overlaps(case: Case, num_bins: int = 10) -> Cell:
    """|q| of pairs of draws by weight, and of pairs of exact draws: shares of bins with standard
    errors, and how far apart they are in these."""
    model = tcsis.load(MODELS / case.name)
    draws = model.sample(NUM_DRAWS, seed=200)
    exact = tcsis.exact.draw(case.target, NUM_DRAWS, seed=201)
    assert draws.weights is not None
    ours = shares(draws.x, draws.weights.double(), num_bins)
    truth = shares(exact.x, torch.ones(NUM_DRAWS, dtype=torch.float64), num_bins)
    sigmas = [
        (p - t) / max(math.hypot(s, r), 1e-12)
        for p, s, t, r in zip(*ours, *truth, strict=True)
    ]  # fmt: skip
    return {"ours": ours, "exact": truth, "sigmas": sigmas}


def shares(x: torch.Tensor, weights: torch.Tensor, num_bins: int) -> list[list[float]]:
    """Of pairs of states (2k, d) with weights w_i·w_j the share in every bin of |q|, with standard
    errors."""
    spins = 2 * x.double() - 1
    q = (spins[::2] * spins[1::2]).mean(1).abs()
    w = weights[::2] * weights[1::2]
    w = w / w.sum()
    inside = (q * num_bins).long().clamp_max(num_bins - 1)[:, None] == torch.arange(num_bins)
    p = w @ inside.double()
    errors = (w.square() @ (inside.double() - p).square()).sqrt()
    return [p.tolist(), errors.tolist()]


# -- page ------------------------------------------------------------------------------------------


def page(cells: list[Cell]) -> str:
    return f"""# Large lattices

`python benchmarks/scale.py`: what `tcsis.train(target)` does by default, with the number of steps
said, on one core (`OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1`), and {NUM_DRAWS:,} draws of the model.
Lattices with translations are grown: the network, whose weights belong to displacements, is first
trained on the smaller lattices named, or begins as that of another row (`start=`), whose time comes
on top. "CPU s" is the processor time of all of it, smaller lattices, annealing, evaluations and
compilation included; two cores were shared with other work, so that the clock said more. log Z is
compared with Kaufman's formula and the Kac–Ward determinant, energies by weight with exact draws
(coupling from the past, planar dimers), in standard errors of their difference. P(m > 0) is that
of draws as they come. One seed each.

{table(cells)}

![ESS during training](lattices.png)

"Calls" are network calls a draw; the last colour class comes from the target and takes none.

## Fewer calls

The same networks, along blocks that are planned for that many calls:

{calls_table(cells)}

{overlaps_part()}## Where the time went

{spent_table(cells)}
"""


def overlaps_part() -> str:
    if not OVERLAPS.exists():
        return ""
    found = json.loads(OVERLAPS.read_text())
    (ours, _), (truth, errors) = found["ours"], found["exact"]
    rows = "\n".join(
        f"| {k / len(ours):.1f} to {(k + 1) / len(ours):.1f} | {p:.4f} | {t:.4f} | {e:.4f} "
        f"| {sigma:+.1f} |"
        for k, (p, t, e, sigma) in enumerate(zip(ours, truth, errors, found["sigmas"], strict=True))
    )
    return f"""## Overlaps of the glass

`python benchmarks/scale.py overlaps`: |q| of {NUM_DRAWS // 2:,} pairs of draws, by weight, beside
as many pairs of exact draws; σ is the standard error of the difference.

| abs(q) | drawn | exact | its error | apart, σ |
|---|--:|--:|--:|--:|
{rows}

"""


def table(cells: list[Cell]) -> str:
    lines = [
        "| target | method | grown from | steps | CPU s | clock s | calls | ESS | log Z error "
        "| its σ | energy off by, σ | P(m > 0) | draws/s | verdict |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for cell in in_order(cells):
        row = cell["draws"][0]
        shapes, start = ["×".join(map(str, shape)) for shape in cell["grows"]], cell.get("start")
        grown = f"the row {start}" if start else ", ".join(shapes) or "–"
        lines.append(
            f"| {cell['case']} | {cell['method']} | {grown} | {cell['steps']:,} | {cell['cpu']:,} "
            f"| {cell['seconds']:,} | {row['calls']} | {row['ess']:.4f} "
            f"| {shown(row.get('log_z_error'), '+.4f')} | {row['log_z_spread']:.4f} "
            f"| {shown(row.get('energy_sigmas'), '+.1f')} | {shown(row.get('positive'), '.3f')} "
            f"| {row['per_second']:,} | {row['verdict']} |"
        )
    return "\n".join(lines)


def calls_table(cells: list[Cell]) -> str:
    lines = ["| target | calls | ESS | log Z error |", "|---|--:|--:|--:|"]
    lines += [
        f"| {cell['case']} | {row['calls']} | {row['ess']:.4f} "
        f"| {shown(row.get('log_z_error'), '+.4f')} |"
        for cell in in_order(cells)
        for row in cell["draws"][1:]
    ]
    return "\n".join(lines)


def spent_table(cells: list[Cell]) -> str:
    names = list(dict.fromkeys(name for cell in cells for name in cell["spent"]))
    lines = [f"| clock s | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    lines += [
        f"| {cell['case']} | "
        + " | ".join(f"{cell['spent'].get(n, 0.0):.0f}" for n in names)
        + " |"
        for cell in in_order(cells)
    ]
    return "\n".join(lines)


def in_order(cells: list[Cell]) -> list[Cell]:
    names = sorted(case.name for case in CASES)
    return sorted(cells, key=lambda cell: names.index(cell["case"]))


def shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def picture(cells: list[Cell], path: Path) -> None:
    """ESS of the averaged weights against the clock, of the cells that looked on the way."""
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for cell in in_order(cells):
        seconds, ess = zip(*cell["curve"], strict=True)
        if len(seconds) > 3:
            busy = [s * cell["cpu"] / cell["seconds"] / 60 for s in seconds]
            axes.plot(busy, ess, "o-", label=cell["case"], markersize=4)
    axes.set(xlabel="minutes of one core", ylabel="ESS", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130, format="png")
    plt.close(figure)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
