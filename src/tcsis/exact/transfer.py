"""The transfer matrix: exact log Z, energy, correlations, magnetisation and draws on strips.

For a 2-D lattice target, periodic or open, with any tables and fields, whose shorter side is short
(at most 14 spins).  With T_r = weight_r·K_r from one row state to the next,

    periodic:  Z = Σ_s (T_0 T_1 ... T_(h-1))(s, s),
    open:      Z = Σ_s,s' (T_0 T_1 ... T_(h-2))(s, s')·weight_(h-1)(s').

A *tail* is the weight of a row and all rows after it given the state of that row, a *head* the
weight of all rows before it; on a periodic lattice both belong to a fixed state, the *start*, of
the first row.  Head times tail is the law of a row.  Any row may be called the first, so the law of
two rows k apart is that of the start and of the row k steps down.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.threads import at_most
from tcsis.exact.correlation import connected
from tcsis.exact.transfer_rows import (
    MAX_ROW_STATES,
    Rows,
    below,
    closed,
    heads,
    indicators,
    obstacle,
    read,
    rescale,
    tails,
)
from tcsis.targets import Target

__all__ = [
    "MAX_ROW_STATES",
    "TransferResult",
    "applies",
    "draw",
    "log_z",
    "magnetisation",
    "solve",
]

BLOCK = 2**18
"""Entries of a message handled at a time: 2 MB, which the cache holds."""

STORED = 2**24
"""Entries of the tails of all rows kept at a time: 128 MB."""

POLYNOMIAL_BLOCK = 2**21
"""The same for messages of polynomials, most of which are still short."""


@dataclass(frozen=True)
class TransferResult:
    """Exact answers for a lattice.

    ``mean_energy`` is E[-log p̄(x)], ``site_marginals`` P(x_i = v), (d, v).  ``correlation`` is
    G(r), (R + 1,): the mean over all pairs of sites i, j at distance r along either axis of
    V/(V-1)·Σ_v [P(x_i = v, x_j = v) - P(x_i = v)·P(x_j = v)], for spins E[s_i s_j] - E[s_i]·E[s_j].
    R is half the shorter side if the lattice is periodic, else that side less one.
    """

    log_z: float
    mean_energy: float
    site_marginals: Tensor
    correlation: Tensor


def applies(target: Target) -> bool:
    """Whether ``target`` is a 2-D nearest-neighbour lattice, narrow enough for this module."""
    return obstacle(target) is None


@at_most(1)
def log_z(target: Target) -> float:
    """log Σ_x p̄(x)."""
    return log_sum(read(target))


@at_most(1)
def solve(target: Target) -> TransferResult:
    """log Z, mean energy, site marginals and correlation of ``target``."""
    rows = read(target)
    h, w, v = rows.height, rows.width, rows.num_values
    reach = w // 2 if rows.periodic else w - 1
    states, columns = (closed_laws if rows.periodic else open_laws)(rows, reach)
    energy = (states * rows.log_weight).sum() + rows.constant
    energy += (columns[0] * rows.log_down[: len(columns[0])]).sum()

    features = rows.one_hot.flatten(1)
    within = torch.stack([(features.T * law) @ features for law in states])
    within = within.reshape(h, w, v, w, v)  # P(x_rc = u, x_rc' = v)
    marginals = within.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2).reshape(h * w, v)
    place = torch.arange(w)
    correlation = [association(marginals.diag_embed())]
    for k, column in enumerate(columns, start=1):
        left = place if rows.periodic else place[: w - k]
        along = within[:, left, :, (left + k) % w].reshape(-1, v, v)
        correlation.append(association(torch.cat([along, column.reshape(-1, v, v)])))
    return TransferResult(
        log_z=log_sum(rows),
        mean_energy=-float(energy),
        site_marginals=marginals[rows.order.argsort()],
        correlation=torch.stack(correlation),
    )


@at_most(1)
def magnetisation(target: Target) -> Tensor:
    """P(n sites hold token 1), n = 0..d, (d + 1,), for V = 2.

    Messages are polynomials in z, to which every row state contributes weight·z^(its ones); all
    coefficients are positive, so that the tails of the distribution are as exact as its middle.
    """
    if target.num_values != 2:
        raise ValueError(f"magnetisation is defined for V = 2, not for V = {target.num_values}")
    rows = read(target)
    start, size, _ = rows.starts
    place = rows.possible_starts(0)
    per_block = max(1, POLYNOMIAL_BLOCK // (rows.num_states * (target.num_sites + 1)))
    blocks = [loop_polynomials(rows, block) for block in start[place].split(per_block)]
    polynomials = torch.cat([polynomial for polynomial, _ in blocks])  # (starts, d + 1)
    log_scale = torch.cat([log_scale for _, log_scale in blocks])
    law = (log_scale - log_scale.max()).exp() * size[place] @ polynomials
    if rows.symmetries.value_permutation:  # a start stands for its mirror image too
        law = law + law.flip(0)
    return law / law.sum()


@at_most(1)
def draw(target: Target, n: int, generator: torch.Generator) -> Tensor:
    """``n`` independent exact draws, (n, d) uint8: row after row, each given the one before it."""
    if n < 1:
        raise ValueError(f"n is {n}: expected at least one draw")
    rows = read(target)
    h, num_states = rows.height, rows.num_states
    uniform = torch.rand(
        n, h, dtype=torch.float64, generator=generator, device=generator.device
    ).cpu()
    states = torch.zeros(n, h, dtype=torch.long)
    states[:, 0] = pick(first_row_law(rows), uniform[:, 0])
    start, _, which = rows.starts
    which = which[states[:, 0]]
    if rows.periodic:  # an orbit shares its weight, not its draws
        start, which = states[:, 0].unique(return_inverse=True)
    per_block = max(1, min(BLOCK, STORED // h) // num_states)
    for block in torch.arange(len(start)).split(per_block):
        tail = {
            row: message.T.contiguous()
            for row, message, _ in tails(rows, below(rows, start[block]))
        }
        members = ((which >= block[0]) & (which <= block[-1])).nonzero().flatten()
        for chunk in members.split(max(1, BLOCK // num_states)):
            for row in range(1, h):
                odds = rows.down_from(states[chunk, row - 1], row - 1)
                odds *= tail[row][which[chunk] - block[0]]
                states[chunk, row] = pick(odds, uniform[chunk, row])
    x = torch.empty(n, rows.order.numel(), dtype=torch.uint8)
    x[:, rows.order] = rows.tokens.to(torch.uint8)[states].flatten(1)
    return x


# -- loops of rows -----------------------------------------------------------------------------


def site_laws(rows: Rows, head: Tensor, tail: Tensor) -> Tensor:
    """The law of every site of a row, (b, w, v), from its head (n, b) and its tail (n, b)."""
    joint = head * tail
    features = rows.one_hot.flatten(1)
    return (joint.T @ features).reshape(-1, *rows.one_hot.shape[1:]) / joint.sum(0)[:, None, None]


def loops(rows: Rows, first: int, reach: int) -> tuple[Tensor, Tensor]:
    """log <s|T_first ... T_(first-1)|s> for every start s, (starts,), and the laws of the sites k
    rows below it given s, k = 1..reach, (reach, starts, w, v), zero where s is impossible."""
    start, _, _ = rows.starts
    log_weight = torch.full((len(start),), -torch.inf, dtype=torch.float64)
    laws = log_weight.new_zeros(reach, len(start), rows.width, rows.num_values)
    for place in rows.possible_starts(first).split(max(1, BLOCK // rows.num_states)):
        block = start[place]
        head = list(heads(rows, indicators(rows, block), first, reach))
        for k, tail, log_scale in tails(rows, below(rows, block, first), first):
            if 1 <= k <= reach:
                laws[k - 1, place] = site_laws(rows, head[k - 1], tail)
            if k == 0:
                log_weight[place] = closed(rows, tail, block).log() + log_scale
    return log_weight, laws


def log_sum(rows: Rows) -> float:
    """log Z."""
    _, size, _ = rows.starts
    log_weight, _ = loops(rows, first=0, reach=0)
    return float((log_weight + size.log()).logsumexp(0)) + rows.log_scale


def closed_laws(rows: Rows, reach: int) -> tuple[Tensor, list[Tensor]]:
    """P(s_r) of every row (h, n), and, for k = 1..reach, P(x_rc = u, x_(r+k)c = v), each
    (h, w, v, v), of a periodic lattice."""
    start, size, orbit = rows.starts
    states, columns = [], []
    for first in range(1 if rows.symmetries.translations else rows.height):
        log_weight, laws = loops(rows, first, reach)
        share = (log_weight + size.log()).softmax(0)
        states.append((share / size)[orbit])
        pairs = torch.einsum("s,scu,kscv->kcuv", share, rows.one_hot[start], laws)
        columns.append(symmetrised(rows, pairs))
    h = rows.height
    column = torch.stack(columns, dim=1).expand(-1, h, -1, -1, -1)
    return torch.stack(states).expand(h, -1), list(column)


def symmetrised(rows: Rows, pairs: Tensor) -> Tensor:
    """Pair laws (..., w, v, v) of one start of each orbit, averaged over the symmetries."""
    if rows.symmetries.translations:
        pairs = pairs.mean(-3, keepdim=True).expand_as(pairs)
    if rows.symmetries.value_permutation:
        v = rows.num_values
        same = pairs.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        equal = torch.eye(v, dtype=torch.float64)
        pairs = same / v * equal + (1 - same) / (v * (v - 1)) * (1 - equal)
    return pairs


def loop_polynomials(rows: Rows, start: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_x p̄(x)·z^(ones of x) given each ``start`` (or, on an open lattice, in all), coefficients
    (b, d + 1), and their log scale (b,)."""
    ones = rows.tokens.sum(1)
    members = [(ones == count).nonzero().flatten() for count in range(rows.width + 1)]
    message = below(rows, start)[:, None, :]  # (n, degree + 1, b)
    n, length, b = message.shape
    log_scale = torch.zeros(b, dtype=torch.float64)
    for row in range(rows.height - 1, -1, -1):
        message, old = message.new_zeros(n, length + rows.width, b), message
        for count, member in enumerate(members):
            weight = rows.weight[row, member][:, None, None]
            message[member, count : count + length] = weight * old[member]
        length += rows.width
        message, step = rescale(message)
        log_scale = log_scale + step
        if row > 0:
            message = rows.up(message.flatten(1), row - 1).reshape(n, length, b)
    return closed(rows, message, start), log_scale


def first_row_law(rows: Rows) -> Tensor:
    """P(s_0), (n,)."""
    start, size, orbit = rows.starts
    if not rows.periodic:
        *_, (_, tail, _) = tails(rows, below(rows, start))
        return tail[:, 0] / tail.sum()
    log_weight, _ = loops(rows, first=0, reach=0)
    return ((log_weight + size.log()).softmax(0) / size)[orbit]


# -- open lattices ---------------------------------------------------------------------------


def open_laws(rows: Rows, reach: int) -> tuple[Tensor, list[Tensor]]:
    """As ``closed_laws`` for an open lattice; the laws of pairs k rows apart are (h - k, w, v, v).

    The law of a site k rows below is found for each value of each site of a row in turn: w·v
    messages instead of one for each of the n states of the row.
    """
    h, w, v = rows.height, rows.width, rows.num_values
    start, _, _ = rows.starts
    tail = {row: message for row, message, _ in tails(rows, below(rows, start))}
    head = [torch.ones_like(tail[0]), *heads(rows, rows.weight[0][:, None], 0, h - 1)]
    states = torch.cat([head[row] * tail[row] for row in range(h)], dim=1).T
    states = states / states.sum(1, keepdim=True)
    values = rows.one_hot.flatten(1)  # (n, w·v): 1[x_c = u]
    columns: list[list[Tensor]] = [[] for _ in range(reach)]
    for row in range(h):
        share = (states[row] @ values).reshape(w, v)
        given, _ = rescale(values * rows.weight[row][:, None] * head[row])
        below_row = heads(rows, given, row, min(reach, h - 1 - row))
        for k, message in enumerate(below_row, start=1):
            law = site_laws(rows, message, tail[row + k]).reshape(w, v, w, v)
            law = law.diagonal(dim1=0, dim2=2).permute(2, 0, 1)  # (w, u, v): same column
            # of a value that a site cannot have there is no law
            columns[k - 1].append((share[:, :, None] * law).where(share[:, :, None] > 0, 0.0))
    return states, [torch.stack(column) for column in columns]


# -- small pieces ----------------------------------------------------------------------------


def association(pairs: Tensor) -> Tensor:
    """The mean over pairs of V/(V-1)·Σ_v [P(v, v) - P(v)·P'(v)], (m, v, v) -> ()."""
    same = pairs.diagonal(dim1=1, dim2=2).sum(1)
    return connected(same, pairs.sum(2), pairs.sum(1)).mean()


def pick(odds: Tensor, uniform: Tensor) -> Tensor:
    """A state for each uniform number, (k,), in proportion to ``odds`` (k, n) or (n,)."""
    cumulative = odds.cumsum(-1)
    level = uniform * cumulative[..., -1]
    level = level if odds.ndim == 1 else level[:, None]
    state = torch.searchsorted(cumulative, level, right=True)
    return state.reshape(-1).clamp(max=odds.shape[-1] - 1)
