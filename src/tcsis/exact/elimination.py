"""Sums over all states of a factor model, one site after the other: exact on graphs of small width.

With the sites in an order (``orders``), clique k is a site and the later ones that it is joined to
by then.  Its table T_k is the product of the factors that begin with it and of the messages sent to
it, and it sends on

    m_k(later) = Σ_{x_k} T_k(x_k, later)        to the first of the later sites.

The product of what arrives at the end is Z.  On the way back T_k/m_k is p(x_k | later), from which
states are drawn, and which turns the law of the later sites into that of the clique.  With max in
place of Σ what arrives is the density of the most probable state.

A clique is worked through one value of its site at a time, so that no array is larger than a
message.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.exact.cliques import Clique, Table, onto
from tcsis.exact.orders import Plan, Wide, find_plan
from tcsis.targets.base import Target
from tcsis.targets.factor_tables import Doubles, Scope
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise

MAX_BYTES = 2**32
"""Memory for tables: 4 GB."""

QUICK_WORK = 2**27
"""Entries of all cliques together that take a few seconds."""

MANY_EDGES = 2**16
"""Edges that are not looked at one by one where their number says enough."""

CHUNK = 2**16
"""States drawn at a time."""


def factors_of(target: Target) -> Factors | None:
    """The law of the free sites in factors, where it is known to be one."""
    free = target.free
    if isinstance(free, Pairwise):
        return Factors.from_pairwise(free)
    return free if isinstance(free, Factors) else None


@lru_cache(maxsize=16)
def plan_or_obstacle(target: Target, max_bytes: int) -> Plan | str:
    """An order in which the tables fit into memory, or what stands in the way."""
    free, limit = target.free, math.log2(max_bytes / 8)
    try:
        if isinstance(free, Pairwise):
            # a graph of n sites and width w has at most w·n edges
            if len(free.edges) > max(MANY_EDGES, limit * free.num_sites):
                raise Wide(len(free.edges) / free.num_sites)
            plan = find_plan(free.edges.tolist(), [free.num_values] * free.num_sites, limit)
        elif isinstance(free, Factors):
            plan = find_plan([scope for scope, _ in free.factors], free.cardinalities, limit)
        else:
            return "it is not known to be a product of tables"
    except Wide as wide:
        return (
            f"the narrowest order found for it takes a table of 2^{wide.width:.1f} entries or "
            f"more, and 2^{limit:.0f} fit into {spelled(max_bytes)}"
        )
    if plan.num_bytes > max_bytes:
        return (
            f"the narrowest order found for it takes tables of up to 2^{plan.width:.1f} entries "
            f"and {spelled(plan.num_bytes)} in all, and {spelled(max_bytes)} are allowed"
        )
    return plan


def obstacle(target: Target, max_bytes: int = MAX_BYTES) -> str | None:
    """Why the target cannot be summed out site by site; None where it can."""
    found = plan_or_obstacle(target, max_bytes)
    return found if isinstance(found, str) else None


def applies(target: Target, max_bytes: int = MAX_BYTES) -> bool:
    return obstacle(target, max_bytes) is None


def quick(target: Target, max_bytes: int = MAX_BYTES) -> bool:
    """Whether that takes seconds."""
    plan = plan_or_obstacle(target, max_bytes)
    return isinstance(plan, Plan) and plan.work <= QUICK_WORK


def spelled(num_bytes: float) -> str:
    unit = min(4, max(0, int(math.log2(max(num_bytes, 1)) // 10)))
    return f"{num_bytes / 2 ** (10 * unit):.3g} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"


@dataclass(frozen=True)
class Answers:
    """``mean_energy`` is E[-log p̄], ``site_marginals`` (d, v); of the ``pairs`` (m, 2) of free
    sites that share a factor, ``pair_same`` (m,) is P(x_i = x_j); ``factor_laws`` are P(x at the
    sites of a factor), in the order of the factors of the free sites."""

    log_z: float
    mean_energy: float
    site_marginals: Tensor
    pairs: Tensor
    pair_same: Tensor
    factor_laws: list[Doubles]


class Elimination:
    """The cliques of a target with the messages that they send; ``log_z`` is what arrives."""

    def __init__(self, target: Target, *, max_bytes: int = MAX_BYTES):
        plan, model = plan_or_obstacle(target, max_bytes), factors_of(target)
        if isinstance(plan, str) or model is None:
            raise ValueError(
                f"{target} cannot be summed out site by site, for {plan}: raise max_bytes if there "
                "is memory, or use tcsis.mcmc for estimates"
            )
        self.target, self.model, self.plan = target, model, plan
        self.rank = {site: k for k, site in enumerate(plan.order)}
        self.own: list[list[Table]] = [[] for _ in plan.order]
        for scope, table in model.factors:
            axes = sorted(range(len(scope)), key=lambda axis: self.rank[scope[axis]])
            factor = Table.of_logs(tuple(scope[axis] for axis in axes), table.transpose(axes))
            self.own[self.rank[factor.scope[0]]].append(factor)
        self.children: list[list[int]] = [[] for _ in plan.order]
        for k, later in enumerate(plan.later):
            if later:
                self.children[self.rank[later[0]]].append(k)
        self.messages: list[Table] = []
        for k in range(len(plan.order)):
            self.messages.append(self.clique(k, self.messages).message())
        self.log_z = self.model.constant + sum(m.log_scale for m in self.messages if not m.scope)
        if self.log_z == -math.inf:
            raise ValueError(
                f"{target} forbids every state: its factors contradict each other, or what is given"
            )

    def clique(self, k: int, messages: Sequence[Table]) -> Clique:
        """The factors that begin with the site of clique k, and the messages sent to it."""
        site, later, counts = self.plan.order[k], self.plan.later[k], self.model.cardinalities
        tables = [*self.own[k], *(messages[child] for child in self.children[k])]
        return Clique(counts[site], later, tuple(counts[other] for other in later), tables)

    # -- laws ------------------------------------------------------------------------------------

    def laws(self, scopes: Sequence[Scope]) -> list[Doubles]:
        """P(x at the sites of each scope), with an axis for each site.  The sites of a scope have
        to share a clique, as those of a factor do, and single ones."""
        counts, order = self.model.cardinalities, self.plan.order
        found = [np.empty([counts[site] for site in scope]) for scope in scopes]
        asked: dict[int, list[int]] = defaultdict(list)
        for number, scope in enumerate(scopes):
            asked[min(self.rank[site] for site in scope)].append(number)
        later_laws: dict[int, Doubles] = {}
        for k in range(len(order) - 1, -1, -1):
            clique, later = self.clique(k, self.messages), self.plan.later[k]
            share = clique.share(self.messages[k], later_laws.pop(k, np.ones(())))
            for child in self.children[k]:
                shape = [counts[site] for site in self.plan.later[child]]
                later_laws[child] = np.empty(shape)
            for value in range(clique.count):
                law = clique.law(value, share)
                for child in self.children[k]:
                    later_laws[child][value] = onto(law, later, self.plan.later[child][1:])
                for number in asked[k]:
                    axis = scopes[number].index(order[k])
                    others = scopes[number][:axis] + scopes[number][axis + 1 :]
                    found[number][(slice(None),) * axis + (value,)] = onto(law, later, others)
        return found

    def answers(self) -> Answers:
        """Everything that the laws of factors and of their pairs of sites tell, in one go."""
        factors, pairs = self.model.factors, [tuple(pair) for pair in self.model.pairs.tolist()]
        sites = [(site,) for site in range(self.model.num_sites)]
        scopes = [scope for scope, _ in factors]
        laws = self.laws([*scopes, *sites, *pairs])
        of_factors, rest = laws[: len(scopes)], laws[len(scopes) :]
        energy = -self.model.constant
        for law, (_, table) in zip(of_factors, factors, strict=True):
            energy -= float((law * np.where(law > 0, table, 0.0)).sum())
        agree = [float(np.trace(law)) for law in rest[len(sites) :]]
        return Answers(
            self.log_z, energy, self.marginals(rest[: len(sites)]),
            self.target.free_sites[self.model.pairs], torch.tensor(agree, dtype=torch.float64),
            of_factors,
        )  # fmt: skip

    def marginals(self, laws: Sequence[Doubles]) -> Tensor:
        """P(x_i = v) of all sites of the target, (d, v), from the laws of the free ones."""
        d, v, free = self.target.num_sites, self.target.num_values, self.target.free_sites
        known = self.target.complete(torch.zeros(len(free), dtype=torch.long))
        marginals = one_hot(known, v).double() if len(free) < d else torch.zeros(d, v).double()
        for site, law in zip(free.tolist(), laws, strict=True):
            marginals[site] = 0.0
            marginals[site, : len(law)] = torch.from_numpy(law)
        return marginals

    # -- states ----------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent draws of all sites of the target, (n, d) uint8: each site given those that
        are summed out after it."""
        x = np.empty((self.model.num_sites, n), np.uint8)
        for k in range(len(self.plan.order) - 1, -1, -1):
            clique = self.clique(k, self.messages)
            u = torch.rand(
                n, dtype=torch.float64, generator=generator, device=generator.device
            ).cpu()
            for begin in range(0, n, CHUNK):
                rows = slice(begin, begin + CHUNK)
                logs = clique.log_weights(x[list(clique.later), rows].astype(np.int64))
                x[self.plan.order[k], rows] = pick(np.exp(logs - logs.max(0)), u[rows].numpy())
        return self.target.complete(torch.from_numpy(x.T.copy()))

    def most_probable(self) -> tuple[Tensor, float]:
        """A state of all sites of the target that no other is more probable than, (d,), and its log
        density."""
        greatest: list[Table] = []
        for k in range(len(self.plan.order)):
            clique = self.clique(k, greatest)
            message = Table.of_logs(clique.later, clique.greatest(), clique.log_scale)
            greatest.append(message)
        x = np.zeros((self.model.num_sites, 1), np.int64)
        for k in range(len(self.plan.order) - 1, -1, -1):
            clique = self.clique(k, greatest)
            x[self.plan.order[k]] = clique.log_weights(x[list(clique.later)]).argmax(0)
        state = self.target.complete(torch.from_numpy(x[:, 0]))
        return state, self.model.constant + sum(m.log_scale for m in greatest if not m.scope)


def pick(weights: Doubles, uniform: Doubles) -> NDArray[np.int64]:
    """A value for each uniform number, (n,), in proportion to weights (v, n); none of weight 0."""
    level = weights.cumsum(0)
    below = np.minimum(uniform * level[-1], np.nextafter(level[-1], 0))
    return (level <= below).sum(0)
