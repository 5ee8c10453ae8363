"""Draws on disk: one NetCDF file that ArviZ and xarray read.

    posterior/x                   (chain, draw, site)  uint8
    sample_stats/energy           (chain, draw)        -log p̄
    sample_stats/log_weight       (chain, draw)        where the draws have weights
    fingerprint/x, log_density    (witness, site), (witness,)  by which their target is known again
    constant_data/value_names     (site, value)        where the values of the target have names

Sites go by their names where the target has names, and else by their numbers.

Independent draws are one chain, and come back without its axis.  The attributes of the file hold
the target's ``repr``, what the draws cost, and what the caller adds.  Behind all that HDF5 reads, a
checksum ends the file: damaged files can keep HDF5 busy for ever, so nothing is read before it is
known to be whole.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import torch
from torch import Tensor

from tcsis.basics.files import write_whole
from tcsis.basics.seals import check_file, seal_bytes
from tcsis.basics.signals import deferred
from tcsis.draws import Draws, Fingerprint
from tcsis.targets.base import Target

FORMAT = "tcsis-draws-2"
AXES = ("chain", "draw", "site")
STRINGS = h5py.string_dtype()
COSTS = ("seconds", "num_density_calls", "num_network_calls", "acceptance")
OWN = ("format", "independent", "target", *COSTS)
UNREADABLE = (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError)
"""What h5py passes on from a file that is not its own."""

Attribute = str | int | float


def write_draws(
    path: str | Path, draws: Draws, target: Target, attrs: Mapping[str, Attribute] | None = None
) -> None:
    """Write draws, their energies and their costs; ``attrs`` are strings and numbers to keep."""
    attrs = dict(attrs or {})
    check_attributes(attrs)
    draws = replace(draws, x=target.check(draws.x.to(target.device)).to(torch.uint8))
    if draws.x.ndim > 3:
        raise ValueError(
            f"draws.x has shape {tuple(draws.x.shape)}: expected (n, d) or (chain, draw, site)"
        )
    attrs |= own_attributes(draws, target)
    # in float64 whatever the target computes in: differences of energies are what readers want
    energy = target.to(dtype=torch.float64).energy(draws.x.to(target.device)).cpu()
    # in memory first: HDF5 itself does not survive a disk that is full; nor an exception from a
    # signal, after which its finalisers print tracebacks of their own
    content = io.BytesIO()
    with deferred(), h5netcdf.File(content, "w") as file:
        file.attrs.update(attrs)
        write_groups(file, draws, energy.numpy(), target)
    write_whole(path, seal_bytes(content.getvalue()))


def read_draws(path: str | Path, first: int | None = None) -> tuple[Draws, dict[str, Any]]:
    """The draws of a file, or only the ``first`` of them, and its attributes."""
    with opened(Path(path)) as (file, attrs):
        return read_groups(file, attrs, first), attrs


def read_attributes(path: str | Path) -> dict[str, Any]:
    with opened(Path(path)) as (_, attrs):
        return attrs


def read_weights(path: str | Path) -> Draws:
    """Draws without their sites, (n, 0): how many there are, their weights and what they cost."""
    with opened(Path(path)) as (file, attrs):
        n = math.prod(file["posterior/x"].shape[:2])
        log_weight = read_log_weight(file, None)
        flat = None if log_weight is None else log_weight.flatten()
        return Draws(torch.zeros(n, 0, dtype=torch.uint8), flat, **costs_of(attrs))


@contextmanager
def opened(path: Path) -> Iterator[tuple[h5py.File, dict[str, Any]]]:
    """A file that is known to be whole, and its attributes; it is read where it is."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file: expected draws that tcsis wrote")
    check_file(path)
    try:
        # which, unlike h5netcdf, closes what it cannot read
        with h5py.File(path, "r", locking=False) as file:
            attrs = {name: plain(value) for name, value in file.attrs.items()}
            if attrs["format"] != FORMAT:
                raise ValueError(f"not of the format {FORMAT}")
            yield file, attrs
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read ({error}): expected draws as tcsis wrote them"
        ) from None


def check_attributes(attrs: Mapping[str, Attribute]) -> None:
    for name, value in attrs.items():
        if name in OWN:
            raise ValueError(f"attribute {name!r} is written by tcsis: expected another name")
        if isinstance(value, bool) or not isinstance(value, Attribute):
            raise ValueError(
                f"attribute {name!r} is a {type(value).__name__}: expected a string or a number"
            )


def own_attributes(draws: Draws, target: Target) -> dict[str, Attribute]:
    costs = {name: getattr(draws, name) for name in COSTS}
    return {
        "format": FORMAT,
        "independent": int(draws.x.ndim == 2),
        "target": repr(target),
        **{name: float(cost) for name, cost in costs.items() if cost is not None},
    }


def write_groups(file: h5netcdf.File, draws: Draws, energy: np.ndarray, target: Target) -> None:
    x = draws.x.cpu().numpy()
    shape = x.shape if x.ndim == 3 else (1, *x.shape)
    posterior = make_group(file, "posterior", dict(zip(AXES, shape, strict=True)), target)
    write_variable(posterior, "x", x.reshape(shape))
    stats = make_group(file, "sample_stats", dict(zip(AXES[:2], shape[:2], strict=True)), target)
    write_variable(stats, "energy", energy.reshape(shape[:2]))
    if draws.log_weight is not None:
        write_variable(stats, "log_weight", draws.log_weight.cpu().numpy().reshape(shape[:2]))
    if draws.fingerprint is not None:
        write_fingerprint(file, draws.fingerprint, target)
    if target.value_names is not None:
        write_value_names(file, target, target.value_names)


def write_fingerprint(file: h5netcdf.File, fingerprint: Fingerprint, target: Target) -> None:
    witnesses = fingerprint.x.numpy()
    sizes = dict(zip(("witness", "site"), witnesses.shape, strict=True))
    group = make_group(file, "fingerprint", sizes, target)
    write_variable(group, "x", witnesses)
    log_density = fingerprint.log_density.numpy()
    group.create_variable("log_density", ("witness",), data=log_density)


def write_value_names(
    file: h5netcdf.File, target: Target, names: tuple[tuple[str, ...], ...]
) -> None:
    """A table of names, empty where a site does not have the value."""
    sizes = {"site": target.num_sites, "value": target.num_values}
    group = make_group(file, "constant_data", sizes, target)
    table = np.full(tuple(sizes.values()), "", object)
    for row, own in zip(table, names, strict=True):
        row[: len(own)] = own
    group.create_variable("value_names", tuple(sizes), STRINGS, data=table)


def make_group(
    file: h5netcdf.File, name: str, sizes: dict[str, int], target: Target
) -> h5netcdf.Group:
    """A group with its axes, each numbered from zero; sites by name where they have names."""
    group = file.create_group(name)
    group.dimensions = sizes
    for axis in sizes:
        number(group, axis, target)
    return group


def number(group: h5netcdf.Group, axis: str, target: Target) -> None:
    """The coordinate of an axis."""
    if axis == "site" and target.site_names is not None:
        names = np.array(target.site_names, object)
        group.create_variable(axis, (axis,), STRINGS, data=names)
    else:
        group.create_variable(axis, (axis,), data=np.arange(group.dimensions[axis].size))


def write_variable(group: h5netcdf.Group, name: str, values: np.ndarray) -> None:
    axes = tuple(group.dimensions)
    group.create_variable(name, axes, data=values, compression="gzip", compression_opts=1)


def read_groups(file: h5py.File, attrs: dict[str, Any], first: int | None = None) -> Draws:
    x = torch.from_numpy(file["posterior/x"][:, :first])
    if x.ndim != 3 or x.dtype != torch.uint8:
        raise ValueError(f"x has shape {tuple(x.shape)} and dtype {x.dtype}")
    log_weight = read_log_weight(file, first)
    draws = Draws(x, log_weight, **costs_of(attrs), fingerprint=read_fingerprint(file))
    return draws.flat if attrs["independent"] else draws


def read_log_weight(file: h5py.File, first: int | None) -> Tensor | None:
    stats = file["sample_stats"]
    return torch.from_numpy(stats["log_weight"][:, :first]) if "log_weight" in stats else None


def costs_of(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attrs[name] for name in COSTS if name in attrs}


def read_fingerprint(file: h5py.File) -> Fingerprint | None:
    if "fingerprint" not in file:
        return None
    group = file["fingerprint"]
    return Fingerprint(
        torch.from_numpy(group["x"][...]), torch.from_numpy(group["log_density"][...])
    )


def plain(value: Any) -> Any:
    """An attribute as a Python value."""
    return value.item() if isinstance(value, np.generic | np.ndarray) else value
