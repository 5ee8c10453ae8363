"""The autoregressive method: a law of the sites that are drawn one by one, with a causal network.

    q(x) = Π_k q(x_k | x_<k) · Π_{i in last} p(x_i | the others),        log w = log p̄(x) - log q(x)

The sites of the last colour class, where the target has one, are drawn from the target itself.

It is what its name says, not the paper's diffusion: autoregressive networks are those of Germain et
al. (2015) and van den Oord et al. (2016), their use for Boltzmann laws is that of Wu, Wang and
Zhang (2019), and the variance of log weights as a loss is that of Richter et al. (2020).  From the
identity come the conditionals of ``by_conditionals``, posterior draws of x_k where the sites before
it are known (t = 0) and all others noise (t = 1).  There the denoiser is the conditional
q(x_k | x_<k), so that a draw is the reverse process on a sequential schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from tcsis import exact
from tcsis.basics.frozen import Named, Positive
from tcsis.draws import Draws, concatenate
from tcsis.learn.buffers import Buffer
from tcsis.learn.method import How, Loss, Method, ScorePairs
from tcsis.learn.models.labels import ByAppearance, ByName, Labels, num_seen
from tcsis.learn.nn.causal import Causal
from tcsis.learn.objectives import cross_entropy
from tcsis.noise import UniformNoise, draw_categorical, log_sum
from tcsis.reverse.loop import class_law, end_density
from tcsis.reverse.schedules import (
    Schedule,
    block_times,
    farthest_point,
    last_class,
    remaining,
    singles,
)
from tcsis.reverse.steps import Denoiser, Step, at, tweedie
from tcsis.targets.base import Target, counting

BATCH_SIZE = 16_384
NUM_PREFIXES = 256
"""Of exact draws, at which conditionals are compared with exact ones."""


class CausalLaw(nn.Module):
    """``order`` (n,) names the sites in the order they are drawn, ``last`` (k,) those left over."""

    def __init__(
        self, num_values: int, order: Tensor, last: Tensor | None, labels: Labels, width: int
    ):
        super().__init__()
        self.num_values, self.order, self.last, self.labels = num_values, order, last, labels
        in_width = 1 if num_values == 2 else num_values
        self.network = Causal(len(order), in_width, num_values - 1, width)

    @property
    def schedule(self) -> Schedule:
        """The schedule that the model draws by."""
        num_sites = len(self.order) + (0 if self.last is None else len(self.last))
        return Schedule(block_times(singles(self.order), num_sites), self.last)

    # -- the law ---------------------------------------------------------------------------------

    def conditionals(self, labels: Tensor) -> Tensor:
        """log q(label of x_k = u | x_<k), (b, n) -> (b, n, v)."""
        logits = against_first(self.network(self.embed(labels)))
        return self.labels.tie(logits, num_seen(labels)).log_softmax(-1)

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
            if self.last is not None:
                t = self.schedule.times[-1].to(x.device)
                log_p = class_law(target, UniformNoise(self.num_values), x, t, self.last)
                x[:, self.last] = draw_categorical(log_p, generator=generator)
                log_q = log_q + at(log_p, x[:, self.last])
            log_weight = end_density(target, x) - log_q
        return Draws(
            x.to(torch.uint8), log_weight, time.perf_counter() - begin, cost.densities,
            n * len(self.order),
        )  # fmt: skip

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Labels of the sites of the order, (n, sites), and log q of what they stand for, (n,)."""
        device, num_sites = self.network.w1.device, len(self.order)
        labels = torch.zeros(n, num_sites, dtype=torch.long, device=device)
        z = self.embed(labels)
        log_q = torch.zeros(n, dtype=torch.float64, device=device)
        seen = torch.zeros(n, dtype=torch.long, device=device)
        for k in range(num_sites):
            logits = against_first(self.network.site(k, z[:, :k]))
            log_p = self.labels.tie(logits, seen).double().log_softmax(-1)
            drawn = draw_categorical(log_p, generator=generator)
            log_q += log_p.gather(1, drawn[:, None]).squeeze(1)
            labels[:, k] = self.labels.settle(drawn, seen)
            z[:, k] = self.embed(labels[:, k])
            seen = torch.maximum(seen, labels[:, k] + 1)
        return labels, log_q

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
        logits = against_first(self.network.site(k, self.embed(labels)))
        return self.labels.tie(logits, seen).log_softmax(-1).gather(1, names)


def against_first(logits: Tensor) -> Tensor:
    """Logits (..., v) from those of all labels but the first, which is zero, (..., v - 1)."""
    return nn.functional.pad(logits, (1, 0))


# -- what is minimised ----------------------------------------------------------------------------


def by_spread(model: CausalLaw, target: Target, x: Tensor) -> Tensor:
    """The spread of the log weights, (b, d) -> ()."""
    return spread(log_target(model, target, x) - model.log_prob(x).double().sum(1))


def by_conditionals(model: CausalLaw, target: Target, x: Tensor) -> Tensor:
    """Cross-entropy of every conditional with p(x_k | all other sites), for x from p."""
    log_hat = site_conditionals(model, target, x)
    return cross_entropy(model.conditionals(model.read(x)), log_hat).mean()


def spread(log_ratio: Tensor) -> Tensor:
    """Half the variance of log p̄ - log q over a batch, (b,) -> ().  Near agreement it is the KL
    divergence, but with a gradient that vanishes for every state, not only in the mean.  Z cancels.
    """
    return log_ratio.var() / 2


def log_target(model: CausalLaw, target: Target, x: Tensor) -> Tensor:
    """log of p̄ summed over the last class, (b, d) -> (b,) float64, given the other sites of x:
    p̄(x)·Π_{i in last} Σ_v p̄(x with i set to v)/p̄(x)."""
    log_p = target.log_density(x).double()
    if model.last is None:
        return log_p
    ratios = target.log_ratios(x).double()[:, model.last]
    return log_p + log_sum(ratios).sum(1)


def site_conditionals(model: CausalLaw, target: Target, x: Tensor) -> Tensor:
    """log p(x_k = v | all other sites), by label, (b, d) -> (b, n, v).

    For x from p these are posterior draws of p(x_k = v | x_<k), with one site summed out: the
    estimator ``warm`` at x_0 itself, for all the times of a sequential schedule at once.
    """
    log_p = target.log_ratios(x)[:, model.order].log_softmax(-1)
    names = model.labels.names(x[:, model.order])[:, None].expand(log_p.shape)
    return torch.empty_like(log_p).scatter(-1, names, log_p)


# -- the method -----------------------------------------------------------------------------------


class Autoregressive(Method[CausalLaw]):
    """One small network of ``width`` a site.  With ``symmetric``, values that the target does not
    tell apart are told by their appearance."""

    kind: Literal["autoregressive"] = "autoregressive"
    width: Positive = 32
    objective: Annotated[
        Callable[[CausalLaw, Target, Tensor], Tensor],
        Named({"spread": by_spread, "cross-entropy": by_conditionals}),
    ] = by_spread
    symmetric: bool = True

    def model(self, target: Target) -> CausalLaw:
        last = None if target.colouring is None else last_class(target)
        sites = None if last is None else remaining(target.num_sites, last)
        alike = self.symmetric and target.symmetries.value_permutation
        labels = ByAppearance(target.num_values) if alike else ByName(target.num_values)
        return CausalLaw(target.num_values, farthest_point(target, sites), last, labels, self.width)

    def loss(self, model: CausalLaw, target: Target, buffer: Buffer) -> Loss:
        # all times of a sequential schedule at once: nothing has to be noised
        return lambda x_0, generator: (self.objective(model, target, x_0), x_0)

    def sampler(self, model: CausalLaw, target: Target) -> AutoregressiveSampler:
        return AutoregressiveSampler(target, model)

    def tiny(self) -> Autoregressive:
        return self.model_copy(update={"width": 8})


@dataclass(frozen=True)
class AutoregressiveSampler:
    """Draws site by site; the order and the number of calls are those of the model."""

    target: Target
    model: CausalLaw

    def draw(self, n: int, generator: torch.Generator, how: How) -> Draws:
        if how != How(batch_size=how.batch_size):
            raise ValueError(
                "calls, schedule and step are fixed for the autoregressive method, which takes one "
                f"call for each of its {len(self.model.order)} sites: leave them out, or train "
                'with method="self-normalized" to choose them'
            )
        sizes = [len(part) for part in torch.arange(n).split(how.batch_size or BATCH_SIZE)]
        return concatenate([self.model.sample(self.target, size, generator) for size in sizes])

    @property
    def noise(self) -> UniformNoise:
        return UniformNoise(self.target.num_values)

    @property
    def denoiser(self) -> Denoiser:
        return self.model.denoiser

    @property
    def step(self) -> Step:
        return tweedie

    def schedule(self, calls: int | None = None) -> Schedule:
        return self.model.schedule

    @torch.no_grad()
    def score_pairs(self, seed: int) -> ScorePairs:
        """Log-odds log p(x_k = v | x_<k) - log p(x_k = 0 | x_<k), v above 0, at prefixes of exact
        draws: the model has no scores at other times."""
        model, noise, table = self.model, self.noise, exact.Enumeration(self.target)
        times = model.schedule.times
        x = exact.draw(self.target, NUM_PREFIXES, seed=seed).x.long()
        learned, truth = [], []
        for k, rows in enumerate(torch.arange(NUM_PREFIXES).tensor_split(len(model.order))):
            if not len(rows):
                continue
            log_q = model.next_site(x[rows][:, model.order[:k]]).double()
            log_p = table.denoiser(noise, x[rows], times[k].expand(len(rows), -1))
            log_p = log_p[:, model.order[k]]
            learned.append(log_q[:, 1:] - log_q[:, :1])
            truth.append(log_p[:, 1:] - log_p[:, :1])
        return torch.cat(learned), torch.cat(truth)
