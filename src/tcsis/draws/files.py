"""Draws in files of anybody's: tables of text, numpy's, NetCDF, and dimod's JSON."""

from __future__ import annotations

import csv
import json
import mmap
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tcsis.basics.optional import need
from tcsis.draws import Draws
from tcsis.draws.reading import ABOUT_STATES, as_draws, from_columns, read_weights
from tcsis.draws.storage import read_draws
from tcsis.draws.tokens import is_number, number_of
from tcsis.targets.base import Target

TABLES, NETCDF = (".csv", ".tsv", ".txt", ".dat"), (".nc", ".netcdf", ".h5", ".hdf5")
DELIMITERS = (",", ";", "\t")
HEAP, OBJECT = b"GCOL\x01\0\0\0", struct.Struct("<HHIQ")
"""How a heap of HDF5 begins, before its size; and an object in it: number, count, gap, size."""


def load_draws(path: str | Path, target: Target) -> Draws:
    """The draws of ``target`` in a file, as ``tcsis.judge`` takes them.

    Text is a table (.csv, .tsv, .txt) of a draw a row, with the sites in their order or named in
    the first row; .npy and .npz hold an array, .nc draws that tcsis or ArviZ wrote, and .json a
    sample set of dimod or a list of states.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not a file: expected draws to read")
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return read_table(path, target)
    if suffix in (".npy", ".npz"):
        return read_numpy(path, target)
    if suffix in NETCDF:
        return read_netcdf(path, target)
    if suffix == ".json":
        return read_json(path, target)
    raise ValueError(
        f"{path} ends in {suffix or 'nothing'!r}: expected draws in a file .csv, .tsv, .txt, .npy, "
        ".npz, .nc or .json"
    )


# -- text -----------------------------------------------------------------------------------------


def read_table(path: Path, target: Target) -> Draws:
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"{path} is empty: expected a draw a row")
    head = rows[0][1] if is_head(rows[0][1], target) else None
    body = rows if head is None else rows[1:]
    labels: list[Any] = list(range(len(rows[0][1]))) if head is None else head
    if not body:
        raise ValueError(f"{path} has names of sites and no draws: expected a draw a row")
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"{path} has two columns {twice!r}: expected different names")
    for line, row in body:
        if len(row) != len(labels):
            raise ValueError(f"{path} line {line} has {len(row)} cells: expected {len(labels)}")
    cells = np.array([row for _, row in body])  # (n, columns) of text
    columns = {label: cells[:, k] for k, label in enumerate(labels)}
    named = (*(target.site_names or ()), "chain")  # chains may have any labels
    about = {
        label: as_floats(columns[label], label, path)
        for label in ABOUT_STATES
        if label in columns and label not in named
    }
    return from_columns(columns | about, target, str(path))


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Rows that hold anything, with their lines; cells stripped."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}): expected a table of text") from None
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    delimiter = next((mark for mark in DELIMITERS if mark in first), None)
    if delimiter is None:  # blanks, or a single column
        rows = [line.split() for line in lines]
    else:
        try:
            rows = [next(csv.reader([line], delimiter=delimiter), []) for line in lines]
        except csv.Error as error:
            raise ValueError(f"{path} cannot be read ({error}): expected a table") from None
    stripped = [[cell.strip() for cell in row] for row in rows]
    return [(line, row) for line, row in enumerate(stripped, 1) if any(row)]


def is_head(row: list[str], target: Target) -> bool:
    """Whether a row has names and no values: names of sites or of columns, or the numbers of more
    sites than there are values."""
    known = {*(target.site_names or ()), *ABOUT_STATES}
    if any(cell in known for cell in row):
        return True
    if any(is_number(cell) for cell in row):
        numbers = [number_of(cell) for cell in row if cell]
        in_turn = sorted(n for n in numbers if n is not None) == list(range(target.num_sites))
        return in_turn and target.num_sites > target.num_values
    return not all(is_value(cell, target) for cell in row)


def is_value(cell: str, target: Target) -> bool:
    return any(cell in names for names in target.value_names or ())


def as_floats(column: np.ndarray, label: str, path: Path) -> np.ndarray:
    try:
        return column.astype(np.float64)
    except ValueError:
        raise ValueError(f"{path} has text in the column {label}: expected numbers") from None


# -- numpy, NetCDF and JSON -----------------------------------------------------------------------


def read_numpy(path: Path, target: Target) -> Draws:
    """An array, or of several ``x`` and ``log_weight``, as ``Draws.to_numpy`` gives them."""
    try:
        arrays = {"x": mapped(path)} if path.suffix.lower() == ".npy" else archived(path)
    except Exception as error:  # whatever the parts of a library raise on damage
        raise unreadable(path, error, "an array of numbers") from None
    named = "x" if "x" in arrays else next(iter(arrays), None)
    if named is None or (named != "x" and len(arrays) > 1):
        raise ValueError(f"{path} has arrays {', '.join(arrays)}: expected one of the name x")
    draws = as_draws(arrays[named], target)
    if "log_weight" not in arrays:
        return draws
    return Draws(draws.x, read_weights(arrays["log_weight"], str(path)))


def mapped(path: Path) -> np.ndarray:
    """Not read at once, for a damaged header may ask for more memory than there is."""
    return np.load(path, allow_pickle=False, mmap_mode="r")


def archived(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_netcdf(path: Path, target: Target) -> Draws:
    if is_ours(path):
        return read_draws(path)[0]
    xarray = need("xarray", f"reading {path}", "arviz")
    try:
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            tree.load()
    except Exception as error:  # whatever the parts of a library raise on damage
        raise unreadable(path, error, "draws that tcsis or ArviZ wrote") from None
    return as_draws(tree, target)


def is_ours(path: Path) -> bool:
    """Whether a file of NetCDF says that tcsis wrote it."""
    try:
        check_heaps(path)
        with h5py.File(path, "r") as file:
            return str(file.attrs.get("format", "")).startswith("tcsis-draws")  # of any version
    except Exception as error:  # whatever the parts of a library raise on damage
        raise unreadable(path, error, "draws that tcsis or ArviZ wrote") from None


def check_heaps(path: Path) -> None:
    """Refuse what HDF5 would never come back from: free space of no size, as zeros are, among the
    strings in one of its heaps."""
    if not path.stat().st_size:
        return  # which HDF5 refuses, and nothing can be mapped of
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        heap = content.find(HEAP)
        while heap >= 0:
            at = heap + 2 * len(HEAP)
            end = heap + int.from_bytes(content[heap + len(HEAP) : at], "little")
            while at + OBJECT.size <= min(end, len(content)):
                number, _, _, size = OBJECT.unpack_from(content, at)
                if not number and not size:
                    raise ValueError(f"a heap has free space of no size at byte {at}")
                at += size if not number else OBJECT.size + (size + 7) // 8 * 8
            heap = content.find(HEAP, heap + 1)


def read_json(path: Path, target: Target) -> Draws:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error, "a sample set or a list of states") from None
    if not isinstance(data, dict):
        return as_draws(data, target)
    if data.get("type") != "SampleSet":
        raise ValueError(f"{path} has no sample set: expected one as dimod's to_serializable gives")
    dimod = need("dimod", f"reading {path}", "dimod")
    try:
        samples = dimod.SampleSet.from_serializable(data)
    except Exception as error:  # whatever the parts of a library raise on damage
        raise unreadable(path, error, "a sample set as dimod's to_serializable gives") from None
    return as_draws(samples, target)


def unreadable(path: Path, error: Exception, expected: str) -> ValueError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"{path} cannot be read ({reason}): expected {expected}")
