"""A law of sites given others, for every value λ of a range: ``RangedLaw.at`` is a ``KnownLaw``.

λ goes from -1 to 1.  Some weights of the network move with it along Chebyshev polynomials,

    θ(λ) = θ + Σ_k T_k(λ)·θ_k,        k = 1..4,

of the gates the first biases, so that gates are any function of λ and of what is known, and of the
answers the linear part.  Means and covariances for first guesses stand at levels of λ, and between
two of them on the line from one to the other.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property

import torch
from torch import Tensor, nn

from tcsis.learn.models.known_law import KnownLaw
from tcsis.learn.nn.gated import Gated

NUM_FEATURES = 4
MOVED = ("row", "linear", "bias")
"""Weights of the network that move with λ: first biases of the gates, and what answers linearly."""


class RangedLaw(nn.Module):
    """``law`` where all features are zero, and what is added to it.  There are ``num_levels``, with
    equal distances, whose laws are kept at hand."""

    means: Tensor
    covariances: Tensor

    def __init__(self, law: KnownLaw, num_levels: int):
        super().__init__()
        self.law, self.num_levels = law, num_levels
        own = dict(law.network.named_parameters())
        self.slopes = nn.ParameterDict(
            {name: torch.zeros(NUM_FEATURES, *own[name].shape) for name in MOVED}
        )
        self.register_buffer("means", law.mean.repeat(num_levels, 1))
        self.register_buffer("covariances", law.covariance.repeat(num_levels, 1, 1))

    def place(self, level: int) -> float:
        """λ of a level."""
        return 2 * level / (self.num_levels - 1) - 1

    def moved(self, place: float) -> dict[str, Tensor]:
        """θ(λ), by name."""
        own, along = dict(self.law.network.named_parameters()), self.features(place)
        return {
            name: own[name] + torch.tensordot(along.to(slope), slope, 1)
            for name, slope in self.slopes.items()
        }

    def features(self, place: float) -> Tensor:
        """T_1(λ) .. T_4(λ), (k,)."""
        k = torch.arange(1, NUM_FEATURES + 1, dtype=torch.float64)
        return (k * torch.tensor(place, dtype=torch.float64).clamp(-1, 1).acos()).cos()

    def level(self, number: int) -> KnownLaw:
        """The law at a level, through which gradients flow to all weights."""
        law = self.laws[number]
        law.network = replaced(self.law.network, self.moved(self.place(number)))
        return law

    @cached_property
    def laws(self) -> list[KnownLaw]:
        """One a level, for their first guesses and ways, which are worked out once."""
        network = self.law.network
        laws = [deepcopy(self.law, {id(network): network}) for _ in range(self.num_levels)]
        for law, mean, covariance in zip(laws, self.means, self.covariances, strict=True):
            law.mean.copy_(mean)
            law.covariance.copy_(covariance)
        return laws

    @torch.no_grad()
    def at(self, place: float) -> KnownLaw:
        """The law at λ, with weights of its own."""
        law = deepcopy(self.law)
        for name, value in self.moved(place).items():
            law.network.get_parameter(name).copy_(value)
        where = (place + 1) / 2 * (self.num_levels - 1)
        below = min(int(where), self.num_levels - 2)
        share = where - below
        law.mean.copy_(self.means[below].lerp(self.means[below + 1], share))
        law.covariance.copy_(self.covariances[below].lerp(self.covariances[below + 1], share))
        return law

    @torch.no_grad()
    def correlate(self, states: Tensor) -> None:
        """Means and covariances of the states (levels, n, d) of every level."""
        self.__dict__.pop("laws", None)  # whose guesses are of before
        for number, x in enumerate(states):
            self.law.correlate(x.long())
            self.means[number], self.covariances[number] = self.law.mean, self.law.covariance


def replaced(network: Gated, weights: dict[str, Tensor]) -> Gated:
    """The same network with other tensors in the places of some weights; all else is shared."""
    other = Gated.__new__(Gated)
    other.__dict__.update(network.__dict__)
    own = {name: one for name, one in network._parameters.items() if name not in weights}
    other.__dict__ |= {"_parameters": own, **weights}
    return other
