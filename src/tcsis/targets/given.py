"""A target given the values of some of its sites.

    log p̄(x | x_K = e) = log p̄(x) where x_K = e, and -inf elsewhere,

so that its Z is the sum over the states that agree, and log P(x_K = e) = log Z(given) - log Z.

``Given`` is that law on all d sites.  Samplers work on its ``free``, the same law on the d - k
sites that are not known, and ``complete`` what they draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tcsis.targets.base import Cost, Target, counting
from tcsis.targets.known import MOST_SHOWN, KnownSites
from tcsis.targets.recognition import leads_inside
from tcsis.targets.transformed import Transformed


class Given(Transformed):
    """log p̄(x) of ``target`` where x has the ``known`` values, -inf elsewhere."""

    def __init__(self, target: Target, known: KnownSites):
        super().__init__(target)
        self.known = known
        self.differentiable = False  # as it stands; ``free`` may be
        self.allowed = allowed_among(target, known)

    @cached_property
    def free(self) -> Target:
        """The same law on the sites that are not known, (..., d - k) -> (...)."""
        return self.target.restrict(self.known).with_names(self.names.among(self.known.free))

    @property
    def free_sites(self) -> Tensor:
        return self.known.free

    def complete(self, x: Tensor) -> Tensor:
        return self.known.complete(x)

    @property
    def pairs(self) -> Tensor | None:
        pairs = self.target.pairs
        return None if pairs is None else pairs[~self.known.mask[pairs].any(1)]

    def sketched_within(self, seconds: float) -> Target:
        whole = self.target.sketched_within(seconds)
        return self if whole is self.target else Given(whole, self.known)

    def given(self, evidence: Mapping[Any, Any] | Tensor, mask: Tensor | None = None) -> Given:
        """The target given these sites too."""
        more = self.target.read_known(evidence, mask)
        before = dict(self.known.pairs)
        for site, value in more.pairs:
            if before.get(site, value) != value:
                raise ValueError(
                    f"given has the value {value} at site {site}, which is known to be "
                    f"{before[site]}: expected no contradiction; start from the whole target"
                )
        return self.target.given(before | dict(more.pairs))

    def scaled(self, scale: float | Tensor) -> Target:
        return Given(self.target.scaled(scale), self.known)

    # one tally for both: a sampler that works on ``free`` is paid for here
    @property
    def _cost(self) -> Cost | None:
        return self.free._cost

    @_cost.setter
    def _cost(self, cost: Cost | None) -> None:
        self.free._cost = cost

    @property
    def ratios_cost(self) -> float:
        return self.target.ratios_cost + 1

    @property
    def site_cost(self) -> float:
        return self.target.site_cost + 1

    def _log_density(self, x: Tensor) -> Tensor:
        agrees = ~self.known.contradicted(x).any(-1)
        return self.target._log_density(x).where(agrees, -torch.inf)

    def _log_ratios(self, x: Tensor) -> Tensor:
        ratios = self.target._log_ratios(x)
        return self._forbid(x, ratios, self._fitting(x))

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        index = sites[..., None, None].expand(*sites.shape, 1, self.num_values)
        fitting = self._fitting(x).gather(-2, index).squeeze(-2)
        return self._forbid(x, self.target._log_ratios_at(x, sites), fitting)

    def _fitting(self, x: Tensor) -> Tensor:
        """Whether x with site i set to v agrees with what is known, (..., d) -> (..., d, v)."""
        wrong = self.known.contradicted(x)
        elsewhere = wrong.sum(-1, keepdim=True) - wrong.long()
        return (elsewhere == 0)[..., None] & self.known.fits(self.num_values).to(x.device)

    def _forbid(self, x: Tensor, ratios: Tensor, fitting: Tensor) -> Tensor:
        """Ratios (..., v) or (..., d, v) of the target where ``fitting``, as for forbidden states
        elsewhere."""
        here = self.target._log_density(x)
        here = here.reshape(*here.shape, *[1] * (ratios.ndim - here.ndim))
        agrees = ~self.known.contradicted(x).any(-1).reshape(here.shape)
        there = fitting & torch.where(here.isneginf(), ratios.isposinf(), ~ratios.isneginf())
        from_inside = ratios.where(there, -torch.inf)
        from_outside = torch.zeros_like(ratios).masked_fill(there, torch.inf)
        return torch.where(agrees & ~here.isneginf(), from_inside, from_outside)

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.free = self.free.to(device, dtype)

    def __repr__(self) -> str:
        shown = repr(self.known)
        if self.names and len(self.known.pairs) <= MOST_SHOWN:
            pairs = [(self.names.show(i), self.names.show_value(i, v)) for i, v in self.known.pairs]
            shown = repr(dict(pairs))
        return f"{self.target}.given({shown})"


class FreeSites(Target):
    """The free sites of any target: x is completed, and the target is asked."""

    def __init__(self, target: Target, known: KnownSites):
        self.target, self.known = target, known
        self.num_sites, self.num_values = len(known.free), target.num_values
        self.differentiable = target.differentiable
        self.device, self.dtype = target.device, target.dtype
        allowed = allowed_among(target, known)
        self.allowed = None if allowed is None else allowed[:, known.free]

    @property
    def opaque(self) -> bool:
        return self.target.opaque

    @property
    def costly(self) -> bool:
        return self.target.costly

    @property
    def rounding(self) -> float:
        return self.target.rounding

    @property
    def colouring(self) -> Tensor | None:
        whole = self.target.colouring
        if whole is None:
            return None
        # colours from 0 on, as some may be those of known sites alone
        return whole.cpu()[self.known.free].unique(return_inverse=True)[1]

    @cached_property
    def sketch(self) -> Target:
        with counting(self.target) as cost:
            known = self.target.sketch is not self.target
        super().count(cost.densities)
        if not known:
            return self
        found = self.target.sketch.restrict(self.known)
        # a sketch forbids nothing for good, and knows of no evidence that cannot be
        return found if leads_inside(self, found) else self

    def _log_density(self, x: Tensor) -> Tensor:
        return self.target._log_density(self.known.complete(x))

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        fits = self.known.fits(self.num_values).to(z)  # one-hot at the known sites
        whole = fits.expand(*z.shape[:-2], -1, -1).clone()
        whole[..., self.known.free, :] = z
        return self.target.relaxed_log_density(whole)

    def count(self, densities: float) -> None:
        self.target.count(densities)
        super().count(densities)

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.target = self.target.to(device, dtype)
        self.__dict__.pop("sketch", None)

    def __repr__(self) -> str:
        return f"{self.target}.given({self.known!r}).free"


def allowed_among(target: Target, known: KnownSites) -> Tensor | None:
    """Of the states that the target says are allowed, those that still are with the known values
    in place, (n, d); None where there are none."""
    if target.allowed is None:
        return None
    x = known.complete(target.allowed[:, known.free])
    x = x[~target._log_density(x).isneginf()]
    return x if len(x) else None
