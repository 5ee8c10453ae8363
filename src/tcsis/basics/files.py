"""Files that are whole or not there: a temporary name beside the file, forced to disk, renamed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; a crash leaves the file before it or this one."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """The path to write to, which takes the name ``path`` once the block has ended well.

    The folder is made if need be; after a failure what was there before is untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{uuid.uuid4().hex}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # still there only if something failed
    sync(path.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
