"""Anybody's draws, judged as they come in: the situations of ``verdicts.py`` through other doors.

    python benchmarks/anybodys.py [WORDS]    writes docs/results/verdicts/anybodys.md

Right and wrong draws of several families, with and without exact answers, go through an array of
spins or tokens, a shuffled sample set of dimod, a tree of ArviZ, and a text file, and are judged
without weights.  Each way in must give the verdict of the draws themselves.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dimod
import numpy as np
from verdict_situations import SITUATIONS, Situation, reference

from tcsis import Draws
from tcsis.basics.files import write_whole
from tcsis.draws.files import load_draws
from tcsis.draws.reading import as_draws
from tcsis.judging.evidence import gather
from tcsis.judging.verdict import weigh
from tcsis.targets import Target

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "verdicts"
NUM_SEEDS = 5
HOLDS = ("trusted", "trusted by weight")
CHOSEN = (
    "Ising 4×4, β = 0.4407", "Ising 4×4 in a field", "Potts 3×3, V = 4", "glass 4×4, β = 1",
    "RBM, 14 units", "two of 14, a function", "Ising 10×10, β = 0.4407", "glass 8×8, β = 1",
    "Potts 6×6, V = 3", "20 chains of 2,000, warm", "8 chains of 1,000, glass 15×15, β = 0.2",
    "perfect, too large: glass 16×16", "perfect, too large: Potts 12×12",
    "temperature off by 5 %: Ising 10×10", "temperature off by 5 %: glass 8×8",
    "temperature off by 5 %: glass 16×16, too large",
    "temperature off by 5 %: Potts 12×12, too large", "missing mode: Ising 10×10, β = 0.6",
    "missing mode: Potts 6×6", "missing mode: Ising 14×16 open, too large",
    "stuck: Ising 10×10, β = 1", "stuck in Néel states", "draws of another glass, too large",
)  # fmt: skip


def as_array(draws: Draws, target: Target) -> Any:
    values = draws.x.numpy().astype(int)
    return 2 * values - 1 if target.num_values == 2 else values


def as_sample_set(draws: Draws, target: Target) -> dimod.SampleSet:
    """Variables in another order, and every state once with its count."""
    order = np.random.default_rng(0).permutation(target.num_sites)
    values = as_array(draws.flat, target)[:, order]
    vartype = "SPIN" if target.num_values == 2 else "DISCRETE"
    samples = (values, order.tolist())
    found = dimod.SampleSet.from_samples(samples, vartype, energy=np.zeros(len(values)))
    return found.aggregate()


def as_file(draws: Draws, target: Target) -> Draws:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.csv"
        draws.to_pandas().to_csv(path, index=False)
        return load_draws(path, target)


DOORS: dict[str, Callable[[Draws, Target], Any]] = {
    "draws": lambda draws, target: draws,
    "array": as_array,
    "sample set": as_sample_set,
    "tree": lambda draws, target: draws.to_inferencedata(),
    "file": as_file,
}


def level(door: Callable[[Draws, Target], Any], draws: Draws, target: Target) -> str:
    return weigh(gather(as_draws(door(draws, target), target), reference(target))).level


def row(situation: Situation) -> tuple[str, int]:
    """How many of the seeds are trusted, door by door, and how often a door says otherwise than
    the draws themselves.  A sample set has no chains, so its verdict on them may differ."""
    found: dict[str, list[str]] = {name: [] for name in DOORS}
    for seed in range(NUM_SEEDS):
        draws, target = situation.make(seed)
        bare = Draws(draws.x)
        for name, door in DOORS.items():
            found[name].append(level(door, bare, target))
    shown = " | ".join(str(sum(each in HOLDS for each in levels)) for levels in found.values())
    same = [name for name in DOORS if name != "sample set"]
    differ = sum(len({found[name][seed] for name in same}) > 1 for seed in range(NUM_SEEDS))
    return f"| {situation.name} | {situation.expected} | {shown} |", differ


def main(words: Sequence[str]) -> None:
    named = {situation.name: situation for situation in SITUATIONS}
    rows, differ = [], 0
    for name in CHOSEN:
        found = next((s for key, s in named.items() if key.endswith(name)), None)
        assert found is not None, f"{name} is no situation"
        if all(word in found.name for word in words):
            began = time.process_time()
            line, others = row(found)
            rows, differ = [*rows, line], differ + others
            print(f"{found.name}: {time.process_time() - began:.0f} s", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    head = HEAD.format(seeds=NUM_SEEDS, differ=differ, total=NUM_SEEDS * len(rows))
    columns = f"| situation | should be | {' | '.join(DOORS)} |\n|---|---{'|---' * len(DOORS)}|\n"
    write_whole(FOLDER / "anybodys.md", head + columns + "\n".join(rows) + "\n")


HEAD = """# Anybody's draws

Written by `python benchmarks/anybodys.py`: how many of {seeds} sets of draws are trusted, judged
without weights, by the way they come in: `Draws`, an array of spins or tokens, a sample set of
dimod with its variables in another order and counted occurrences, a tree of ArviZ, a text file. Of
{total} sets, {differ} get another verdict through an array, a tree or a file than as `Draws`. A
sample set has no chains: what is stuck shows there in other checks, or as draws that depend on each
other do not, which is why chains should be told as chains.

"""

if __name__ == "__main__":
    main(sys.argv[1:])
