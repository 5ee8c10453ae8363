"""A run takes the place of another when it is complete, and a crash in between loses neither."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tcsis.app import folders, runs
from tcsis.app.folders import open_place
from tcsis.basics.locks import BusyError, find_writer, sole_writer
from tcsis.basics.seals import seal_toml
from tcsis.learn import checkpoint

OLD, NEW = 1, 2


class CrashError(BaseException):
    """The process ends here."""


def write(folder: Path, seed: int) -> None:
    """The files of a run that is told by its seed."""
    text = f"[target]\nname = 'ising'\n[run]\ncommand = 'train'\nseed = {seed}\n"
    (folder / runs.CONFIG).write_text(seal_toml(text))
    (folder / runs.RESULT).write_text(json.dumps(seed))
    checkpoint.save(folder / "checkpoint", {}, {"seed": seed})


def seed_of(folder: Path) -> int:
    """Of a whole run, all of whose files agree."""
    seeds = {
        runs.read_config(folder)["run"]["seed"],
        json.loads((folder / runs.RESULT).read_text()),
        checkpoint.load(folder / "checkpoint")[1]["seed"],
    }
    assert len(seeds) == 1
    return seeds.pop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An old run, with files of the user's own."""
    place = tmp_path / "runs" / "mine"
    with open_place(place) as opened:
        assert opened.work == opened.folder == place
        write(place, OLD)
    (place / "notes.txt").write_text("mine")
    (place / "checkpoint" / "notes.txt").write_text("mine too")
    return place


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def check_replaced(folder: Path) -> None:
    assert seed_of(folder) == NEW
    assert names(folder) == {"config.toml", "result.json", "checkpoint", "notes.txt"}
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "checkpoint" / "notes.txt").read_text() == "mine too"
    assert names(folder.parent) == {"mine"}


def test_the_old_run_stays_until_the_new_one_is_complete(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with open_place(folder, overwrite=True) as place:
        assert place.work == folder.with_name("mine.replacement")
        write(place.work, NEW)
        assert all(path.read_bytes() == content for path, content in before.items())
        assert seed_of(folder) == OLD
    check_replaced(folder)


def test_a_replacement_that_fails_changes_nothing(folder: Path) -> None:
    def fail() -> None:
        with open_place(folder, overwrite=True) as place:
            folders.discard(place.work)
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        fail()
    assert seed_of(folder) == OLD
    assert names(folder.parent) == {"mine"}


def stop_halfway(folder: Path) -> None:
    def crash() -> None:
        with open_place(folder, overwrite=True) as place:
            write(place.work, NEW)
            raise CrashError

    with pytest.raises(CrashError):
        crash()


def test_resuming_goes_on_with_the_replacement(folder: Path) -> None:
    stop_halfway(folder)
    assert seed_of(folder) == OLD
    assert folders.find_unfinished(folder) == folder.with_name("mine.replacement")
    with open_place(folder, resume=True) as place:
        assert seed_of(place.work) == NEW
    check_replaced(folder)


def test_overwriting_again_begins_again(folder: Path) -> None:
    stop_halfway(folder)
    with open_place(folder, overwrite=True) as place:
        assert names(place.work) == {".writer"}
        write(place.work, NEW)
    check_replaced(folder)


def test_resuming_goes_on_with_the_run_where_nothing_replaces_it(folder: Path) -> None:
    (folder / ".tmp-killed").write_text("half")
    with open_place(folder, resume=True) as place:
        assert place.work == folder
        assert ".tmp-killed" not in names(folder)
    assert seed_of(folder) == OLD


@pytest.mark.parametrize("crash", range(8))
def test_a_crash_at_any_rename_or_removal(
    crash: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of both runs is found whole, and whoever writes next ends what was begun."""
    calls, armed = [0], [False]

    def counted(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*given: object, **options: object) -> object:
            if armed[0]:
                calls[0] += 1
                if calls[0] > crash:
                    raise CrashError
            return real(*given, **options)

        return call

    def replace() -> None:
        with open_place(folder, overwrite=True) as place:
            write(place.work, NEW)
            armed[0] = True

    with monkeypatch.context() as patch:
        for name in ("rename", "unlink", "rmdir"):
            patch.setattr(os, name, counted(name))
        with pytest.raises(CrashError):
            replace()
    found = folders.find(folder)
    assert seed_of(found) == (OLD if crash == 0 else NEW)
    assert found == (folder.with_name("mine.replacement") if crash == 1 else folder)
    with open_place(folder, resume=True) as place:
        assert seed_of(place.work) == NEW
    check_replaced(folder)


def test_a_crash_before_anything_new_was_kept(folder: Path) -> None:
    """Only the old run was moved away: by hand, as no crash of ours can."""
    folder.rename(folder.with_name("mine.replaced"))
    assert seed_of(folders.find(folder)) == OLD
    with open_place(folder, resume=True):
        assert seed_of(folder) == OLD
    assert names(folder.parent) == {"mine"}


def test_one_writer(folder: Path) -> None:
    ways = ({"resume": True}, {"overwrite": True}, {})
    with open_place(folder, resume=True):
        for way in ways:
            with pytest.raises(BusyError, match=f"written by process {os.getpid()}"):
                open_place(folder, **way).__enter__()
    with open_place(folder, overwrite=True) as place:
        write(place.work, NEW)
        assert find_writer(folder) and find_writer(place.work)
        for way in ways:
            with pytest.raises(BusyError, match=f"written by process {os.getpid()}"):
                open_place(folder, **way).__enter__()
    assert seed_of(folder) == NEW


def test_a_writer_of_checkpoints_alone(folder: Path) -> None:
    """Such as ``tcsis.train`` in a notebook."""
    with sole_writer(folder / "checkpoint"):
        for way in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(BusyError, match="checkpoint is being written by"):
                open_place(folder, **way).__enter__()
    assert seed_of(folder) == OLD


def test_a_symbolic_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    with open_place(link, overwrite=True) as place:
        write(place.work, NEW)
    assert link.is_symlink()
    check_replaced(folder)


def test_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with open_place(".", overwrite=True) as place:
        write(place.work, NEW)
    check_replaced(folder)


def test_a_mount_point_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    with pytest.raises(ValueError, match="is a mount point"), open_place(folder, overwrite=True):
        pass
    with open_place(folder, resume=True):
        pass
    assert seed_of(folder) == OLD


def test_nothing_to_replace_is_written_in_place(tmp_path: Path) -> None:
    for inside in (None, "notes.txt"):
        folder = tmp_path / str(inside)
        if inside is not None:
            folder.mkdir()
            (folder / inside).write_text("mine")
        with open_place(folder, overwrite=True) as place:
            assert place.work == folder
            write(folder, NEW)
        assert seed_of(folder) == NEW


def test_a_folder_that_was_made_for_nothing_goes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(open_place(tmp_path / "new"))
        assert place.folder.is_dir()
    assert not (tmp_path / "new").exists()
