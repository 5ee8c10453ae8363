"""Targets made from targets: tempered ones, and ones with a field of their own at every state.

Both take a batch of parameters, one set per state, which broadcasts against the batch of x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.targets.base import Target, subtract_log_densities
from tcsis.targets.known import KnownSites


class Transformed(Target):
    """What a target made from another keeps of it: its shape, its structure and its cost."""

    def __init__(self, target: Target):
        self.target = target
        self.num_sites, self.num_values = target.num_sites, target.num_values
        self.lattice = target.lattice
        self.differentiable = target.differentiable
        self.device, self.dtype = target.device, target.dtype
        self.possible = target.possible
        self.names = target.names

    @property
    def value_counts(self) -> tuple[int, ...]:
        return self.target.value_counts

    @property
    def ratios_cost(self) -> float:
        return self.target.ratios_cost

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
    def site_cost(self) -> float:
        return self.target.site_cost

    @property
    def colouring(self) -> Tensor | None:
        return self.target.colouring

    @property
    def pairs(self) -> Tensor | None:
        return self.target.pairs

    def count(self, densities: float) -> None:
        self.target.count(densities)
        super().count(densities)

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.target = self.target.to(device, dtype)


class Scaled(Transformed):
    """scale·log p̄(x): a tempered target, or a batch of them with one ``scale`` per state.

    A state that p̄ forbids stays forbidden at every scale, zero included.
    """

    def __init__(self, target: Target, scale: float | Tensor):
        super().__init__(target)
        self.symmetries = target.symmetries
        self.scale = torch.as_tensor(scale, dtype=target.dtype, device=target.device)
        if not bool(torch.isfinite(self.scale).all()):
            raise ValueError(f"scale is {scale}: expected finite numbers")

    def restrict(self, known: KnownSites) -> Target:
        return self.target.restrict(known).scaled(self.scale)

    @property
    def sketch(self) -> Target:
        found = self.target.sketch
        return self if found is self.target or self.scale.ndim else found.scaled(self.scale)

    def _log_density(self, x: Tensor) -> Tensor:
        return self._times(self.target._log_density(x), self.scale)

    def _log_ratios(self, x: Tensor) -> Tensor:
        return self._times(self.target._log_ratios(x), self.scale[..., None, None])

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        return self._times(self.target._log_ratios_at(x, sites), self.scale[..., None])

    def _taylor_log_ratios(self, x: Tensor) -> Tensor:
        return self.target._taylor_log_ratios(x) * self.scale[..., None, None]

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        return self.target.relaxed_log_density(z) * self.scale

    @staticmethod
    def _times(log_density: Tensor, scale: Tensor) -> Tensor:
        return torch.where(log_density.isinf(), log_density, log_density * scale)

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.scale = self.scale.to(device, dtype)

    def __repr__(self) -> str:
        return f"Scaled({self.target}, {self.scale.tolist()})"


class Tilted(Transformed):
    """log p̄(x) + Σ_i fields[i, x_i]: a target with fields (..., d, v) that may differ by state.

    With fields log k_t(x_t^i | v) this is the posterior of x_0 given x_t.  A field of -inf forbids
    a value at a site.
    """

    def __init__(self, target: Target, fields: Tensor):
        super().__init__(target)
        expected = (target.num_sites, target.num_values)
        if fields.shape[-2:] != expected:
            raise ValueError(
                f"fields has shape {tuple(fields.shape)}: expected (..., d, v) = (..., "
                f"{expected[0]}, {expected[1]})"
            )
        self.fields = fields.to(target.device, target.dtype)

    def _log_density(self, x: Tensor) -> Tensor:
        present = self._present(x)
        return self.target._log_density(x) + present.sum((-2, -1))

    def _log_ratios(self, x: Tensor) -> Tensor:
        return self.target._log_ratios(x) + subtract_log_densities(self.fields, self._present(x))

    def _log_ratios_at(self, x: Tensor, sites: Tensor) -> Tensor:
        fields = self.fields.expand(*x.shape, self.num_values)
        index = sites[..., None, None].expand(*sites.shape, 1, self.num_values)
        there = fields.gather(-2, index).squeeze(-2)
        here = there.gather(-1, x.gather(-1, sites[..., None]))
        return self.target._log_ratios_at(x, sites) + subtract_log_densities(there, here)

    def _taylor_log_ratios(self, x: Tensor) -> Tensor:
        slope = subtract_log_densities(self.fields, self._present(x))
        return self.target._taylor_log_ratios(x) + slope

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        return self.target.relaxed_log_density(z) + (z * self.fields).sum((-2, -1))

    def _present(self, x: Tensor) -> Tensor:
        """The fields at the present values, (..., d, 1)."""
        return self.fields.expand(*x.shape, self.num_values).gather(-1, x[..., None])

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self.fields = self.fields.to(device, dtype)

    def __repr__(self) -> str:
        return f"Tilted({self.target})"
