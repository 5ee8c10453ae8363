"""Exact log Z and site marginals of the zoo, each by a way of its own.

enumerated   every state, up to 2^24
eliminated   sums over one site after the other, for sparse graphs and narrow lattices
potts        rows of a periodic Potts lattice, with the first row only up to names of values
rbm          the sum over hidden units instead of visible ones
independent  sites that do not see each other
even         the transfer matrix of ``tcsis.exact``, where symmetry makes all values even
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit, logsumexp, softmax
from torch import Tensor

from tcsis import exact
from tcsis.exact import transfer
from tcsis.targets import RBM, Pairwise
from tcsis.targets.base import Target

MAX_STATES, CHUNK = 2**24, 2**17
KEPT_STATES = 2**16
"""Distributions over more states than this are too rough a truth for a histogram of draws."""

Factor = tuple[tuple[int, ...], np.ndarray]
"""Sites, and log weights with one axis for each of them."""


@dataclass(frozen=True)
class Answer:
    """log Z where it is known, P(x_i = v) of shape (d, v), and all probabilities where few."""

    log_z: float | None
    marginals: np.ndarray
    probabilities: np.ndarray | None = None


# -- every state -----------------------------------------------------------------------------------


def states(target: Target) -> Iterator[Tensor]:
    """All states in order, the first site leading, a chunk (n, d) at a time."""
    d, v = target.num_sites, target.num_values
    if v**d > MAX_STATES:
        raise ValueError(f"{target} has {v}^{d} states: expected at most {MAX_STATES}")
    place = v ** np.arange(d - 1, -1, -1)
    for first in range(0, v**d, CHUNK):
        index = np.arange(first, min(first + CHUNK, v**d))
        yield torch.from_numpy(index[:, None] // place % v)


def enumerated(target: Target) -> Answer:
    target = target.to("cpu", torch.float64)
    d, v = target.num_sites, target.num_values
    log_density = np.concatenate([target.log_density(x).numpy() for x in states(target)])
    log_z = float(logsumexp(log_density))
    p = np.exp(log_density - log_z)
    marginals = np.stack([p.reshape(v**i, v, -1).sum((0, 2)) for i in range(d)])
    return Answer(log_z, marginals, p if len(p) <= KEPT_STATES else None)


def mean_of(function: Callable[[Tensor], Tensor], target: Target) -> float:
    """E[function(x)] over every state."""
    target = target.to("cpu", torch.float64)
    parts = [(target.log_density(x).numpy(), function(x).numpy()) for x in states(target)]
    log_density, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return float(softmax(log_density) @ values)


# -- elimination -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bucket:
    """What is known of a site when it is summed out: the ``table`` over ``sites``, its own first,
    and the ``message`` that remains for the others."""

    sites: tuple[int, ...]
    table: np.ndarray
    message: np.ndarray


def pairwise_factors(target: Target) -> list[Factor]:
    """The tables of a pairwise target, its constant left out."""
    assert isinstance(target, Pairwise) and target.constant == 0
    return graph_factors(target.edges.numpy(), target.couplings.numpy(), target.fields.numpy())


def graph_factors(edges: np.ndarray, tables: np.ndarray, fields: np.ndarray) -> list[Factor]:
    """(m, 2) pairs with (m, v, v) tables, and (d, v) fields."""
    pairs = [((int(i), int(j)), table) for (i, j), table in zip(edges, tables, strict=True)]
    return [*pairs, *(((site,), field) for site, field in enumerate(fields))]


def eliminated(factors: list[Factor]) -> Answer:
    """Σ_x exp(Σ of all factors) by summing out the site with the fewest neighbours, again and
    again; then back, each site given those that were left when it went."""
    buckets, log_z = sum_out(factors)
    beliefs: dict[int, Bucket] = {}
    for bucket in reversed(buckets):
        site, *others = bucket.sites
        table = bucket.table
        if others:
            parent = next(b for b in buckets if b.sites[0] in others)
            table = table + ratio(marginal(beliefs[parent.sites[0]], tuple(others)), bucket.message)
        beliefs[site] = Bucket(bucket.sites, table, bucket.message)
    sites = range(len(buckets))
    marginals = np.stack([softmax(marginal(beliefs[site], (site,))) for site in sites])
    return Answer(log_z, marginals)


def sum_out(factors: list[Factor]) -> tuple[list[Bucket], float]:
    """A bucket for every site in the order in which they go, and log Z."""
    pool, buckets, log_z = list(factors), [], 0.0
    for site in elimination_order([sites for sites, _ in factors]):
        own = [factor for factor in pool if site in factor[0]]
        pool = [factor for factor in pool if site not in factor[0]]
        others = sorted({i for sites, _ in own for i in sites} - {site})
        table = product(own, (site, *others))
        message = logsumexp(table, axis=0)
        buckets.append(Bucket((site, *others), table, message))
        if others:
            pool.append((tuple(others), message))
        else:
            log_z += float(message)
    return buckets, log_z


def elimination_order(scopes: list[tuple[int, ...]]) -> list[int]:
    """The site with the fewest neighbours next; those it leaves behind become neighbours."""
    neighbours: dict[int, set[int]] = {site: set() for sites in scopes for site in sites}
    for sites in scopes:
        for site in sites:
            neighbours[site].update(set(sites) - {site})
    order = []
    while neighbours:
        site = min(neighbours, key=lambda i: (len(neighbours[i]), i))
        around = neighbours.pop(site)
        for other in around:
            neighbours[other] = (neighbours[other] | around) - {site, other}
        order.append(site)
    return order


def product(factors: list[Factor], sites: tuple[int, ...]) -> np.ndarray:
    """The sum of log tables as one table over ``sites``."""
    total: np.ndarray = np.zeros(())
    for own, table in factors:
        order = sorted(range(len(own)), key=lambda axis: sites.index(own[axis]))
        shape = iter(table.transpose(order).shape)
        total = total + table.transpose(order).reshape(
            [next(shape) if site in own else 1 for site in sites]
        )
    return total


def marginal(bucket: Bucket, sites: tuple[int, ...]) -> np.ndarray:
    """The log table of a bucket summed to some of its sites, in their order."""
    gone = tuple(axis for axis, site in enumerate(bucket.sites) if site not in sites)
    kept = [site for site in bucket.sites if site in sites]
    return logsumexp(bucket.table, axis=gone).transpose([kept.index(site) for site in sites])


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above - below, and -inf where both are."""
    return np.where(below == -np.inf, -np.inf, above - np.where(below == -np.inf, 0.0, below))


# -- other ways ------------------------------------------------------------------------------------


def potts(side: int, num_values: int, beta: float) -> Answer:
    """Z = Σ_s <s|T^side|s>, in which first rows s that differ by names of values, a turn or a
    mirror have the same weight."""
    shape = (num_values,) * side
    place = np.indices(shape)
    row = np.exp(beta * sum(place[c] == place[(c + 1) % side] for c in range(side)))
    log_terms = []
    for start, size in first_rows(side, num_values):
        message = np.zeros(shape)
        message[start] = 1.0
        for _ in range(side):
            message = message * row
            for axis in range(side):  # exp(β·[u = v]) = 1 + (e^β - 1)·[u = v]
                message = message.sum(axis, keepdims=True) + math.expm1(beta) * message
        log_terms.append(math.log(size) + math.log(message[start]))
    marginals = np.full((side**2, num_values), 1 / num_values)
    return Answer(float(logsumexp(log_terms)), marginals)


def first_rows(side: int, num_values: int) -> list[tuple[tuple[int, ...], int]]:
    """One row of each class with the number of rows in it."""
    sizes: dict[tuple[int, ...], int] = {}
    for row in itertools.product(range(min(side, num_values)), repeat=side):
        if row == by_appearance(row):
            names = math.perm(num_values, len(set(row)))
            sizes[canonical(row)] = sizes.get(canonical(row), 0) + names
    return list(sizes.items())


def by_appearance(row: tuple[int, ...]) -> tuple[int, ...]:
    """Values named in the order in which they appear."""
    names = {value: name for name, value in enumerate(dict.fromkeys(row))}
    return tuple(names[value] for value in row)


def canonical(row: tuple[int, ...]) -> tuple[int, ...]:
    """The least of all turns and mirrors."""
    turns = [row[c:] + row[:c] for c in range(len(row))]
    return min(by_appearance(turn[::way]) for turn in turns for way in (1, -1))


def rbm(target: Target) -> Answer:
    """Σ_h exp(c·h)·Π_i (1 + exp(b_i + W_i·h)), each h with its own law of independent sites."""
    assert isinstance(target, RBM)
    w, b, c = (t.numpy() for t in (target.weights, target.visible_bias, target.hidden_bias))
    hidden = np.array(list(itertools.product((0.0, 1.0), repeat=len(c))))
    inputs = b + hidden @ w.T  # (2^h, d)
    log_weight = hidden @ c + np.logaddexp(0, inputs).sum(1)
    on = softmax(log_weight) @ expit(inputs)
    return Answer(float(logsumexp(log_weight)), np.stack([1 - on, on], axis=1))


def independent(fields: np.ndarray) -> Answer:
    """Π_i Σ_v exp(h_i[v])."""
    return Answer(float(logsumexp(fields, axis=1).sum()), softmax(fields, axis=1))


def even(target: Target, log_z: float | None) -> Answer:
    """Every value equally likely at every site, by symmetry."""
    d, v = target.num_sites, target.num_values
    return Answer(log_z, np.full((d, v), 1 / v))


def even_lattice(target: Target) -> Answer:
    """By the transfer matrix of ``tcsis.exact``."""
    return even(target, transfer.log_z(target))


def large_lattice(target: Target) -> Answer:
    """By Kaufman's formula, as ``tcsis.exact`` has it."""
    return even(target, exact.solve(target).log_z)
