"""Files that carry the SHA-256 of all else in them, so that no change goes unnoticed.

    JSON    {"sha256": "...", ...}      the first entry of the object
    TOML    # sha256 ...                the first line
    other   sha256 ...                  the last line, for formats that do not mind one

Whoever changes such a config takes its first line out.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

JSON = re.compile(rb'\{\n "sha256": "([0-9a-f]{64})",')
TOML = re.compile(rb"# sha256 ([0-9a-f]{64}), of all below; take this line out if you change it\n")


LAST = re.compile(rb"\nsha256 ([0-9a-f]{64})\n")
LAST_SIZE = 73
PIECE = 2**20
"""Bytes of a file that are read at once."""


def seal_json(text: str) -> str:
    """The text of an object, with its checksum as the first of its entries."""
    return f'{{\n "sha256": "{digest(text.encode())}",' + text[1:]


def open_json(path: Path, content: bytes) -> bytes:
    """The text that was sealed."""
    found = JSON.match(content)
    return check(path, found, b"{" + content[found.end() :] if found else b"")


def seal_toml(text: str) -> str:
    seal = f"# sha256 {digest(text.encode())}, of all below; take this line out if you change it"
    return f"{seal}\n{text}"


def open_toml(path: Path, content: bytes) -> bytes:
    """The text that was sealed."""
    found = TOML.match(content)
    return check(path, found, content[found.end() :] if found else b"")


def is_sealed_toml(content: bytes) -> bool:
    return TOML.match(content) is not None


def seal_bytes(content: bytes) -> bytes:
    return content + f"\nsha256 {digest(content)}\n".encode()


def open_bytes(path: Path, content: bytes) -> bytes:
    """The bytes that were sealed."""
    return check(path, LAST.fullmatch(content[-LAST_SIZE:]), content[:-LAST_SIZE])


def seal_file(path: Path) -> None:
    """What ``seal_bytes`` does, to a file that need not fit into memory."""
    line = f"\nsha256 {digest_file(path, path.stat().st_size)}\n"
    with path.open("ab") as file:
        file.write(line.encode())


def check_file(path: Path) -> None:
    """Refuse a file that is not as ``seal_bytes`` or ``seal_file`` left it."""
    size = max(0, path.stat().st_size - LAST_SIZE)
    with path.open("rb") as file:
        file.seek(size)
        found = LAST.fullmatch(file.read())
    refuse(path, found, "" if found is None else digest_file(path, size))


def digest_file(path: Path, size: int) -> str:
    """The checksum of the first ``size`` bytes."""
    total = sha256()
    with path.open("rb") as file:
        while size > 0 and (part := file.read(min(size, PIECE))):
            total.update(part)
            size -= len(part)
    return total.hexdigest()


def check(path: Path, found: re.Match[bytes] | None, content: bytes) -> bytes:
    refuse(path, found, digest(content))
    return content


def refuse(path: Path, found: re.Match[bytes] | None, digest: str) -> None:
    """Refuse what has no checksum, or another than it says."""
    fault = "has no checksum" if found is None else "does not match its checksum"
    if found is None or digest != found[1].decode():
        raise ValueError(
            f"{path} {fault}: expected it as tcsis wrote it; restore it from a copy or run again"
        )


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()
