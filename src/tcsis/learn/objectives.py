"""What is minimised: divergences between an estimate and a model, each zero where they agree.

Self-normalized methods compare scores (Eq. 6) or denoisers; the unbiased method compares marginal
densities, with a divergence that is linear in the estimate p̂, so that noise in p̂ averages out.
Every Bregman divergence is: score entropy, Σ p_θ - p̂·log p_θ, weighs a state by its probability,
and Itakura–Saito, Σ p̂/p_θ - log(p̂/p_θ), weighs all of them alike.

Laws q that draw sites in turn look at both sides, states of the buffer and draws of their own:

    S = half the mean squared distance of gaps log p̄ - log q from their centre          over both
    C = cross-entropy with the identity's conditionals p(x_k | all other sites)      over the buffer
    L = S + min(1, S)·C

Own draws show mass that the target does not have; the cross-entropy, for x from p -E_p[log q] but
for a constant, has its least value where q = p and nowhere else.  Its noise goes as S does.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

MOST_LOG_RATIO = 6.0
"""Itakura–Saito goes on linearly where p̂ exceeds p_θ by more than this factor's logarithm."""
MOST_GAP = 8.0
"""Log weights are cut at this distance from their centre: e^8 is as good as never or always."""
NUM_CENTRED = 4
"""Rounds in which the centre of cut gaps is found."""


def score_entropy(log_score: Tensor, log_score_hat: Tensor, x_t: Tensor) -> Tensor:
    """Eq. (6): Σ_y s - ŝ·log s + ŝ·(log ŝ - 1) over the neighbours y of x_t, (b, d, v) -> (b,)."""
    s, s_hat = log_score.exp(), log_score_hat.exp()
    # an estimate of zero leaves s alone
    difference = torch.where(s_hat > 0, log_score_hat - log_score, 0.0)
    entropy = s + s_hat * (difference - 1)
    return entropy.scatter(-1, x_t[..., None], 0.0).sum((-1, -2))


def cross_entropy(log_d: Tensor, log_d_hat: Tensor) -> Tensor:
    """KL(D̂ ‖ D) summed over the sites, (b, d, v) -> (b,)."""
    return site_cross_entropies(log_d, log_d_hat).sum(-1)


def site_cross_entropies(log_d: Tensor, log_d_hat: Tensor) -> Tensor:
    """KL(D̂ ‖ D) of every site, (b, d, v) -> (b, d)."""
    gap = torch.where(log_d_hat > -torch.inf, log_d_hat - log_d, 0.0)
    return (log_d_hat.exp() * gap).sum(-1)


def itakura_saito(log_p: Tensor, log_p_hat: Tensor, most: float = MOST_LOG_RATIO) -> Tensor:
    """p̂/p - log(p̂/p) - 1, (b,) -> (b,), continued linearly where log(p̂/p) is above ``most``.

    Its gradient in log p is 1 - p̂/p.  Where the continuation bites it is bounded, and biased.
    """
    log_ratio = log_p_hat - log_p
    inside = log_ratio.clamp_max(most)
    beyond = (log_ratio - inside) * (inside.exp() - 1)
    return inside.expm1() - inside + beyond


def marginal_score_entropy(log_p: Tensor, log_p_hat: Tensor, log_scale: Tensor) -> Tensor:
    """(p - p̂·log p + p̂·(log p̂ - 1))/c, (b,) -> (b,): the paper's loss on the marginal.

    ``log_scale`` is log c(t), a running scale of p at the state's time, which changes no minimiser
    and keeps float32 from overflowing.
    """
    p, p_hat = (log_p - log_scale).exp(), (log_p_hat - log_scale).exp()
    return p + p_hat * (log_p_hat - log_p - 1)


def running_scale(log_scale: Tensor, log_p_hat: Tensor, rate: float = 0.01) -> Tensor:
    """A slowly moving maximum: log c follows the batch's largest log p̂ at once when it rises, and
    sinks towards it at ``rate``; both (num_bins,)."""
    fallen = log_scale + rate * (log_p_hat - log_scale)
    unset = log_scale.isneginf()
    return torch.where(unset, log_p_hat, torch.maximum(fallen, log_p_hat))


# -- both sides -----------------------------------------------------------------------------------


def together(parts: Tensor, entropy: Tensor) -> Tensor:
    """S + min(1, S)·C from what every state adds to S, (b,), and C."""
    return parts.mean() + parts.detach().mean().clamp_max(1.0) * entropy


def spread_parts(gap: Tensor, log_q: Tensor) -> Tensor:
    """What every state adds to the spread of gaps log p̄ - log q, (b, ...) -> (b, ...): half the
    square of its distance from the centre, along the first axis, and linear in it beyond
    ``MOST_GAP``.  A forbidden state counts as just beyond, and pulls at log q (b, ...) with
    ``MOST_GAP`` and no more."""
    with torch.no_grad():
        centre = gap.where(gap.isfinite(), torch.nan).nanmedian(0).values.nan_to_num()
        for _ in range(NUM_CENTRED):
            centre = centre + (gap - centre).clamp(-MOST_GAP, MOST_GAP).mean(0)
        beyond = centre - MOST_GAP + log_q
    gap = torch.where(gap.isneginf(), beyond - log_q, gap)
    return huber_loss(gap, centre.expand_as(gap), delta=MOST_GAP, reduction="none")
