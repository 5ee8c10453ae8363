"""The unbiased model: a network for log p̄_t(x), from which scores are assembled.

    log p_θ(x, t) = NN(x, t) + NN(t) + (1 - s(ᾱ) + gain(ᾱ))·log p̄(x) + s(ᾱ)·log m_t(x)

The third term is the paper's preconditioning, made exact as t → 0; the last, with a share s that
falls from 1 in noise to 0, is the mixture over a crowd of states, where there is one (its gain is
left out here).

A score takes the density of every neighbour: ``assembled`` evaluates all d·(V-1) of them,
``taylor`` takes them from one gradient of the network and from the ratios of the skip terms, and
``distilled`` from a second head on the same features, which learns beside the first to say what it
would say of the neighbours.
"""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor, nn

from tcsis.models.crowd import Crowd, Nobody
from tcsis.models.diffusion import TIME_WIDTH, Field, known
from tcsis.nn.dit import zero_init
from tcsis.nn.features import time_features
from tcsis.nn.heads import PooledHead, SiteHead
from tcsis.noise import UniformNoise, log_normalise
from tcsis.steps import through_kernel
from tcsis.targets.base import Target

NUM_KNOTS = 17
"""Times between which the level of log p̄_t is interpolated."""

CHUNK = 4_096
"""States evaluated at once when scores are assembled."""


def one_form(num_values: int) -> list[list[int]]:
    """Relabellings of V values over which the network is averaged: none."""
    return [list(range(num_values))]


def all_relabellings(num_values: int) -> list[list[int]]:
    """All of them."""
    return [list(order) for order in permutations(range(num_values))]


class MarginalModel(nn.Module):
    """log p̄_t(x), up to what training leaves of a function of t."""

    def __init__(
        self,
        noise: UniformNoise,
        target: Target,
        trunk: nn.Module,
        width: int,
        forms: list[list[int]],
        field: Field,
        crowd: Crowd | Nobody,
    ):
        super().__init__()
        self.noise, self.target, self.trunk, self.field = noise, target, trunk, field
        self.forms, self.crowd = forms, crowd
        self.head = PooledHead(width, 2 * width)
        self.site_head = SiteHead(width, noise.num_values)
        self.site_gain = zero_init(nn.Linear(TIME_WIDTH, 1))
        self.site_crowd_gain = zero_init(nn.Linear(TIME_WIDTH, 1))
        self.gain = zero_init(nn.Linear(TIME_WIDTH, 1))
        self.crowd_gain = zero_init(nn.Linear(TIME_WIDTH, 1))
        self.level = nn.Sequential(
            nn.Linear(TIME_WIDTH, 32), nn.SiLU(), zero_init(nn.Linear(32, 1))
        )
        self.register_buffer("knots", torch.zeros(NUM_KNOTS))
        self.knots: Tensor
        self.register_buffer("log_scale", torch.full((NUM_KNOTS,), -torch.inf))
        self.log_scale: Tensor

    def log_marginal(self, x: Tensor, t: Tensor) -> Tensor:
        """(b, d) and (b, d) -> (b,)."""
        alpha = self.alpha(x, t)
        return self.learned(known(x, alpha, self.noise.num_values), alpha) + self.skip(x, alpha)

    def alpha(self, x: Tensor, t: Tensor) -> Tensor:
        return self.noise.alpha(x, t).expand(x.shape).to(self.knots.dtype)

    def learned(self, z: Tensor, alpha: Tensor) -> Tensor:
        """NN(x, t) from what is known, the mean over its forms, (b, d, v) -> (b,)."""
        return self.head(self.features(z, alpha)).reshape(-1, len(z)).mean(0)

    def features(self, z: Tensor, alpha: Tensor) -> Tensor:
        """The trunk on every form, (b, d, v) -> (f·b, d, width)."""
        z = torch.cat([z[..., order] for order in self.forms])
        alpha = alpha.repeat(len(self.forms), 1)
        return self.trunk(torch.cat([z, alpha[..., None]], -1), alpha)

    def site_logits(self, x: Tensor, alpha: Tensor) -> Tensor:
        """What the second head says on every site, with the field as skip term, (b, d, v)."""
        said = self.site_head(self.features(known(x, alpha, self.noise.num_values), alpha))
        parts = zip(said.chunk(len(self.forms)), self.forms, strict=True)
        # form k has value order[u] in place u
        mean = sum(part[..., torch.tensor(order).argsort()] for part, order in parts)
        field, ahead = self.field(x, alpha).to(alpha.dtype), alpha.mean(1)
        time = time_features(ahead, TIME_WIDTH)
        gain = 1 + (1 - ahead[:, None]) * self.site_gain(time)
        # on one site, single states of the crowd soon say too much: less of it than of the mixture
        share = (1 - ahead) * (1 + ahead * self.site_crowd_gain(time).squeeze(-1))
        crowd = share[:, None, None] * self.crowd.cavity(x, alpha)
        return gain[..., None] * field + crowd + mean / len(self.forms)

    def skip(self, x: Tensor, alpha: Tensor) -> Tensor:
        """NN(t) + coefficient·log p̄(x) + share·log m_t(x), (b,)."""
        mean = alpha.mean(1)
        level = self.level(time_features(mean, TIME_WIDTH)).squeeze(-1) * (1 - mean)
        log_p = self.target.log_density(x).to(level.dtype)
        crowd = self.crowd_share(mean) * self.crowd.log_mean(x, alpha)
        return level + interpolate(self.knots, mean) + self.coefficient(mean) * log_p + crowd

    def coefficient(self, alpha: Tensor) -> Tensor:
        """Of log p̄(x), from 0 in noise to 1 at t = 0, (b,) -> (b,)."""
        gain = self.gain(time_features(alpha, TIME_WIDTH)).squeeze(-1)
        return 1 - self.crowd.share(alpha) + alpha * (1 - alpha) * gain

    def crowd_share(self, alpha: Tensor) -> Tensor:
        """Of log m_t(x), from 1 in noise to 0 at t = 0, (b,) -> (b,)."""
        gain = self.crowd_gain(time_features(alpha, TIME_WIDTH)).squeeze(-1)
        return self.crowd.share(alpha) * (1 + alpha * gain)

    @torch.no_grad()
    def set_level(self, alpha: Tensor, gap: Tensor) -> None:
        """Put the knots where log p̂_t - log p_θ, ``gap`` (b,) at mean α (b,), is zero on average,
        by least squares with a little smoothness.  A network finds a number like log Z slowly."""
        place = hat_functions(alpha, NUM_KNOTS).double()
        bend = torch.eye(NUM_KNOTS, dtype=torch.float64, device=alpha.device).diff(2, dim=0)
        smooth = 0.01 * len(alpha) / NUM_KNOTS * bend.T @ bend
        jitter = 1e-6 * torch.eye(NUM_KNOTS, dtype=torch.float64, device=alpha.device)
        solved = torch.linalg.solve(place.T @ place + smooth + jitter, place.T @ gap.double())
        self.knots += solved.to(self.knots.dtype)


# -- ways to the denoiser -------------------------------------------------------------------------


def distilled(model: MarginalModel, x_t: Tensor, t: Tensor) -> Tensor:
    """The denoiser of the second head, (b, d) and (b, d) -> (b, d, v), in one call."""
    logits = model.site_logits(x_t, model.alpha(x_t, t))
    return log_normalise(logits + model.noise.log_kernel(x_t, t).to(logits.dtype))


def assembled(model: MarginalModel, x_t: Tensor, t: Tensor) -> Tensor:
    """The denoiser that belongs to ``assembled_score``, (b, d, v)."""
    return from_score(model, assembled_score(model, x_t, t), x_t, t)


def taylor(model: MarginalModel, x_t: Tensor, t: Tensor) -> Tensor:
    """The denoiser that belongs to ``taylor_score``, (b, d, v)."""
    return from_score(model, taylor_score(model, x_t, t), x_t, t)


def from_score(model: MarginalModel, log_score: Tensor, x_t: Tensor, t: Tensor) -> Tensor:
    return model.noise.denoiser_from_log_score(log_score.double(), x_t, t.double())


def assembled_score(model: MarginalModel, x: Tensor, t: Tensor) -> Tensor:
    """log p_θ(y) - log p_θ(x) for every neighbour y by itself, in chunks: d·(V-1) + 1 calls."""
    sites = [torch.full_like(x[:, 0], site) for site in range(x.shape[1])]
    here = model.log_marginal(x, t).double()
    return torch.stack([score_at(model, x, t, site, here) for site in sites], 1)


def score_at(model: MarginalModel, x: Tensor, t: Tensor, site: Tensor, here: Tensor) -> Tensor:
    """The log-score of one site a state, (b, d) and (b,) -> (b, v); ``here`` is log p_θ(x)."""
    v = model.noise.num_values
    present = x.gather(1, site[:, None])
    score = torch.zeros(len(x), v, device=x.device, dtype=here.dtype)
    for shift in range(1, v):
        value = (present + shift) % v
        parts = zip(x.scatter(1, site[:, None], value).split(CHUNK), t.split(CHUNK), strict=True)
        there = torch.cat([model.log_marginal(y, time).to(here) for y, time in parts])
        score = score.scatter(1, value, (there - here)[:, None])
    return score


def taylor_score(model: MarginalModel, x: Tensor, t: Tensor) -> Tensor:
    """The network's part to first order in the one-hot vector of each site, the rest exactly:
    one forward and one backward pass and one ``log_ratios``."""
    alpha = model.alpha(x, t)
    with torch.enable_grad():
        z = known(x, alpha, model.noise.num_values).requires_grad_()
        (slope,) = torch.autograd.grad(model.learned(z, alpha).sum(), z)
    slope = slope * alpha[..., None]
    learned = slope - slope.gather(-1, x[..., None])
    coefficient = model.coefficient(alpha.mean(1))[:, None, None]
    ratios = coefficient * model.target.log_ratios(x).to(slope.dtype)
    cavity = through_kernel(model.noise, model.crowd.cavity(x, alpha), alpha)
    crowd = cavity - cavity.gather(-1, x[..., None])
    share = model.crowd_share(alpha.mean(1))[:, None, None]
    return (learned + ratios + share * crowd).detach()


def interpolate(knots: Tensor, alpha: Tensor) -> Tensor:
    """Linear interpolation between values at equally spaced α, (k,) and (b,) -> (b,)."""
    return hat_functions(alpha, len(knots)) @ knots


def hat_functions(alpha: Tensor, num_knots: int) -> Tensor:
    """How much each knot counts at α, (b,) -> (b, k)."""
    place = torch.arange(num_knots, device=alpha.device)
    return (1 - (alpha[:, None] * (num_knots - 1) - place).abs()).clamp_min(0)
