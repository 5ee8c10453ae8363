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
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tcsis.exact.cliques import Clique, Table, onto
from tcsis.exact.orders import Plan, Wide, find_plan
from tcsis.targets.base import Target
from tcsis.targets.factor_tables import Doubles, Scope
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise

MAX_BYTES = 2**32
"""Memory for tables: 4 GB."""

QUICK_WORK = 2**25
"""Entries of all cliques together that take a second or so."""

CHUNK = 2**16
"""States drawn at a time."""


def factors_of(target: Target) -> Factors | None:
    """The law of the free sites in factors, where it is known to be one."""
    free = target.free
    if isinstance(free, Pairwise):
        return Factors.from_pairwise(free)
    return free if isinstance(free, Factors) else None


@lru_cache(maxsize=16)
def plan_for(target: Target, max_bytes: int = MAX_BYTES) -> Plan | str:
    """An order in which the tables fit into memory, or a sentence that says why there is none."""
    model = factors_of(target)
    if model is None:
        return f"{target} is not known to be a product of tables, which elimination needs"
    limit = math.log2(max_bytes / 8)
    fits = f"tables of at most 2^{limit:.0f} entries fit into {spelled(max_bytes)}"
    try:
        plan = find_plan([scope for scope, _ in model.factors], model.cardinalities, limit)
    except Wide as wide:
        return (
            f"{target} is too wide for elimination: the narrowest order found has a table of "
            f"2^{wide.width:.1f} entries or more, and {fits}"
        )
    if plan.num_bytes > max_bytes:
        return (
            f"{target} is too wide for elimination: its largest table has 2^{plan.width:.1f} "
            f"entries and all of them take {spelled(plan.num_bytes)}, of {spelled(max_bytes)}"
        )
    return plan


def applies(target: Target) -> bool:
    """Whether the tables of some order fit into memory."""
    return isinstance(plan_for(target), Plan)


def quick(target: Target) -> bool:
    """Whether they are also summed within seconds."""
    plan = plan_for(target)
    return isinstance(plan, Plan) and plan.work <= QUICK_WORK


def spelled(num_bytes: float) -> str:
    unit = min(4, max(0, int(math.log2(max(num_bytes, 1)) // 10)))
    return f"{num_bytes / 2 ** (10 * unit):.3g} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"


class Elimination:
    """The cliques of a target with the messages that they send; ``log_z`` is what arrives."""

    def __init__(self, target: Target, *, max_bytes: int = MAX_BYTES):
        plan, model = plan_for(target, max_bytes), factors_of(target)
        if isinstance(plan, str) or model is None:
            raise ValueError(f"{plan}; use tcsis.mcmc for estimates")
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
        """P(x at the sites of each scope), with an axis for each site.  The sites of a scope have to
        share a clique, as those of a factor do, and single ones."""
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

    @cached_property
    def factor_laws(self) -> list[Doubles]:
        """P(x at the sites of a factor), in the order of ``model.factors``."""
        return self.laws([scope for scope, _ in self.model.factors])

    # -- states ----------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent draws of all sites of the target, (n, d) uint8: each site given those that
        are summed out after it."""
        x = np.empty((self.model.num_sites, n), np.uint8)
        for k in range(len(self.plan.order) - 1, -1, -1):
            clique = self.clique(k, self.messages)
            u = torch.rand(n, dtype=torch.float64, generator=generator, device=generator.device).cpu()
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
