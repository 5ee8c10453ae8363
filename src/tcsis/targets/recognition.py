"""A black box that is a pairwise model, recognised by probing it.

Around an allowed state x° with values u, w set at sites i, j,

    h_i[u] = f(x°; i = u) - f(x°)
    J_ij[u, w] = f(x°; i = u, j = w) - f(x°; i = u) - f(x°; j = w) + f(x°),

f being log p̄: if f is pairwise, these tables are f, and d²V²/2 evaluations tell all about it.
Whether it is can be tried, never proved.  So what is recognised serves where nothing depends on it
for being right: which sites interact, states and ratios to train with.  Weights and answers always
come from the function itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tcsis.basics.clock import seconds_each
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

FORBIDDEN = -60.0
"""Stands in the tables for -inf: as good as impossible, and yet a number."""
MOST_PROBES, CHUNK = 2**20, 2**16
NUM_BASES, NUM_TRIPLES, NUM_STATES, NUM_SWEEPS = 4, 64, 256, 8
LONGEST_TRIAL = 0.1
"""Seconds for which the function is tried to find out what it costs."""
ROUNDING = 32
"""Units of rounding a site that a sum of many terms may be off by."""


def recognise(target: Target, precision: torch.dtype) -> Pairwise | None:
    """The pairwise target that agrees with ``target`` wherever it is tried, or None.

    ``precision`` is that of the function, in which its values are rounded.
    """
    if most_probes(target.num_sites, target.num_values) > MOST_PROBES:
        return None
    base = find_base(target)
    if base is None:
        return None
    probe = Probe(target, base, precision)
    if not probe.is_pairwise_at_triples():
        return None
    found = probe.tables()
    return found if agrees(target, found, states_to_try(found, base), probe.rounding) else None


def most_probes(d: int, v: int) -> int:
    """Evaluations that it takes to recognise a target, or a few more."""
    around = d * (v - 1) + 2
    pairs = d * (d - 1) // 2 * (v - 1) ** 2
    return (3 * NUM_BASES + 1) * around + pairs + 4 * (NUM_TRIPLES + NUM_STATES)


def seconds_to_recognise(target: Target, patience: float) -> float:
    """About how long that takes, 0 where it is not tried; found out in a moment, and in much less
    than ``patience``."""
    d, v = target.num_sites, target.num_values
    probes = most_probes(d, v)
    if probes > MOST_PROBES:
        return 0.0
    x = torch.randint(v, (CHUNK, d), generator=torch.Generator().manual_seed(4)).to(target.device)
    trial = min(patience / 20, LONGEST_TRIAL)
    return probes * seconds_each(lambda n: target.log_density(x[:n]), CHUNK, trial)


def find_base(target: Target) -> Tensor | None:
    """A state (d,) with no forbidden neighbour: a constant one, one known to be allowed, or any."""
    d, v = target.num_sites, target.num_values
    constant = torch.arange(min(v, NUM_BASES))[:, None].expand(-1, d)
    random = torch.randint(v, (NUM_BASES, d), generator=torch.Generator().manual_seed(0))
    known = random[:0] if target.allowed is None else target.allowed[:NUM_BASES].cpu()
    for x in torch.cat([constant, known, random]).to(target.device):
        if bool(target.log_density(x[None]).isfinite()) and bool(
            target.log_ratios(x[None]).isfinite().all()
        ):
            return x
    return None


class Probe:
    """The function around a state: f(x°) (), f(x°; i = u) (d, v)."""

    def __init__(self, target: Target, base: Tensor, precision: torch.dtype):
        self.target, self.base = target, base
        self.generator = torch.Generator().manual_seed(1)
        self.here = target.log_density(base[None])[0].double()
        self.single = target.log_ratios(base[None])[0].double() + self.here
        largest = 1 + float(self.single.abs().max())
        self.unit = 8 * torch.finfo(precision).eps * largest  # four values of f are in an entry
        self.rounding = ROUNDING * self.unit * target.num_sites

    def at(self, sites: Tensor, values: Tensor) -> Tensor:
        """f with some sites set, (n, k) and (n, k) -> (n,)."""
        parts = [
            self.target.log_density(self.base.repeat(len(some), 1).scatter(1, some, new))
            for some, new in zip(sites.split(CHUNK), values.split(CHUNK), strict=True)
        ]
        return torch.cat(parts).double()

    def pair(self, sites: Tensor, values: Tensor) -> Tensor:
        """J of pairs (n, 2) at their values (n, 2), -> (n,)."""
        singles = self.single[sites, values].sum(1)
        return self.at(sites, values) - singles + self.here

    def is_pairwise_at_triples(self) -> bool:
        """Whether f is the sum of its pairs where three random sites are set anew."""
        d, v = self.target.num_sites, self.target.num_values
        if d < 3:
            return True
        sites = torch.rand(NUM_TRIPLES, d, generator=self.generator).argsort(1)[:, :3]
        shift = torch.randint(1, v, sites.shape, generator=self.generator)
        sites = sites.to(self.base.device)
        values = (self.base[sites] + shift.to(self.base.device)) % v
        pairs = [[0, 1], [0, 2], [1, 2]]
        summed = self.single[sites, values].sum(1) - 2 * self.here
        summed = summed + sum(self.pair(sites[:, two], values[:, two]) for two in pairs)
        whole = self.at(sites, values)
        same = (whole - summed).abs() <= self.rounding
        return bool((same | (whole.isneginf() & summed.isneginf())).all())

    def tables(self) -> Pairwise:
        d, v, device = self.target.num_sites, self.target.num_values, self.base.device
        others = (self.base[:, None] + torch.arange(1, v, device=device)) % v  # (d, v - 1)
        edges = torch.combinations(torch.arange(d, device=device)).reshape(-1, 2)
        u, w = (part.flatten() for part in torch.meshgrid([torch.arange(v - 1)] * 2, indexing="ij"))
        values = torch.stack([others[edges[:, 0]][:, u], others[edges[:, 1]][:, w]], -1)
        sites = edges[:, None].expand_as(values)  # (m, (v - 1)², 2)
        strength = self.pair(sites.flatten(0, 1), values.flatten(0, 1)).clamp_min(FORBIDDEN)
        couplings = torch.zeros(len(edges), v, v, dtype=torch.float64, device=device)
        rows = torch.arange(len(edges), device=device)[:, None]
        couplings[rows, values[..., 0], values[..., 1]] = strength.reshape(values.shape[:2])
        felt = couplings.abs().amax((1, 2)) > self.rounding
        edges, couplings, fields = edges[felt], couplings[felt], self.single - self.here
        couplings, fields = evened(edges, couplings, fields, tolerance=self.unit * d / 2)
        return Pairwise(
            edges.cpu(), couplings.cpu(), fields.cpu(), constant=float(self.here),
            lattice=self.target.lattice, device=device, dtype=torch.float64,
        )  # fmt: skip


def evened(
    edges: Tensor, couplings: Tensor, fields: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    """The same density as b·([u = w] - 1/V) a pair and fields without slope, where it is that but
    for rounding, so that the symmetry of the values shows whatever the state that was probed."""
    v = fields.shape[1]
    rows, columns = couplings.mean(2), couplings.mean(1)  # (m, v)
    mean = rows.mean(1, keepdim=True)
    centred = couplings - rows[:, :, None] - columns[:, None] + mean[..., None]
    felt = fields.index_add(0, edges[:, 0], rows - mean).index_add(0, edges[:, 1], columns)
    level = felt.mean(1, keepdim=True)
    strength = centred.diagonal(dim1=1, dim2=2).sum(1) / (v - 1)
    even = strength[:, None, None] * (torch.eye(v, device=edges.device, dtype=fields.dtype) - 1 / v)
    apart = torch.cat([(centred - even).flatten(), (felt - level).flatten()]).abs().max()
    return (even, level.expand_as(felt)) if float(apart) < tolerance else (couplings, fields)


def states_to_try(found: Target, base: Tensor) -> Tensor:
    """States of many kinds (n, d): uniform ones, ones near the base, and ones that the found
    target leads to, hot and cold, with a neighbour of each."""
    d, v = found.num_sites, found.num_values
    generator = torch.Generator(base.device).manual_seed(2)
    shape = (NUM_STATES, d)
    random = torch.randint(v, shape, device=base.device, generator=generator)
    share = torch.linspace(0, 1, NUM_STATES, device=base.device)[:, None] ** 2
    changed = torch.rand(shape, device=base.device, generator=generator) < share
    near = torch.where(changed, random, base)
    likely = near.clone()
    scale = torch.linspace(0, 1, NUM_STATES, device=base.device)[:, None]
    for _ in range(NUM_SWEEPS):
        for site in torch.randperm(d, generator=torch.Generator().manual_seed(3)):
            ratios = found._log_ratios_at(likely, site.to(base.device).expand(NUM_STATES))
            race = torch.empty_like(ratios).exponential_(generator=generator).log()
            likely[:, site] = (scale * ratios - race).argmax(1)
    site = torch.randint(d, (NUM_STATES, 1), device=base.device, generator=generator)
    return torch.cat([random, near, likely, likely.scatter(1, site, random[:, :1])])


def leads_inside(target: Target, found: Target) -> bool:
    """Whether the target allows any of the states that the found one leads to."""
    nowhere = torch.zeros(target.num_sites, dtype=torch.long, device=target.device)
    return not bool(target.log_density(states_to_try(found, nowhere)).isneginf().all())


def agrees(target: Target, found: Pairwise, x: Tensor, rounding: float) -> bool:
    """Whether both have the same density at x (n, d), and forbid the same."""
    truth, said = target.log_density(x).double(), found._log_density(x)
    hard = -(found.couplings == FORBIDDEN).double()
    violated = Pairwise(found.edges, hard, torch.zeros_like(found.fields), device=found.device)
    forbidden = violated._log_density(x) < -0.5
    same = (truth - said).abs() <= rounding
    return bool(torch.where(forbidden, truth.isneginf(), same).all())
