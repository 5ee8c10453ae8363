"""Files that are whole or not there: a temporary name beside the file, forced to disk, renamed."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WriteError(OSError):
    """A file that cannot be written, and what to do about it."""


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; a crash leaves the file before it or this one."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """The path to write to, which takes the name ``path`` once the block has ended well.

    The folder is made if need be; after a failure what was there before is untouched, and of the
    new file nothing is left.
    """
    path = Path(path)
    temporary = path.with_name(f".tmp-{uuid.uuid4().hex}")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            sync(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)  # still there only if something failed
        sync(path.parent)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the disk refuses meanwhile is told by the name of the file, and with what to do."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        remedy = "make room on its disk" if error.errno in FULL else "make it a place to write to"
        told = WriteError(
            f"{path} cannot be written ({error.strerror or error}): {remedy}; what was there "
            "before is whole"
        )
        told.errno = error.errno
        raise told from error


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
