"""Sites whose values are known, and how states of the other sites become states of all of them.

{3: 1, 17: 0}       in Python: a value for every known site
"3=1,17=0"          on the command line and in files
"smoking=yes"       by name, where sites and values have names; see ``tcsis.targets.names``
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

MOST_SHOWN = 6
"""Known sites that a ``repr`` names one by one."""


@dataclass(frozen=True)
class KnownSites:
    """The values of some of ``num_sites`` sites, ``pairs`` of site and value in order of the
    sites; at least one is known and one is free."""

    num_sites: int
    pairs: tuple[tuple[int, int], ...]

    @cached_property
    def sites(self) -> Tensor:
        """The known sites, (k,)."""
        return torch.tensor([site for site, _ in self.pairs])

    @cached_property
    def values(self) -> Tensor:
        """Their values, (k,)."""
        return torch.tensor([value for _, value in self.pairs])

    @cached_property
    def mask(self) -> Tensor:
        """Which sites are known, (d,)."""
        return torch.zeros(self.num_sites, dtype=torch.bool).index_fill(0, self.sites, True)

    @cached_property
    def free(self) -> Tensor:
        """The sites that are not, (d - k,)."""
        return (~self.mask).nonzero().squeeze(1)

    def complete(self, x: Tensor) -> Tensor:
        """States of all sites from those of the free ones, (..., d - k) -> (..., d)."""
        whole = x.new_empty(*x.shape[:-1], self.num_sites)
        whole[..., self.free] = x
        whole[..., self.sites] = self.values.to(x)
        return whole

    def among(self, sites: Tensor) -> KnownSites | None:
        """What is known of these sites, (n,), by their place among them; None where nothing is."""
        known = dict(self.pairs)
        pairs = [(place, known.get(site)) for place, site in enumerate(sites.tolist())]
        found = tuple((place, value) for place, value in pairs if value is not None)
        return KnownSites(len(sites), found) if found else None

    def contradicted(self, x: Tensor) -> Tensor:
        """Which sites of x have another value than the known one, (..., d) -> (..., d)."""
        wrong = torch.zeros_like(x, dtype=torch.bool)
        wrong[..., self.sites] = x[..., self.sites] != self.values.to(x)
        return wrong

    def fits(self, num_values: int) -> Tensor:
        """Which values do not contradict what is known, (d, v)."""
        fits = torch.ones(self.num_sites, num_values, dtype=torch.bool)
        fits[self.sites] = self.values[:, None] == torch.arange(num_values)
        return fits

    def __str__(self) -> str:
        return ",".join(f"{site}={value}" for site, value in self.pairs)

    def __repr__(self) -> str:
        if len(self.pairs) > MOST_SHOWN:
            return f"{len(self.pairs)} of {self.num_sites} sites"
        return repr(dict(self.pairs))


# -- what users write ----------------------------------------------------------------------------


def read_known(evidence: Any, mask: Any, value_counts: Sequence[int]) -> KnownSites:
    """Known sites from ``{site: value}``, or from tokens (d,) and a mask (d,), True where known."""
    num_sites = len(value_counts)
    values = from_mapping(evidence) if mask is None else from_tensors(evidence, mask)
    if mask is not None and len(mask) != num_sites:
        raise ValueError(
            f"x and mask have {len(mask)} sites: expected {num_sites}, as the target has"
        )
    for site, value in values.items():
        if not 0 <= site < num_sites:
            raise ValueError(f"given names site {site}: expected sites 0..{num_sites - 1}")
        if not 0 <= value < value_counts[site]:
            raise ValueError(
                f"given has the value {value} at site {site}: expected 0..{value_counts[site] - 1}"
            )
    if not values:
        raise ValueError("given names no site: expected at least one; use the target as it is")
    if len(values) == num_sites:
        raise ValueError(
            f"given names all {num_sites} sites: expected at least one to be free; of a single "
            "state ask target.log_density"
        )
    return KnownSites(num_sites, tuple(sorted(values.items())))


def from_mapping(evidence: Any) -> dict[int, int]:
    if isinstance(evidence, Tensor):
        raise ValueError("x came without a mask: expected given(x, mask), True where x is known")
    if not isinstance(evidence, Mapping):
        raise ValueError(
            f"given is {evidence!r}: expected a value for each known site, such as {{3: 1, 17: 0}}"
        )
    return {
        as_integer("a site", site): as_integer(f"the value at site {site}", value)
        for site, value in evidence.items()
    }


def from_tensors(x: Any, mask: Any) -> dict[int, int]:
    """Of x only what is known is read."""
    both = isinstance(x, Tensor) and isinstance(mask, Tensor)
    if not both or x.ndim != 1 or x.shape != mask.shape or mask.dtype != torch.bool:
        raise ValueError(
            f"x is {form(x)} and mask {form(mask)}: expected tokens (d,) and booleans (d,), True "
            "where x is known"
        )
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        raise ValueError(f"x has dtype {x.dtype}: expected integer tokens; convert with x.long()")
    sites = mask.nonzero().squeeze(1)
    return dict(zip(sites.tolist(), x[sites].tolist(), strict=True))


def form(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def as_integer(what: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"given has {value!r} for {what}: expected an integer")


def parse_numbers(text: Any) -> dict[int, int]:
    """``3=1,17=0`` as a value for each known site, by number alone, as they are saved."""
    try:
        return {int(site): int(value) for site, value in parse_known(text).items()}
    except ValueError:
        raise ValueError(f"given is {text!r}: expected numbers, such as 3=1,17=0") from None


def add_known(text: str, more: str) -> str:
    """What both texts tell, each site once."""
    return ",".join(f"{site}={value}" for site, value in parse_known(f"{text},{more}").items())


def parse_known(text: Any) -> dict[str, str]:
    """``3=1,smoking=yes`` as a value for each known site, both as they are written."""
    expected = "expected site=value with commas between, such as 3=1,17=0"
    if not isinstance(text, str):
        raise ValueError(f"given is {text!r}: {expected}, in a string")
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        site, equals, value = (word.strip() for word in part.partition("="))
        if not site or not equals or not value or "=" in value:
            raise ValueError(f"given has {part!r}: {expected}")
        if values.setdefault(site, value) != value:
            raise ValueError(
                f"given has the values {values[site]} and {value} at site {site}: expected one"
            )
    return values
