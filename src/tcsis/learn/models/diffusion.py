"""The self-normalized model for any times: a network with skip terms gives denoiser or score.

    log D_i(u) = log k_t(x_t^i | u) + gain(ᾱ)·field_i(u) + NN_i(u)            up to a constant

The kernel's own log-odds and the field that the other sites exert, taken as far as they are known,
make the model right as t → 0 with a network that is zero: gain(1) = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tcsis.learn.models.symmetry import Symmetrise
from tcsis.learn.nn.dense import DenseNet, through
from tcsis.learn.nn.dit import zero_init
from tcsis.learn.nn.features import time_features
from tcsis.learn.nn.heads import SiteHead
from tcsis.noise import UniformNoise, log_normalise
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

Field = Callable[[Tensor, Tensor], Tensor]
"""What the other sites say on every site: x (b, d) and α (b, d) -> (b, d, v)."""

TIME_WIDTH = 32
IN_CACHE = 32
"""States at one time are given to a network in parts whose features stay in the cache: twice as
fast at a hundred sites."""


class Gain(nn.Linear):
    """How much the field counts at the mean α, (n,) -> (n, 1, 1): all of it at ᾱ = 1, and at first
    everywhere."""

    def __init__(self) -> None:
        super().__init__(TIME_WIDTH, 1)
        zero_init(self)

    def forward(self, mean: Tensor) -> Tensor:
        gain = 1 + (1 - mean[:, None]) * super().forward(time_features(mean, TIME_WIDTH))
        return gain[..., None]


class SiteNetwork(nn.Module):
    """A trunk between tokens and per-site outputs, with the field as a skip term."""

    def __init__(
        self, trunk: nn.Module, width: int, num_values: int, field: Field, symmetrise: Symmetrise
    ):
        super().__init__()
        self.trunk, self.num_values = trunk, num_values
        self.field, self.symmetrise = field, symmetrise
        self.head, self.gain = SiteHead(width, num_values), Gain()

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        """gain(ᾱ)·field + NN, (b, d) and α (b, d) or (1, d) -> (b, d, v)."""
        return self.symmetrise(self.logits, x, alpha.expand(x.shape), self.num_values)

    def logits(self, x: Tensor, alpha: Tensor) -> Tensor:
        alpha = alpha.to(self.head.out.weight.dtype)
        field = self.field(x, alpha).to(alpha.dtype)
        field = field - field.mean(-1, keepdim=True)
        z = torch.cat([known(x, alpha, self.num_values), alpha[..., None], field], -1)
        return self.gain(alpha.mean(1)) * field + self.head(self.trunk(z, alpha))


class SpinNetwork(nn.Module):
    """The same for two values, read as spins ±1: half the log-odds of each site.  What is odd in
    the spins and all that comes of it is so to the last bit, without a mean over both signs."""

    def __init__(self, trunk: DenseNet, width: int, field: Field):
        super().__init__()
        self.trunk, self.field = trunk, field
        self.head = zero_init(nn.Linear(width, 1, bias=not trunk.odd))
        self.gain = Gain()

    def forward(self, x: Tensor, alpha: Tensor) -> Tensor:
        """gain(ᾱ)·field + NN, (b, d) and α (b, d) or (1, d) -> (b, d, 2)."""
        alpha = alpha.to(self.head.weight.dtype)
        parts = spins(x, alpha).split(IN_CACHE if len(alpha) == 1 else len(x))
        layers = self.trunk.layers(alpha)
        said = torch.cat([self.head(through(part, layers)) for part in parts])
        return self.with_field(said, x, alpha)

    def features(self, x: Tensor, alpha: Tensor) -> Tensor:
        """(b, d) -> (b, d, width)."""
        return self.trunk(spins(x, alpha), alpha)

    def logits_of(self, h: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
        """The same from the features of all states."""
        return self.with_field(self.head(h), x, alpha)

    def with_field(self, said: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
        """gain(ᾱ)·field + NN from what the network said, (b, d, 1) -> (b, d, 2)."""
        field = self.field(x, alpha.expand(x.shape)).to(alpha.dtype)
        return self.gain(alpha.mean(1)) * field + torch.cat([-said, said], -1)


LogitNetwork = SiteNetwork | SpinNetwork


def in_width(num_values: int) -> int:
    """Channels of a trunk's input: what is known, α, and the field."""
    return 2 * num_values + 1


def known(x: Tensor, alpha: Tensor, num_values: int) -> Tensor:
    """α·([x = v] - 1/V), (b, d, v): what a site tells; nothing at α = 0."""
    one_hot = nn.functional.one_hot(x, num_values).to(alpha.dtype)
    return alpha[..., None] * (one_hot - 1 / num_values)


def spins(x: Tensor, alpha: Tensor) -> Tensor:
    """α·(±1), (b, d) -> (b, d, 1): what a site of two values tells."""
    return (alpha * (2 * x - 1))[..., None]


# -- fields ---------------------------------------------------------------------------------------


def mean_field(target: Pairwise) -> Field:
    """Neighbours at their expected values given x_t alone, exact as α → 1."""

    def field(x: Tensor, alpha: Tensor) -> Tensor:
        z = known(x, alpha, target.num_values) + 1 / target.num_values
        return target.mean_field(z.to(target.dtype))

    return field


def present_ratios(target: Target) -> Field:
    """``log_ratios`` at x_t times ᾱ²: exact as α → 1, and silent in noise.  Costs one a state."""

    def field(x: Tensor, alpha: Tensor) -> Tensor:
        ratios = target.log_ratios(x)
        return ratios.clamp(-30, 30) * alpha.mean(1).square()[:, None, None]

    return field


def known_field(target: Target) -> Field:
    """What the other sites say on a site, as far as it is known without learning."""
    return mean_field(target) if isinstance(target, Pairwise) else present_ratios(target)


def no_field(target: Target) -> Field:
    """Nothing: a model without preconditioning."""
    return lambda x, alpha: torch.zeros(*x.shape, target.num_values, device=x.device)


# -- the two parametrisations ---------------------------------------------------------------------


class DiffusionModel(nn.Module, ABC):
    """A network that stands for denoiser or score, and so for both."""

    def __init__(self, noise: UniformNoise, network: LogitNetwork):
        super().__init__()
        self.noise, self.network = noise, network

    @abstractmethod
    def denoiser(self, x_t: Tensor, t: Tensor) -> Tensor:
        """log P(x_0^i = u | x_t), (b, d) and (b, d) -> (b, d, v), normalised."""

    @abstractmethod
    def log_score(self, x_t: Tensor, t: Tensor) -> Tensor:
        """log p_t(y)/p_t(x_t), (b, d) and (b, d) -> (b, d, v), zero at the present value."""


class DenoiserModel(DiffusionModel):
    """log P(x_0^i = u | x_t) at any times."""

    def denoiser(self, x_t: Tensor, t: Tensor) -> Tensor:
        t = without_repeats(t)
        logits = self.network(x_t, self.noise.alpha(x_t, t))
        return log_normalise(logits + self.noise.log_kernel(x_t, t).to(logits.dtype))

    def log_score(self, x_t: Tensor, t: Tensor) -> Tensor:
        return self.noise.log_score_from_denoiser(self.denoiser(x_t, t), x_t, t)


class ScoreModel(DiffusionModel):
    """log p_t(y)/p_t(x_t) at any times with α > 0, as the paper has it."""

    def log_score(self, x_t: Tensor, t: Tensor) -> Tensor:
        logits = self.network(x_t, self.noise.alpha(x_t, t))
        return logits - logits.gather(-1, x_t[..., None])

    def denoiser(self, x_t: Tensor, t: Tensor) -> Tensor:
        """The denoiser that belongs to the score, (b, d, v)."""
        return self.noise.denoiser_from_log_score(self.log_score(x_t, t).double(), x_t, t)


def without_repeats(t: Tensor) -> Tensor:
    """Times (b, d), or (1, d) where all states share them, as an expanded tensor says."""
    return t[:1] if t.stride(0) == 0 else t
