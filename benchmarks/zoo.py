"""The default sampler on a zoo of targets, three training seeds each, against exact answers.

    python benchmarks/zoo.py [WORDS] [--workers N]    writes docs/results/zoo/zoo.md and zoo.png

Every cell is one training run with a time budget and nothing else but defaults, and 16,384 draws.
Finished cells are kept in ``cells.jsonl`` and not run again; to repeat one, delete its line.  With
words, such as "Potts" or "seed 1", only the cells that have all of them are run.  They are run by
processes side by side, one a core, or by the workers of a Dask cluster, ``--scheduler ADDRESS``,
which must find this folder in their PYTHONPATH.
"""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from zoo_page import page, picture
from zoo_targets import CASES, Answer, Case

import tcsis
from tcsis.app import executors
from tcsis.app.executors import Failure
from tcsis.basics.files import whole_file, write_whole
from tcsis.draws import Draws
from tcsis.judging import metrics
from tcsis.learn.learned import Learned
from tcsis.targets.base import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "zoo"
CELLS = FOLDER / "cells.jsonl"
NUM_DRAWS, NUM_STATE_DRAWS = 2**14, 2**20
SEEDS = (0, 1, 2)
LEAK = 5.0
"""A draw with a weight below e^-5 of the mean has been drawn where there is next to nothing."""

ROUNDING = 1e-5
"""Of log p̄ in single precision: a log Z cannot be told apart from another one so near."""

Cell = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    given = parse(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = {(cell["case"], cell["seed"]) for cell in kept()}
    missing = [
        (case.name, seed) for case, seed in selected(given.words) if (case.name, seed) not in done
    ]
    with executors.choose(given.workers, given.scheduler) as place:
        for (name, seed), cell in executors.run_all(run_cell, missing, place):
            if isinstance(cell, Failure):  # lost with its process, and to be run again
                print(f"{name}, seed {seed}: {cell.sentence}", file=sys.stderr, flush=True)
            else:
                keep(cell)
    write_whole(FOLDER / "zoo.md", page(CASES, kept(), NUM_DRAWS, NUM_STATE_DRAWS))
    with whole_file(FOLDER / "zoo.png") as path:
        picture(CASES, kept(), path)


def parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(description="The default sampler on a zoo of targets.")
    parser.add_argument("words", nargs="*", help="what the names of the cells must have")
    parser.add_argument("--workers", type=int, help="processes side by side")
    parser.add_argument("--scheduler", help="the address of a Dask cluster, tcp://host:port")
    return parser.parse_args(arguments)


def keep(cell: Cell) -> None:
    line = json.dumps(finite(cell), ensure_ascii=False)
    print(line, flush=True)
    with CELLS.open("ab", buffering=0) as file:  # one write: a line is whole or not there
        file.write(f"{line}\n".encode())


def selected(words: Sequence[str]) -> list[tuple[Case, int]]:
    """The cells that have all words in their names."""
    return [
        (case, seed)
        for seed in SEEDS
        for case in CASES
        if all(word in name_of(case, seed) for word in words)
    ]


def name_of(case: Case, seed: int) -> str:
    return f"{case.family} / {case.name} / seed {seed}"


def kept() -> list[Cell]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- one cell --------------------------------------------------------------------------------------


def run_cell(cell: tuple[str, int]) -> Cell:
    """By the name of its case, which is the same one in every process."""
    name, seed = cell
    return run(next(case for case in CASES if case.name == name), seed)


def run(case: Case, seed: int, num_draws: int = NUM_DRAWS, **training: Any) -> Cell:
    """Train, draw, compare; after an error, what is known until then and the error."""
    cell: Cell = {"case": case.name, "family": case.family, "seed": seed}
    try:
        target = case.make()
        model = tcsis.train(
            target, seed=seed, time_budget=60 * case.minutes, progress=False, **training
        )
        cell |= of_training(model)
        draws = model.sample(num_draws, seed=100 + seed)
        cell |= of_weights(draws, answer(case)) | of_sites(draws, answer(case))
        cell |= of_mode(draws, case) | of_verdict(draws, target)
        if case.all_states:
            more = model.sample(NUM_STATE_DRAWS, seed=200 + seed)
            cell |= of_states(more, target, answer(case))
    except Exception as error:  # one failure is a row of the table and does not end the others
        sentence = str(error).strip().splitlines()
        cell["error"] = f"{type(error).__name__}: {sentence[0] if sentence else 'no message'}"
    return cell


@cache
def answer(case: Case) -> Answer:
    return case.answer()


@cache
def mode_share(case: Case) -> float | None:
    return case.mode_share()


def of_training(model: Learned) -> Cell:
    return {
        "method": model.config.method.kind, "train_seconds": round(model.seconds, 1),
        "steps": model.history[-1]["step"] if model.history else None,
    }  # fmt: skip


def of_weights(draws: Draws, exact: Answer) -> Cell:
    """ESS, log Z beside its exact value, and draws that weigh next to nothing."""
    assert draws.log_weight is not None and draws.log_z is not None
    log_weight, error = draws.log_weight.double(), draws.log_z_error
    cell: Cell = {
        "num_draws": len(draws), "ess": draws.ess, "log_z": draws.log_z, "log_z_spread": error,
        "leak": share(log_weight < draws.log_z - LEAK) if math.isfinite(draws.log_z) else 1.0,
        "forbidden": share(log_weight == -torch.inf),
        "draws_per_second": round(len(draws) / draws.seconds) if draws.seconds else None,
    }  # fmt: skip
    if exact.log_z is not None and error is not None:
        gap = draws.log_z - exact.log_z
        sigmas = abs(gap) / (error + ROUNDING * (1 + abs(exact.log_z)))
        cell |= {"log_z_error": gap, "log_z_sigmas": sigmas}
    return cell


def of_sites(draws: Draws, exact: Answer) -> Cell:
    """Mean absolute error of P(x_i = v), beside that of as many perfect draws."""
    truth = torch.from_numpy(exact.marginals)
    num_values = truth.shape[1]

    def error(weights: Tensor | None) -> float:
        estimate = metrics.site_marginals(draws.x, num_values, weights)
        return float((estimate - truth).abs().mean())

    floor = metrics.mean_floor((truth * (1 - truth)).sqrt(), len(draws))
    return {
        "site_error": error(None), "site_error_weighted": error(draws.weights), "site_floor": floor,
    }  # fmt: skip


def of_mode(draws: Draws, case: Case) -> Cell:
    """The share of one mode."""
    if case.mode is None:
        return {}
    assert draws.weights is not None
    holds = case.mode.holds(draws.x).double()
    return {
        "mode": float(holds.mean()), "mode_weighted": float(holds @ draws.weights),
        "mode_exact": mode_share(case),
    }  # fmt: skip


def of_verdict(draws: Draws, target: Target) -> Cell:
    """In one word and its reason, and both answers apart: as drawn, and with weights."""
    verdict = tcsis.judge(draws, target)
    cell: Cell = {"verdict": verdict.level, "why": verdict.why}
    for name, finding in (("as_drawn", verdict.as_drawn), ("by_weight", verdict.by_weight)):
        if finding is not None:
            cell |= {name: finding.level, f"{name}_why": finding.why}
    return cell


def of_states(draws: Draws, target: Target, exact: Answer) -> Cell:
    """Total variation between all states' probabilities and many draws, beside its floor."""
    assert exact.probabilities is not None
    p = torch.from_numpy(exact.probabilities)
    index = metrics.state_index(draws.x, target.num_values)

    def distance(weights: Tensor | None) -> float:
        return metrics.total_variation(metrics.histogram(index, len(p), weights), p)

    return {
        "states_tv": distance(None), "states_tv_weighted": distance(draws.weights),
        "states_tv_floor": metrics.total_variation_floor(p, len(draws)),
    }  # fmt: skip


def share(which: Tensor) -> float:
    return float(which.double().mean())


if __name__ == "__main__":
    import zoo  # by this name other processes find what is in it

    zoo.main(sys.argv[1:])
