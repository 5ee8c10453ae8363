"""What the documentation names exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import tcsis

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
NAME = re.compile(r"(?<![\w./-])tcsis((?:\.[A-Za-z_]\w*)+)")
FILES = ("py", "nc", "html", "toml")


def names(page: Path) -> set[str]:
    """Dotted names below ``tcsis``, without those of files."""
    return {name[1:] for name in NAME.findall(page.read_text()) if name.split(".")[-1] not in FILES}


def find(name: str) -> object:
    """The object, as a reader would reach it: by attributes, or by importing its module."""
    found: object = tcsis
    parts = name.split(".")
    for number, part in enumerate(parts):
        if not hasattr(found, part):
            found = import_module(".".join(["tcsis", *parts[: number + 1]]))
        else:
            found = getattr(found, part)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_documentation_exist(page: Path) -> None:
    for name in names(page):
        find(name)


def test_public_names_are_reached_from_a_fresh_import() -> None:
    for name in tcsis.__all__:
        assert getattr(tcsis, name) is not None
    for name in ("peers.leaps.train", "steps.tweedie", "reverse.Trapezoidal", "mcmc.ChainSampler"):
        assert find(name) is not None
    with pytest.raises(AttributeError, match="no attribute 'baselines'"):
        assert tcsis.baselines


def test_names_are_found() -> None:
    assert sum(len(names(page)) for page in PAGES) > 50
