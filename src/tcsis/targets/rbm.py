"""Restricted Boltzmann machine with its hidden units summed out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tcsis.basics.checks import check_counts
from tcsis.targets.base import MAX_CHUNK_TOKENS, Target
from tcsis.targets.known import KnownSites
from tcsis.targets.pairwise import Pairwise, as_parameter


class RBM(Target):
    """log p̄(x) = visible_bias·x + Σ_j log(1 + exp(hidden_bias_j + Σ_i x_i W_ij)) + constant, x in
    {0,1}^d.

    ``weights`` is (d, num_hidden), ``visible_bias`` (d,), ``hidden_bias`` (num_hidden,).
    """

    num_values = 2
    differentiable = True
    opaque = False

    def __init__(
        self,
        weights: Any,
        visible_bias: Any,
        hidden_bias: Any,
        *,
        constant: float = 0.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        self.weights = as_parameter("weights", weights)
        self.visible_bias = as_parameter("visible_bias", visible_bias)
        self.hidden_bias = as_parameter("hidden_bias", hidden_bias)
        if self.weights.ndim != 2:
            raise ValueError(
                f"weights has shape {tuple(self.weights.shape)}: expected (num_sites, num_hidden)"
            )
        self.num_sites, num_hidden = self.weights.shape
        check_counts(num_sites=self.num_sites, num_hidden=num_hidden)
        for name, bias, size in (
            ("visible_bias", self.visible_bias, self.num_sites),
            ("hidden_bias", self.hidden_bias, num_hidden),
        ):
            if bias.shape != (size,):
                raise ValueError(
                    f"{name} has shape {tuple(bias.shape)}: expected ({size},), "
                    f"as weights has shape {tuple(self.weights.shape)}"
                )
        self.constant = float(as_parameter("constant", constant))
        self._place(torch.device(device or "cpu"), dtype or torch.get_default_dtype())

    @property
    def ratios_cost(self) -> float:
        return self.num_sites + 1  # a softplus per hidden unit for every flip, but no products

    def restrict(self, known: KnownSites) -> RBM:
        """The free units; what known ones that are on add is a bias of the hidden units."""
        on = known.sites[known.values == 1]
        return RBM(
            self.weights[known.free], self.visible_bias[known.free],
            self.hidden_bias + self.weights[on].sum(0),
            constant=self.constant + float(self.visible_bias[on].sum()),
            dtype=self.dtype, device=self.device,
        )  # fmt: skip

    @property
    def joint(self) -> Pairwise:
        """The machine with its hidden units h as sites after the visible ones, (x, h) in
        {0,1}^(d + num_hidden):

            log p̄(x, h) = visible_bias·x + hidden_bias·h + x·W·h + constant.

        Summed over h it is this target.  Its log Z, marginals and draws are exact by elimination,
        which sums over x first, as long as 2^num_hidden states can be held."""
        d, num_hidden = self.weights.shape
        edges = torch.cartesian_prod(torch.arange(d), d + torch.arange(num_hidden))
        couplings = torch.zeros(len(edges), 2, 2, dtype=torch.float64)
        couplings[:, 1, 1] = self.weights.flatten()
        on = torch.cat([self.visible_bias, self.hidden_bias])
        fields = torch.stack([torch.zeros_like(on), on], dim=1)
        return Pairwise(
            edges, couplings, fields, constant=self.constant, dtype=self.dtype, device=self.device
        )

    def _log_density(self, x: Tensor) -> Tensor:
        return self._of_visible(x.to(self.dtype))

    def _log_ratios(self, x: Tensor) -> Tensor:
        visible = x.to(self.dtype).reshape(-1, self.num_sites)
        change = torch.empty_like(visible)  # of log p̄ when site i flips
        per_chunk = max(1, MAX_CHUNK_TOKENS // self._w.numel())
        for rows, chunk in zip(change.split(per_chunk), visible.split(per_chunk), strict=True):
            hidden = self._c + chunk @ self._w  # (n, h)
            step = 1 - 2 * chunk  # +1 where the flip switches on
            flipped = softplus(hidden[:, None, :] + step[..., None] * self._w).sum(-1)
            rows.copy_(step * self._b + flipped - softplus(hidden).sum(-1, keepdim=True))
        zeros = torch.zeros_like(change)
        off = visible == 0
        ratios = torch.stack([zeros.where(off, change), change.where(off, zeros)], dim=-1)
        return ratios.reshape(*x.shape, 2)

    def relaxed_log_density(self, z: Tensor) -> Tensor:
        return self._of_visible(z[..., 1])

    def _of_visible(self, visible: Tensor) -> Tensor:
        return visible @ self._b + softplus(self._c + visible @ self._w).sum(-1) + self.constant

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        super()._place(device, dtype)
        self._w = self.weights.to(device, dtype)
        self._b = self.visible_bias.to(device, dtype)
        self._c = self.hidden_bias.to(device, dtype)

    def __repr__(self) -> str:
        return f"RBM(num_sites={self.num_sites}, num_hidden={len(self.hidden_bias)})"
