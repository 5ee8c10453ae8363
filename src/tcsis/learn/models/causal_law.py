"""A law of sites that are drawn one by one, each given those before it.

    q(x) = Π_k q(x_k | x_<k) · Π_{i in last} p(x_i | the others),        log w = log p̄(x) - log q(x)

The sites of the last colour class, where the target has one, are drawn from the target itself.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from tcsis.draws import Draws
from tcsis.learn.models.labels import Labels, num_seen
from tcsis.learn.models.last import complete, log_last
from tcsis.learn.nn.causal import Causal
from tcsis.reverse.loop import end_density
from tcsis.reverse.schedules import Schedule, block_times, singles
from tcsis.targets.base import Target, counting

CLOSED = -1e4
"""The logit of a value that a site does not have: a number, and a probability of zero."""


class CausalLaw(nn.Module):
    """``order`` (n,) names the sites in the order they are drawn, ``last`` (k,) those left over;
    ``possible`` (d, v) says which values a site can have, if not all: others are never drawn."""

    closed: Tensor | None

    def __init__(
        self, num_values: int, order: Tensor, last: Tensor | None, labels: Labels, width: int,
        possible: Tensor | None = None,
    ):  # fmt: skip
        super().__init__()
        self.num_values, self.order, self.last, self.labels = num_values, order, last, labels
        in_width = 1 if num_values == 2 else num_values
        self.network = Causal(len(order), in_width, num_values - 1, width)
        closed = None if possible is None else torch.where(possible[order], 0.0, CLOSED)
        self.register_buffer("closed", closed, persistent=False)

    @property
    def schedule(self) -> Schedule:
        """The schedule that the model draws by."""
        num_sites = len(self.order) + (0 if self.last is None else len(self.last))
        return Schedule(block_times(singles(self.order), num_sites), self.last)

    # -- the law ---------------------------------------------------------------------------------

    def conditionals(self, labels: Tensor) -> Tensor:
        """log q(label of x_k = u | x_<k), (b, n) -> (b, n, v)."""
        return self.logits(self.network(self.embed(labels)), num_seen(labels)).log_softmax(-1)

    def logits(self, answer: Tensor, seen: Tensor, k: int | None = None) -> Tensor:
        """Logits of all labels from what the network answers, of all sites of the order, (..., n,
        v - 1) -> (..., n, v), or of the k-th, (..., v - 1) -> (..., v)."""
        logits = self.labels.tie(against_first(answer), seen)
        if self.closed is None:
            return logits
        return logits + (self.closed if k is None else self.closed[k]).to(logits.dtype)

    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x_k | x_<k) of every site of the order, (b, d) -> (b, n)."""
        labels = self.read(x)
        return self.conditionals(labels).gather(-1, labels[..., None]).squeeze(-1)

    def read(self, x: Tensor) -> Tensor:
        """Labels of the sites of the order, (b, d) -> (b, n)."""
        y = x[:, self.order]
        return self.labels.names(y).gather(1, y)

    def embed(self, labels: Tensor) -> Tensor:
        """Labels as network input, (b, n) -> (b, n, c): spins ±1 or centred one-hot vectors."""
        dtype = self.network.w1.dtype
        if self.num_values == 2:
            return (2 * labels - 1).to(dtype)[..., None]
        return nn.functional.one_hot(labels, self.num_values).to(dtype) - 1 / self.num_values

    # -- draws -----------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, target: Target, n: int, generator: torch.Generator) -> Draws:
        """n draws with their weights; every site of the order costs one network call a draw."""
        begin = time.perf_counter()
        with counting(target) as cost:
            labels, log_q = self.draw(n, generator)
            x = torch.zeros(n, target.num_sites, dtype=torch.long, device=labels.device)
            x[:, self.order] = self.labels.values(n, generator).gather(1, labels)
            x, log_p = complete(target, x, self.last, generator)
            log_weight = end_density(target, x) - log_q - log_p
        return Draws(
            x.to(torch.uint8), log_weight, time.perf_counter() - begin, cost.densities,
            n * len(self.order),
        )  # fmt: skip

    @torch.no_grad()
    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Labels of the sites of the order, (n, sites), and log q of what they stand for, (n,)."""
        shape, weights = (n, len(self.order), self.num_values), self.network.w1
        logits = torch.empty(shape, dtype=weights.dtype, device=weights.device)
        # an exponential race, as in draw_categorical, of all sites at once
        race = torch.empty_like(logits).exponential_(generator=generator)
        race = race.clamp_min_(torch.finfo(race.dtype).tiny).log_()
        labels = torch.zeros(shape[:2], dtype=torch.long, device=weights.device)
        z, seen = self.embed(labels), labels.new_zeros(n)
        for k in range(len(self.order)):
            row = self.logits(self.network.site(k, z[:, :k]), seen, k)
            drawn = self.labels.settle((row - race[:, k]).argmax(1), seen)
            logits[:, k], labels[:, k], z[:, k] = row, drawn, self.embed(drawn)
            seen = torch.maximum(seen, drawn + 1)
        log_q = logits.double().log_softmax(-1).gather(-1, labels[..., None])
        return labels, log_q.sum((1, 2))

    @torch.no_grad()
    def log_weight(self, target: Target, x: Tensor) -> Tensor:
        """log p̄(x) - log q(x) of states that may come from anywhere, (b, d) -> (b,)."""
        log_q = self.log_prob(x).double().sum(1) + log_last(target, x, self.last)
        log_p = end_density(target, x)
        return torch.where(log_p.isneginf(), log_p, log_p - log_q)  # even where q gives nothing

    # -- the same as a denoiser ------------------------------------------------------------------

    def denoiser(self, x_t: Tensor, t: Tensor) -> Tensor:
        """log P(x_0^i = v | x_t), (b, d) -> (b, d, v), at the times of ``schedule`` alone.

        Known sites are what they are; of the others only the next one is told apart from noise,
        for no other moves.
        """
        known = t.expand(x_t.shape) == 0
        k = min(int(known[0].sum()), len(self.order))
        if not torch.equal(t.expand(x_t.shape).double(), self.schedule.times[k].expand_as(known)):
            raise ValueError(
                "t is not a time of this model, which draws its sites one by one: expected 0 at "
                "the first sites of model.order and 1 at all others; for other schedules train "
                'with method="self-normalized"'
            )
        here = x_t[..., None] == torch.arange(self.num_values, device=x_t.device)
        log_d = torch.where(known[..., None], torch.where(here, 0.0, -torch.inf), 0.0)
        if k < len(self.order):
            log_d[:, self.order[k]] = self.next_site(x_t[:, self.order[:k]])
        return log_d.log_softmax(-1)

    def next_site(self, y: Tensor) -> Tensor:
        """log q(x_k = v | x_<k = y), (b, k) -> (b, v)."""
        k, names = y.shape[1], self.labels.names(y)
        labels = names.gather(1, y)
        seen = labels.amax(1) + 1 if k else torch.zeros(len(y), dtype=torch.long, device=y.device)
        logits = self.logits(self.network.site(k, self.embed(labels)), seen, k)
        return logits.log_softmax(-1).gather(1, names)


def against_first(logits: Tensor) -> Tensor:
    """Logits (..., v) from those of all labels but the first, which is zero, (..., v - 1)."""
    return nn.functional.pad(logits, (1, 0))
