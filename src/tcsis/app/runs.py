"""The folder of a run.

config.toml     what was asked for, every default filled in; ``tcsis.app.settings`` reads it
code.json       of a function of the user's own, which code it is; see ``tcsis.app.trust``
env.json        versions, threads, machine, and the commit where there is one
metrics.jsonl   one line for every evaluation during training
target.safetensors  the target, where it came from a file
checkpoint/     the state of training, and the model
draws.nc        the draws, for ArviZ and xarray
draws.nc.shards/  those of a large number that are there already; see ``tcsis.draws.shards``
result.json     every number of the report
report.html     the report

What is read again carries a checksum, and draws and results that of the config they were made with.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tcsis
from tcsis.app import settings
from tcsis.app.settings import Document, Settings
from tcsis.app.trust import CODE, sign
from tcsis.basics.files import write_whole
from tcsis.basics.seals import digest, open_json, open_toml, seal_json, seal_toml
from tcsis.draws.shards import shards_of
from tcsis.learn.trainer import METRICS

CONFIG = "config.toml"
ENVIRONMENT = "env.json"
TARGET = "target.safetensors"
DRAWS = "draws.nc"
SHARDS = shards_of(Path(DRAWS)).name
CONFIG_DIGEST = "config_sha256"
"""The attribute of draws that holds the checksum of their config."""
RESULT = "result.json"
REPORT = "report.html"
FILES = (CONFIG, CODE, ENVIRONMENT, TARGET, METRICS, DRAWS, RESULT, REPORT)
PACKAGES = ("torch", "numpy", "scipy", "numba", "tcsis")


def is_run(folder: Path) -> bool:
    """Whether a folder has the config of a run, changed or not."""
    try:
        document = settings.parse_toml(folder / CONFIG, (folder / CONFIG).read_bytes())
    except (OSError, ValueError):
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
    document = settings.parse_toml(folder / CONFIG, config_text(folder))
    for section in ("target", "run"):
        if not isinstance(document.get(section), dict):
            raise ValueError(
                f"{folder / CONFIG} has no [{section}]: expected a folder that a run of tcsis wrote"
            )
    return document


def config_text(folder: Path) -> bytes:
    """The config of a run as it was written, without its checksum."""
    return open_toml(folder / CONFIG, (folder / CONFIG).read_bytes())


def config_digest(folder: Path) -> str:
    """By which draws know the config they were made with."""
    return digest(config_text(folder))


def write_start(folder: Path, chosen: Settings) -> None:
    """What is known before a run: its config, whose code it runs, and its environment."""
    write_whole(folder / CONFIG, seal_toml(chosen.to_toml()))
    sign(folder, chosen.target)
    write_whole(folder / ENVIRONMENT, seal_json(json.dumps(environment(), indent=1) + "\n"))


def read_environment(folder: Path) -> dict[str, str] | None:
    """What ``write_start`` kept of the environment."""
    path = folder / ENVIRONMENT
    return json.loads(open_json(path, path.read_bytes())) if path.is_file() else None


# -- environment ---------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """What results may depend on beside the config."""
    import torch

    found = {"python": platform.python_version()}
    found |= {package: find_version(package) for package in PACKAGES}
    found |= {
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
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
