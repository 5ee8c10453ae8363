"""Machine code on disk that is never stale.

numba keeps what it compiles, and makes it anew when the file of the function changes, but not when
a file it calls into does.  Here the stamp of all code is one hash over every source of this folder,
and of the function's own if that is elsewhere: a change to any of them compiles all of them again.
Where the files go is numba's own choice:
``__pycache__`` beside the sources, or the cache directory of the user if that is read-only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.resources import files
from inspect import getsource
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

LISTENERS: list[Callable[[], None]] = []
"""What is called before anything is compiled."""


def hash_sources() -> str:
    """One hash of the names and the contents of all modules of this package."""
    sources = [file for file in files(__package__).iterdir() if file.name.endswith(".py")]
    contents = {file.name: sha256(file.read_bytes()).hexdigest() for file in sources}
    return sha256(repr(sorted(contents.items())).encode()).hexdigest()


SOURCES = hash_sources()


def stamp(function: Callable[..., Any]) -> str:
    """One hash of this package and of the module that a function is from."""
    own = getsource(sys.modules[function.__module__])
    return sha256(f"{SOURCES}{own}".encode()).hexdigest()


class SourcesCache(FunctionCache):
    """The cache of one function, under a name of its own: functions that ``skeleton`` makes share
    their line and their code, and differ in the functions they call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{self._impl.filename_base}.{sha256(full_name(function).encode()).hexdigest()[:8]}"
        self._cache_file = IndexDataCacheFile(self.cache_path, name, stamp(function))

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """What is kept; None where that cannot be read, so that it is compiled again."""
        try:
            found = super().load_overload(signature, target_context)
        except Exception:  # a damaged pickle may raise anything
            with suppress(OSError):
                self.flush()
            found = None
        if found is None:
            for tell in LISTENERS:
                tell()
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep it, if the disk has room: a run does not end for want of a cache."""
        with suppress(OSError):
            super().save_overload(signature, data)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Types and processor; numba adds a hash of the functions called that no two processes
        agree on."""
        return signature, codegen.magic_tuple()


@contextmanager
def told(tell: Callable[[], None]) -> Iterator[None]:
    """``tell`` is called whenever something is not on disk and has to be compiled."""
    LISTENERS.append(tell)
    try:
        yield
    finally:
        LISTENERS.remove(tell)


def full_name(function: Any) -> str:
    """The name of a function and, if it is made from others, theirs."""
    parts = [full_name(cell.cell_contents.py_func) for cell in function.__closure__ or ()]
    return f"{function.__module__}.{function.__qualname__}({','.join(parts)})"


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As ``numba.njit``, with machine code kept on disk where there is a place for it."""

    def compile_lazily(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        with suppress(RuntimeError):  # no directory to write to: compile in every process
            dispatcher._cache = SourcesCache(function)
        return dispatcher

    return compile_lazily
