"""The forward process: every site forgets its value independently, towards uniform noise.

    k_t(v | u) = α_t·[u = v] + (1 - α_t)/V          α_0 = 1, falling to about 0 at t = 1

The kernel is symmetric in u and v, which is what the identity rests on, and Markov: from s to t it
is the same kernel with α_t/α_s.  In the rates of the paper, α_t = exp(-V·σ̄_t).

Times are shared by all sites of a state, ``t`` of shape (...), or one per site, (..., d): a time
with as many axes as x is read site by site.  Tokens are (..., d) throughout, and so are draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import softplus

from tcsis.basics.checks import check_num_values

Time = Tensor | float
ROUNDING, LOG_LEAST = 1e-5, math.log(0.1)
"""By how much scores may be off by rounding, and what is left where they are off by more."""


@dataclass(frozen=True)
class LogLinear:
    """α_t = 1 - (1 - ε)t.  With ε = 0 the state at t = 1 is noise exactly, not nearly."""

    eps: float = 0.0

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - (1 - self.eps) * t

    def time(self, alpha: Tensor) -> Tensor:
        return (1 - alpha) / (1 - self.eps)


@dataclass(frozen=True)
class UniformNoise:
    """The uniform kernel on V values with a schedule: α as a function of t in [0, 1], and back."""

    num_values: int
    schedule: LogLinear = field(default_factory=LogLinear)

    def __post_init__(self) -> None:
        check_num_values(self.num_values)

    # -- the kernel --------------------------------------------------------------------------

    def alpha(self, x: Tensor, t: Time, s: Time = 0.0) -> Tensor:
        """α_t/α_s for the sites of x, broadcastable to (..., d)."""
        t, s = per_site("t", t, x), per_site("s", s, x)
        if bool((s > t).any()):
            raise ValueError(
                f"s is later than t at some site (up to s = {s.max():.6g}, t = {t.min():.6g}): "
                "expected s <= t at every site"
            )
        ratio = self.schedule.alpha(t) / self.schedule.alpha(s)
        return torch.where(s == t, torch.ones_like(ratio), ratio)  # 0/0 where both are pure noise

    def log_kernel(self, x: Tensor, t: Time, s: Time = 0.0) -> Tensor:
        """log k_{s→t}(v | x_i) for every v, (..., d) -> (..., d, v)."""
        return self.log_kernel_at(x, self.alpha(x, t, s))

    def log_kernel_at(self, x: Tensor, alpha: Tensor) -> Tensor:
        """The same from the α between the two times, (..., d) and (..., d) -> (..., d, v)."""
        log_stay, log_move = self.log_stay_move(alpha[..., None])
        present = x[..., None] == torch.arange(self.num_values, device=x.device)
        return torch.where(present, log_stay, log_move)

    def log_prob(self, x_t: Tensor, x_s: Tensor, t: Time, s: Time = 0.0) -> Tensor:
        """log k_{s→t}(x_t | x_s) = Σ_i log k_{s→t}(x_t^i | x_s^i), (..., d) -> (...)."""
        log_stay, log_move = self.log_stay_move(self.alpha(x_t, t, s))
        return torch.where(x_t == x_s, log_stay, log_move).sum(-1)

    def draw(
        self, x_s: Tensor, t: Time, s: Time = 0.0, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """x_t ~ k_{s→t}(· | x_s), (..., d) -> (..., d)."""
        alpha = self.alpha(x_s, t, s)
        kept = torch.rand(x_s.shape, dtype=alpha.dtype, device=x_s.device, generator=generator)
        noise = torch.randint(
            self.num_values, x_s.shape, dtype=x_s.dtype, device=x_s.device, generator=generator
        )
        return torch.where(kept < alpha, x_s, noise)

    # -- the bridge --------------------------------------------------------------------------

    def log_bridge(self, x_t: Tensor, x_0: Tensor, s: Time, t: Time) -> Tensor:
        """log p(x_s^i = v | x_t^i, x_0^i), (..., d) -> (..., d, v): by Bayes,
        k_s(v | x_0)·k_{s→t}(x_t | v) / k_t(x_t | x_0)."""
        joint = self.log_kernel(x_0, s) + self.log_kernel(x_t, t, s)
        evidence = self.log_kernel(x_0, t).gather(-1, x_t[..., None].long())
        return joint - evidence

    def draw_bridge(
        self,
        x_t: Tensor,
        x_0: Tensor,
        s: Time,
        t: Time,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """x_s ~ p(· | x_t, x_0), (..., d) -> (..., d)."""
        return draw_categorical(self.log_bridge(x_t, x_0, s, t), generator=generator).to(x_t.dtype)

    # -- score and denoiser are the same knowledge --------------------------------------------

    def log_score_from_denoiser(self, denoiser: Tensor, x_t: Tensor, t: Time) -> Tensor:
        """log p_t(x_t with site i set to v)/p_t(x_t) from log P(x_0^i = u | x_t); both (..., d, v).

        score[v] = Σ_u P(u)·k_t(v|u)/k_t(x|u) = α·P(v)/k_t(x|v) + (1-α)/V·Σ_u P(u)/k_t(x|u).
        """
        alpha = self.alpha(x_t, t)[..., None]
        if bool((alpha == 1).any()):
            raise ValueError(
                "t gives α = 1 at some site: without noise the denoiser does not determine the "
                "score, which is the target's log_ratios"
            )
        weight = denoiser - self.log_kernel(x_t, t)
        _, log_move = self.log_stay_move(alpha)
        score = log_add(alpha.log() + weight, log_move + log_sum(weight)[..., None])
        return score.scatter(-1, x_t[..., None].long(), 0.0)

    def denoiser_from_log_score(self, log_score: Tensor, x_t: Tensor, t: Time) -> Tensor:
        """The inverse: P(u) ∝ k_t(x|u)·(score[u] - (1-α)/V·Σ_v score[v]), both (..., d, v).

        The bracket is at least zero for the score of any distribution.  An approximate score may
        leave it negative, beyond rounding; then it is a tenth of the score instead, so that
        no value is lost and weights stay right.
        """
        alpha = self.alpha(x_t, t)[..., None]
        if bool((alpha == 0).any()):
            raise ValueError(
                "t gives α = 0 at some site: in pure noise the score says nothing on the denoiser"
            )
        _, log_move = self.log_stay_move(alpha)
        background = log_move + log_sum(log_score)[..., None] - log_score
        share = background.exp()
        left = torch.log1p(-share.clamp_max(1)).where(share <= 1 + ROUNDING, LOG_LEAST)
        return log_normalise(log_score + left + self.log_kernel(x_t, t))

    def log_stay_move(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """log(α + (1-α)/V) and log((1-α)/V)."""
        v = self.num_values
        return torch.log1p(alpha * (v - 1)) - math.log(v), torch.log1p(-alpha) - math.log(v)


def per_site(name: str, t: Time, x: Tensor) -> Tensor:
    """Check a time and lay it out against the sites of x: (...) -> (..., 1), (..., d) as it is."""
    if not isinstance(t, Tensor):
        t = torch.tensor(t, dtype=torch.get_default_dtype(), device=x.device)
    if bool((t < 0).any()) or bool((t > 1).any()) or bool(t.isnan().any()):
        raise ValueError(f"{name} ranges from {t.min():.6g} to {t.max():.6g}: expected 0 <= t <= 1")
    laid_out = t if t.ndim == x.ndim else t[..., None]
    try:
        fits = torch.broadcast_shapes(laid_out.shape, x.shape) == x.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {tuple(t.shape)} for x of shape {tuple(x.shape)}: "
            f"expected {tuple(x.shape[:-1])}, one time a state, or {tuple(x.shape)}, one a site"
        )
    return laid_out


def draw_categorical(logits: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """Indices along the last axis with probability ∝ exp(logits); -inf is never drawn, (..., v).

    An exponential race: the smallest of E_v·exp(-logits_v), taken in logarithms.
    """
    race = torch.empty_like(logits).exponential_(generator=generator)
    race.clamp_min_(torch.finfo(race.dtype).tiny)  # an exact zero would win against any logits
    return (logits - race.log()).argmax(-1)


# -- sums over the values of a site ---------------------------------------------------------------


def log_add(a: Tensor, b: Tensor) -> Tensor:
    """log(e^a + e^b), of -inf too: what ``torch.logaddexp`` gives, in half the time on CPUs."""
    most = torch.maximum(a, b)
    least = torch.minimum(a, b) - most.clamp_min(torch.finfo(most.dtype).min)  # -inf, never nan
    return most + softplus(least)


def log_sum(logits: Tensor) -> Tensor:
    """log Σ_v exp(logits[v]), (..., v) -> (...).  Two values are added, for torch reduces short
    axes slowly."""
    return log_add(*logits.unbind(-1)) if logits.shape[-1] == 2 else logits.logsumexp(-1)


def log_normalise(logits: Tensor) -> Tensor:
    """The log-probabilities that logits stand for, (..., v) -> (..., v)."""
    return logits - log_sum(logits)[..., None]
