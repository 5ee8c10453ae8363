"""Where a run writes: its folder, held by one process, and how one run takes the place of another.

A run that overwrites another is written to ``NAME.replacement`` beside it.  Once it is complete,

    NAME               -> NAME.replaced
    NAME.replacement   -> NAME

and what was in the old folder beside its run is moved over before NAME.replaced is removed.
Before the first line the old run is as it was, and resuming goes on with the replacement; a crash
after it is put right by whoever writes next, and until then readers find the new run where it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tcsis.app import runs
from tcsis.basics import locks
from tcsis.basics.files import naming, sync
from tcsis.basics.locks import Writer, refuse_busy, sole_writer
from tcsis.basics.signals import deferred
from tcsis.draws.shards import count_shards
from tcsis.learn import checkpoint
from tcsis.learn.trainer import CHECKPOINT


@dataclass(frozen=True)
class Place:
    """The folder that a run is for, and the one that it writes to."""

    folder: Path
    work: Path


@contextmanager
def open_place(
    path: str | Path, *, resume: bool = False, overwrite: bool = False
) -> Iterator[Place]:
    """The place of a run, for this process alone; what it replaces goes when the block ends well.

    A folder that holds anything is refused, unless the run in it is to be resumed or overwritten;
    overwriting removes what a run wrote and nothing else.
    """
    folder = Path(path)
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: expected one of them")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder")
    settle(folder)
    if resume:
        work = find_unfinished(folder)
        runs.read_config(work)
        opened = hold(folder) if work == folder else replacing(folder)
    else:
        opened = replacing(folder, afresh=True) if holds_run(folder, overwrite) else hold(folder)
    with opened as place:
        yield place


@contextmanager
def hold(folder: Path) -> Iterator[Place]:
    """A run that is written to its own folder."""
    there = folder.exists()
    try:
        with sole_writer(folder):
            refuse_busy(folder / CHECKPOINT)  # by tcsis.train, which holds no more than that
            sweep(folder)
            yield Place(folder, folder)
    finally:
        if not there:
            remove_if_empty(folder)


@contextmanager
def replacing(folder: Path, afresh: bool = False) -> Iterator[Place]:
    """A run that is written beside another, and takes its place at the end."""
    work, away = replacement_of(folder), replaced_of(folder)
    if os.path.ismount(folder):
        raise ValueError(f"{folder} is a mount point: expected a folder in it, to be renamed")
    try:
        with sole_writer(folder) as old, sole_writer(work) as new:
            refuse_busy(folder / CHECKPOINT)
            if afresh:
                clear(work)
            sweep(work)
            yield Place(folder, work)
            put_in_place(folder, old, new)
    finally:
        remove_if_empty(work)
        remove_if_empty(away)


def put_in_place(folder: Path, old: Writer, new: Writer) -> None:
    """The replacement of a run under the run's name; see the head of this module."""
    refuse_busy(folder / CHECKPOINT)
    folder, work, away = real(folder), replacement_of(folder), replaced_of(folder)
    with deferred(), naming(folder):
        folder.rename(away)
        old.moved(away)
        work.rename(folder)
        new.moved(folder)
        sync(folder.parent)
        bring_back(away, folder)


def settle(folder: Path) -> None:
    """End a replacement that a crash cut short."""
    away = replaced_of(folder)
    if not away.is_dir():
        return
    with sole_writer(away) as writer, deferred(), naming(folder):
        if not folder.exists():
            found = find(folder)
            found.rename(real(folder))
            if found == away:
                writer.moved(folder)
        if away.is_dir():
            bring_back(away, folder)
    remove_if_empty(away)


def bring_back(away: Path, folder: Path) -> None:
    """Move what no run wrote from the old folder to the new, and remove the old run."""
    clear(away)
    for old, new in ((away / CHECKPOINT, folder / CHECKPOINT), (away, folder)):
        for path in old.iterdir() if old.is_dir() else ():
            if path.name not in (locks.NAME, CHECKPOINT) and not (new / path.name).exists():
                new.mkdir(exist_ok=True)
                path.rename(new / path.name)
    remove_if_empty(away / CHECKPOINT)


# -- finding -------------------------------------------------------------------------------------


def find(folder: Path) -> Path:
    """Where the run of a folder is: in the folder, or where a crash in ``put_in_place`` left it."""
    away, work = replaced_of(folder), replacement_of(folder)
    if folder.exists() or not away.is_dir():
        return folder
    return work if work.is_dir() else away


def find_unfinished(folder: Path) -> Path:
    """What resuming goes on with: a replacement that was begun, or else the run itself."""
    work = replacement_of(folder)
    return work if (work / runs.CONFIG).exists() else folder


def holds_run(folder: Path, overwrite: bool) -> bool:
    """Whether there is a run to replace; refuses what must not be."""
    inside = folder.iterdir() if folder.is_dir() else ()
    if any(path.name != locks.NAME for path in inside) and not overwrite:
        refuse_busy(folder)
        raise ValueError(
            f"{folder} is not empty: pass --resume to go on with the run in it, "
            "--overwrite to replace it, or another folder"
        )
    known = [name for name in (*runs.FILES, runs.SHARDS, CHECKPOINT) if (folder / name).exists()]
    if known and not runs.is_run(folder):
        raise ValueError(
            f"{folder} has a {known[0]} that no run of tcsis wrote: expected another folder"
        )
    return bool(known)


def replacement_of(folder: Path) -> Path:
    return real(folder).with_name(f"{real(folder).name}.replacement")


def replaced_of(folder: Path) -> Path:
    return real(folder).with_name(f"{real(folder).name}.replaced")


def real(folder: Path) -> Path:
    """A folder by the name that can be changed."""
    plain = folder.name not in ("", "..") and not folder.is_symlink()
    return folder if plain else folder.resolve()


# -- removing ------------------------------------------------------------------------------------


def clear(folder: Path) -> None:
    """Remove what a run wrote."""
    for name in runs.FILES:
        (folder / name).unlink(missing_ok=True)
    for saved in checkpoint.list_checkpoints(folder / CHECKPOINT).values():
        shutil.rmtree(saved)
    if (folder / runs.SHARDS).is_dir():
        shutil.rmtree(folder / runs.SHARDS)
    sweep(folder)
    remove_if_empty(folder / CHECKPOINT)


def sweep(folder: Path) -> None:
    """Remove what killed processes left of files that they were writing."""
    for path in (*folder.glob(".tmp-*"), *(folder / CHECKPOINT).glob(".tmp-*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (folder / CHECKPOINT).glob(locks.NAME):
        path.unlink()


def discard(folder: Path) -> None:
    """Take back a run that was refused before it had any state."""
    if not checkpoint.exists(folder / CHECKPOINT) and not count_shards(folder / runs.DRAWS):
        clear(folder)


def remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
