"""One training batch as a straight line: x_0, time, x_t, estimate, model, objective.

A loss takes states x_0 (b, d) of the buffer and returns a scalar and the states to put back; ways
to compare are functions passed in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tcsis.identity.blocks import log_mean
from tcsis.learn import objectives
from tcsis.learn.estimates import Estimate
from tcsis.learn.models.diffusion import DenoiserModel, ScoreModel
from tcsis.learn.models.marginal import MarginalModel
from tcsis.learn.models.sequential import Sequential, log_target, site_conditionals
from tcsis.learn.models.skips import hat_functions
from tcsis.noise import UniformNoise, log_normalise
from tcsis.reverse.steps import tweedie_law
from tcsis.targets.base import Target

Loss = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
DrawTimes = Callable[[Tensor, torch.Generator], Tensor]
"""Times for a batch of states, (b, d) -> (b, d)."""

CENTRE_RATE = 0.05
MOST_EXACT = 3.0
"""Where log p̄ is exact, large ratios are those of an untrained model, and a lower cut does."""
MOST_WEIGHT = 3.0
"""Log-weights of states are cut here, where one estimate would outweigh a whole batch."""

# -- sequential -----------------------------------------------------------------------------------


def sequential(compare: Callable[[Tensor], Tensor]) -> Loss:
    """All the times of a sequential schedule at once: nothing has to be noised."""
    return lambda x_0, generator: (compare(x_0), x_0)


def by_conditionals(model: Sequential, target: Target) -> Callable[[Tensor], Tensor]:
    """Cross-entropy of every conditional with p(x_k | all other sites), for x_0 from p."""

    def compare(x: Tensor) -> Tensor:
        log_hat = site_conditionals(model, target, x)
        return objectives.cross_entropy(model.conditionals(model.read(x)), log_hat).mean()

    return compare


def by_spread(model: Sequential, target: Target) -> Callable[[Tensor], Tensor]:
    """Half the variance of the log weights."""
    return lambda x: objectives.spread(log_target(model, target, x) - log_q(model, x))


def by_itakura_saito(model: Sequential, target: Target) -> Callable[[Tensor], Tensor]:
    """Itakura–Saito between the marginals of all ordered sites, which the last class leaves exact
    at one density; log Z is learned."""

    def compare(x: Tensor) -> Tensor:
        log_p, log_hat = model.log_marginal(x), log_target(model, target, x)
        loss = objectives.itakura_saito(log_p, log_hat, MOST_EXACT).mean()
        follow(model, log_hat - log_p)
        return loss

    return compare


def by_squares(model: Sequential, target: Target) -> Callable[[Tensor], Tensor]:
    """Squared differences between the logarithms of the same two, at the log Z that fits the batch
    best: half their variance.  A log Z that lags behind would hold the network back."""

    def compare(x: Tensor) -> Tensor:
        gap = log_target(model, target, x) - model.log_marginal(x)
        follow(model, gap)
        return objectives.spread(gap)

    return compare


@torch.no_grad()
def follow(model: Sequential, gap: Tensor) -> None:
    """Move the centre of log Z after a batch is used, so that no state is measured by itself."""
    model.centre += CENTRE_RATE * gap.mean()


def by_score_entropy(model: Sequential, target: Target) -> Callable[[Tensor], Tensor]:
    """The paper's score entropy between the same two."""

    def compare(x: Tensor) -> Tensor:
        log_hat, scale = log_target(model, target, x), model.log_scale.clone()
        with torch.no_grad():
            model.log_scale.copy_(objectives.running_scale(scale, log_hat.max()))
        scale = torch.where(scale > -torch.inf, scale, model.log_scale)
        return objectives.marginal_score_entropy(model.log_marginal(x), log_hat, scale).mean()

    return compare


def log_q(model: Sequential, x: Tensor) -> Tensor:
    return model.log_prob(x).double().sum(1)


# -- any times ------------------------------------------------------------------------------------


def denoising(
    noise: UniformNoise,
    draw_times: DrawTimes,
    estimate: Estimate,
    compare: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Loss:
    """Noise x_0 to a time of its own, estimate there, compare."""

    def loss(x_0: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        t = draw_times(x_0, generator)
        x_t = noise.draw(x_0, t, generator=generator)
        hat, x_0 = estimate(x_t, t, x_0, generator)
        return compare(x_t, t, hat).mean(), x_0

    return loss


def shared_times(x: Tensor, generator: torch.Generator) -> Tensor:
    """A uniform time for each state, one in each of b equal intervals, (b, d) -> (b, d)."""
    b = len(x)
    jitter = torch.rand(b, device=x.device, generator=generator)
    place = torch.randperm(b, device=x.device, generator=generator)
    return ((place + jitter) / b)[:, None].expand(x.shape)


def random_sites(x: Tensor, num_sites: int, generator: torch.Generator) -> Tensor:
    """Some sites for each state, (b, d) -> (b, k)."""
    shape = (len(x), num_sites)
    return torch.randint(x.shape[1], shape, device=x.device, generator=generator)


def mixed_times(order: Tensor) -> DrawTimes:
    """For half of the states a shared time; for a quarter each, sites known or not at random, and
    the first few of ``order`` known: what every kind of schedule meets, (b, d) -> (b, d)."""
    rank = order.argsort()

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        t = shared_times(x, generator)
        kind = torch.rand(len(x), 1, device=x.device, generator=generator)
        scatter = torch.rand(x.shape, device=x.device, generator=generator)
        at_random = (scatter < t).to(t)
        in_order = (rank.to(x.device) + 1 > (1 - t) * len(rank)).to(t)  # 0 to d - 1 are known
        return torch.where(kind < 0.5, t, torch.where(kind < 0.75, at_random, in_order))

    return draw


def denoisers(model: DenoiserModel) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compare denoisers by cross-entropy."""
    return lambda x_t, t, hat: objectives.cross_entropy(model.denoiser(x_t, t), hat)


def paths(model: DenoiserModel, num_calls: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
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


def scores(model: ScoreModel) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compare scores by score entropy."""
    return lambda x_t, t, hat: objectives.score_entropy(model.log_score(x_t, t), hat, x_t)


Divergence = Callable[[Tensor, Tensor, Tensor], Tensor]
"""log p_θ (b,), the mean α (b,) and log p̂ (b,) -> (b,)."""


def marginals(
    model: MarginalModel, divergence: Divergence
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compare marginals."""

    def compare(x_t: Tensor, t: Tensor, hat: Tensor) -> Tensor:
        return divergence(model.log_marginal(x_t, t), model.alpha(x_t, t).mean(1), hat)

    return compare


def itakura_saito(log_p: Tensor, alpha: Tensor, hat: Tensor) -> Tensor:
    """Itakura–Saito, which needs no scale."""
    return objectives.itakura_saito(log_p, hat.to(log_p))


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


def joints(
    model: MarginalModel, divergence: Divergence, num_calls: int
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
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
