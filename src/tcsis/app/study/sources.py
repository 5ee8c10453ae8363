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
    """The files of the modules, of their packages, and of all that these import, at any depth."""
    found: set[Path] = set()
    waiting = [path for name in modules for path in files_of(name)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [file for name in imported(parse(path)) for file in files_of(name)]
    return found


def files_of(module: str) -> Iterator[Path]:
    """The file of a module below ``tcsis`` and those of the packages around it.  The package itself
    imports everything and decides nothing."""
    first, *parts = module.split(".")
    if first != "tcsis" or not parts or parts[0] in NO_PART_IN_DRAWS:
        return
    for depth in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:depth])
        yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file())


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that an import may name; ``from a import b`` names a and perhaps a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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
