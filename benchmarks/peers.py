"""The neural samplers of others on a small lattice: what they reach, and what it takes.

    python benchmarks/peers.py [WORDS]    writes docs/results/peers/peers.md

Every cell is one training run on one core.  Finished cells are kept in ``cells.jsonl`` and not run
again.  With words, such as "dnfs" or "60 s", only the cells that have all of them are run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tcsis
from tcsis.app.methods import PEERS
from tcsis.draws import Draws
from tcsis.peers import dnfs, leaps, mdns, sdds, van
from tcsis.targets import Ising

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "peers"
CELLS = FOLDER / "cells.jsonl"
NUM_DRAWS = 10_000
MANY_STEPS = 1_000_000
CONFIGS = {
    "dnfs": dnfs.DnfsConfig,
    "leaps": leaps.LeapsConfig,
    "mdns": mdns.MdnsConfig,
    "sdds": sdds.SddsConfig,
    "van": van.VanConfig,
}
BETAS = {4: 0.4407}


@dataclass(frozen=True)
class Setting:
    method: str
    side: int
    seconds: float

    @property
    def key(self) -> str:
        return f"{self.method}, side {self.side}, {self.seconds:g} s"

    @property
    def target(self) -> Ising:
        return Ising(side=self.side, beta=BETAS[self.side])


BUDGETS = {4: (15.0, 60.0)}
SETTINGS = [
    Setting(method, side, seconds)
    for side, budgets in BUDGETS.items()
    for method in PEERS
    for seconds in budgets
]


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = sys.argv[1:]
    for setting in SETTINGS:
        wanted = all(word in setting.key for word in words)
        if wanted and not any(cell["setting"] == setting.key for cell in kept()):
            line = json.dumps(run(setting), ensure_ascii=False)
            print(line, flush=True)
            with CELLS.open("a") as file:
                file.write(line + "\n")
    (FOLDER / "peers.md").write_text(page(kept()))


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


# -- one cell -------------------------------------------------------------------------------------


def run(setting: Setting) -> dict[str, Any]:
    """Train for the whole of the time, and draw; the flows in both ways of weighing."""
    target = setting.target
    config = CONFIGS[setting.method](num_evaluations=0, num_steps=MANY_STEPS)
    model = PEERS[setting.method](
        target, config=config, seed=0, time_budget=setting.seconds, progress=False
    )
    rows = {"": measure(target, lambda: model.sample(NUM_DRAWS, seed=100))}
    if setting.method in ("leaps", "dnfs"):
        ways = {
            "continuous weights": {"stir": 0.0, "weigh": dnfs.continuous_weights},
            "discrete weights": {"stir": 1.0, "weigh": dnfs.discrete_weights},
        }
        rows = {
            name: measure(target, lambda how=how: model.sample(NUM_DRAWS, seed=100, **how))
            for name, how in ways.items()
        }
    return {"setting": setting.key, "train_seconds": round(model.seconds, 1), "rows": rows}


def measure(target: Ising, draw: Any) -> dict[str, float]:
    began = time.process_time()
    draws: Draws = draw()
    seconds = time.process_time() - began
    drawn, weighed = (
        tcsis.evaluate(draws, target, weighted=w)["correlation"] for w in (False, True)
    )
    return {
        "calls": draws.num_network_calls / NUM_DRAWS, "ess": draws.ess,
        "error": drawn.error / drawn.floor, "weighted": weighed.error / drawn.floor,
        "log_z_error": draws.log_z - tcsis.exact.solve(target).log_z,
        "draws_per_second": round(NUM_DRAWS / seconds, 1),
    }  # fmt: skip


# -- the page -------------------------------------------------------------------------------------


def page(cells: list[dict[str, Any]]) -> str:
    by_key = {cell["setting"]: cell for cell in cells}
    sections = []
    for side, beta in BETAS.items():
        lines = [
            f"\n## Side {side}, β = {beta}\n",
            "| method | weights | training, s | calls | ESS | error/floor | weighted/floor "
            "| log Z error | draws a second |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for setting in SETTINGS:
            if setting.side == side and setting.key in by_key:
                lines += as_lines(setting, by_key[setting.key])
        sections.append("\n".join(lines) + "\n")
    return HEAD + "".join(sections)


def as_lines(setting: Setting, cell: dict[str, Any]) -> list[str]:
    return [
        f"| {setting.method.upper()} | {name or 'exact'} | {cell['train_seconds']:.0f} "
        f"| {row['calls']:.0f} | {row['ess']:.3f} | {row['error']:.2f} | {row['weighted']:.2f} "
        f"| {row['log_z_error']:+.4f} | {row['draws_per_second']:.0f} |"
        for name, row in cell["rows"].items()
    ]


HEAD = f"""# The peers on a small lattice

`python benchmarks/peers.py`. One core, one seed, {NUM_DRAWS:,} draws. An error is the mean of
|G(r) − exact| over r ≥ 1, of draws as they come and by their weights, over the error that as many
perfect independent draws would show. What each of them is: [peers](../../peers.md). Flows are drawn
twice: unstirred with the weights of continuous time, as in their papers, and stirred at rate 1 with
those of the steps as they are taken, for which E[w] = Z at any number of steps. Larger lattices and
more seeds: [the study](../paper/table.md).
"""


if __name__ == "__main__":
    main()
