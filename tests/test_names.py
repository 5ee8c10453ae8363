"""What the documentation names exists."""

import re
import subprocess
import sys
from importlib import import_module
from itertools import groupby
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
    """The object, by importing its module where it stands below one."""
    found: object = tcsis
    parts = name.split(".")
    for number, part in enumerate(parts):
        if not hasattr(found, part):
            found = import_module(".".join(["tcsis", *parts[: number + 1]]))
        else:
            found = getattr(found, part)
    return found


def test_the_reference_names_what_exists() -> None:
    for name in re.findall(r"^::: tcsis\.([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.M):
        find(name)


FRESH = """
import sys, tcsis
for names in {groups}:
    for module in [name for name in sys.modules if name.startswith("tcsis.")]:
        del sys.modules[module]
    for name in (*tcsis.MODULES, *tcsis.MEMBERS, *{parts}):
        vars(tcsis).pop(name, None)
    for name in names:
        place = tcsis
        for part in name.split("."):
            place = getattr(place, part)

# no module has taken the place of a function that bears its name
import tcsis.app.comparison, tcsis.judging.evaluation, tcsis.learn.trainer, tcsis.reverse.unlearned
assert set(tcsis.__all__) <= set(dir(tcsis))
for name in ("train", "load", "compare", "evaluate", "learning_free", "judge"):
    assert callable(getattr(tcsis, name)), name
from tcsis import exact, train
assert exact is tcsis.exact and train is tcsis.train
"""


def test_names_in_the_guides_are_reached_from_a_fresh_import() -> None:
    """By attributes alone, as a reader types them, before anything else has loaded their module."""
    guides = [page for page in PAGES if page.name != "api.md"]
    found = sorted({name for page in guides for name in names(page)})
    groups = [list(group) for _, group in groupby(found, lambda name: name.split(".")[0])]
    parts = {path.split(".")[0] for path in (*tcsis.MODULES.values(), *tcsis.MEMBERS.values())}
    code = FRESH.format(groups=groups, parts=sorted(parts))
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_there() -> None:
    for name in tcsis.__all__:
        assert getattr(tcsis, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'baselines'"):
        assert tcsis.baselines


def test_names_are_found() -> None:
    assert sum(len(names(page)) for page in PAGES) > 50
