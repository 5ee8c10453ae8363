"""A digest of the code that a result depends on: some modules and all that they import.

Comments, docstrings and layout do not count, nor does code that none of the modules reaches, nor
what reads the files of others and what judges draws: no draw depends on these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import tcsis

ROOT = Path(tcsis.__file__).parent
NO_PART_IN_DRAWS = ("formats", "judging", "distribution")


@cache
def digest(modules: tuple[str, ...]) -> str:
    """Of the modules and of everything below ``tcsis`` that they import, in 16 hexadecimals."""
    total = sha256()
    for path in sorted(reached(modules)):
        name = path.relative_to(ROOT).as_posix()
        total.update(f"{name}\0{ast.dump(parse(path))}\0".encode())
    return total.hexdigest()[:16]


def reached(modules: tuple[str, ...]) -> set[Path]:
    """The files of the modules and of all that they import, at any depth."""
    found: set[Path] = set()
    waiting = [path for name in modules if (path := file_of(name)) is not None]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(parse(path))
    return found


def file_of(module: str) -> Path | None:
    """The file of a module or package below ``tcsis``.  That of ``tcsis`` itself imports everything
    and decides nothing."""
    first, *parts = module.split(".")
    if first != "tcsis" or not parts or parts[0] in NO_PART_IN_DRAWS:
        return None
    place = ROOT.joinpath(*parts)
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


def imported(tree: ast.Module) -> Iterator[Path]:
    """The files that imports name: ``from a import b`` names a.b if that is a module, else a."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named: list[tuple[str, ...]] = [(alias.name,) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            named = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
        else:
            continue
        for names in named:
            yield from [path for name in names if (path := file_of(name)) is not None][:1]


@cache
def parse(path: Path) -> ast.Module:
    """A file without its docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return tree
