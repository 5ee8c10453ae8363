"""Pure functions of draws, and the error that perfect draws would show.

Draws are tokens (n, d); ``weights`` (n,), where given, are normalised to sum to one.  A floor is
the expected error of n independent exact draws: no error means anything unless it stands beside it.

The two-point correlation G(r) is that of ``tcsis.exact.correlation``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy.special import gammaln
from torch import Tensor

from tcsis.exact.correlation import connected, lattice_correlation
from tcsis.targets.lattice import Lattice


def mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean over draws, (n, ...) -> (...)."""
    values = values.double()
    if weights is None:
        return values.mean(0)
    return torch.tensordot(weights.double(), values, dims=1)


def deviation(values: Tensor) -> Tensor:
    """The standard deviation over draws, (n, ...) -> (...); zero for a single one."""
    return values.double().std(0, correction=min(1, len(values) - 1))


def site_marginals(x: Tensor, num_values: int, weights: Tensor | None = None) -> Tensor:
    """P(x_i = v), (n, d) -> (d, v)."""
    return torch.stack([mean(x == value, weights) for value in range(num_values)], dim=-1)


def correlation(
    x: Tensor, num_values: int, lattice: Lattice, weights: Tensor | None = None
) -> Tensor:
    """G(r), r = 0..max_distance, (n, d) -> (max_distance + 1,)."""
    x = x.cpu().to(torch.uint8)
    weights = None if weights is None else weights.cpu()
    marginals = site_marginals(x, num_values, weights)
    return lattice_correlation(lambda i, j: mean(x[:, i] == x[:, j], weights), marginals, lattice)


def pair_correlations(
    x: Tensor, num_values: int, pairs: Tensor, weights: Tensor | None = None
) -> Tensor:
    """C_ij for the given pairs, (n, d) and (m, 2) -> (m,)."""
    i, j = pairs.to(x.device).T
    marginals = site_marginals(x, num_values, weights)
    return connected(mean(x[:, i] == x[:, j], weights), marginals[i], marginals[j])


def connected_terms(x: Tensor, pairs: Tensor, marginals: Tensor) -> Tensor:
    """What one draw contributes to C_ij to first order, up to a constant, (n, d) -> (n, m):
    V/(V-1)·([x_i = x_j] - p_j(x_i) - p_i(x_j)), for spins (s_i - m_i)(s_j - m_j)."""
    i, j = pairs.T
    v = marginals.shape[-1]
    p_j = marginals[j].expand(len(x), -1, -1).gather(-1, x[:, i, None].long()).squeeze(-1)
    p_i = marginals[i].expand(len(x), -1, -1).gather(-1, x[:, j, None].long()).squeeze(-1)
    return ((x[:, i] == x[:, j]).double() - p_j - p_i) * (v / (v - 1))


def second_order(marginals_i: Tensor, marginals_j: Tensor) -> Tensor:
    """The size of n·V/(V-1)·Σ_v δ_i(v)·δ_j(v), what the errors δ of both marginals add to C_ij in
    second order, (m, v) each -> (m,): all that is left where x_i = x_j never or always holds.

    With covariances S of one draw, E[(Σ_v δ_i δ_j)²]·n² = (tr S_ij)² + tr S_i S_j + tr S_ij S_ij;
    (tr S_ij)² is at most tr S_i·tr S_j, and the last term is taken for another tr S_i S_j, as if
    both sites were one.
    """
    v = marginals_i.shape[-1]
    own = [torch.diag_embed(p) - p[:, :, None] * p[:, None, :] for p in (marginals_i, marginals_j)]
    joint = (own[0] * own[1]).sum((1, 2))
    traces = [part.diagonal(dim1=1, dim2=2).sum(-1) for part in own]
    return (2 * joint + traces[0] * traces[1]).sqrt() * (v / (v - 1))


def correlation_terms(
    x: Tensor, lattice: Lattice, marginals: Tensor, distances: Sequence[int] | None = None
) -> Tensor:
    """The same for G(r), from (d, v) marginals, at some ``distances`` or at r = 0..max_distance:
    (n, d) -> (n, distances)."""
    if distances is None:
        distances = range(lattice.max_distance + 1)
    terms = [connected_terms(x, lattice.pairs(r), marginals).mean(-1) for r in distances]
    return torch.stack(terms, dim=-1)


def magnetisation(x: Tensor) -> Tensor:
    """Σ_i s_i/d for spins ±1 from tokens 0, 1, (n, d) -> (n,)."""
    return x.double().mean(-1) * 2 - 1


def magnetisation_histogram(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """P(number of sites with token 1 = n) for n = 0..d, (n, d) -> (d + 1,)."""
    return histogram(x.sum(-1), x.shape[-1] + 1, weights)


def histogram(index: Tensor, size: int, weights: Tensor | None = None) -> Tensor:
    """Share of the draws in each of ``size`` bins, (n,) -> (size,)."""
    if weights is None:  # of no draws each share is zero
        weights = torch.full(index.shape, 1 / max(1, len(index)), dtype=torch.float64)
    return torch.bincount(index.cpu(), weights.double().cpu(), minlength=size)


def mode_shares(x: Tensor, num_values: int, weights: Tensor | None = None) -> Tensor:
    """Share of the draws in which each value holds the most sites, ties split, (n, d) -> (v,)."""
    return mean(leaders(x, num_values), weights)


def leaders(x: Tensor, num_values: int) -> Tensor:
    """1 for the value that holds the most sites of a draw, ties split, (n, d) -> (n, v)."""
    counts = torch.stack([(x == value).sum(-1) for value in range(num_values)], dim=-1)
    leads = (counts == counts.amax(-1, keepdim=True)).double()
    return leads / leads.sum(-1, keepdim=True)


def state_index(x: Tensor, num_values: int) -> Tensor:
    """The number of a state in base V, the first site leading, (..., d) -> (...)."""
    place = num_values ** torch.arange(x.shape[-1] - 1, -1, -1, device=x.device)
    return (x.long() * place).sum(-1)


def total_variation(p: Tensor, q: Tensor) -> float:
    """½·Σ_k |p_k - q_k|."""
    return 0.5 * float((p - q).abs().sum())


# -- floors ------------------------------------------------------------------------------------


def mean_floor(deviation: Tensor | float, n: int) -> float:
    """Expected |error| of a mean of n independent draws with this standard deviation, averaged
    over the entries of ``deviation``: √(2/π)·σ/√n, from the central limit theorem."""
    return math.sqrt(2 / (math.pi * n)) * float(torch.as_tensor(deviation).mean())


def total_variation_floor(p: Tensor, n: int) -> float:
    """Expected total variation between p (k,) and the histogram of n draws from it, exactly.

    Each count is binomial, and De Moivre's closed form gives its mean absolute deviation:
    E|X - np| = 2·(m+1)·C(n, m+1)·p^(m+1)·(1-p)^(n-m) with m = floor(np).
    """
    p = p.double().cpu()
    p = p[(p > 0) & (p < 1)]
    m = (n * p).floor()
    log_binomial = torch.from_numpy(
        gammaln(n + 1.0) - gammaln(m.numpy() + 2) - gammaln(n - m.numpy())
    )
    log_deviation = (m + 1).log() + log_binomial + (m + 1) * p.log() + (n - m) * torch.log1p(-p)
    return float(log_deviation.exp().sum()) / n
