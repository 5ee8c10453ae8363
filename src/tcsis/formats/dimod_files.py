"""Files of quadratic models: dimod's ``.bqm`` and ``.dqm``, its COO text, and ``.qubo``.

The two binary formats begin alike: eight bytes that say which it is, two of version, four with the
length of a JSON header.  They are read here by their specification in dimod, for what damaged ones
declare has to be held against their size before it is believed.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcsis.formats.dimod import from_cases, from_entries
from tcsis.formats.models import BINARY, SPIN, label, quadratic
from tcsis.formats.text import MAX_SITES, Place, check_entries, read_bytes, read_lines, read_text
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise

VARTYPES = {"SPIN": SPIN, "BINARY": BINARY}
FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64", "uint32", "uint64", "uint16", "int16")
UNREADABLE = (
    AttributeError, EOFError, KeyError, NotImplementedError, OSError, OverflowError, RuntimeError,
    TypeError, ValueError, zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, MemoryError,
)  # fmt: skip
"""What numpy and zipfile pass on from an archive that is damaged."""

# -- dimod's own ---------------------------------------------------------------------------------


def read_bqm(path: str | Path, *, beta: float = 1.0) -> Pairwise:
    """The file of a ``dimod.BinaryQuadraticModel``, as its ``to_file`` writes it."""
    place, content = Place(Path(path)), Parts(Path(path), read_bytes(path))
    version, header = content.header(b"DIMODBQM", 2)
    dtypes = [as_dtype(place, header, name, FLOATS if name == "dtype" else INTEGERS)
              for name in ("dtype", "itype", "ntype")]  # fmt: skip
    bias, index, start = dtypes
    shape = header.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        raise place.refuse(f"shape is {shape!r}", "the numbers of variables and interactions")
    d, m = (place.integer(str(size), "shape", 0, MAX_SITES * 2**8) for size in shape)
    values = VARTYPES.get(str(header.get("vartype")))
    if values is None:
        raise place.refuse(f"vartype is {header.get('vartype')!r}", "SPIN or BINARY")
    if not 1 <= d <= MAX_SITES:
        raise place.refuse(f"the model has {d} variables", f"1 to {MAX_SITES}")
    offset = float(content.array(bias, 1, "the offset")[0])
    linear = content.array(np.dtype([("start", start), ("bias", bias)]), d, "linear biases")
    around = content.array(np.dtype([("other", index), ("bias", bias)]), 2 * m, "interactions")
    starts = np.append(linear["start"].astype(np.int64), 2 * m)
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise place.refuse("the neighbourhoods are out of order", "rising starts from 0")
    site, other = np.repeat(np.arange(d), np.diff(starts)), around["other"].astype(np.int64)
    if len(other) and not 0 <= other.min() <= other.max() < d:
        raise place.refuse("an interaction names a variable that is not there", f"0..{d - 1}")
    if (site == other).any():
        raise place.refuse("a variable interacts with itself", "different variables")
    below = other < site  # every pair stands at both of its ends
    if int(below.sum()) != m:
        raise place.refuse("an interaction stands at one of its ends only", "it at both")
    edges = np.stack([other[below], site[below]], 1)
    check_finite(place, offset, linear["bias"], around["bias"])
    target = quadratic(edges, around["bias"][below], linear["bias"], offset, values, beta)
    return target.named(content.labels(header, version[0] > 1, d), values)


def read_dqm(path: str | Path, *, beta: float = 1.0) -> Pairwise | Factors:
    """The file of a ``dimod.DiscreteQuadraticModel``, as its ``to_file`` writes it."""
    place, content = Place(Path(path)), Parts(Path(path), read_bytes(path))
    _, header = content.header(b"DIMODDQM", 1)
    arrays = read_archive(place, content.section(b"BIAS"))
    names = ("case_starts", "linear_biases", "quadratic_row_indices", "quadratic_col_indices",
             "quadratic_biases")  # fmt: skip
    missing = [name for name in names if name not in arrays]
    if missing:
        raise place.refuse(f"there is no {missing[0]}", "the arrays of a discrete quadratic model")
    starts, linear, row, column, biases = (arrays[name].ravel() for name in names)
    offset = arrays.get("offset", np.zeros(1)).ravel()[:1]
    if any(part.dtype.kind not in "iu" for part in (starts, row, column)) or not len(starts):
        raise place.refuse("indices are no integers", "the arrays of a discrete quadratic model")
    if any(part.dtype.kind not in "iuf" for part in (linear, biases, offset)) or not len(offset):
        raise place.refuse("biases are no numbers", "the arrays of a discrete quadratic model")
    starts, row, column = (part.astype(np.int64) for part in (starts, row, column))
    rising = starts[0] == 0 and (np.diff(starts) > 0).all() and starts[-1] < len(linear)
    inside = all(((part >= 0) & (part < len(linear))).all() for part in (row, column))
    if not rising or not inside or not len(row) == len(column) == len(biases):
        raise place.refuse("indices are out of range", f"cases 0..{len(linear) - 1}")
    check_finite(place, offset, linear, biases)
    if len(starts) > MAX_SITES:
        raise place.refuse(f"the model has {len(starts)} variables", f"at most {MAX_SITES}")
    counts = np.diff(starts, append=len(linear))
    variable = np.repeat(np.arange(len(counts)), counts)
    pairs = np.unique(np.stack([variable[row], variable[column]]), axis=1)
    check_entries(place, "the model", int((counts[pairs[0]] * counts[pairs[1]]).sum()))
    target = from_cases(starts, linear, row, column, biases, float(offset[0]), beta)
    return target.named(content.labels(header, True, len(starts)))


class Parts:
    """A binary file, read from its start to its end."""

    def __init__(self, path: Path, content: bytes):
        self.place, self.content, self.at = Place(path), content, 0

    def take(self, size: int, what: str) -> bytes:
        part = self.content[self.at : self.at + size]
        if len(part) < size:
            raise self.place.refuse(
                f"the file ends at byte {len(self.content)} in {what}", f"{size} bytes of it"
            )
        self.at += size
        return part

    def header(self, magic: bytes, newest: int) -> tuple[tuple[int, int], dict[str, Any]]:
        """Version and header."""
        came = self.take(len(magic), "its first bytes")
        if came != magic:
            raise self.place.refuse(f"the file begins with {came!r}", repr(magic))
        major, minor, length = struct.unpack("<BBI", self.take(6, "its version"))
        if not 1 <= major <= newest:
            raise self.place.refuse(f"the version is {major}.{minor}", f"at most {newest}")
        return (major, minor), self.json(self.take(length, "the header"), "the header", dict)

    def array(self, dtype: np.dtype, count: int, what: str) -> np.ndarray:
        return np.frombuffer(self.take(count * dtype.itemsize, what), dtype)

    def section(self, magic: bytes) -> bytes:
        came = self.take(4, f"the section {magic.decode()}")
        if came != magic:
            raise self.place.refuse(f"a section begins with {came!r}", repr(magic))
        (length,) = struct.unpack("<I", self.take(4, "the length of a section"))
        return self.take(length, f"the section {magic.decode()}")

    def labels(self, header: dict[str, Any], apart: bool, d: int) -> Sequence[str] | None:
        """Names of the variables: in a section of their own, or in the header of old files."""
        told = header.get("variables")
        if not told:
            return None
        if apart:
            told = self.json(self.section(b"VARS"), "the labels", list)
        if not isinstance(told, list) or len(told) != d:
            raise self.place.refuse("the labels are not as many as variables", f"{d} of them")
        names = label([tuple(one) if isinstance(one, list) else one for one in told])
        if names is not None and len(set(names)) < d:
            raise self.place.refuse("two variables have the same label", "different ones")
        return names

    def json(self, content: bytes, what: str, kind: type) -> Any:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, kind):
            raise self.place.refuse(f"{what} is not valid JSON", f"a {kind.__name__} in JSON")
        return found


def as_dtype(place: Place, header: dict[str, Any], name: str, allowed: tuple[str, ...]) -> np.dtype:
    if header.get(name) not in allowed:
        raise place.refuse(f"{name} is {header.get(name)!r}", f"one of {', '.join(allowed)}")
    return np.dtype(header[name]).newbyteorder("<")


def check_finite(place: Place, *parts: Any) -> None:
    if not all(np.isfinite(part).all() for part in parts):
        raise place.refuse("a bias is not finite", "finite numbers")


def read_archive(place: Place, content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a .npz archive, once their sizes are known to be those of the archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = {
                name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()
            }
            check_entries(place, "the archive", sum(one.file_size for one in inside.values()) // 8)
            arrays = {name: read_array(archive.read(one)) for name, one in inside.items()}
            return {name: values for name, values in arrays.items() if values is not None}
    except UNREADABLE as error:
        if isinstance(error, ValueError) and str(error).startswith(str(place.path)):
            raise
        raise place.refuse("the arrays cannot be read", "an archive that numpy wrote") from None


def read_array(content: bytes) -> np.ndarray | None:
    """An array of numbers in numpy's format; None for one of anything else."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.kind not in "iufb":
        return None
    flat = np.frombuffer(content[file.tell() :], dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


# -- text and arrays -----------------------------------------------------------------------------


def read_coo(path: str | Path, *, beta: float = 1.0) -> Pairwise:
    """Lines ``i j bias``, with i = j for a linear bias, under a line ``# vartype=SPIN`` or
    ``BINARY``: the coordinate list of dimod."""
    path, values = Path(path), None
    for number, line in enumerate(read_text(path).splitlines(), 1):
        told = line.replace(" ", "").replace(":", "=")
        if told.startswith("#") and "vartype=" in told:
            name = told.partition("vartype=")[2]
            if name not in VARTYPES:
                raise Place(path, number).refuse(f"vartype is {name!r}", "SPIN or BINARY")
            values = VARTYPES[name]
            break
    if values is None:
        raise Place(path).refuse("no line says what the values are", "a line # vartype=SPIN")
    row, column, biases = read_triples(path, ("#",))
    d = check_sites(path, row, column)
    own = row == column
    fields = np.bincount(row[own], biases[own], d)
    edges = np.stack([row, column], 1)[~own]
    return quadratic(edges, biases[~own], fields, 0.0, values, beta)


def read_qubo(path: str | Path, *, beta: float = 1.0) -> Pairwise:
    """A QUBO: lines ``i j q`` under ``p qubo 0 sites diagonals elements`` with comments ``c``, or a
    .npz file with a dense ``Q`` or as ``scipy.sparse.save_npz`` writes it."""
    if Path(path).suffix == ".npz":
        return read_sparse(Path(path), beta)
    place, first = next(read_lines(path, ("c", "#")), (Place(Path(path)), [""]))
    if first[:2] != ["p", "qubo"] or len(first) < 4:
        raise place.refuse(
            f"the line begins with {' '.join(first)[:40]!r}", "p qubo 0 sites diagonals elements"
        )
    d = place.integer(first[3], "the number of sites", 1, MAX_SITES)
    row, column, values = read_triples(path, ("c", "#", "p"), d)
    return from_entries(row, column, values, d, beta, 0.0)


def read_triples(
    path: str | Path, comments: tuple[str, ...], most: int = MAX_SITES
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines of two sites below ``most`` and a number."""
    found = []
    for place, words in read_lines(path, comments):
        if len(words) != 3:
            raise place.refuse(f"the line has {len(words)} words", "two sites and a number")
        sites = [place.integer(word, "a site", 0, most - 1) for word in words[:2]]
        found.append((*sites, place.number(words[2], "the number")))
    if not found:
        raise Place(Path(path)).refuse("there are no entries", "lines of two sites and a number")
    row, column, values = (np.array(part) for part in zip(*found, strict=True))
    return row, column, values


def check_sites(path: str | Path, row: np.ndarray, column: np.ndarray) -> int:
    """The number of sites where no header tells it: the largest and one more, most of them
    mentioned."""
    d, mentioned = int(max(row.max(), column.max())) + 1, len(np.union1d(row, column))
    if d > 1_000 + 10 * mentioned:
        raise Place(Path(path)).refuse(
            f"the largest site is {d - 1} and {mentioned} are mentioned", "sites numbered from 0"
        )
    return d


def read_sparse(path: Path, beta: float) -> Pairwise:
    """A dense or sparse matrix in a .npz file."""
    place = Place(path)
    arrays = read_archive(place, read_bytes(path))
    if set(arrays) == {"Q"}:
        return from_matrix(place, arrays["Q"], beta)
    if {"data", "shape"} <= set(arrays):
        return from_compressed(place, arrays, beta)
    raise place.refuse(
        f"it has the arrays {', '.join(arrays) or '(none)'}", "Q, or a matrix of scipy.sparse"
    )


def from_matrix(place: Place, matrix: np.ndarray, beta: float) -> Pairwise:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise place.refuse(f"Q has shape {matrix.shape}", "a square")
    row, column = np.nonzero(matrix)
    check_finite(place, matrix)
    return from_entries(row, column, matrix[row, column], len(matrix), beta, 0.0)


def from_compressed(place: Place, arrays: dict[str, np.ndarray], beta: float) -> Pairwise:
    """The arrays of a matrix of scipy.sparse: of coordinates, or compressed by rows or columns."""
    shape = arrays.get("shape", np.zeros(0)).ravel()
    data = arrays.get("data", np.zeros(0)).ravel()
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] <= MAX_SITES:
        raise place.refuse(f"the matrix has shape {shape.tolist()}", f"a square, 1 to {MAX_SITES}")
    d = int(shape[0])
    if {"row", "col"} <= set(arrays):
        row, column = arrays["row"].ravel(), arrays["col"].ravel()
    elif {"indices", "indptr"} <= set(arrays):
        starts, column = arrays["indptr"].ravel().astype(np.int64), arrays["indices"].ravel()
        if len(starts) != d + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise place.refuse("indptr is out of order", f"{d + 1} rising numbers from 0")
        if starts[-1] != len(column):
            raise place.refuse("indptr and indices disagree", "as many indices as indptr ends with")
        row = np.repeat(np.arange(d), np.diff(starts))
    else:
        raise place.refuse("the layout is another", "a csr, csc or coo matrix of scipy.sparse")
    if not len(row) == len(column) == len(data) or row.dtype.kind not in "iu":
        raise place.refuse("row, col and data differ in length", "one of each for every entry")
    if column.dtype.kind not in "iu" or (len(row) and not min(row.min(), column.min()) >= 0):
        raise place.refuse("an index is negative", f"0..{d - 1}")
    if len(row) and max(row.max(), column.max()) >= d:
        raise place.refuse("an index is too large", f"0..{d - 1}")
    check_finite(place, data)
    return from_entries(row.astype(np.int64), column.astype(np.int64), data, d, beta, 0.0)
