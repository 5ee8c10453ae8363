"""Targets as a command line or a config file names them.

{"name": "ising", "side": 4, "beta": 0.44}                  a model of ``tcsis.targets.spec``
{"name": "pairwise", "file": "couplings.npz"}               arrays in a file, also for "rbm"; the
                                                            ``sha256`` of a run's is that of them
{"name": "bif", "file": "alarm.bif"}                        a file of ``tcsis.formats``
{"name": "ring.py:log_density", "num_sites": 12, ...}       a function of the user's own

Any of them may have ``"given": "3=1,smoking=yes"``, the sites whose values are known.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tcsis.basics.checks import check_integer
from tcsis.basics.memory import check_fits
from tcsis.formats.files import FORMATS, find_format
from tcsis.targets.base import Target
from tcsis.targets.callable import evaluating, from_callable
from tcsis.targets.known import parse_known
from tcsis.targets.lattice import Lattice
from tcsis.targets.spec import (
    DTYPES,
    KINDS,
    as_numbers,
    build,
    check_names,
    describe,
    load_pairwise,
    read_arrays,
)

STATE = 64
"""Bytes a site for the first few states that a function is tried on."""
FROM_FILES = ("pairwise", "rbm")


def make_target(spec: dict[str, Any], device: str = "cpu") -> Target:
    """The target that a spec names, on a device."""
    if "given" in spec:
        whole = {key: value for key, value in spec.items() if key != "given"}
        return make_target(whole, device).given(parse_known(spec["given"]))
    name = spec.get("name")
    place = find_device(device)
    if isinstance(name, str) and ":" in name:
        return from_function(spec).to(place)
    if name in FROM_FILES or name in FORMATS:
        return from_file(spec).to(place)
    if isinstance(name, str) and Path(name).suffix and name not in KINDS:
        extensions = ", ".join(one.extensions[0] for one in FORMATS.values())
        raise ValueError(
            f"target is {name!r}, a file of no known extension: expected .npz, .json, "
            f"{extensions}, or the name of its format before it, as in: gset G1"
        )
    return build(spec).to(place)


def name_file(path: str) -> str | None:
    """The name of the target in a file, by its extension; None where that says nothing."""
    if ":" in path:
        return None
    return "pairwise" if Path(path).suffix in (".npz", ".json") else find_format(path)


def is_function(spec: dict[str, Any]) -> bool:
    """Whether a spec names a function, which no checkpoint can hold."""
    return ":" in str(spec.get("name", ""))


def absolute(spec: dict[str, Any]) -> dict[str, Any]:
    """The same spec with paths that hold from every working directory."""
    spec = dict(spec)
    if "file" in spec:
        spec["file"] = str(Path(spec["file"]).absolute())
    path, colon, function = str(spec.get("name", "")).rpartition(":")
    if colon and path.endswith(".py"):
        spec["name"] = f"{Path(path).absolute()}:{function}"
    return spec


def find_device(device: str) -> torch.device:
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()
    # unknown name, torch built without it, no such operation: three kinds of the same answer
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"device is {device!r}: expected one that this torch can use, such as cpu"
        ) from None
    return found


# -- files ---------------------------------------------------------------------------------------


def from_file(spec: dict[str, Any]) -> Target:
    name = spec["name"]
    own = FORMATS[name].settings if name in FORMATS else ()
    allowed = ("name", "file", "dtype", "sha256", *own)
    check_names(f"argument of target {name}", spec, allowed, ("file",))
    path = Path(spec["file"])
    target = load_file(name, path, {key: spec[key] for key in own if key in spec})
    check_digest(target, spec, f"{path} has changed since this config was written")
    if "dtype" not in spec:
        return target
    check_names("dtype", [spec["dtype"]], DTYPES)
    return target.to(dtype=DTYPES[spec["dtype"]])


def load_file(name: str, path: Path, settings: dict[str, Any]) -> Target:
    if name in FORMATS:
        return FORMATS[name].read(path, **settings)
    return load_pairwise(path) if name == "pairwise" else load_rbm(path)


def check_digest(target: Target, spec: dict[str, Any], fault: str) -> None:
    """Refuse a target that is not the one whose checksum a spec has."""
    if "sha256" in spec and spec["sha256"] != digest_target(target):
        raise ValueError(f"{fault}: expected the same arrays; restore them from a copy")


def digest_target(target: Target) -> str:
    """SHA-256 of all that makes a target which is kept as its arrays."""
    described, tensors = describe(target)
    own = {key: value for key, value in described.items() if key not in ("dtype", "given")}
    found = sha256(json.dumps(own, sort_keys=True).encode())
    for name, values in sorted(tensors.items()):
        found.update(name.encode() + values.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def load_rbm(path: Path) -> Target:
    """An RBM from a ``.npz`` or ``.json`` file with weights, visible_bias and hidden_bias."""
    tensors = {key: as_numbers(path, key, value) for key, value in read_arrays(path).items()}
    return build({"name": "rbm"}, {key: torch.as_tensor(value) for key, value in tensors.items()})


# -- functions of the user's own -----------------------------------------------------------------


def from_function(spec: dict[str, Any]) -> Target:
    """``side`` and ``boundary``, where they are given, lay the sites out on a lattice."""
    allowed = ("name", "num_sites", "num_values", "side", "boundary", "dtype")
    check_names(f"argument of target {spec['name']}", spec, allowed, ("num_values",))
    lattice = None
    if "side" in spec:
        lattice = Lattice.of(spec["side"], spec.get("boundary", "periodic"))
    num_sites = spec.get("num_sites", None if lattice is None else lattice.num_sites)
    if num_sites is None:
        raise ValueError(f"missing argument of target {spec['name']} num_sites: expected how many")
    check_fits("num_sites", check_integer("num_sites", num_sites), STATE, " sites")
    function = guarded(find_function(spec["name"]), spec["name"])
    return from_callable(function, num_sites, spec["num_values"], lattice=lattice)


def find_function(name: str) -> Callable[[Tensor], Tensor]:
    """The function that ``file.py:function`` or ``module:function`` names."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise ValueError(f"target is {name!r}: expected file.py:function or module:function")
    try:
        module = import_file(Path(where)) if where.endswith(".py") else import_module(where)
    except Exception as error:  # whatever the user's own code raises
        raise ValueError(
            f"{where} cannot be imported ({type(error).__name__}: {error}): expected Python code "
            f"that defines {attribute}"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ValueError(f"{where} has no function {attribute!r}: expected one of (n, d) tokens")
    return function


def import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_module(name: str) -> ModuleType:
    """A module from the working directory or the environment."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def guarded(function: Callable[[Tensor], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    """The function, or a module in evaluation mode, with a sentence on what it was given where it
    raises."""

    @functools.wraps(function)
    def call(x: Tensor) -> Tensor:
        try:
            with evaluating(function):
                return function(x)
        except Exception as error:
            raise ValueError(
                f"{name} raised {type(error).__name__} ({error}) on tokens of shape "
                f"{tuple(x.shape)}: expected (n,) values of log density"
            ) from error

    call.__name__ = name.rpartition(":")[2]
    return call
