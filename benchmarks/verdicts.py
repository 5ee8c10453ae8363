"""How often is the verdict right?  Perfect draws of every family and every defect, 50 times each.

    python benchmarks/verdicts.py [WORDS]    writes docs/results/verdicts/verdicts.md

A situation makes draws and their target from a seed.  What the verdict should be is known: draws
that are right should be trusted, by weight at least; draws that are wrong should not; and some
cannot be told from right ones by anything short of enumeration.  Finished cells are kept in
``cells.jsonl`` and not run again.  With words only the situations that have all of them are run;
"1/2" and "2/2" stand for every second one.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verdict_situations import NUM_SEEDS, SITUATIONS, Situation, reference

from tcsis.basics.files import write_whole
from tcsis.judging.evidence import gather
from tcsis.judging.verdict import weigh

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "verdicts"
CELLS = FOLDER / "cells.jsonl"
SEEDS = range(NUM_SEEDS)
LEVELS = ("trusted", "trusted by weight", "unrefuted", "doubtful", "failed", "refused")
HOLDS = ("trusted", "trusted by weight")
Cell = dict[str, Any]


def main(words: Sequence[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for situation in selected(words):
        done = {cell["seed"] for cell in kept() if cell["situation"] == situation.name}
        began = time.process_time()
        for seed in SEEDS:
            if seed not in done:
                line = json.dumps(run(situation, seed), ensure_ascii=False)
                with CELLS.open("ab", buffering=0) as file:  # one write keeps lines whole
                    file.write(f"{line}\n".encode())
        if len(done) < len(SEEDS):
            print(f"{situation.name}: {time.process_time() - began:.0f} s", flush=True)
    write_whole(FOLDER / "verdicts.md", page(kept()))


def selected(words: Sequence[str]) -> list[Situation]:
    parts = [part for part in (re.fullmatch(r"(\d+)/(\d+)", word) for word in words) if part]
    wanted = set(words) - {part[0] for part in parts}
    chosen = [s for s in SITUATIONS if all(word in s.name for word in wanted)]
    for part in parts:
        chosen = chosen[int(part[1]) - 1 :: int(part[2])]
    return chosen


def kept() -> list[Cell]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


def run(situation: Situation, seed: int) -> Cell:
    """One verdict; a refusal counts as one."""
    try:
        draws, target = situation.make(seed)
        verdict = weigh(gather(draws, reference(target)))
        level, why = verdict.level, verdict.why
    except ValueError as error:
        level, why = "refused", str(error)
    return {"situation": situation.name, "seed": seed, "level": level, "why": why}


# -- the page -------------------------------------------------------------------------------------


def page(cells: list[Cell]) -> str:
    known = {situation.name: situation for situation in SITUATIONS}
    cells = [cell for cell in cells if cell["situation"] in known]
    parts = [HEAD.format(seeds=len(SEEDS), situations=len(SITUATIONS)), totals(cells, known)]
    for expected, title, text in SECTIONS:
        chosen = [s for s in SITUATIONS if s.expected == expected]
        parts.append(f"\n## {title}\n\n{text}\n\n{table(chosen, cells)}")
    return "".join(parts)


def totals(cells: list[Cell], known: dict[str, Situation]) -> str:
    wrong = [c for c in cells if known[c["situation"]].expected == "not trusted"]
    right = [c for c in cells if known[c["situation"]].expected == "trusted"]
    believed = sum(c["level"] in HOLDS for c in wrong)
    doubted = sum(c["level"] not in HOLDS for c in right)
    return (
        f"- **Wrong draws that were trusted: {believed} of {len(wrong):,}** (at most 1 in 200).\n"
        f"- **Right draws that were not: {doubted} of {len(right):,}** (at most 1 in 50).\n"
    )


def table(chosen: list[Situation], cells: list[Cell]) -> str:
    rows = [f"| situation | {' | '.join(LEVELS)} | the sentence, of the first seed |"]
    rows.append("|---" * (len(LEVELS) + 2) + "|")
    for situation in chosen:
        mine = [cell for cell in cells if cell["situation"] == situation.name]
        if not mine:
            continue
        counts = Counter(cell["level"] for cell in mine)
        common = counts.most_common(1)[0][0]
        shown = next(cell for cell in mine if cell["level"] == common)
        why = shown["why"].replace("|", "\\|")
        numbers = " | ".join(str(counts[level]) if counts[level] else "" for level in LEVELS)
        rows.append(
            f"| {situation.name} | {numbers} | {why[:300] + '…' if len(why) > 300 else why} |"
        )
    return "\n".join(rows) + "\n"


HEAD = """# How often the verdict is right

Written by `python benchmarks/verdicts.py`: {situations} situations, {seeds} seeds each.  "Trusted"
and "trusted by weight" count as trust; "refused" means that no verdict is given, because log p̄ is
no function of the state.

"""
SECTIONS = (
    ("trusted", "Draws that are right", "Perfect draws, or draws whose weights repair them."),
    ("not trusted", "Draws that are wrong", "Every defect that the tests know."),
    (
        "undecidable",
        "What draws cannot show",
        "Nothing short of enumeration tells these from right or from wrong ones; what is said of "
        'them is said, and it is not "trusted" where the truth may be the contrary.',
    ),
)

if __name__ == "__main__":
    main(sys.argv[1:])
