"""Targets to and from plain data, for saved models and config files, and pairwise files of users.

    describe(target)        -> a dictionary that JSON holds, and tensors
    build(spec, tensors)    -> the target again
    load_pairwise(path)     -> a target from a user's .npz or .json file

The models of physics are a few numbers, such as ``{"name": "ising", "side": 4, "beta": 0.44}``; a
pairwise target, a factor model and an RBM are their tensors; a function cannot be saved and has to
be passed again.
What is known of a target stands in its spec as ``"given": "3=1,17=0"``, by number, and names of
sites and values as ``"site_names"`` and ``"value_names"``.
"""

from __future__ import annotations

import json
import operator
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsis.targets.base import Target
from tcsis.targets.factors import Factors
from tcsis.targets.given import Given
from tcsis.targets.known import parse_numbers
from tcsis.targets.lattice import Lattice
from tcsis.targets.pairwise import Pairwise
from tcsis.targets.physics import Ising, Potts, SherringtonKirkpatrick, SpinGlass
from tcsis.targets.rbm import RBM

CALLABLE = "callable"
NAMES = ("site_names", "value_names")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Kind:
    """A class of targets and what makes one: arguments in the spec, and tensors, for the class or
    for a function of it."""

    target: type[Target]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    maker: Callable[..., Target] | None = None

    @property
    def make(self) -> Callable[..., Target]:
        return self.target if self.maker is None else self.maker


KINDS = {
    "ising": Kind(Ising, ("side", "beta"), ("field", "boundary")),
    "potts": Kind(Potts, ("side", "num_values", "beta"), ("boundary",)),
    "spin-glass": Kind(SpinGlass, ("side", "beta"), ("disorder", "seed", "boundary")),
    "sherrington-kirkpatrick": Kind(SherringtonKirkpatrick, ("num_sites", "beta"), ("seed",)),
    "pairwise": Kind(
        Pairwise,
        optional=("constant", "side", "boundary"),
        tensors=("edges", "couplings", "fields"),
    ),
    "factors": Kind(
        Factors,
        optional=("constant",),
        tensors=("scope_sizes", "scope_sites", "log_tables", "cardinalities"),
        maker=Factors.from_arrays,
    ),
    "rbm": Kind(RBM, optional=("constant",), tensors=("weights", "visible_bias", "hidden_bias")),
}


def describe(target: Target) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A target as a dictionary that JSON can hold, and tensors, from which ``build`` makes it.

    A function, a transformed target, and a class that is not of this package are described by
    their shape and ``repr`` only, under the name "callable".
    """
    if isinstance(target, Given):
        spec, tensors = describe(target.target)
        return {**spec, "given": str(target.known)}, tensors
    name = find_name(target)
    if name == CALLABLE:
        shape = {"num_sites": target.num_sites, "num_values": target.num_values}
        return {"name": name, **shape, "repr": repr(target), "dtype": name_dtype(target)}, {}
    kind = KINDS[name]
    names = kind.required + kind.optional
    if target.lattice is None:
        names = tuple(argument for argument in names if argument not in ("side", "boundary"))
    arguments = {argument: read_argument(target, argument) for argument in names}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    arguments |= target.names.describe()
    tensors = {tensor: torch.as_tensor(getattr(target, tensor)) for tensor in kind.tensors}
    return {"name": name, **arguments, "dtype": name_dtype(target)}, tensors


def build(spec: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Target:
    """The target that a spec and its tensors describe, on the CPU."""
    tensors = {} if tensors is None else tensors
    if not isinstance(spec, dict) or "name" not in spec:
        raise ValueError(f"target is {spec!r}: expected a name, one of {', '.join(KINDS)}")
    if "given" in spec:
        whole = {key: value for key, value in spec.items() if key != "given"}
        return build(whole, tensors).given(parse_numbers(spec["given"]))
    if any(key in spec for key in NAMES):
        unnamed = {key: value for key, value in spec.items() if key not in NAMES}
        return build(unnamed, tensors).named(*(spec.get(key) for key in NAMES))
    name = spec["name"]
    if name == CALLABLE:
        raise ValueError(
            f"target {spec.get('repr', CALLABLE)} was saved without the function itself: "
            "pass the target, as in tcsis.load(folder, target=...)"
        )
    check_names("target", [name], expected=KINDS)
    kind = KINDS[name]
    check_names(f"tensor of target {name}", tensors, kind.tensors, kind.tensors)
    arguments = {key: value for key, value in spec.items() if key != "name"}
    optional = (*kind.optional, "dtype")
    check_names(f"argument of target {name}", arguments, (*kind.required, *optional), kind.required)
    if "dtype" in arguments:
        check_names("dtype", [arguments["dtype"]], expected=DTYPES)
        arguments["dtype"] = DTYPES[arguments["dtype"]]
    if kind.target is Pairwise:
        arguments["lattice"] = take_lattice(arguments)
    return kind.make(**tensors, **arguments)


def find_name(target: Target) -> str:
    """The kind of a target, by its very class: a subclass may compute something else."""
    name = next((name for name, kind in KINDS.items() if kind.target is type(target)), CALLABLE)
    if isinstance(target, Pairwise) and name not in ("pairwise", CALLABLE):
        # a constant or a layout given on top is not among the arguments of a named model
        laid_out = target.lattice is not None and "side" not in KINDS[name].required
        return "pairwise" if target.constant or laid_out else name
    return name


def name_dtype(target: Target) -> str:
    name = str(target.dtype).removeprefix("torch.")
    check_names("dtype", [name], expected=DTYPES)
    return name


def read_argument(target: Target, name: str) -> Any:
    """A constructor's argument as plain data."""
    if name == "boundary":
        assert target.lattice is not None
        return target.lattice.boundary
    if name == "side":
        assert target.lattice is not None
        shape = target.lattice.shape
        return shape[0] if len(shape) == 2 and shape[0] == shape[1] else list(shape)
    value = getattr(target, name)
    return operator.index(value) if name == "seed" else value  # which may be one of numpy's


def take_lattice(arguments: dict[str, Any]) -> Lattice | None:
    """Take ``side`` and ``boundary`` out of the arguments, as the lattice they stand for."""
    side, boundary = arguments.pop("side", None), arguments.pop("boundary", None)
    if side is None and boundary is not None:
        raise ValueError(f"boundary is {boundary!r} without a side: expected both or neither")
    return None if side is None else Lattice.of(side, boundary or "periodic")


def check_names(
    what: str, names: Iterable[Any], expected: Iterable[str], required: Iterable[str] = ()
) -> None:
    """Refuse names that are not expected, and the lack of those that are required."""
    names, expected = list(names), list(expected)
    listing = f"expected {', '.join(expected)}" if expected else "expected none"
    for name in names:
        if name not in expected:
            close = get_close_matches(str(name), expected, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"unknown {what} {name!r}: {listing}{hint}")
    missing = [name for name in required if name not in names]
    if missing:
        raise ValueError(f"missing {what} {', '.join(missing)}: {listing}")


# -- files of users --------------------------------------------------------------------------

FORMS = {
    "J": (("J",), ("h", "beta", "constant")),
    "edges": (("edges", "couplings", "fields"), ("constant",)),
    "couplings": (("couplings",), ("fields", "constant")),
}
"""The key that tells a form, with the keys that the form requires and those it allows."""

UNREADABLE = (
    AttributeError, EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy passes on from a file that is not an archive of arrays."""


def load_pairwise(path: str | Path) -> Pairwise:
    """A pairwise target from a ``.npz`` file of arrays or a ``.json`` file of nested lists.

    The file has the keys of one of three forms, each with an optional ``constant``:

        edges (m, 2), couplings (m, v, v), fields (d, v)     as ``Pairwise``
        couplings (d, d, v, v), optional fields (d, v)       as ``Pairwise.from_dense``
        J (d, d), optional h (d,), optional beta             as ``Pairwise.from_spins``
    """
    path = Path(path)
    arrays = read_arrays(path)
    form = next((key for key in FORMS if key in arrays), None)
    if form is None:
        raise ValueError(
            f"{path} has the keys {', '.join(arrays) or '(none)'}: "
            "expected edges, couplings and fields, or dense couplings, or J"
        )
    required, optional = FORMS[form]
    check_names(f"key in {path}", arrays, required + optional, required)
    values: dict[str, Any] = {key: as_numbers(path, key, value) for key, value in arrays.items()}
    if form == "J":
        return Pairwise.from_spins(values.pop("J"), values.pop("h", 0.0), **values)
    return Pairwise(**values) if form == "edges" else Pairwise.from_dense(**values)


def read_arrays(path: Path) -> dict[str, Any]:
    """The entries of a file, by key."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file: expected a .npz or .json file with couplings")
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix == ".json":
        return read_json(path)
    raise ValueError(f"{path} has the extension {path.suffix!r}: expected .npz or .json")


def read_npz(path: Path) -> dict[str, Any]:
    try:
        # opened here, as numpy leaves the file open when the archive is damaged
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except UNREADABLE:
        raise ValueError(
            f"{path} cannot be read: expected arrays of numbers saved by numpy.savez"
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        arrays = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): expected an object") from None
    if not isinstance(arrays, dict):
        raise ValueError(f"{path} holds a {type(arrays).__name__}: expected an object with keys")
    return arrays


def as_numbers(path: Path, key: str, value: Any) -> Tensor | float:
    """Integers as int64 and the rest as float64, whatever width and byte order they came in."""
    try:
        numbers = np.asarray(value)
    except ValueError:
        numbers = np.asarray(None)  # rows of unequal length: refused below
    kind = numbers.dtype.kind
    if kind not in "iufb":
        raise ValueError(f"{key} in {path} is not an array of numbers: expected rows of one length")
    tensor = torch.from_numpy(numbers.astype(np.int64 if kind in "iu" else np.float64))
    if key not in ("constant", "beta"):
        return tensor
    if tensor.ndim:
        raise ValueError(f"{key} in {path} has shape {tuple(tensor.shape)}: expected one number")
    return tensor.item()
