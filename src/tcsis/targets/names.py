"""Names of sites and of their values, and evidence told in them: {"smoking": "yes"} for {3: 1}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Names:
    """A name for each of d sites and for each value of each, or None where they have none."""

    sites: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None

    @classmethod
    def of(
        cls,
        sites: Sequence[str] | None,
        values: Sequence[Sequence[str]] | None,
        cardinalities: Sequence[int],
    ) -> Names:
        """Names once they are known to be different, and as many as there should be."""
        if sites is not None:
            sites = read_names("site_names", sites, len(cardinalities))
        if values is not None:
            if isinstance(values, str) or len(values) != len(cardinalities):
                raise ValueError(
                    f"value_names has {len(values)} entries: expected the names of its values for "
                    f"each of {len(cardinalities)} sites"
                )
            values = tuple(
                read_names(f"value_names of site {site}", names, count)
                for site, (names, count) in enumerate(zip(values, cardinalities, strict=True))
            )
        return cls(sites, values)

    def among(self, sites: Tensor) -> Names:
        """Those of some sites, (n,)."""
        chosen = sites.tolist()
        return Names(
            None if self.sites is None else tuple(self.sites[site] for site in chosen),
            None if self.values is None else tuple(self.values[site] for site in chosen),
        )

    def number(self, evidence: Any) -> Any:
        """Evidence by name as {site: value}; what is no mapping, or has numbers, as it is."""
        if not isinstance(evidence, Mapping):
            return evidence
        sites = [self.site(site) for site in evidence]
        twice = [site for site in sites if sites.count(site) > 1]
        if twice:
            raise ValueError(f"given names site {twice[0]} twice: expected one value for it")
        return {
            site: self.value(site, value)
            for site, value in zip(sites, evidence.values(), strict=True)
        }

    def site(self, name: Any) -> Any:
        """The number of a site."""
        if not isinstance(name, str):
            return name
        return find(name, self.sites, "site")

    def value(self, site: Any, name: Any) -> Any:
        """The number of a value of a site."""
        if not isinstance(name, str):
            return name
        if self.values is None or not isinstance(site, int) or not 0 <= site < len(self.values):
            return find(name, None, f"value at site {site}")
        shown = site if self.sites is None else repr(self.sites[site])
        return find(name, self.values[site], f"value at site {shown}")


def find(name: str, names: tuple[str, ...] | None, what: str) -> int:
    """The place of a name, or a refusal that has the nearest ones."""
    if names is None:
        raise ValueError(
            f"given has {name!r} for a {what}: expected a number, for there are no names"
        )
    if name in names:
        return names.index(name)
    near = get_close_matches(name, names, n=1, cutoff=0)
    listing = ", ".join(names) if len(names) <= 8 else f"one of {len(names)} names"
    raise ValueError(
        f"given has {name!r} for a {what}: expected {listing}; did you mean {near[0]!r}?"
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
