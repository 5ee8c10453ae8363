"""Anybody's draws, judged as they come in: the situations of ``verdicts.py`` through other doors.

    python benchmarks/anybodys.py [WORDS]    writes docs/results/verdicts/anybodys.md

Right and wrong draws of every family, with and without exact answers, go through an array of spins
or tokens, a shuffled sample set of dimod, a tree of ArviZ, and a text file, and are judged without
weights.  Each way in must give the verdict of the draws themselves.  With words, only situations
that have all of them are looked at, and printed instead of written.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dimod
import networkx
import numpy as np
import torch
from verdict_situations import (
    SITUATIONS,
    Made,
    Situation,
    at_other_temperature,
    banked,
    banked_elsewhere,
    drawn,
    generator,
    reference,
)

from tcsis import Draws, exact
from tcsis.basics.files import write_whole
from tcsis.draws.files import load_draws
from tcsis.draws.reading import as_draws
from tcsis.formats.graphs import independent_set
from tcsis.judging.evidence import gather
from tcsis.judging.verdict import weigh
from tcsis.targets import Factors, Pairwise, Target, from_callable

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
    "missing mode: Potts 6×6", "missing mode: Ising 16×16, β = 0.6, too large",
    "stuck: Ising 10×10, β = 1", "stuck in Néel states", "stuck in 4 of 10 modes",
    "stuck in 4 of 10 modes, in any order", "draws of another glass, too large",
)  # fmt: skip

# -- families that verdicts.py does not have ------------------------------------------------------


def bayesian_network(scale: float = 1.0) -> Factors:
    """30 variables of 2 to 4 values, each with up to three parents among the five before it."""
    rng = np.random.default_rng(1)
    values = rng.integers(2, 5, 30)
    factors = []
    for i in range(30):
        near = np.arange(max(0, i - 5), i)
        parents = rng.choice(near, min(len(near), int(rng.integers(1, 4))), replace=False)
        sites = [*parents.tolist(), i]
        table = rng.dirichlet(np.ones(values[i]), size=tuple(values[sites[:-1]]))
        factors.append((sites, scale * np.log(table)))
    return Factors(factors, values.tolist())


def twenty_values(scale: float = 1.0) -> Factors:
    rng = np.random.default_rng(5)
    tables = [((i, i + 1), scale * rng.normal(size=(20, 20))) for i in range(29)]
    return Factors(tables, [20] * 30)


def independent_sets(scale: float = 1.0) -> Factors:
    graph = networkx.random_regular_graph(3, 40, seed=2)
    return independent_set(graph, fugacity=math.exp(scale))


def cubic_glass(scale: float = 1.0, seed: int = 0) -> Pairwise:
    """±J on a periodic lattice of 6×6×6, at β = 0.5."""
    rng, site = np.random.default_rng(seed), np.arange(216).reshape(6, 6, 6)
    couplings = torch.zeros(216, 216)
    for axis in range(3):
        i, j = site.flatten(), np.roll(site, -1, axis).flatten()
        couplings[i, j] += torch.from_numpy(0.5 * scale * rng.choice([-1.0, 1.0], 216)).float()
    return Pairwise.from_spins(couplings + couplings.T, torch.zeros(216))


def dense_spins(scale: float = 1.0) -> Pairwise:
    g = generator(7)
    half = 0.6 * scale / math.sqrt(80) * torch.randn(80, 80, generator=g).triu(1)
    return Pairwise.from_spins(half + half.T, 0.2 * scale * torch.randn(80, generator=g))


def three_spins(scale: float = 1.0) -> Factors:
    s = np.array([-1.0, 1.0])
    table = 0.5 * scale * np.einsum("i,j,k->ijk", s, s, s)
    return Factors([((i, i + 1, i + 2), table) for i in range(38)], [2] * 40)


def three_spins_density(x: torch.Tensor) -> torch.Tensor:
    s = 2.0 * x.double() - 1
    return 0.5 * (s[..., 2:] * s[..., 1:-1] * s[..., :-2]).sum(-1)


def as_black_box(law: Factors) -> Callable[[int], Made]:
    """Perfect draws of a law, said to be of the three-spin couplings, of which only a function is
    told."""
    black_box = from_callable(three_spins_density, 40, 2)
    return lambda seed: (Draws(exact.draw(law, 10_000, seed=seed).x), black_box)


def permuted(make: Callable[[int], Made]) -> Callable[[int], Made]:
    """The right draws, with their sites in another order."""

    def shuffled(seed: int) -> Made:
        draws, target = make(seed)
        return Draws(draws.x[..., torch.randperm(target.num_sites, generator=generator(3))]), target

    return shuffled


def both_ways(name: str, make: Callable[[float], Target]) -> list[Situation]:
    return [
        Situation(f"perfect: {name}", "trusted", drawn(make(1.0))),
        *(
            Situation(
                f"temperature {'down' if factor > 1 else 'up'} by 5 %: {name}", "not trusted",
                at_other_temperature(make, factor),
            )
            for factor in (1.05, 0.95)
        ),
        Situation(f"sites in another order: {name}", "not trusted", permuted(drawn(make(1.0)))),
    ]  # fmt: skip


def both_ways_large(name: str, make: Callable[[float], Target], num_steps: int) -> list[Situation]:
    right = make(1.0)
    return [
        Situation(f"perfect, too large: {name}", "trusted", banked(right, "gibbs", num_steps)),
        *(
            Situation(
                f"temperature {'down' if factor > 1 else 'up'} by 5 %: {name}, too large",
                "not trusted", banked_elsewhere(right, make(factor), "gibbs", num_steps),
            )
            for factor in (1.05, 0.95)
        ),
        Situation(
            f"sites in another order: {name}, too large", "not trusted",
            permuted(banked(right, "gibbs", num_steps)),
        ),
    ]  # fmt: skip


MORE = [
    *both_ways("Bayesian network, 30 variables", bayesian_network),
    *both_ways("chain of 30 sites, V = 20", twenty_values),
    *both_ways("independent sets, 40 nodes", independent_sets),
    *both_ways_large("glass 6×6×6, β = 0.5", cubic_glass, 200),
    *both_ways_large("80 dense spins", dense_spins, 200),
    Situation(
        "draws of another glass 6×6×6, too large",
        "not trusted",
        banked_elsewhere(cubic_glass(), cubic_glass(seed=1), "gibbs", 200),
    ),
    Situation("perfect: three-spin black box, 2^40", "undecidable", as_black_box(three_spins())),
    *(
        Situation(
            f"temperature {way} by 5 %: three-spin black box, 2^40",
            "not trusted",
            as_black_box(three_spins(factor)),
        )
        for way, factor in (("down", 1.05), ("up", 0.95))
    ),
]

# -- the ways in ----------------------------------------------------------------------------------


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


def chosen() -> list[Situation]:
    """Some of those of ``verdicts.py``, and all others."""
    found = []
    for name in CHOSEN:
        named = [situation for situation in SITUATIONS if situation.name.endswith(name)]
        assert named, f"{name} is no situation"
        found.append(named[0])
    return [*found, *MORE]


def main(words: Sequence[str]) -> None:
    rows, differ = [], 0
    for situation in chosen():
        if all(word in situation.name for word in words):
            began = time.process_time()
            line, others = row(situation)
            rows, differ = [*rows, line], differ + others
            print(f"{situation.name}: {time.process_time() - began:.0f} s", flush=True)
    head = HEAD.format(seeds=NUM_SEEDS, differ=differ, total=NUM_SEEDS * len(rows))
    columns = f"| situation | should be | {' | '.join(DOORS)} |\n|---|---{'|---' * len(DOORS)}|\n"
    page = head + columns + "\n".join(rows) + "\n"
    if words:
        print(page)
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_whole(FOLDER / "anybodys.md", page)


HEAD = """# Anybody's draws

Written by `python benchmarks/anybodys.py`: how many of {seeds} sets of draws are trusted, judged
without weights, by the way they come in: `Draws`, an array of spins or tokens, a sample set of
dimod with its variables in another order and counted occurrences, a tree of ArviZ, a text file. Of
{total} sets, {differ} get another verdict through an array, a tree or a file than as `Draws`. A
sample set has no chains: what is stuck shows there in other checks, or as draws that depend on each
other do not, which is why chains should be told as chains. "Too large" are targets without exact
answers, or with no more than the exact energy; of a black box of 2^40 states no draws are trusted.

"""

if __name__ == "__main__":
    main(sys.argv[1:])
