"""Draws of the any-time method: blocks of sites one after the other, from whatever is known.

Blocks for a number of calls are planned: a pilot draws the sites one by one and notes what the
model says of all that are to come, from which the log-weight variance of every block follows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from tcsis import exact
from tcsis.basics.checks import check_integer
from tcsis.draws import Draws
from tcsis.learn.method import How, ScorePairs
from tcsis.learn.models.known_law import KnownLaw, Way, draw, way
from tcsis.learn.models.last import complete, log_last
from tcsis.learn.nn.gated import Weights
from tcsis.noise import UniformNoise
from tcsis.reverse.loop import end_density
from tcsis.reverse.planning import best_division, block_variances
from tcsis.reverse.schedules import Schedule, block_times, singles
from tcsis.reverse.steps import Denoiser, Step, tweedie
from tcsis.targets.base import Target, counting
from tcsis.targets.known import KnownSites

BATCH_SIZE = 2_048
NUM_PILOTS, MOST_PILOTS = 2**23, 2_048
"""Pilot draws times the square of the sites that a plan is made from; at least 64 draws.  What
costs ESS are rare states that a block draws far too seldom: few pilots have none of them, and take
the block for harmless."""
NUM_PREFIXES = 256


@dataclass(frozen=True)
class AnyTimeSampler:
    """Draws along blocks of sites, given the sites ``known`` (d,) of the state ``x`` (d,)."""

    target: Target
    model: KnownLaw
    known: Tensor
    x: Tensor

    @torch.no_grad()
    def draw(self, n: int, generator: torch.Generator, how: How) -> Draws:
        if how.step is not None:
            raise ValueError(
                "step is given: the any-time method draws every block from its denoiser; leave it "
                'out, or train with method="self-normalized" to choose it'
            )
        if how.calls is not None and how.schedule is not None:
            raise ValueError("calls and schedule exclude each other: a schedule has its own calls")
        begin, planned = time.perf_counter(), "variances" in self.__dict__
        with counting(self.target) as cost:
            blocks = self.blocks(how.calls) if how.schedule is None else self.along(how.schedule)
            route, left = way(self.model, blocks, self.known), self.left(blocks)
            weights = self.model.weights(route.questions)
            sizes = [len(part) for part in torch.arange(n).split(how.batch_size or BATCH_SIZE)]
            parts = [self.batch(route, weights, left, size, generator) for size in sizes]
        num_calls = n * len(route.sizes)
        if not planned and "variances" in self.__dict__:  # the plan is paid for by who asked first
            num_calls += num_pilots(len(self.variances)) * len(self.variances)
        return Draws(
            torch.cat([x for x, _ in parts]), torch.cat([log_weight for _, log_weight in parts]),
            time.perf_counter() - begin, cost.densities, num_calls,
        )  # fmt: skip

    def batch(
        self, route: Way, weights: Weights, left: Tensor | None, n: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """n draws along the blocks, and of the sites ``left`` from the target; log weights (n,)."""
        start = self.x.to(self.target.device).expand(n, -1)
        x, log_q = draw(self.model, route, weights, start, generator)
        x, log_p = complete(self.target, x, left, generator)
        return x.to(torch.uint8), end_density(self.target, x) - log_q - log_p

    def along(self, schedule: Schedule) -> list[Tensor]:
        """The blocks of sites that a schedule takes from noise to known, one a step."""
        times, d = schedule.times, self.target.num_sites
        if schedule.num_sites != d:
            raise ValueError(
                f"schedule has {schedule.num_sites} sites and the target {d}: expected the same"
            )
        if not bool(((times == 0) | (times == 1)).all()):
            raise ValueError(
                "schedule has times between 0 and 1: the any-time method draws blocks of sites, as "
                "coloured, blockwise and sequential schedules do"
            )
        return [step.nonzero().squeeze(1) for step in times[:-1] > times[1:]]

    def left(self, blocks: Sequence[Tensor]) -> Tensor | None:
        """The sites that neither are known nor drawn in blocks, (k,): all of the last class."""
        done = self.known.cpu().clone()
        for block in blocks:
            done[block.cpu()] = True
        left = (~done).nonzero().squeeze(1)
        last = torch.zeros(0).long() if self.model.last is None else self.model.last.cpu()
        if not bool(torch.isin(left, last).all()):
            raise ValueError(
                f"schedule leaves out the sites {left[~torch.isin(left, last)].tolist()}: expected "
                "all but those of tcsis.schedules.last_class, which come from the target"
            )
        return left.to(self.target.device) if len(left) else None

    @torch.no_grad()
    def weigh(self, x: Tensor, generator: torch.Generator) -> Tensor:
        order, last = self.model.free(self.known)
        route = way(self.model, singles(order), self.known)
        answers = self.model(route.questions, x)
        log_q = answers.gather(-1, x[:, order, None]).double().sum((1, 2))
        log_p = end_density(self.target, x)
        log_w = log_p - log_q - log_last(self.target, x, last)
        return torch.where(log_p.isneginf(), log_p, log_w)  # even where q gives nothing

    def given(self, known: KnownSites) -> AnyTimeSampler:
        x = torch.zeros_like(self.x).index_copy(0, known.sites, known.values)
        return replace(self, known=known.mask, x=x)

    # -- plans -----------------------------------------------------------------------------------

    def blocks(self, calls: int | None = None) -> list[Tensor]:
        """The blocks for at most that many calls that add least variance to log w; a site a call
        where nothing is said."""
        order = self.model.free(self.known)[0].cpu()
        if calls is None or check_integer("calls", calls) >= len(order):
            return singles(order)
        ends = best_division(self.variances, calls)
        return [order[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @cached_property
    @torch.no_grad()
    def variances(self) -> np.ndarray:
        """What drawing sites a to b of the order at once adds to the variance of log w, by pilot
        draws that take them one by one."""
        order = self.model.free(self.known)[0]
        n, route = num_pilots(len(order)), way(self.model, singles(order), self.known)
        generator = torch.Generator(self.target.device).manual_seed(0)
        start = self.x.to(self.target.device).expand(n, -1)
        x, _ = draw(self.model, route, self.model.weights(route.questions), start, generator)
        known, said = self.known.clone(), torch.zeros(len(order), len(order), n)
        for a, site in enumerate(order.tolist()):
            questions = self.model.questions(order[a:], known.expand(len(order) - a, -1))
            log_q = self.model(questions, x).gather(-1, x[:, order[a:], None]).squeeze(-1)
            said[a, a:] = log_q.T.cpu()
            known[site] = True
        return block_variances(said)

    def schedule(self, calls: int | None = None) -> Schedule:
        blocks = self.blocks(calls)
        return Schedule(block_times(blocks, self.target.num_sites), self.left(blocks))

    # -- the same as a denoiser ------------------------------------------------------------------

    @property
    def noise(self) -> UniformNoise:
        return UniformNoise(self.target.num_values)

    @property
    def step(self) -> Step:
        return tweedie

    @property
    def denoiser(self) -> Denoiser:
        return partial(denoise, self.model)

    @torch.no_grad()
    def score_pairs(self, seed: int) -> ScorePairs:
        """Log-odds log p(x_i = v | known) - log p(x_i = 0 | known), v above 0, of the next sites
        at prefixes of exact draws."""
        noise, table, order = self.noise, exact.Enumeration(self.target), self.model.order
        times = self.schedule().times
        x = exact.draw(self.target, NUM_PREFIXES, seed=seed).x.long()
        pairs = []
        for k, rows in enumerate(torch.arange(NUM_PREFIXES).tensor_split(len(order))):
            t = times[k].expand(len(rows), -1)
            for law in (denoise(self.model, x[rows], t), table.denoiser(noise, x[rows], t)):
                log_d = law[:, order[k]].double()
                pairs.append(log_d[:, 1:] - log_d[:, :1])
        return torch.cat(pairs[::2]), torch.cat(pairs[1::2])


def num_pilots(num_sites: int) -> int:
    """Draws that a plan for so many sites is made from."""
    return max(64, min(MOST_PILOTS, NUM_PILOTS // num_sites**2))


def denoise(model: KnownLaw, x_t: Tensor, t: Tensor) -> Tensor:
    """log P(x_0^i = v | x_t), (b, d) and (b, d) -> (b, d, v), where every t is 0 or 1."""
    t = t.expand(x_t.shape)
    if not bool(((t == 0) | (t == 1)).all()):
        raise ValueError(
            "t is neither 0 nor 1 at some site, and the any-time method knows sites altogether or "
            'not at all: for times between train with method="self-normalized"'
        )
    here = x_t[..., None] == torch.arange(model.num_values, device=x_t.device)
    log_d = torch.where(here, 0.0, -torch.inf).to(model.dtype)
    patterns, group = (t == 0).unique(dim=0, return_inverse=True)
    for number, known in enumerate(patterns):
        rows = (group == number).nonzero().squeeze(1)
        sites = (~known).nonzero().squeeze(1)
        if len(sites):
            questions = model.questions(sites, known.expand(len(sites), -1))
            log_d[rows[:, None], sites] = model(questions, x_t[rows])
    return log_d
