"""What we sample from: an unnormalised log density on tokens x in {0..V-1}^d.

A target is a frozen value.  The only thing asked of it is ``log_density``; everything else has a
default that follows from it, and a structured target replaces the default by something faster:

    log_density(x)     log p̄(x)                                   (..., d) -> (...)
    energy(x)          -log p̄(x)                                  (..., d) -> (...)
    log_ratios(x)      log p̄(x with site i set to v) - log p̄(x)   (..., d) -> (..., d, v)
    log_ratios_at      the same for one site a state              (..., d), (...) -> (..., v)
    taylor_log_ratios  first-order estimate of log_ratios from one gradient

The public methods check the tokens and count the work; subclasses write the underscored ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from tcsis.targets.known import KnownSites, read_known
from tcsis.targets.lattice import Lattice
from tcsis.targets.names import Names

if TYPE_CHECKING:
    from tcsis.targets.given import Given

MAX_CHUNK_TOKENS = 2**23
"""Neighbour states are evaluated in chunks of at most this many tokens (64 MB as int64)."""


@dataclass(frozen=True)
class Symmetries:
    """Transformations of x that leave log p̄ unchanged.

    ``value_permutation``: any relabelling of the values, the same at every site; for V = 2 this is
    the global ``flip``.  ``translations``: every shift of a periodic lattice.
    """

    flip: bool = False
    value_permutation: bool = False
    translations: bool = False


@dataclass
class Cost:
    """Work done by a target, in evaluations of log p̄ on one state.

    A structured target gives all d·V ratios of a state for about the price of one density, and
    one site's ratios for 1/d of it; a black box has to evaluate every neighbour, and pays for it.
    """

    densities: float = 0.0


class Target(ABC):
    """An unnormalised distribution p(x) ∝ p̄(x) on {0..V-1}^d."""

    num_sites: int
    num_values: int
    dtype: torch.dtype
    device: torch.device
    lattice: Lattice | None = None
    symmetries: Symmetries = Symmetries()
    differentiable: bool = False
    allowed: Tensor | None = None
    """States (n, d) that are known to be allowed, for targets where they are rare."""
    possible: Tensor | None = None
    """Which values a site can have at all, (d, v), on the CPU; None where every site has all."""
    names: Names = Names()
    """Names of the sites and of the values that each of them has, where there are any."""

    _cost: Cost | None = None

    @abstractmethod
    def _log_density(self, x: Tensor) -> Tensor:
        """log p̄ of checked int64 tokens, (..., d) -> (...)."""

    @property
    def ratios_cost(self) -> float:
        """What one state's ``log_ratios`` costs, in densities."""
        return self.num_sites * (self.num_values - 1) + 1

    @property
    def site_cost(self) -> float:
        """What one site's ratios cost, in densities."""
        return self.num_values

    @property
    def opaque(self) -> bool:
        """Whether log p̄ is known by evaluation alone: then nothing says that a single state, never
        met, does not hold most of the probability."""
        return True

    @property
    def costly(self) -> bool:
        """Whether an evaluation takes so long that training asks for as few as it can."""
        return False

    @property
    def rounding(self) -> float:
        """By how much two evaluations of log p̄ at one state may differ, relative to 1 + |log p̄|."""
        return max(1e-9, 2**8 * torch.finfo(self.dtype).eps)

    @property
    def colouring(self) -> Tensor | None:
        """A colour per site, (d,): sites of one colour do not interact.  None if none is known."""
        return None

    @property
    def pairs(self) -> Tensor | None:
        """The pairs of sites that are known to interact, (m, 2), in a pairwise target."""
        return None

    @property
    def sketch(self) -> Target:
        """A target that agreed with this one wherever it was tried, and whose structure is known;
        itself, unless a black box has been recognised.  For training, never for answers."""
        return self

    def sketched_within(self, seconds: float) -> Target:
        """This target, or the same without a sketch, where probing for one would take longer."""
        return self

    # -- names -----------------------------------------------------------------------------------

    @property
    def site_names(self) -> tuple[str, ...] | None:
        """A name for every site, or None."""
        return self.names.sites

    @property
    def value_names(self) -> tuple[tuple[str, ...], ...] | None:
        """For every site the names of the values that it has, or None."""
        return self.names.values

    @property
    def value_counts(self) -> tuple[int, ...]:
        """How many values each site has, (d,): the first so many of V."""
        return (self.num_values,) * self.num_sites

    def named(
        self,
        site_names: Sequence[str] | None = None,
        value_names: Sequence[str] | Sequence[Sequence[str]] | None = None,
    ) -> Self:
        """The same target with names for its sites and their values, which evidence may be told in
        and tables, files and reports show.  Values have names of their own at every site, or one
        list of names for all of them."""
        return self.with_names(Names.of(site_names, value_names, self.value_counts))

    def with_names(self, names: Names) -> Self:
        named = copy(self)
        named.names = names
        return named

    # -- evidence ------------------------------------------------------------------------------

    @property
    def free(self) -> Target:
        """The law of the sites that are not known, on which samplers work; the target itself,
        unless it is ``given`` something."""
        return self

    @property
    def free_sites(self) -> Tensor:
        """Which sites these are, (d_free,)."""
        return torch.arange(self.num_sites)

    def complete(self, x: Tensor) -> Tensor:
        """States of all sites from states of ``free``, (..., d_free) -> (..., d)."""
        return x

    def given(self, evidence: Mapping[Any, Any] | Tensor, mask: Tensor | None = None) -> Given:
        """The target given the values of some sites: log p̄(x) where x has them, -inf elsewhere.

        ``target.given({site: value, ...})``, by number or by name, or ``target.given(x, mask)``
        with tokens x (d,) and a boolean mask (d,), True where x is known.  Draws are whole states
        with these values in place, and log Z(given) - log Z is the log probability of the evidence.
        """
        from tcsis.targets.given import Given  # itself a Target, so it cannot come first

        return Given(self, self.read_known(evidence, mask))

    def read_known(
        self, evidence: Mapping[Any, Any] | Tensor, mask: Tensor | None = None
    ) -> KnownSites:
        """What ``given`` is told, checked; a value that its site does not have is refused."""
        evidence = self.names.number(evidence) if mask is None else evidence
        return read_known(evidence, mask, self.value_counts)

    def restrict(self, known: KnownSites) -> Target:
        """log p̄ with the ``known`` values in place, as a target on the free sites alone."""
        from tcsis.targets.given import FreeSites  # itself a Target, so it cannot come first

        return FreeSites(self, known)

    # -- what everyone calls -----------------------------------------------------------------

    def log_density(self, x: Tensor) -> Tensor:
        """log p̄(x), (..., d) -> (...)."""
        x = self.check(x)
        self.count(x.numel() // self.num_sites)
        return self._log_density(x)

    def energy(self, x: Tensor) -> Tensor:
        """-log p̄(x), (..., d) -> (...): the one place where the sign is turned."""
        return -self.log_density(x)

    def log_ratios(self, x: Tensor) -> Tensor:
        """log p̄(x with site i set to v) - log p̄(x), (..., d) -> (..., d, v); zero at v = x_i.

        Where p̄(x) = 0, an allowed neighbour has ratio +inf and a forbidden one 0, so that a walk
        started outside the support wanders freely until it finds its way in.
        """
        x = self.check(x)
        self.count(x.numel() // self.num_sites * self.ratios_cost)
        return self._log_ratios(x)

    def log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        """Row ``sites`` of ``log_ratios``: (..., d) and (...) -> (..., v)."""
        x = self.check(x)
        self.count(sites.numel() * self.site_cost)
        return self._log_ratios_at(x, sites)

    def class_terms(self, x: Tensor, sites: Tensor) -> Tensor:
        """log p̄ as a function of sites (k,) that do not interact, (b, d) -> (b, k, v) float64:
        log p̄(x with these sites at u) = Σ_i class_terms[i, u_i] + class_rest.

        Of a single site it is the density itself, whose values may be forbidden; several take
        ratios, and so a state x that is allowed.
        """
        if len(sites) > 1:
            return self.log_ratios(x)[:, sites].double()
        there = x.repeat(self.num_values, 1, 1)
        there[:, :, sites] = torch.arange(self.num_values, device=x.device)[:, None, None]
        return self.log_density(there).double().T[:, None]

    def class_rest(self, x: Tensor, sites: Tensor) -> Tensor:
        """What ``class_terms`` leaves of the log density, (b, d) -> (b,) float64."""
        if len(sites) > 1:
            return self.log_density(x).double()
        return torch.zeros(len(x), dtype=torch.float64, device=x.device)

    def taylor_log_ratios(self, x: Tensor) -> Tensor:
        """First-order estimate of ``log_ratios``, ∂f/∂z[i,v] - ∂f/∂z[i,x_i] at the one-hot z of x,
        where f is the relaxed log density; (..., d) -> (..., d, v)."""
        self.require_differentiable()
        x = self.check(x)
        self.count(2 * (x.numel() // self.num_sites))
        return self._taylor_log_ratios(x)

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        """log p̄ continued to real z, (..., d, v) -> (...); equal to it where z is one-hot."""
        raise ValueError(f"{self} is not differentiable: it has no relaxed log density")

    def scaled(self, scale: float | Tensor) -> Target:
        """The target with log density scale·log p̄; ``scale`` may hold one value per state."""
        from tcsis.targets.transformed import Scaled  # itself a Target, so it cannot come first

        return Scaled(self, scale)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Target:
        """The same target computing on ``device`` in ``dtype``."""
        moved = copy(self)
        moved._place(torch.device(device or self.device), dtype or self.dtype)
        return moved

    # -- defaults from log_density alone -----------------------------------------------------

    def _log_ratios(self, x: Tensor) -> Tensor:
        here = self._log_density(x)
        flat, v = x.reshape(-1, self.num_sites), self.num_values
        ratios = torch.zeros(*flat.shape, v, dtype=here.dtype, device=here.device)
        sites = torch.arange(self.num_sites, device=x.device)
        num_neighbours = self.num_sites * (v - 1)
        per_chunk = max(1, MAX_CHUNK_TOKENS // (num_neighbours * self.num_sites))
        shift = torch.arange(1, v, device=x.device)
        for rows in torch.arange(len(flat), device=x.device).split(per_chunk):
            values = (flat[rows][..., None] + shift) % v  # (n, d, v-1): all but the present value
            neighbours = flat[rows][:, None, None, :].repeat(1, self.num_sites, v - 1, 1)
            neighbours[:, sites, :, sites] = values.transpose(0, 1)
            there = self._log_density(neighbours)
            ratios[rows] = ratios[rows].scatter(
                -1, values, subtract_log_densities(there, here.reshape(-1)[rows][:, None, None])
            )
        return ratios.reshape(*x.shape, v)

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        neighbours = x[..., None, :].repeat(*[1] * (x.ndim - 1), self.num_values, 1)
        values = torch.arange(self.num_values, device=x.device)
        index = sites[..., None, None].expand(*sites.shape, self.num_values, 1)
        neighbours.scatter_(-1, index, values[:, None].expand_as(index))
        there = self._log_density(neighbours)  # (..., v)
        here = there.gather(-1, x.gather(-1, sites[..., None]))
        return subtract_log_densities(there, here)

    def _taylor_log_ratios(self, x: Tensor) -> Tensor:
        z = torch.nn.functional.one_hot(x, self.num_values).to(self.dtype).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.relaxed_log_density(z).sum(), z)
        return gradient - gradient.gather(-1, x[..., None])

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype

    # -- checks and counts -------------------------------------------------------------------

    def check(self, x: Tensor) -> Tensor:
        """Tokens as int64, or a ``ValueError`` that says what is wrong with them."""
        d, v = self.num_sites, self.num_values
        expected = f"expected integer tokens 0..{v - 1} of shape (..., {d})"
        if not isinstance(x, Tensor):
            raise ValueError(f"x is a {type(x).__name__}: {expected} in a torch.Tensor")
        if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
            raise ValueError(f"x has dtype {x.dtype}: {expected}; convert with x.long()")
        if x.ndim == 0 or x.shape[-1] != d:
            raise ValueError(f"x has shape {tuple(x.shape)}: {expected}")
        if x.device.type != self.device.type:
            raise ValueError(
                f"x is on {x.device} and the target on {self.device}: move one with .to()"
            )
        x = x.long()
        if x.numel():
            low, high = (int(bound) for bound in x.aminmax())
            if low < 0 or high >= v:
                raise ValueError(f"x has tokens from {low} to {high}: {expected}")
        return x

    def require_differentiable(self) -> None:
        if not self.differentiable:
            raise ValueError(
                f"{self} has no gradient: pass relaxed= to from_callable, "
                "or use a method that needs only log_density"
            )

    def count(self, densities: float) -> None:
        """Add to the tally of ``counting``, if there is one."""
        if self._cost is not None:
            self._cost.densities += densities


@contextmanager
def counting(target: Target) -> Iterator[Cost]:
    """Count the density evaluations of ``target`` inside a ``with`` block.

    Blocks nest: what the inner one counted is added to the outer one.
    """
    outer, target._cost = target._cost, Cost()
    inner = target._cost
    try:
        yield inner
    finally:
        target._cost = outer
        target.count(inner.densities)


@contextmanager
def uncounted(target: Target) -> Iterator[None]:
    """Leave what ``target`` evaluates inside a ``with`` block out of every tally."""
    outer, target._cost = target._cost, None
    try:
        yield
    finally:
        target._cost = outer


def subtract_log_densities(there: Tensor, here: Tensor) -> Tensor:
    """there - here, where two forbidden states (both -inf) count as equal."""
    return torch.where(there == here, torch.zeros_like(there), there - here)


def check_finite(name: str, value: Tensor) -> None:
    """Refuse parameters that are not finite, naming the first bad entry."""
    bad = (~value.isfinite()).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        raise ValueError(
            f"{name} has {value[where].item()} at index {list(where)}: expected finite numbers"
        )
