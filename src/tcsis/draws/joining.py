"""Files of draws as one, part after part: the memory it takes does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import h5netcdf

from tcsis.basics.files import whole_file
from tcsis.basics.seals import seal_file
from tcsis.basics.signals import deferred
from tcsis.draws.storage import (
    AXES,
    Attribute,
    number,
    opened,
    read_fingerprint,
    write_fingerprint,
    write_value_names,
)
from tcsis.targets.base import Target

CHUNK = 2**20
"""Bytes that are compressed, and read, at once."""
VARIABLES = ("posterior/x", "sample_stats/energy", "sample_stats/log_weight")
TOTALS = ("seconds", "num_density_calls", "num_network_calls")
TAKEN_OVER = ("format", "independent", "target")


class DiskFile(FileIO):
    """A file that HDF5 writes to, which does not survive a disk that is full: the first ``failure``
    is kept for later, and nothing is written from then on."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while self.failure is None and len(left):
                left = left[super().write(left) :]
        except OSError as error:
            self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return self.tell() if size is None else size


def join(parts: Sequence[Path], path: Path, target: Target, attrs: Mapping[str, Attribute]) -> None:
    """Independent draws in files of ``write_draws``, one part after the other in a file of the same
    form; costs are added up, and the fingerprint is that of the first."""
    with whole_file(path) as temporary:
        # an exception from a signal would leave HDF5 with a file that it cannot close
        with deferred() as stopped, DiskFile(temporary, "w+") as disk:
            try:
                with h5netcdf.File(disk, "w") as file:
                    places = write_head(file, parts, target, attrs)
                    copy(places, parts, lambda: stopped() or disk.failure is not None)
            finally:
                if disk.failure is not None:
                    raise disk.failure
        seal_file(temporary)


def write_head(
    file: h5netcdf.File, parts: Sequence[Path], target: Target, attrs: Mapping[str, Attribute]
) -> dict[str, Any]:
    """All but what there is of every draw; returns the variables for that, by their names."""
    n, totals = 0, dict.fromkeys(TOTALS, 0.0)
    for part in parts:
        with opened(part) as (source, own):
            n += source["posterior/x"].shape[1]
            totals = {name: total + own[name] for name, total in totals.items()}
    with opened(parts[0]) as (source, own):
        file.attrs.update({**{name: own[name] for name in TAKEN_OVER}, **totals, **attrs})
        sizes = (1, n, target.num_sites)
        for name, axes in (("posterior", AXES), ("sample_stats", AXES[:2])):
            group = file.create_group(name)
            group.dimensions = dict(zip(axes, sizes, strict=False))
            for axis in axes:
                if axis != "draw":  # of which xarray would hold every number
                    number(group, axis, target)
        kinds = {name: source[name].dtype for name in VARIABLES if name in source}
        fingerprint = read_fingerprint(source)
    if fingerprint is not None:
        write_fingerprint(file, fingerprint, target)
    if target.value_names is not None:
        write_value_names(file, target, target.value_names)
    return {name: make_variable(file, name, kind) for name, kind in kinds.items()}


def make_variable(file: h5netcdf.File, name: str, kind: Any) -> Any:
    """A variable that is written part by part, in chunks of a power of two of draws, as parts
    are."""
    where, _, short = name.partition("/")
    group = file[where]
    sizes = {axis: group.dimensions[axis].size for axis in group.dimensions}
    fitting = CHUNK // (kind.itemsize * sizes.get("site", 1))
    draws = min(sizes["draw"], 1 << max(0, fitting.bit_length() - 1))
    chunks = tuple((sizes | {"draw": draws}).values())
    return group.create_variable(
        short, tuple(sizes), kind, chunks=chunks, compression="gzip", compression_opts=1
    )


def copy(places: dict[str, Any], parts: Sequence[Path], stopped: Callable[[], bool]) -> None:
    begin = 0
    for part in parts:
        if stopped():
            return
        with opened(part) as (source, _):
            end = begin + source["posterior/x"].shape[1]
            for name, variable in places.items():
                variable[:, begin:end] = source[name][...]
        begin = end
