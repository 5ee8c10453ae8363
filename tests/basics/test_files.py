"""A file is whole or not there, whatever happens while it is written."""

from pathlib import Path

import pytest

from tcsis.basics.files import WriteError, whole_file, write_whole


def test_text_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    for content, stored in (("β = 1\n", "β = 1\n".encode()), (b"\xff\0", b"\xff\0")):
        write_whole(path, content)
        assert path.read_bytes() == stored
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")

    def fail() -> None:
        with whole_file(path) as temporary:
            assert temporary.parent == tmp_path  # so that renaming is one step
            temporary.write_text("half of wh")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_never_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="file cannot be written"), whole_file(tmp_path / "file"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sizes", [(3, 200_000), (200_000, 3)])
def test_an_interrupted_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]
) -> None:
    """The file before it stays where the disk refuses the new one."""
    old, new = ("x" * size for size in sizes)
    path = tmp_path / "file"
    write_whole(path, old)

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    words = r"file cannot be written \(No space left on device\): make room on its disk"
    with pytest.raises(WriteError, match=words):
        write_whole(path, new)
    assert path.read_text() == old
    assert list(tmp_path.iterdir()) == [path]
