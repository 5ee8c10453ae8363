"""Checkpoints: tensors and plain data, written so that a crash never costs the last whole one.

A folder holds one directory ``checkpoint-<number>`` with two files:

    tensors.safetensors   the tensors
    data.json             format name and version, SHA-256 of both parts, and the plain data

A new checkpoint is written beside the old one under a temporary name, forced to disk and renamed;
only then is the old one removed.  So whatever bears the name of a checkpoint is whole, and the one
with the highest number is the newest.  Neither file can hold code.  One process may write to a
folder at a time; whoever writes more than once holds it by ``tcsis.basics.locks``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tcsis.basics.files import naming, sync

FORMAT = "tcsis-checkpoint"
VERSION = 1
TENSORS_FILE = "tensors.safetensors"
DATA_FILE = "data.json"
KEYS = ("format", "version", "tensors_sha256", "data_sha256", "data")

CHECKPOINT = "checkpoint"
"""The folder of a run where its checkpoints are."""
NAME = re.compile(r"checkpoint-([0-9]+)")
TEMPORARY = ".tmp-"


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read, and why."""


def save(folder: str | Path, tensors: dict[str, Tensor], data: dict[str, Any]) -> Path:
    """Write a new checkpoint into ``folder``, remove the ones before it, and return its path.

    ``data`` may hold dictionaries with string keys, lists, strings, finite numbers, booleans and
    None; tuples come back as lists.  Tensors of any device come back on the CPU.
    """
    check_data(data)
    stored = {name: as_stored(name, tensor) for name, tensor in tensors.items()}
    folder = Path(folder)
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    older = list_checkpoints(folder)
    checkpoint = folder / f"checkpoint-{max(older, default=0) + 1}"
    temporary = temporary_in(folder)
    with naming(checkpoint):
        temporary.mkdir()
        try:
            write_files(temporary, stored, data)
            temporary.rename(checkpoint)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # still there only if something failed
        sync(folder)
    remove(folder, older)
    return checkpoint


def load(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the data of the newest checkpoint in ``folder``, which may be that of a
    run, or of ``folder`` itself.

    A damaged checkpoint raises; an older one is never taken in its place.
    """
    checkpoint = find(Path(folder)) or find(Path(folder) / CHECKPOINT)
    if checkpoint is None:
        raise CheckpointError(
            f"no checkpoint in {folder}: expected a folder that holds checkpoint-<number>, or that "
            "of a run"
        )
    document = read_document(checkpoint / DATA_FILE)
    tensors = read_tensors(checkpoint / TENSORS_FILE, document["tensors_sha256"])
    return tensors, document["data"]


def exists(folder: str | Path) -> bool:
    """Whether ``load`` would find a checkpoint, whole or damaged."""
    return find(Path(folder)) is not None


# -- finding and removing --------------------------------------------------------------------


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints in a folder, by number."""
    if not folder.is_dir():
        return {}
    matches = ((NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return {int(match[1]): path for match, path in matches if match}


def find(folder: Path) -> Path | None:
    """The newest checkpoint in ``folder``; ``folder`` itself if it is one; or None."""
    inside = list_checkpoints(folder)
    if inside:
        return inside[max(inside)]
    return folder if NAME.fullmatch(folder.name) and folder.is_dir() else None


def remove(folder: Path, older: dict[int, Path]) -> None:
    """Remove older checkpoints, and whatever an interrupted process left behind."""
    for path in older.values():
        path.rename(temporary_in(folder))  # half of a checkpoint never bears a checkpoint's name
    for path in folder.glob(TEMPORARY + "*"):
        shutil.rmtree(path)


def temporary_in(folder: Path) -> Path:
    return folder / (TEMPORARY + uuid.uuid4().hex)


# -- writing ---------------------------------------------------------------------------------


def write_files(directory: Path, tensors: dict[str, Tensor], data: dict[str, Any]) -> None:
    """Both files of a checkpoint, on disk when this returns."""
    tensors_path, data_path = directory / TENSORS_FILE, directory / DATA_FILE
    # as bytes, for what writes files by itself tells of a full disk in words of its own
    content = safetensors.torch.save(tensors)
    tensors_path.write_bytes(content)
    tensors_sha256 = hashlib.sha256(content).hexdigest()
    values = (FORMAT, VERSION, tensors_sha256, digest_data(data), data)
    data_path.write_bytes(encode(dict(zip(KEYS, values, strict=True))))
    for path in (tensors_path, data_path, directory):
        sync(path)


def encode(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def digest_data(data: Any) -> str:
    """SHA-256 of the canonical JSON: keys sorted, no spaces."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def digest(tensors: dict[str, Tensor], data: dict[str, Any]) -> str:
    """SHA-256 of what ``save`` would write."""
    content = safetensors.torch.save({name: as_stored(name, t) for name, t in tensors.items()})
    return hashlib.sha256(content + digest_data(data).encode()).hexdigest()


def as_stored(name: str, tensor: Tensor) -> Tensor:
    """A contiguous copy on the CPU; a copy, as tensors that share memory cannot be stored."""
    if not isinstance(name, str) or name == "__metadata__":
        raise CheckpointError(f"tensor name is {name!r}: expected a string, not __metadata__")
    if not isinstance(tensor, Tensor):
        raise CheckpointError(f"tensor {name} is a {type(tensor).__name__}: expected a Tensor")
    if tensor.layout != torch.strided or tensor.is_complex():
        raise CheckpointError(
            f"tensor {name} has layout {tensor.layout} and dtype {tensor.dtype}: "
            "expected a dense real tensor"
        )
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def check_data(value: Any, where: str = "data") -> None:
    """Refuse what JSON would not give back, naming the entry."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{where} has the key {key!r}: expected strings as keys")
            check_data(entry, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            check_data(entry, f"{where}[{index}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise CheckpointError(
                f"{where} is {value}: expected a finite number; put it in a tensor or use None"
            )
    elif not isinstance(value, str | int | None):
        raise CheckpointError(
            f"{where} is a {type(value).__name__}: expected a dictionary, list, string, number, "
            "boolean or None; convert it, or put it in a tensor"
        )


# -- reading ---------------------------------------------------------------------------------


def read_document(path: Path) -> dict[str, Any]:
    """The checked contents of data.json."""
    content = read_bytes(path)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise damaged(path, "is not valid JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise damaged(path, f"does not have the format {FORMAT}")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise damaged(path, f"has the version {version!r}")
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer tcsis (format {version}): "
            f"expected at most {VERSION}; upgrade tcsis"
        )
    if tuple(document) != KEYS or not isinstance(document["data"], dict):
        raise damaged(path, f"does not have the keys {', '.join(KEYS)}")
    # the second test catches what leaves every value as it was, such as 1e-05 turned into 1E-05
    if digest_data(document["data"]) != document["data_sha256"] or encode(document) != content:
        raise damaged(path, "does not match its checksum")
    return document


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors of a file with the given checksum."""
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise damaged(path, "does not match its checksum")
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError):
        raise damaged(path, "is not a safetensors file") from None


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror}): expected a file"
        ) from None


def damaged(path: Path, fault: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {fault}: expected it as tcsis wrote it; restore it from a copy or start afresh"
    )
