"""A digest of the code that a result depends on: some modules and all that they import.

Comments, docstrings and layout do not count, nor does code that none of the modules reaches, nor
what is only told beside draws: exact answers, verdicts, the files of others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import tcsis

ROOT = Path(tcsis.__file__).parent
BESIDE = ("exact", "judging", "formats", "distribution")
"""Parts that count where they are asked for, and not where something else imports them."""


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
    wanted = {part_of(path) for path in waiting}
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [
                p for p in imported(parse(path)) if part_of(p) in wanted or part_of(p) not in BESIDE
            ]
    return found


def part_of(path: Path) -> str:
    """The first name below ``tcsis``."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def file_of(module: str) -> Path | None:
    """The file of a module or package below ``tcsis``.  That of ``tcsis`` itself imports everything
    and decides nothing."""
    first, *parts = module.split(".")
    if first != "tcsis" or not parts:
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
    """A file without its docstrings, those of values included."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not is_text(line)]  # type: ignore[attr-defined]
    return tree


def is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
