"""The folder of a run.

config.toml     what was asked for, every default filled in; ``tcsis.app.settings`` reads it
env.json        versions, threads, machine, and the commit where there is one
metrics.jsonl   one line for every evaluation during training
target.safetensors   the target, where it came from a file
checkpoint/     the state of training, and the model
draws.nc        the draws, for ArviZ and xarray
result.json     every number of the report
report.html     the report
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tcsis
from tcsis.app import settings
from tcsis.app.settings import Document, Settings
from tcsis.basics.files import write_whole
from tcsis.learn import checkpoint
from tcsis.learn.trainer import CHECKPOINT, METRICS

CONFIG = "config.toml"
ENVIRONMENT = "env.json"
TARGET = "target.safetensors"
DRAWS = "draws.nc"
RESULT = "result.json"
REPORT = "report.html"
FILES = (CONFIG, ENVIRONMENT, TARGET, METRICS, DRAWS, RESULT, REPORT)
PACKAGES = ("torch", "numpy", "scipy", "numba", "tcsis")


def open_folder(path: str | Path, *, resume: bool = False, overwrite: bool = False) -> Path:
    """The folder for a run, made if need be.

    One that holds anything is refused, unless the run in it is to be resumed or overwritten;
    overwriting removes what a run wrote and nothing else.
    """
    folder = Path(path)
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: expected one of them")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder")
    if resume:
        read_config(folder)
        return folder
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise ValueError(
                f"{folder} is not empty: pass --resume to go on with the run in it, "
                "--overwrite to replace it, or another folder"
            )
        clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear(folder: Path) -> None:
    """Remove what a run wrote."""
    known = [name for name in (*FILES, CHECKPOINT) if (folder / name).exists()]
    if known and not is_run(folder):
        raise ValueError(
            f"{folder} has a {known[0]} that no run of tcsis wrote: expected another folder"
        )
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    for saved in checkpoint.list_checkpoints(folder / CHECKPOINT).values():
        shutil.rmtree(saved)
    remove_if_empty(folder / CHECKPOINT)


def discard(folder: Path) -> None:
    """Take back a run that was refused before it had any state."""
    if not checkpoint.exists(folder / CHECKPOINT):
        clear(folder)
        remove_if_empty(folder)


def remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def is_run(folder: Path) -> bool:
    """Whether a folder has the config of a run."""
    try:
        document = settings.read(folder / CONFIG)
    except ValueError:
        return False
    return {"target", "run"} <= document.keys()


def free_folder(parent: Path, name: str) -> Path:
    """parent/name, or the first of name-2, name-3, ... that is not there yet."""
    candidate, number = parent / name, 1
    while candidate.exists():
        number += 1
        candidate = parent / f"{name}-{number}"
    return candidate


def read_config(folder: Path) -> Document:
    """The config of a run, or a sentence on why this is not one."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: expected one that a run of tcsis wrote")
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} has no {CONFIG}: expected a folder that a run of tcsis wrote")
    if not is_run(folder):
        settings.read(folder / CONFIG)  # which says what is wrong, if it is not TOML
        raise ValueError(f"{folder / CONFIG} has no [target] and [run]: expected a run of tcsis")
    return settings.read(folder / CONFIG)


def write_start(folder: Path, chosen: Settings) -> None:
    """What is known before a run: its config and its environment."""
    write_whole(folder / CONFIG, chosen.to_toml())
    write_whole(folder / ENVIRONMENT, json.dumps(environment(), indent=2) + "\n")


# -- environment ---------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """What results may depend on beside the config."""
    import numba
    import torch

    found = {"python": platform.python_version()}
    found |= {package: find_version(package) for package in PACKAGES}
    found |= {
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        "torch_threads": str(torch.get_num_threads()),
        "numba_threads": str(numba.get_num_threads()),
    }
    commit = find_commit()
    return found if commit is None else found | {"git": commit}


def find_version(package: str) -> str:
    if package == "tcsis":
        return tcsis.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def find_commit() -> str | None:
    """The commit that this package runs from, marked where files differ; None if installed."""
    source = Path(tcsis.__file__).parent
    root = source.parents[1]
    if not (root / ".git").exists() or source != root / "src" / "tcsis":
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
