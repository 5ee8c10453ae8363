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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from tcsis import exact
from tcsis.basics.frozen import Named, Positive
from tcsis.draws import Draws, concatenate
from tcsis.learn.asks import RATIOS, Asks, AsksNamed
from tcsis.learn.buffers import Buffer, exchanged
from tcsis.learn.method import How, Loss, Method, ScorePairs, serves_no_evidence
from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.models.labels import ByAppearance, ByName
from tcsis.learn.models.last import log_summed
from tcsis.learn.models.trees import parents
from tcsis.learn.objectives import cross_entropy, spread_parts, together
from tcsis.learn.start import fit_linear, num_fitted, set_tree
from tcsis.noise import UniformNoise
from tcsis.reverse.schedules import Schedule, farthest_point, remaining
from tcsis.reverse.steps import Denoiser, Step, tweedie
from tcsis.targets.base import Target
from tcsis.targets.known import KnownSites
from tcsis.targets.pairwise import Pairwise

BATCH_SIZE = 16_384
NUM_PREFIXES = 256
"""Of exact draws, at which conditionals are compared with exact ones."""


# -- what is minimised ----------------------------------------------------------------------------


def by_both_sides(
    model: CausalLaw, asks: Asks, buffer: Buffer, x: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Of states x (b, d) of the buffer and as many draws of the model's own, see
    ``tcsis.learn.objectives``.  Also gives the states to put back: every draw takes the place of a
    state with the odds of their weights."""
    target = buffer.law
    labels, own = model.read(x), model.draw(len(x), generator)[0]
    y = torch.zeros_like(x)
    y[:, model.order] = model.labels.values(len(x), generator).gather(1, own)
    both = torch.cat([labels, own])
    conditionals = model.conditionals(both)
    log_q = conditionals.gather(-1, both[..., None]).double().sum((1, 2))
    gap = log_summed(target, torch.cat([x, y]), model.last) - log_q
    some = x[: asks.num_compared(target, len(x))]
    log_hat = site_laws(model, asks, target, some).to(conditionals.dtype)
    entropy = cross_entropy(conditionals[: len(some)], log_hat).mean()
    loss = together(spread_parts(gap, log_q), entropy)
    return loss, exchanged(target, x, y, gap.detach(), model.last, generator)


def by_spread(
    model: CausalLaw, asks: Asks, buffer: Buffer, x: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The spread over states of the buffer alone, (b, d) -> (): blind to what all of them share,
    and to where the model puts mass and the buffer has none."""
    log_p = log_summed(buffer.law, x, model.last)
    return spread(log_p - model.log_prob(x).double().sum(1)), x


def by_conditionals(
    model: CausalLaw, asks: Asks, buffer: Buffer, x: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every conditional with p(x_k | all other sites), for x from p."""
    log_hat = site_laws(model, asks, buffer.law, x)
    return cross_entropy(model.conditionals(model.read(x)), log_hat).mean(), x


def spread(log_ratio: Tensor) -> Tensor:
    """Half the variance of log p̄ - log q over a batch, (b,) -> ().  Near agreement it is the KL
    divergence, but with a gradient that vanishes for every state, not only in the mean.  Z cancels.
    """
    return log_ratio.var() / 2


def site_laws(model: CausalLaw, asks: Asks, target: Target, x: Tensor) -> Tensor:
    """log p̂(x_k = v), by label, (b, d) -> (b, n, v), as ``asks`` has them: of ratios
    p(x_k = v | all other sites).

    For x from p these are posterior draws of p(x_k = v | x_<k), with one site summed out: the
    estimator ``warm`` at x_0 itself, for all the times of a sequential schedule at once.
    """
    log_p = asks.laws(target, x, model.order)
    names = model.labels.names(x[:, model.order])[:, None].expand(log_p.shape)
    return torch.empty_like(log_p).scatter(-1, names, log_p)


# -- the method -----------------------------------------------------------------------------------


class Autoregressive(Method[CausalLaw]):
    """One small network of ``width`` a site.  With ``symmetric``, values that the target does not
    tell apart are told by their appearance.  ``asks`` says what training asks of the target."""

    kind: Literal["autoregressive"] = "autoregressive"
    width: Positive = 32
    objective: Annotated[
        Callable[[CausalLaw, Asks, Buffer, Tensor, torch.Generator], tuple[Tensor, Tensor]],
        Named(
            {
                "both-sides": by_both_sides,
                "spread": by_spread,
                "cross-entropy": by_conditionals,
            }
        ),
    ] = by_both_sides
    symmetric: bool = True
    asks: AsksNamed = RATIOS

    def asked(self, target: Target) -> Target:
        return self.asks.asked(target)

    def model(self, target: Target) -> CausalLaw:
        known, v = target.sketch, target.num_values
        alike = self.symmetric and known.symmetries.value_permutation
        labels = ByAppearance(v) if alike else ByName(v)
        parent = parents(known)
        if parent is not None:
            assert isinstance(known, Pairwise)
            model = CausalLaw(v, torch.tensor(list(parent)), None, labels, self.width)
            set_tree(model, known, parent)
            return model
        last = self.asks.last(known)
        sites = None if last is None else remaining(target.num_sites, last)
        order = farthest_point(known, sites)
        return CausalLaw(v, order, last, labels, self.width, known.possible)

    def prepare(
        self, model: CausalLaw, target: Target, buffer: Buffer, generator: torch.Generator
    ) -> None:
        """Fit the linear part, but on a tree, where the first weights are exact."""
        if parents(target) is None:
            x = buffer.all[: num_fitted(model)]
            fit_linear(model, x, site_laws(model, self.asks, target, x))

    def loss(self, model: CausalLaw, target: Target, buffer: Buffer) -> Loss:
        # all times of a sequential schedule at once: nothing has to be noised
        return partial(self.objective, model, self.asks, buffer)

    def sampler(self, model: CausalLaw, target: Target) -> AutoregressiveSampler:
        return AutoregressiveSampler(target, model)

    def num_products(self, model: CausalLaw, target: Target) -> float:
        """Every weight belongs to one site."""
        return float(sum(weights.numel() for weights in model.parameters()))

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

    def weigh(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.model.log_weight(self.target, x)

    def given(self, known: KnownSites) -> AutoregressiveSampler:
        raise serves_no_evidence("autoregressive")

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
