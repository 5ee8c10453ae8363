"""A few hundred damaged files of every format; ``benchmarks/fuzz_formats.py`` has ten thousand."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
fuzz_formats = pytest.importorskip("fuzz_formats")

NUMBER = 400


def test_valid_files_are_read(tmp_path: Path) -> None:
    for valid in fuzz_formats.valid_files():
        outcome = fuzz_formats.attempt(valid, valid.content, tmp_path)
        assert outcome.kind == "read", outcome


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    seeds = fuzz_formats.valid_files()
    others = [valid.content for valid in seeds]
    kinds: Counter[str] = Counter()
    for number in range(NUMBER):
        rng, valid = random.Random(10**6 + number), seeds[number % len(seeds)]
        content = fuzz_formats.damage(valid.content, others, rng)
        outcome = fuzz_formats.attempt(valid, content, tmp_path)
        assert outcome.kind in ("read", "refused"), (number, outcome)
        kinds[outcome.kind] += 1
    assert kinds["read"] and kinds["refused"] > NUMBER // 2  # damage is neither harmless nor total


def test_an_exception_of_another_kind_would_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(fuzz_formats.formats, "read", broken)
    valid = fuzz_formats.valid_files()[0]
    assert fuzz_formats.attempt(valid, valid.content, tmp_path).kind == "KeyError"
