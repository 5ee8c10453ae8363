"""Whose code a run folder names: what was not run here before is not run unasked.

The config of a run on a function of the user's own names that function, and to draw or to judge
its code is imported.  A folder from elsewhere could name any.  So a run keeps ``code.json``:

    function     as in the config, a path with a name or a module with a name
    sha256       of the file that it is in; what that imports is not looked at
    signature    HMAC-SHA256 of both, with a key that never leaves this user's account

The key is made at the first use, ``$XDG_STATE_HOME/tcsis/key``, readable by its owner alone.  Where
the signature holds and the file is the same, the code is what this user ran before.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tcsis.app.sources import is_function
from tcsis.basics.files import write_whole

CODE = "code.json"


def sign(folder: Path, spec: dict[str, Any]) -> None:
    """Keep in the folder of a run that its code was run here; other targets have no code."""
    if not is_function(spec):
        (folder / CODE).unlink(missing_ok=True)
        return
    name, digest = str(spec["name"]), hash_code(str(spec["name"]))
    with suppress(OSError):  # no place for a key: the user is asked every time
        record = {"function": name, "sha256": digest, "signature": signature(name, digest)}
        write_whole(folder / CODE, json.dumps(record, indent=1) + "\n")


def require(folder: Path, spec: dict[str, Any], trusted: bool) -> None:
    """Refuse to run the code that the config in a folder names, unless it was run here before or
    the user says so."""
    if trusted or not is_function(spec):
        return
    name, found = str(spec["name"]), read(folder)
    digest = hash_code(name)
    if not is_signed(found, name):
        raise ValueError(
            f"{folder} was not made here, and its config runs the code of {name}: pass "
            "--trust-code if you know what that does"
        )
    if found.get("sha256") != digest:
        raise ValueError(
            f"the code of {name} has changed since the run in {folder} was made: put the old code "
            "back, or pass --trust-code to run it as it is now"
        )


def is_signed(found: dict[str, Any], name: str) -> bool:
    """Whether a record for this function was written with the key of this user."""
    try:
        wanted = signature(name, str(found.get("sha256")))
    except OSError:
        return False
    return hmac.compare_digest(str(found.get("signature")).encode(), wanted.encode())


def read(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / CODE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def signature(name: str, digest: str) -> str:
    return hmac.new(read_key(), f"{name}\0{digest}".encode(), sha256).hexdigest()


def read_key() -> bytes:
    """The key of this user, made if there is none."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "tcsis" / "key"
    if not path.exists():
        make_key(path)
    return path.read_bytes()


def make_key(path: Path) -> None:
    """Write a key, unless another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        made = path.with_name(f"key-{secrets.token_hex(8)}")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
            os.link(made, path)
        finally:
            made.unlink()


# -- code ----------------------------------------------------------------------------------------


def hash_code(name: str) -> str:
    """SHA-256 of the file that a function is in; of nothing, where there is no such file."""
    where = name.rpartition(":")[0]
    path = Path(where) if where.endswith(".py") else find_module(where)
    try:
        return sha256(b"" if path is None else path.read_bytes()).hexdigest()
    except OSError:
        return sha256(b"").hexdigest()  # importing it says what is wrong


def find_module(name: str) -> Path | None:
    """The file of a module, found as an import would, and without importing its packages."""
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    found, parts = None, name.split(".")
    for number in range(len(parts)):
        if places is None:
            return None
        found = PathFinder.find_spec(".".join(parts[: number + 1]), places)
        if found is None:
            return None
        locations = found.submodule_search_locations
        places = None if locations is None else list(locations)
    return Path(found.origin) if found is not None and found.origin else None
