"""Networks with the two heads of the unbiased model: what they add to log p̄_t, and to the denoiser.

FormHeads   any trunk, on every relabelling of the values that the model is averaged over; the
            fields of the denoiser count by coefficients that depend on time
SpinHeads   the network of the self-normalized model for spins, and a head for the marginal on
            its features
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softsign

from tcsis.learn.models.diffusion import Field, SpinNetwork, known, spins
from tcsis.learn.models.skips import NUM_KNOTS, Knots, RunningMean, fading, taking_over
from tcsis.learn.nn.heads import PooledHead, SiteMLP

MOST_ODDS = 5.0
"""Log-odds of fields that a network reads are cut here: what is nearly certain counts alike."""


class Heads(nn.Module, ABC):
    """Both take states (b, d) and α, (b, d) or (1, d) where all states share it."""

    @abstractmethod
    def marginal(self, x: Tensor, alpha: Tensor) -> Tensor:
        """What is learned of log p̄_t, (b,)."""

    @abstractmethod
    def logits(self, x: Tensor, alpha: Tensor) -> Tensor:
        """What the other sites say on every site, up to a constant, (b, d, v)."""

    @abstractmethod
    def both(self, x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """``marginal`` and ``logits`` with one call of the trunk."""

    def apart(self) -> list[nn.Parameter]:
        """Weights that the joint estimates alone train."""
        return []

    def begin_at(self, shares: Tensor) -> None:
        """Let the last of two fields begin with these shares at the knots, (k,); nothing, unless
        the fields are skip terms of the second head."""


class SpinHeads(Heads):
    """The features of a site are those of its cavity, h_i; with the site's own z_i = α·spin

        NN(x, t) = Σ_i w·f_i + MLP(mean_i f_i),   f_i = (z_i·g_i, g_i²),   g = h/(1 + |h|)

    which is even in the spins where the network is odd.  The marginal learns from the features and
    leaves them as they are: what a draw goes by is learned from the joint estimates alone.
    """

    def __init__(self, network: SpinNetwork, width: int):
        super().__init__()
        self.network = network
        self.centre = RunningMean(NUM_KNOTS, 2 * width)
        self.head = PooledHead(2 * width, 2 * width)

    def marginal(self, x: Tensor, alpha: Tensor) -> Tensor:
        return self.pooled(self.network.features(x, alpha), x, alpha)

    def logits(self, x: Tensor, alpha: Tensor) -> Tensor:
        return self.network(x, alpha)

    def both(self, x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        h = self.network.features(x, alpha)
        return self.pooled(h, x, alpha), self.network.logits_of(h, x, alpha)

    def apart(self) -> list[nn.Parameter]:
        return list(self.network.parameters())

    def pooled(self, h: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
        g = softsign(h.detach())  # sums over many sites have to stay moderate
        f = torch.cat([spins(x, alpha) * g, g.square()], -1)
        offset = self.centre(f, alpha.expand(x.shape).mean(1).to(h))
        return self.head(f - offset[:, None])


class FormHeads(Heads):
    """A trunk read in every form, of which the mean is taken."""

    def __init__(
        self, trunk: nn.Module, width: int, num_values: int, forms: list[list[int]],
        fields: Sequence[Field],
    ):  # fmt: skip
        super().__init__()
        self.trunk, self.num_values, self.forms, self.fields = trunk, num_values, forms, fields
        self.field_coefficients = Knots(fading(NUM_KNOTS, len(fields)))
        self.norm, self.centre = nn.LayerNorm(width), RunningMean(NUM_KNOTS, width)
        self.head = PooledHead(width, 2 * width)
        self.site_head = SiteMLP(width + len(fields) * num_values, 2 * width, num_values)

    def marginal(self, x: Tensor, alpha: Tensor) -> Tensor:
        alpha = alpha.expand(x.shape)
        return self.pooled(self.features(x, alpha), alpha)

    def logits(self, x: Tensor, alpha: Tensor) -> Tensor:
        alpha = alpha.expand(x.shape)
        return self.logits_of(self.features(x, alpha), x, alpha)

    def both(self, x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        alpha = alpha.expand(x.shape)
        h = self.features(x, alpha)
        return self.pooled(h, alpha), self.logits_of(h, x, alpha)

    def begin_at(self, shares: Tensor) -> None:
        self.field_coefficients.begin_at(taking_over(shares))

    def features(self, x: Tensor, alpha: Tensor) -> Tensor:
        """The trunk on every form, (b, d) -> (f·b, d, width)."""
        z = known(x, alpha, self.num_values)
        z = torch.cat([z[..., order] for order in self.forms])
        alpha = alpha.repeat(len(self.forms), 1)
        return self.norm(self.trunk(torch.cat([z, alpha[..., None]], -1), alpha))

    def pooled(self, h: Tensor, alpha: Tensor) -> Tensor:
        """The head on the features of every form, (f·b, d, width) and (b, d) -> (b,)."""
        offset = self.centre(h, alpha.mean(1).repeat(len(self.forms)))
        return self.head(h - offset[:, None]).reshape(-1, len(alpha)).mean(0)

    def logits_of(self, h: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
        """The second head on features and fields, and the fields as skip terms, (b, d, v)."""
        terms = field_terms(self.fields, x, alpha)
        moderate = centred(terms).clamp(-MOST_ODDS, MOST_ODDS) / MOST_ODDS
        fields = torch.cat([moderate[:, :, order].flatten(2) for order in self.forms])
        parts = self.site_head(torch.cat([h, fields], -1)).chunk(len(self.forms))
        # form k has value order[u] in place u
        back = [torch.tensor(order).argsort() for order in self.forms]
        said = sum(part[..., order] for part, order in zip(parts, back, strict=True)) / len(back)
        return self.field_coefficients(alpha.mean(1), terms) + said


def field_terms(fields: Sequence[Field], x: Tensor, alpha: Tensor) -> Tensor:
    """(b, d, v, n)."""
    return torch.stack([field(x, alpha).to(alpha.dtype) for field in fields], -1)


def centred(logits: Tensor) -> Tensor:
    """Without the mean over the values, which says nothing, (..., v, n)."""
    return logits - logits.mean(-2, keepdim=True)
