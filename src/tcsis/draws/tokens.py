"""What others call sites and values: labels of columns as sites, and spins, names or numbers as
tokens."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tcsis.formats.models import WHOLE
from tcsis.targets.base import Target

NUMBERED = re.compile(r"x?\[?(\d{1,9})\]?")
"""3, x3, x[3]."""
MOST_SHOWN = 5


def places(labels: Sequence[Hashable], target: Target, what: str) -> list[int]:
    """For every site of the target the place of its label; sites go by name or by number."""
    d, names = target.num_sites, target.site_names
    if len(labels) != d:
        raise ValueError(
            f"{what} has {len(labels)} columns of values ({shown(labels)}): expected {d}, one a "
            "site of the target"
        )
    for spelled in (str, repr):  # as names are made of labels, 1 and "1" told apart
        place = {spelled(label): k for k, label in enumerate(labels)}
        if names is not None and set(names) == set(place):
            return [place[name] for name in names]
    numbers = [number_of(label) for label in labels]
    if sorted(n for n in numbers if n is not None) == list(range(d)):
        return [numbers.index(site) for site in range(d)]
    by_name = "" if names is None else f"the names of the sites ({shown(names)}), or "
    raise ValueError(
        f"{what} has columns {shown(labels)}: expected {by_name}their numbers 0..{d - 1}"
    )


def number_of(label: Hashable) -> int | None:
    found = NUMBERED.fullmatch(str(label))
    return None if found is None else int(found[1])


def shown(labels: Sequence[Hashable]) -> str:
    """A few labels."""
    listed = ", ".join(str(label)[:40] for label in labels[:MOST_SHOWN])
    return listed if len(labels) <= MOST_SHOWN else f"{listed}, ..."


# -- values ---------------------------------------------------------------------------------------


def as_numbers(columns: Sequence[Any], target: Target, what: str) -> np.ndarray:
    """The values of every site, (...) each, as numbers (..., d).

    Text is names of values where every column has names alone; else a column of numbers is what it
    says, and another has names.
    """
    arrays = [np.asarray(column) for column in columns]
    named = target.value_names or [()] * len(arrays)
    if are_numeric(named, target):  # pandas reads such names as numbers
        arrays = [as_text(part) for part in arrays]
    texts = [np.unique(part.astype(str)).tolist() if is_text(part) else None for part in arrays]
    by_name = all(set(found) <= set(own) for found, own in zip(texts, named, strict=True) if found)
    parts = []
    for site, (part, found) in enumerate(zip(arrays, texts, strict=True)):
        if found is None:
            parts.append(part)
        elif not by_name and all(is_number(text) for text in found):
            parts.append(part.astype(str).astype(np.float64))
        else:
            parts.append(by_names(part.astype(str), named[site], target.names.show(site), what))
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"{what} has columns of shapes {shown(sorted(shapes))}: expected one")
    return np.stack(parts, -1)


def are_numeric(named: Sequence[Sequence[str]], target: Target) -> bool:
    """Whether all values are called by integers which are not their own numbers, such as 1 and 0,
    or 1, 2 and 3; spins are understood without."""
    names = [name for own in named for name in own]
    spins = target.num_values == 2 and set(names) == {"-1", "1"}
    plain = all(own == tuple(map(str, range(len(own)))) for own in map(tuple, named))
    return not spins and not plain and all(WHOLE.fullmatch(name) for name in names)


def as_text(values: np.ndarray) -> np.ndarray:
    """Whole numbers as they are written, anything else as it is."""
    if values.dtype.kind in "iu":
        return values.astype(str)
    whole = values.dtype.kind == "f" and bool((values == np.round(values)).all())
    return values.astype(np.int64).astype(str) if whole else values


def is_text(values: np.ndarray) -> bool:
    return values.dtype.kind in "OUS"


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def by_names(values: np.ndarray, names: Sequence[str], site: str, what: str) -> np.ndarray:
    """The numbers of values that are told by name, or a refusal of the first that is none."""
    texts, inverse = np.unique(values, return_inverse=True)
    for text in texts.tolist():
        if text not in names and not (not names and is_number(text)):
            expected = f"one of {', '.join(names[:MOST_SHOWN])}" if names else "a number"
            raise ValueError(f"{what} has {text[:40]!r} at site {site}: expected {expected}")
    return np.array([names.index(text) for text in texts.tolist()])[inverse.reshape(values.shape)]


def tokens(values: np.ndarray, target: Target, what: str) -> Tensor:
    """Numbers (..., d) as tokens, uint8; for two values also spins -1 and +1."""
    v = target.num_values
    expected = f"expected tokens 0..{v - 1}{', or spins -1 and +1' if v == 2 else ''}"
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} has values of type {values.dtype}: {expected}")
    if not values.size:
        raise ValueError(f"{what} has no draws: expected at least one")
    # bounds first: they are cheap, and refuse what is not finite
    low, high = (float(bound) for bound in (values.min(), values.max()))
    if low == -1 and v == 2 and bool(np.isin(values, (-1, 1)).all()):
        return torch.from_numpy((np.asarray(values) > 0).astype(np.uint8))
    if not (low >= 0 and high < v):
        raise ValueError(f"{what} has values from {low:g} to {high:g}: {expected}")
    whole = values.astype(np.uint8)
    if not np.array_equal(whole, values):
        wrong = float(values[whole != values].flat[0])
        raise ValueError(f"{what} has the value {wrong:g}: {expected}")
    return torch.from_numpy(whole)
