"""Imports point one way, also inside functions: a part may use itself and the lines before it."""

import ast
from pathlib import Path

import tcsis

LAYERS = (
    "basics", "targets", "formats", "noise", "draws", "exact", "distribution", "mcmc", "identity",
    "reverse", "judging", "learn", "peers", "app",
)  # fmt: skip
ROOT = Path(tcsis.__file__).parent


def part(module: str) -> str | None:
    """What stands below ``tcsis`` in the name of a module; None for other people's modules."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "tcsis" else None


def imported(path: Path) -> list[str]:
    """Every module that a file names in an import, wherever that stands."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from tcsis import exact` names a part, `from tcsis.exact import solve` does not
            inside = [f"tcsis.{alias.name}" for alias in node.names]
            names += inside if node.module == "tcsis" else [node.module or ""]
    return names


def test_imports_point_one_way() -> None:
    top = [ROOT / "__init__.py", ROOT / "__main__.py"]
    files = [path for path in ROOT.rglob("*.py") if path not in top]
    for path in files:
        here = path.relative_to(ROOT).with_suffix("").parts[0]
        for name in imported(path):
            there = part(name)
            if there is None or (here == "app" and name == "tcsis"):
                continue
            # the package itself reaches everything, so that only the top may import it
            assert there in LAYERS, f"{path} imports {name}, which is no part of the package"
            assert LAYERS.index(there) <= LAYERS.index(here), (
                f"{path} imports {name}, which is later"
            )


def test_every_part_is_there() -> None:
    found = {path.stem for path in ROOT.iterdir() if path.stem[0] not in "._"}
    assert found - {"py"} == set(LAYERS)
