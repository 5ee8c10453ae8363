"""One training batch as a straight line: x_0, time, x_t, estimate, model, objective.

``denoising`` is that line; ways to compare an estimate with a model are functions passed in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tcsis.identity.blocks import log_mean
from tcsis.learn import objectives
from tcsis.learn.estimators import Estimate, Noised
from tcsis.learn.method import Loss
from tcsis.learn.models.diffusion import DiffusionModel
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.skips import hat_functions
from tcsis.learn.times import DrawTimes
from tcsis.noise import UniformNoise, log_normalise
from tcsis.reverse.steps import tweedie_law

Compare = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x_t (b, d), t (b, d) and an estimate -> (b,)."""

MOST_WEIGHT = 3.0
"""Log-weights of states are cut here, where one estimate would outweigh a whole batch."""


def denoising(
    noise: UniformNoise,
    draw_times: DrawTimes,
    estimate: Estimate,
    compare: Compare,
) -> Loss:
    """Noise x_0 to a time of its own, estimate there, compare."""

    def loss(x_0: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        t = draw_times(x_0, generator)
        x_t = noise.draw(x_0, t, generator=generator)
        hat, x_0 = estimate(Noised(x_t, t, x_0, generator))
        return compare(x_t, t, hat).mean(), x_0

    return loss


def denoisers(model: DiffusionModel) -> Compare:
    """Compare denoisers by cross-entropy."""
    return lambda x_t, t, hat: objectives.cross_entropy(model.denoiser(x_t, t), hat)


def paths(model: DiffusionModel, num_calls: int) -> Compare:
    """Compare the Tweedie steps of length 1/K of two denoisers, K·KL(p̂(x_s|x_t) ‖ p(x_s|x_t)).

    Over uniform times this is the KL divergence between the paths of K steps, which is what the
    weights of draws suffer from; cross-entropy asks as much where no site moves.
    """

    def compare(x_t: Tensor, t: Tensor, hat: Tensor) -> Tensor:
        s = (t - 1 / num_calls).clamp_min(0)
        # a known site stays, where its law is 0/0: any law will do, if it is the same for both
        known, moving = (t == 0)[..., None], t.where(t > 0, 1.0)
        law, law_hat = (
            tweedie_law(model.noise, log_d.where(~known, 0.0), x_t, moving, s)
            for log_d in (model.denoiser(x_t, t), hat)
        )
        return num_calls * objectives.cross_entropy(law, law_hat)

    return compare


def scores(model: DiffusionModel) -> Compare:
    """Compare scores by score entropy."""
    return lambda x_t, t, hat: objectives.score_entropy(model.log_score(x_t, t), hat, x_t)


Divergence = Callable[[Tensor, Tensor, Tensor], Tensor]
"""log p_θ (b,), the mean α (b,) and log p̂ (b,) -> (b,)."""


def marginals(model: MarginalModel, divergence: Divergence) -> Compare:
    """Compare marginals."""

    def compare(x_t: Tensor, t: Tensor, hat: Tensor) -> Tensor:
        return divergence(model.log_marginal(x_t, t), model.alpha(x_t, t).mean(1), hat)

    return compare


def unscaled(model: MarginalModel) -> Divergence:
    """Itakura–Saito, which needs no scale."""
    return lambda log_p, alpha, hat: objectives.itakura_saito(log_p, hat.to(log_p))


def scaled(model: MarginalModel) -> Divergence:
    """Score entropy, each time in units of a running scale of its own."""

    def divergence(log_p: Tensor, alpha: Tensor, hat: Tensor) -> Tensor:
        bins = hat_functions(alpha, len(model.log_scale)).argmax(1)
        hat = hat.to(model.log_scale)
        largest = torch.full_like(model.log_scale, -torch.inf).scatter_reduce(0, bins, hat, "amax")
        scale = model.log_scale.clone()
        with torch.no_grad():
            seen = largest > -torch.inf
            moved = objectives.running_scale(scale, largest)
            first = scale.isneginf() & seen
            model.log_scale.copy_(torch.where(first, largest, torch.where(seen, moved, scale)))
        scale = torch.where(scale > -torch.inf, scale, model.log_scale)[bins]
        return objectives.marginal_score_entropy(log_p, hat, scale)

    return divergence


def joints(model: MarginalModel, divergence: Divergence, num_calls: int) -> Compare:
    """Compare what both heads say with estimates p̂(x_t, x_0^i = u) (b, d, v).

    The first compares marginals, p̂_t = Σ_u p̂ in the mean over the sites.  The second compares
    Tweedie steps as ``paths`` does, with every state weighted by p̂_t/p_θ: that makes the loss
    linear in p̂, so that its minimiser is the denoiser of E[p̂], without the bias of a ratio.
    """
    noise = model.noise

    def compare(x_t: Tensor, t: Tensor, joint: Tensor) -> Tensor:
        log_p, logits = model.both(x_t, t)
        log_hat = joint.logsumexp(-1)  # (b, d)
        own = divergence(log_p, model.alpha(x_t, t).mean(1), log_mean(log_hat, 1))
        s = (t - 1 / num_calls).clamp_min(0)
        said = log_normalise(logits.double() + noise.log_kernel(x_t, t))
        law, law_hat = (
            tweedie_law(noise, log_d, x_t, t, s) for log_d in (said, joint - log_hat[..., None])
        )
        weight = (log_hat - log_p.detach()[:, None]).clamp_max(MOST_WEIGHT).exp()
        entropy = (weight * objectives.site_cross_entropies(law, law_hat)).sum(1)
        return own + num_calls * entropy

    return compare
