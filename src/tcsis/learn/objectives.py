"""What is minimised: divergences between an estimate and a model, each zero where they agree.

Self-normalized methods compare scores (Eq. 6) or denoisers; the unbiased method compares marginal
densities, with a divergence that is linear in the estimate p̂, so that noise in p̂ averages out.
Every Bregman divergence is: score entropy, Σ p_θ - p̂·log p_θ, weighs a state by its probability,
and Itakura–Saito, Σ p̂/p_θ - log(p̂/p_θ), weighs all of them alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST_LOG_RATIO = 6.0
"""Itakura–Saito goes on linearly where p̂ exceeds p_θ by more than this factor's logarithm."""


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
