"""The reverse process in continuous time, event by event: the reference for every discretisation.

Along a step, each site's log-odds ℓ = log α/(1-α) rise linearly.  In that time the noise process
moves a site to each other value at rate ℓ'·(1-α)/V, and its reversal at rate ℓ'·(1-α)/V·score,
which never exceeds ℓ': score = Σ_u D[u]·k_t(v|u)/k_t(x|u) <= (1 + (V-1)α)/(1-α).  So a Poisson
process of rate ℓ'·(V-1) per site proposes values, and each proposal is taken with probability
(1-α)/V·score (Lewis and Shedler's thinning, uniformisation).  Nothing is discretised.

Both directions share the proposals, so the path weight has one factor for each of them: 1/score
when taken, (1 - (1-α)/V)/(1 - (1-α)/V·score) when not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tcsis.noise import UniformNoise
from tcsis.reverse.calls import Answer, Calls
from tcsis.reverse.steps import Generator, Move, through_kernel, tweedie


@dataclass(frozen=True)
class EventDriven:
    """Exact simulation where |log-odds of α| < ``reach``, Tweedie for the two ends beyond it.

    At α = 0 and α = 1 proposals never end; with the default the two ends are so short that their
    error, of order d²·exp(-2·reach), is below 1e-7 per pair of sites.  Costs about
    2·reach·d·(V-1) calls for a whole path.
    """

    reach: float = 9.0

    def reverse(
        self, calls: Calls, noise: UniformNoise, at_t: Answer, s: Tensor, generator: Generator
    ) -> Move:
        begin, end = self.inner_times(noise, at_t.t, s)
        first = tweedie.reverse(calls, noise, at_t, begin, generator)
        middle, before = self.events(calls, noise, first.x, at_t, begin, end, generator)
        at_end = calls.ask(middle.x, end, before)
        final = tweedie.reverse(calls, noise, at_end, s, generator)
        log_ratio = first.log_ratio + middle.log_ratio + final.log_ratio
        return Move(final.x, log_ratio, at_end if torch.equal(end, s) else None)

    def forward(
        self, calls: Calls, noise: UniformNoise, x_s: Tensor, at_s: Answer | None,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Move:  # fmt: skip
        raise ValueError("EventDriven runs in reverse only: take another step for a forward run")

    def inner_times(self, noise: UniformNoise, t: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """The part of each site's way from t to s on which |log-odds| < reach."""
        low, high = noise.schedule.time(torch.tensor([-self.reach, self.reach]).double().sigmoid())
        begin = torch.minimum(t, low.to(t)).maximum(s)
        return begin, torch.maximum(s, high.to(s)).minimum(begin)

    def events(
        self, calls: Calls, noise: UniformNoise, x: Tensor, before: Answer, t: Tensor, s: Tensor,
        generator: Generator,
    ) -> tuple[Move, Answer]:  # fmt: skip
        """All proposals between t and s, and the last answer on each path."""
        x, t, s = x.clone(), t.expand(x.shape), s.expand(x.shape)
        before = replace(before, t=before.t.expand(x.shape))
        odds_t, odds_s = noise.schedule.alpha(t).logit(), noise.schedule.alpha(s).logit()
        moving = torch.where(s < t, odds_s - odds_t, 0.0)  # (b, d)
        log_ratio = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        progress = waiting(moving, noise, generator)
        while bool((progress < 1).any()):
            row = (progress < 1).nonzero().squeeze(-1)
            odds = odds_t[row] + moving[row].where(moving[row] > 0, 0.0) * progress[row, None]
            now = torch.where(moving[row] > 0, noise.schedule.time(odds.sigmoid()), t[row])
            answer = calls.ask(x[row], now, before[row])
            x[row], gained = propose(noise, answer, moving[row], generator)
            log_ratio[row] += gained
            progress[row] += waiting(moving[row], noise, generator)
            before = before.with_rows(row, answer)
        return Move(x, log_ratio), before


def waiting(moving: Tensor, noise: UniformNoise, generator: Generator) -> Tensor:
    """Share of the step until the next proposal, (b,); infinite where nothing moves."""
    rate = moving.sum(-1) * (noise.num_values - 1)
    return torch.empty_like(rate).exponential_(generator=generator) / rate


def propose(
    noise: UniformNoise, answer: Answer, moving: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """One proposal in every state: the state after it and its factor of the weight, in logs."""
    x, t = answer.x, answer.t
    site = torch.multinomial(moving, 1, generator=generator)  # (b, 1)
    other = torch.randint(1, noise.num_values, site.shape, device=x.device, generator=generator)
    value = (x.gather(1, site) + other) % noise.num_values
    cavity = answer.log_d - noise.log_kernel(x, t)
    alpha = noise.alpha(x, t)
    log_score = through_kernel(noise, cavity, alpha).log_softmax(-1)
    log_score = log_score.take_along_dim(site[..., None], 1).squeeze(1)  # (b, v)
    log_score = log_score.gather(1, value) - log_score.gather(1, x.gather(1, site))
    log_move = torch.log1p(-alpha.gather(1, site)) - math.log(noise.num_values)
    log_taken = log_move + log_score
    u = torch.rand(log_taken.shape, dtype=log_taken.dtype, device=x.device, generator=generator)
    taken = u.log() < log_taken
    left = torch.log1p(-log_move.exp()) - torch.log1p(-log_taken.exp())
    return (
        torch.where(taken, x.scatter(1, site, value), x),
        torch.where(taken, -log_score, left).squeeze(1),
    )
