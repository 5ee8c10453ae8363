"""The unbiased model: a network for log p̄_t(x), from which scores are assembled.

    log p_θ(x, t) = NN(x, t) + c_0(ᾱ) + Σ_n c_n(ᾱ)·skip_n(x, t)

There is one skip term, the paper's log p̄(x), or there are two: one that is right near t = 0 and a
crowd that is right near t = 1 (``tcsis.learn.models.skips``).  Training starts with the
coefficients that fit best, and as t → 0 the first is left alone.

A score takes the density of every neighbour: ``assembled`` evaluates all d·(V-1) of them, and
``learned`` has a second head on the same features, trained beside the first, give the denoiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor, nn

from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.diffusion import Field, without_repeats
from tcsis.learn.models.heads import Heads, field_terms
from tcsis.learn.models.skips import (
    NUM_KNOTS,
    Knots,
    Skip,
    fading,
    falling,
    hat_functions,
    local_variance,
    taking_over,
)
from tcsis.learn.objectives import site_cross_entropies
from tcsis.noise import UniformNoise, log_normalise, log_sum

NUM_NEWTON, MOST_GAP, LEAST_NOISE = 10, 3.0, 0.01
"""Newton steps of the fit of the skip terms, the largest log p̂_t - log p_θ that they heed, and the
least variance of it that they reckon with."""

CHUNK = 4_096
"""States evaluated at once when all neighbours are asked for."""

RESTRAINT = 300.0
"""How many states it takes to move the coefficients of skip terms from where they start."""

SHARES = [k / 20 for k in range(21)]
"""Shares that the last field may have."""


def one_form(num_values: int) -> list[list[int]]:
    """Relabellings of V values over which the network is averaged: none."""
    return [list(range(num_values))]


def all_relabellings(num_values: int) -> list[list[int]]:
    """All of them."""
    return [list(order) for order in permutations(range(num_values))]


class MarginalModel(nn.Module):
    """log p̄_t(x), up to what training leaves of a function of t."""

    log_scale: Tensor

    def __init__(
        self, noise: UniformNoise, heads: Heads, skips: Sequence[Skip], fields: Sequence[Field]
    ):
        """Of the ``skips`` of the marginal, and of the ``fields`` that say as much of the denoiser
        and are as many, the first is right as t → 0 and the last, if there are two, as t → 1."""
        super().__init__()
        self.noise, self.heads, self.skips, self.fields = noise, heads, skips, fields
        self.parts = nn.ModuleList(skips)  # whose tensors move and are saved with the model
        self.coefficients = Knots(fading(NUM_KNOTS, len(skips)))
        self.register_buffer("log_scale", torch.full((NUM_KNOTS,), -torch.inf))

    @property
    def crowd(self) -> Crowd | None:
        """The skip term that is right as t → 1, if there is one."""
        last = self.skips[-1]
        return last if isinstance(last, Crowd) else None

    def log_marginal(self, x: Tensor, t: Tensor) -> Tensor:
        """(b, d) and (b, d) -> (b,)."""
        alpha = self.alpha(x, t)
        return self.heads.marginal(x, alpha) + self.skip(x, alpha)

    def site_logits(self, x: Tensor, t: Tensor) -> Tensor:
        """What the second head says on every site, without the site's own noise, (b, d, v)."""
        alpha = self.noise.alpha(x, without_repeats(t)).to(self.log_scale.dtype)
        return self.heads.logits(x, alpha)

    def both(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """``log_marginal`` and ``site_logits`` with one call of the trunk."""
        alpha = self.alpha(x, t)
        learned, logits = self.heads.both(x, alpha)
        return learned + self.skip(x, alpha), logits

    def alpha(self, x: Tensor, t: Tensor) -> Tensor:
        return self.noise.alpha(x, t).expand(x.shape).to(self.log_scale.dtype)

    def skip(self, x: Tensor, alpha: Tensor) -> Tensor:
        """c_0(ᾱ) + Σ_n c_n(ᾱ)·skip_n(x, t), (b,)."""
        return self.coefficients(alpha.mean(1), self.skip_terms(x, alpha))

    def skip_terms(self, x: Tensor, alpha: Tensor) -> Tensor:
        """(b, n)."""
        return torch.stack([skip(x, alpha) for skip in self.skips], -1)

    @torch.no_grad()
    def fit_fields(self, x: Tensor, t: Tensor, sites: Tensor, log_joint: Tensor) -> None:
        """Let the last of two fields take over from the first where the denoiser comes closest to
        joint estimates (b, k, v) at some sites (b, k) of every state, by cross-entropy weighted as
        in training; and the skip terms, which have these scores, likewise."""
        rows, alpha = torch.arange(len(x), device=x.device)[:, None], self.alpha(x, t)
        first, last = field_terms(self.fields, x, alpha)[rows, sites].double().unbind(-1)
        own = self.noise.log_kernel_at(x, alpha)[rows, sites].double()
        log_hat = log_sum(log_joint)
        weight = (log_hat - self.log_marginal(x, t)[:, None]).clamp_max(MOST_GAP).exp()
        hats, losses = hat_functions(alpha.mean(1).double(), NUM_KNOTS), []
        for share in SHARES:
            log_d = log_normalise(own + torch.lerp(first, last, share))
            loss = weight * site_cross_entropies(log_d, log_joint - log_hat[..., None])
            losses.append(hats.T @ loss.sum(1))
        shares = torch.tensor(SHARES)[falling(torch.stack(losses, 1))].to(alpha)
        self.heads.begin_at(shares)
        self.coefficients.begin_at(taking_over(shares))

    @torch.no_grad()
    def fit_skips(self, x: Tensor, t: Tensor, log_p_hat: Tensor) -> None:
        """Put the coefficients where the skip terms come closest to estimates of log p̄_t (b,): by
        least squares first, and then, as logarithms of estimates are too low on average, in a few
        Newton steps by the Itakura–Saito divergence, each time as far as its noise allows."""
        alpha = self.alpha(x, t)
        terms, mean = self.skip_terms(x, alpha), alpha.mean(1)
        gap = log_p_hat - self.coefficients(mean, terms)
        self.coefficients.fit(mean, terms, gap, torch.ones_like(gap), RESTRAINT)
        for _ in range(NUM_NEWTON):
            gap = log_p_hat - self.coefficients(mean, terms)
            ratio = gap.clamp(-MOST_GAP, MOST_GAP).exp()
            precision = 1 / (LEAST_NOISE + local_variance(mean, gap, NUM_KNOTS))
            self.coefficients.fit(mean, terms, 1 - 1 / ratio, ratio * precision, RESTRAINT)


# -- ways to the denoiser -------------------------------------------------------------------------


def learned(model: MarginalModel, x_t: Tensor, t: Tensor) -> Tensor:
    """The denoiser of the second head, (b, d) and (b, d) -> (b, d, v), in one call."""
    t = without_repeats(t)
    logits = model.site_logits(x_t, t)
    return log_normalise(logits + model.noise.log_kernel(x_t, t).to(logits.dtype))


def assembled(model: MarginalModel, x_t: Tensor, t: Tensor) -> Tensor:
    """The denoiser that belongs to ``assembled_score``, (b, d, v)."""
    score = assembled_score(model, x_t, t)
    return model.noise.denoiser_from_log_score(score, x_t, t.double())


def assembled_score(model: MarginalModel, x: Tensor, t: Tensor) -> Tensor:
    """log p_θ(y) - log p_θ(x) for every neighbour y by itself, in chunks: d·(V-1) + 1 calls."""
    here = model.log_marginal(x, t).double()
    return torch.stack([score_at(model, x, t, site, here) for site in range(x.shape[1])], 1)


def score_at(model: MarginalModel, x: Tensor, t: Tensor, site: int, here: Tensor) -> Tensor:
    """The log-score of a site, (b, d) and (b, d) -> (b, v); ``here`` is log p_θ(x), (b,)."""
    v = model.noise.num_values
    score = torch.zeros(len(x), v, device=x.device, dtype=here.dtype)
    for shift in range(1, v):
        y = x.clone()
        y[:, site] = (x[:, site] + shift) % v
        parts = zip(y.split(CHUNK), t.split(CHUNK), strict=True)
        there = torch.cat([model.log_marginal(states, own).to(here) for states, own in parts])
        score.scatter_(1, y[:, site, None], (there - here)[:, None])
    return score
