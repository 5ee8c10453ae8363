"""A target as one file of its own: its arrays, and its spec beside them.

What came from a file of the user's is kept so in the folder of a run, which holds without it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from tcsis.basics.files import write_whole
from tcsis.targets.base import Target
from tcsis.targets.spec import build, describe

UNREADABLE = (SafetensorError, KeyError, ValueError, TypeError, OSError, RuntimeError)


def write_target(path: str | Path, target: Target) -> None:
    """Write a target that has arrays, or is named by a few numbers."""
    described, tensors = describe(target)
    spec = json.dumps(described)
    kept = {name: values.detach().cpu().contiguous() for name, values in tensors.items()}
    about = {"target": spec, "sha256": digest(spec, kept)}
    write_whole(path, safetensors.torch.save(kept, metadata=about))


def read_target(path: str | Path) -> Target:
    """The target again, on the CPU."""
    try:
        content = Path(path).read_bytes()
        tensors = safetensors.torch.load(content)
        about = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        if digest(about["target"], tensors) != about["sha256"]:
            raise ValueError("it does not match its checksum")
        return build(json.loads(about["target"]), tensors)
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read ({error}): expected a target as tcsis wrote it"
        ) from None


def digest(spec: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the spec and of all arrays."""
    found = hashlib.sha256(spec.encode())
    for name, values in sorted(tensors.items()):
        found.update(name.encode() + values.numpy().tobytes())
    return found.hexdigest()
