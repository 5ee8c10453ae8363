"""A law of sites given any others that are known: q(x_i | x_known), for every site and known set.

Blocks of sites, one after the other, make it a law of whole states,

    q(x) = Π_blocks Π_{i in block} q(x_i | known before) · Π_{i in last} p(x_i | the others),

where the sites of a block are drawn independently of each other and those of ``last``, unknown
sites of one colour class, from the target itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from tcsis.learn.models.values import Values
from tcsis.learn.nn.gated import Gated, Guess, Weights
from tcsis.noise import draw_categorical, log_normalise
from tcsis.reverse.schedules import distances, singles
from tcsis.targets.base import Target
from tcsis.targets.lattice import Lattice

NUM_NEAREST = 48
"""Sites from which a first guess is made where many are known: these screen the others."""
LEAST_VARIANCE, RIDGE = 0.02, 1e-3
"""Of a guess; and what is added to variances, relatively, so that copies of a site can be read."""

# -- questions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Questions:
    """``sites`` (n,) asked about, what is ``known`` then, (n, d) from 0 to 1, the sites that are
    ``read`` for it, (n, r), of which the first ``counts`` (n,) are known, and a first ``guess``."""

    sites: Tensor
    known: Tensor
    read: Tensor
    counts: list[int]
    guess: Guess


class KnownLaw(nn.Module):
    """The network with the places of a target's sites.  A question reads the ``reach`` nearest of
    the sites that are known.  ``order`` (n,) names sites as they are drawn where nothing is known,
    and ``last`` (k,) those left over."""

    distance: Tensor
    mean: Tensor
    covariance: Tensor

    def __init__(
        self, target: Target, order: Tensor, last: Tensor | None, values: Values, width: int,
        reach: int,
    ):  # fmt: skip
        super().__init__()
        self.num_sites, self.num_values = target.num_sites, target.num_values
        self.order, self.last, self.values, self.reach = order, last, values, reach
        self.lattice = target.lattice if target.symmetries.translations else None
        self.register_buffer("distance", distances(target), persistent=False)
        self.register_buffer("mean", torch.zeros(self.num_sites))
        self.register_buffer("covariance", torch.eye(self.num_sites))
        self.network = Gated(
            slots_of(target), values.in_width, values.out_width, width,
            odd=values.odd, equal=values.equal,
        )  # fmt: skip

    @property
    def dtype(self) -> torch.dtype:
        return self.network.read.dtype

    @cached_property
    def in_order(self) -> Way:
        """The way of the order, site by site, where nothing is known."""
        return way(self, singles(self.order), torch.zeros(self.num_sites, dtype=torch.bool))

    def free(self, known: Tensor) -> tuple[Tensor, Tensor | None]:
        """Of order and last class the sites that are not ``known`` (d,)."""
        known = known.to(self.order.device)
        last = None if self.last is None else self.last[~known[self.last]]
        return self.order[~known[self.order]], None if last is None or not len(last) else last

    def questions(self, sites: Tensor, known: Tensor) -> Questions:
        """About ``sites`` (n,), each with what is ``known`` (n, d) of the others."""
        counts = (known > 0).sum(1)
        beyond, counts = counts > self.reach, counts.clamp_max(self.reach)
        # where all known sites are read, in the order of the sites: questions then share a solution
        far = self.distance[sites] * beyond[:, None]
        far = far.masked_fill(known == 0, torch.inf)
        most = int(counts.max()) if len(counts) else 0
        read = far.argsort(dim=1, stable=True)[:, :most]
        known = known.to(self.dtype)
        guess = self.guess(sites, known.gather(1, read), read, beyond)
        return Questions(sites, known, read, counts.tolist(), guess)

    def guess(self, sites: Tensor, alpha: Tensor, read: Tensor, beyond: Tensor) -> Guess:
        """The best linear prediction of each site from those that are ``read`` (n, r), as far as
        they are known, ``alpha`` (n, r): b = Σ_KK⁻¹·Σ_Ki, of logits to first order.  Where more
        sites are known than are read, ``beyond`` (n,), from the nearest ``NUM_NEAREST``."""
        o, variances = self.values.out_width, self.covariance.diagonal().clamp_min(LEAST_VARIANCE)
        own = variances[sites]
        if self.values.in_width > 1:  # no numbers that could be correlated one by one
            nothing = alpha.new_zeros(len(sites), read.shape[1] * self.values.in_width, o)
            return Guess(nothing, nothing.new_zeros(len(sites), o), own.log().to(self.dtype))
        across = (self.covariance[read, sites[:, None]] * alpha.double())[..., None]
        b = torch.zeros_like(across)  # (n, r, 1)
        for rows, r in ((~beyond, read.shape[1]), (beyond, NUM_NEAREST)):
            if bool(rows.any()):
                some = alpha[rows, :r].double(), read[rows, :r], across[rows, :r]
                b[rows, :r] = self.solved(*some)
        variance = (own - (b * across).sum((1, 2))).clamp_min(LEAST_VARIANCE)
        b = b * (self.values.slope / own)[:, None, None]
        offset = -(b * self.mean[read][..., None]).sum(1)
        return Guess(b.to(self.dtype), offset.to(self.dtype), variance.log().to(self.dtype))

    def solved(self, alpha: Tensor, read: Tensor, across: Tensor) -> Tensor:
        """Σ_KK⁻¹ of the sites read, as far as they are known, times ``across``, (n, r, 1); at once
        where all questions read the same."""
        if len(read) > 1 and bool((read == read[0]).all() and (alpha == alpha[0]).all()):
            return self.solved(alpha[:1], read[:1], across.permute(2, 1, 0)).permute(2, 1, 0)
        among = self.covariance[read[:, :, None], read[:, None]]
        among = among * alpha[:, :, None] * alpha[:, None]
        own = self.covariance.diagonal()[read].clamp_min(LEAST_VARIANCE)
        spare = 1 - alpha + RIDGE * own  # a site that is not known is alone
        return torch.linalg.solve(among + torch.diag_embed(spare), across)

    @torch.no_grad()
    def correlate(self, x: Tensor) -> None:
        """Means and covariances of what values say, from states of the target, (b, d); over all
        sites that see the others alike."""
        if self.values.in_width > 1:
            return
        self.__dict__.pop("in_order", None)  # whose guesses are of before
        z = self.values.embed(x.T, torch.float64).flatten(1).T  # (b·k, d)
        mean = self.shared(z.mean(0)[:, None].expand(-1, self.num_sites))[:, 0]
        self.mean.copy_(mean * (0.0 if self.values.odd else 1.0))
        z = z - self.mean
        self.covariance.copy_(self.shared(z.T @ z / len(z)))

    def holds(self, other: KnownLaw) -> bool:
        """Whether another law, of the same values and width, is of a lattice that is no larger."""
        if self.lattice is None or other.lattice is None:
            return False
        ours, theirs = self.lattice.shape, other.lattice.shape
        alike = (self.values, self.network.width) == (other.values, other.network.width)
        return alike and len(ours) == len(theirs) and all(map(operator.ge, ours, theirs))

    def carry(self, other: KnownLaw) -> None:
        """Take the weights of the law of a lattice that this one ``holds``, by displacement."""
        assert self.lattice is not None and other.lattice is not None
        places, shares = displacements_in(other.lattice, self.lattice)
        places, shares = places.to(self.mean.device), shares.to(self.mean)
        self.network.carry(other.network, places, shares)

    def shared(self, values: Tensor) -> Tensor:
        """The mean over sites that share weights, (d, d) -> (d, d)."""
        slots = self.network.slots.flatten()
        sums = values.new_zeros(int(slots.max()) + 1).index_add(0, slots, values.flatten())
        return (sums / torch.bincount(slots))[slots].reshape(values.shape)

    def weights(self, questions: Questions) -> Weights:
        return self.network.weights(
            questions.sites, questions.known, questions.read, questions.guess
        )

    def answers(self, weights: Weights, read: Tensor, x: Tensor) -> Tensor:
        """log q(x_i = v | known) of every question, (b, d) -> (b, n, v)."""
        return self.law(weights(self.read(read, x)))

    def read(self, sites: Tensor, x: Tensor) -> Tensor:
        """What the values at sites (n, r) say, (b, d) -> (n, b, k, r·c)."""
        return taken(self.values.embed(x.T, self.dtype), sites)

    def law(self, answer: Tensor) -> Tensor:
        """log q from what the network answers, (n, b, k, o) -> (b, n, v)."""
        return log_normalise(self.values.logits(answer).transpose(0, 1))

    def forward(self, questions: Questions, x: Tensor) -> Tensor:
        """log q(x_i = v | known) of every question, (b, d) -> (b, n, v)."""
        return self.answers(self.weights(questions), questions.read, x)


def taken(said: Tensor, sites: Tensor) -> Tensor:
    """Of what all sites say (d, c, b, k) that of some, (n, r) -> (n, b, k, r·c)."""
    return said[sites].permute(0, 3, 4, 1, 2).flatten(3)


def slots_of(target: Target) -> Tensor:
    """Which weights read site j for site i, (d, d): those of the displacement where the target has
    translations, else weights of their own."""
    d, lattice = target.num_sites, target.lattice
    if lattice is None or not target.symmetries.translations:
        return torch.arange(d * d).reshape(d, d)
    place = torch.stack(torch.unravel_index(torch.arange(d), lattice.shape), -1)  # (d, axes)
    shape = torch.tensor(lattice.shape)
    displaced = (place[None] - place[:, None]) % shape
    stride = torch.tensor([int(shape[axis + 1 :].prod()) for axis in range(len(shape))])
    return (displaced * stride).sum(-1)


def displacements_in(smaller: Lattice, lattice: Lattice) -> tuple[Tensor, Tensor]:
    """Where each displacement of a lattice is among those of another one, (d,), and which share of
    it belongs there, (d,): none where it is farther than half a side of the other, and a half at
    that distance, where one displacement of the other stands for two."""
    places, shares = torch.zeros(lattice.num_sites).long(), torch.ones(lattice.num_sites)
    for axis, length in enumerate(smaller.shape):
        own = lattice.shape[axis]
        step = torch.arange(lattice.num_sites) // math.prod(lattice.shape[axis + 1 :]) % own
        step = step - own * (step > own // 2)  # the shorter way round
        places = places * length + step % length
        if own > length:
            shares = shares * ((2 * step.abs() < length) + 0.5 * (2 * step.abs() == length))
    return places, shares


# -- blocks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A way to whole states: blocks of the given ``sizes`` one after the other, with the
    ``questions`` about all of their sites."""

    sizes: list[int]
    questions: Questions

    @property
    def sites(self) -> Tensor:
        """In the order in which they are drawn, (n,)."""
        return self.questions.sites


def way(model: KnownLaw, blocks: Sequence[Tensor], known: Tensor) -> Way:
    """The way along ``blocks`` where the sites ``known`` (d,) are given."""
    device = model.distance.device
    blocks = [block for block in blocks if len(block)]  # none where all that is free is last
    sites = torch.cat([model.order[:0].cpu(), *(block.cpu() for block in blocks)]).to(device)
    sizes = torch.tensor([len(block) for block in blocks], dtype=torch.long)
    rank = torch.full((model.num_sites,), len(sites), device=device)
    rank[sites] = torch.arange(len(sites), device=device)
    begin = (sizes.cumsum(0) - sizes).repeat_interleave(sizes).to(device)
    was_known = (rank < begin[:, None]) | known.to(device)
    return Way(sizes.tolist(), model.questions(sites, was_known))


@torch.no_grad()
def draw(
    model: KnownLaw, way: Way, weights: Weights, x: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The sites of a way drawn into x (b, d), whose known sites are given; x and log q (b,)."""
    columns, questions, begin = x.T.clone(), way.questions, 0  # (d, b): sites are rows
    said = model.values.embed(columns, model.dtype).contiguous()
    log_q = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for size in way.sizes:
        block, count = slice(begin, begin + size), questions.counts[begin]
        z = taken(said, questions.read[block, :count])
        answer = weights[block].reading(count * model.values.in_width)(z)
        log_p = log_normalise(model.values.logits(answer))  # (size, b, v)
        drawn = draw_categorical(log_p, generator=generator)
        columns[questions.sites[block]] = drawn
        said[questions.sites[block]] = model.values.embed(drawn, model.dtype)
        log_q += log_p.gather(-1, drawn[..., None]).squeeze(-1).double().sum(0)
        begin += size
    return columns.T.contiguous(), log_q
