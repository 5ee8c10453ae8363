"""One writer a folder: a lock that ends with its process, however that ends.

The lock is one of the operating system's on the file ``.writer`` in the folder, which says who
holds it.  A process that is killed leaves the file and not the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tcsis.basics.files import naming

NAME = ".writer"
TRIES, PAUSE = 20, 0.01
"""How often a lock is asked for, seconds apart: who looks for a writer has it for a moment."""


class BusyError(ValueError):
    """A folder that another process writes to."""


@dataclass
class Writer:
    """The right to write to a folder; the lock goes along where the folder is renamed."""

    folder: Path
    descriptor: int

    def moved(self, folder: Path) -> None:
        self.folder = folder

    def release(self) -> None:
        try:
            if is_at(self.descriptor, self.folder / NAME):
                (self.folder / NAME).unlink()
        finally:
            os.close(self.descriptor)


@contextmanager
def sole_writer(folder: Path) -> Iterator[Writer]:
    """Be the only one who writes to a folder, which is made if need be, or refuse."""
    with naming(folder / NAME):
        folder.mkdir(parents=True, exist_ok=True)
        writer = acquire(folder)
    try:
        yield writer
    finally:
        writer.release()


def find_writer(folder: Path) -> str | None:
    """Who writes to a folder now; None if nobody does."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return describe(descriptor)
    finally:
        os.close(descriptor)
    return None


def refuse_busy(folder: Path) -> None:
    """Refuse a folder that a process writes to."""
    who = find_writer(folder)
    if who is not None:
        raise busy(folder, who)


def acquire(folder: Path) -> Writer:
    while True:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        if not locked(descriptor):
            who = describe(descriptor)
            os.close(descriptor)
            raise busy(folder, who)
        if is_at(descriptor, folder / NAME):
            break
        os.close(descriptor)  # of a process that ended, and took its file away, just now
    os.ftruncate(descriptor, 0)
    with suppress(OSError):  # a full disk has room for the lock, if not for a name
        os.write(descriptor, introduce().encode())
    return Writer(folder, descriptor)


def locked(descriptor: int) -> bool:
    """Whether the lock is this process's now."""
    for _ in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(PAUSE)
    return False


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that has the name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def introduce() -> str:
    """This process, as ``describe`` reads it."""
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    who = {"pid": os.getpid(), "host": platform.node(), "command": command, "since": since}
    return json.dumps(who)


def describe(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 100_000, 0))
        return f"process {who['pid']} on {who['host']} ({who['command']}, since {who['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # which has not said who it is yet, or had no room to


def busy(folder: Path, who: str) -> BusyError:
    return BusyError(
        f"{folder} is being written by {who}: wait until that has ended, stop it, or pass another "
        "folder"
    )
