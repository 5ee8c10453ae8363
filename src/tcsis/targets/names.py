"""Names of sites and of their values, and evidence told in them: {"smoking": "yes"} for {3: 1}."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from torch import Tensor

NUMERAL = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True)
class Names:
    """A name for each of d sites and for each value of each, or None where they have none."""

    sites: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None

    @classmethod
    def of(
        cls,
        sites: Sequence[str] | None,
        values: Sequence[str] | Sequence[Sequence[str]] | None,
        value_counts: Sequence[int],
    ) -> Names:
        """Names once they are known to be different, and as many as there should be."""
        if sites is not None:
            sites = read_names("site_names", sites, len(value_counts))
        return cls(sites, None if values is None else read_value_names(values, value_counts))

    def describe(self) -> dict[str, Any]:
        """As plain data, from which ``of`` makes them: nothing where there are none."""
        described: dict[str, Any] = {}
        if self.sites is not None:
            described["site_names"] = list(self.sites)
        if self.values is not None:
            shared = len(set(self.values)) == 1
            rows = [list(names) for names in self.values]
            described["value_names"] = rows[0] if shared else rows
        return described

    def __bool__(self) -> bool:
        return self.sites is not None or self.values is not None

    def among(self, sites: Tensor) -> Names:
        """Those of some sites, (n,)."""
        chosen = sites.tolist()
        return Names(
            None if self.sites is None else tuple(self.sites[site] for site in chosen),
            None if self.values is None else tuple(self.values[site] for site in chosen),
        )

    def number(self, evidence: Any) -> Any:
        """Evidence as {site: value}.  A string is a name, or the digits of a number where no name
        is made of digits; what is no mapping stays as it is."""
        if not isinstance(evidence, Mapping):
            return evidence
        known: dict[Any, Any] = {}
        for name, named in evidence.items():
            site = find(name, self.sites, "a site")
            value = find(named, self.values_of(site), f"the value at site {self.show(site)}")
            if known.setdefault(site, value) != value:
                raise ValueError(
                    f"given names site {self.show(site)} twice: expected one value for it"
                )
        return known

    def values_of(self, site: Any) -> tuple[str, ...] | None:
        """The names of the values of a site."""
        if self.values is None or not isinstance(site, int) or not 0 <= site < len(self.values):
            return None
        return self.values[site]

    def show(self, site: Any) -> str:
        """A site as a user knows it."""
        if self.sites is None or not isinstance(site, int) or not 0 <= site < len(self.sites):
            return str(site)
        return self.sites[site]

    def show_value(self, site: int, value: int) -> str:
        """A value of a site as a user knows it."""
        names = self.values_of(site)
        return str(value) if names is None or value >= len(names) else names[value]

    def tell(self, site: int, value: int) -> str:
        """That a site has a value, in words."""
        return f"site {self.show(site)} has the value {self.show_value(site, value)}"


def find(name: Any, names: tuple[str, ...] | None, what: str) -> Any:
    """The place of a name, or the number that it is, or a refusal that has the nearest names."""
    if not isinstance(name, str):
        return name
    if names is not None and name in names:
        return names.index(name)
    if NUMERAL.fullmatch(name) and not any(map(NUMERAL.fullmatch, names or ())):
        return int(name)
    if names is None:
        raise ValueError(f"given has {name!r} for {what}: expected a number, for it has no names")
    near = get_close_matches(name, names, n=1, cutoff=0)
    listing = ", ".join(names) if len(names) <= 8 else f"one of {len(names)} names"
    raise ValueError(
        f"given has {name!r} for {what}: expected {listing}; did you mean {near[0]!r}?"
    )


def read_value_names(
    values: Sequence[str] | Sequence[Sequence[str]], value_counts: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    """Names for the values of every site; one list of names is for all sites alike."""
    expected = f"expected the names of its values for each of {len(value_counts)} sites"
    if isinstance(values, str):
        raise ValueError(f"value_names is {values!r}: {expected}")
    if all(isinstance(name, str) for name in values) and len(set(value_counts)) == 1:
        same = read_names("value_names", [str(name) for name in values], value_counts[0])
        return (same,) * len(value_counts)
    if len(values) != len(value_counts):
        raise ValueError(f"value_names has {len(values)} entries: {expected}")
    return tuple(
        read_names(f"value_names of site {site}", names, count)
        for site, (names, count) in enumerate(zip(values, value_counts, strict=True))
    )


def read_names(what: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what} is {names!r}: expected {count} strings")
    if len(names) != count:
        raise ValueError(f"{what} has {len(names)} names: expected {count}")
    if len(set(names)) < count:
        again = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"{what} has {again!r} twice: expected different names")
    return tuple(names)
