"""One writer a folder, for as long as its process lives."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from tcsis.basics.files import WriteError
from tcsis.basics.locks import NAME, BusyError, find_writer, refuse_busy, sole_writer

HOLD = """
import sys
from pathlib import Path
from tcsis.basics.locks import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), "--note", "a b"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_who_looks_for_a_writer_is_none(tmp_path: Path) -> None:
    """Helpers look ten times a second, each with the lock for a moment."""
    with (tmp_path / NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        timer = Timer(0.03, lambda: fcntl.flock(file, fcntl.LOCK_UN))
        timer.start()
        with sole_writer(tmp_path):
            assert find_writer(tmp_path) is not None
        timer.join()


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with hold(tmp_path) as process:
        who = rf"process {process.pid} on .* \(-c .* --note 'a b', since \d{{4}}-"
        words = f"is being written by {who}"
        for ask in (lambda: sole_writer(tmp_path).__enter__(), lambda: refuse_busy(tmp_path)):
            with pytest.raises(BusyError, match=words):
                ask()
        assert str(process.pid) in (find_writer(tmp_path) or "")
        process.communicate("")  # it ends
    assert find_writer(tmp_path) is None
    assert not list(tmp_path.iterdir())
    with sole_writer(tmp_path):
        assert f"process {os.getpid()}" in (find_writer(tmp_path) or "")


def test_the_lock_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    with hold(tmp_path) as process:
        process.kill()
        process.wait()
    assert (tmp_path / NAME).exists()  # the file stays, the lock does not
    assert find_writer(tmp_path) is None
    with sole_writer(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_the_lock_goes_along_with_its_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with sole_writer(old) as writer:
        old.rename(new)
        writer.moved(new)
        assert find_writer(new) is not None
    assert not list(new.iterdir())


def test_a_file_that_was_taken_away_is_no_lock(tmp_path: Path) -> None:
    """Of two that opened the same file one removes it; the other must not think it holds it."""
    with sole_writer(tmp_path):
        (tmp_path / NAME).unlink()
        with sole_writer(tmp_path):  # of a new file, which the first one leaves alone
            pass
    assert not list(tmp_path.iterdir())


def test_what_is_no_note_is_another_process(tmp_path: Path) -> None:
    with sole_writer(tmp_path):
        (tmp_path / NAME).write_text("[]")
        assert find_writer(tmp_path) == "another process"


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(WriteError, match=r"file/inside/.writer cannot be written \(Not a directory"),
        sole_writer(tmp_path / "file" / "inside"),
    ):
        pass
