"""A second-order reverse step, in the distribution it draws from and in its path weights.

Tweedie draws every site from its exact law q_i = p(x_s^i | x_t), but all of them independently:
two sites that ought to move together, or not, do so with probability q_i·q_j.  That is the whole
error of a step, of second order in its length.  A denoiser call at the drawn x_m, which the next
step needs anyway, gives the conditionals of the true joint law p(x_s | x_t) ∝ p_s(x_s)·k(x_t|x_s),

    c_i(v) = p(x_s^i = v | x_m^{-i}, x_t)  ∝  k_{s→t}(x_t^i | v)·Σ_u k_s(v | u)·C_i(u),

where C_i(u) = D_i(u | x_m)/k_s(x_m^i | u) is what the other sites say about x_0^i.  The correction
then moves at most one site, at half the rate of the maximal coupling of q_i and c_i,

    M(x_m → x_m with i set to v) = ½·[1 - c_i(u)/q_i(u)]₊·g_i(v),    g_i ∝ [c_i - q_i]₊,

with u = x_m^i.  A pair that the truth draws r times as often as the product q_i·q_j is reached from
either of its halves at rate (r - 1)/2, or left towards either at (1 - r)/2: its probability comes
out as r·q_i·q_j, and the local error falls to third order.  No rate is ever negative, as those of
the θ-trapezoidal rule are for strong couplings.

Weights live on the path (x_t, x_m, x_s).  Seen from x_s, the correction is the same kernel with q
and c exchanged, M', and q(x_m)·M(x_m → x_s) = p(x_s | x_t)·M'(x_s → x_m) holds wherever at most two
sites have moved.  So log k(x_t|x_s) + log M'(x_s → x_m) - log q(x_m|x_t) - log M(x_m → x_s) has
expectation Z for any denoiser, and a variance of third order for an exact one.

At s = 0 the conditionals are the target's own, from ``log_ratios``.

An estimate of D may be random.  Given the noise path and the answer ω_t at x_t, let ω_s follow from
(x_s, ω_t), then x_m be drawn from M'(x_s → ·) as ω_s has it, then ω_m follow from (x_m, ω_t), or be
ω_s where x_m = x_s.  All of these laws sum to one, and their density over the sampler's is the
weight above, for the laws of ω cancel.  So E[w] = Z stays exact; it would not, if ω_s followed from
ω_m, for then M' would know the x_m that it is to draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.noise import UniformNoise, draw_categorical, log_normalise
from tcsis.reverse.calls import Answer, Calls
from tcsis.reverse.steps import (
    Generator,
    Move,
    at,
    stay_where_still,
    through_kernel,
    tweedie_law,
)
from tcsis.targets.base import Target

MOST = 0.95
"""The probability of a correction is scaled down to this where many sites ask for one."""


@dataclass(frozen=True)
class Trapezoidal:
    """Tweedie, then a correction of at most one site by the denoiser at the other end.

    About one call a step, for the call at the end of one step is that at the start of the next;
    only states that the correction changed need another.  ``redraw`` mixes into the coupling a
    plain redraw of the site (from c, and from q in the other direction), which leaves the order
    as it is and makes every correction possible in both directions, whatever the denoiser.
    """

    target: Target
    redraw: float = 0.02

    def __post_init__(self) -> None:
        if not 0 < self.redraw <= 1:
            raise ValueError(f"redraw is {self.redraw}: expected 0 < redraw <= 1")

    def reverse(
        self, calls: Calls, noise: UniformNoise, at_t: Answer, s: Tensor, generator: Generator
    ) -> Move:
        q = tweedie_law(noise, at_t.log_d, at_t.x, at_t.t, s)
        x_m = draw_categorical(q, generator=generator)
        at_m = calls.ask(x_m, s, at_t) if bool(s.any()) else None
        there = self.corrections(q, self.conditionals(noise, q, x_m, at_m, at_t, s), x_m)
        choice = draw_categorical(there, generator=generator)
        x_s = apply(choice, x_m, noise.num_values)
        at_s = None if at_m is None else calls.ask_changed(x_s, at_m, at_t)
        back = self.corrections(self.conditionals(noise, q, x_s, at_s, at_t, s), q, x_s)
        return Move(x_s, self.log_ratio(noise, q, there, back, at_t, x_m, x_s, s), at_s)

    def forward(
        self, calls: Calls, noise: UniformNoise, x_s: Tensor, at_s: Answer | None,
        t: Tensor, s: Tensor, generator: Generator,
    ) -> Move:  # fmt: skip
        x_t = noise.draw(x_s, t, s, generator=generator)
        at_t = calls.ask(x_t, t)
        q = tweedie_law(noise, at_t.log_d, x_t, t, s)
        if at_s is None and bool(s.any()):
            at_s = calls.ask(x_s, s)
        back = self.corrections(self.conditionals(noise, q, x_s, at_s, at_t, s), q, x_s)
        choice = draw_categorical(back, generator=generator)
        x_m = apply(choice, x_s, noise.num_values)
        at_m = None if at_s is None else calls.ask_changed(x_m, at_s)
        there = self.corrections(q, self.conditionals(noise, q, x_m, at_m, at_t, s), x_m)
        return Move(x_t, self.log_ratio(noise, q, there, back, at_t, x_m, x_s, s), at_t)

    def log_ratio(
        self, noise: UniformNoise, q: Tensor, there: Tensor, back: Tensor,
        at_t: Answer, x_m: Tensor, x_s: Tensor, s: Tensor,
    ) -> Tensor:  # fmt: skip
        """log k(x_t|x_s) + log M'(x_s → x_m) - log q(x_m|x_t) - log M(x_m → x_s), (b,)."""
        log_m = there.gather(1, choice_between(x_m, x_s, noise.num_values)).squeeze(1)
        log_m_back = back.gather(1, choice_between(x_s, x_m, noise.num_values)).squeeze(1)
        return noise.log_prob(at_t.x, x_s, at_t.t, s) + log_m_back - at(q, x_m) - log_m

    def conditionals(
        self, noise: UniformNoise, q: Tensor, x: Tensor, at_x: Answer | None, at_t: Answer,
        s: Tensor,
    ) -> Tensor:  # fmt: skip
        """log c_i(v) at x, (b, d, v), from the answer at x and s or, without one, at s = 0, from
        the target."""
        x_t, t = at_t.x, at_t.t
        if at_x is None:
            ratios = self.target.log_ratios(x).double()
            return log_normalise(allowed(ratios) + noise.log_kernel(x_t, t))
        cavity = at_x.log_d - noise.log_kernel(x, s)
        log_c = noise.log_kernel(x_t, t, s) + through_kernel(noise, cavity, noise.alpha(x, s))
        # a known site tells nothing about itself: while others are noisy it keeps its law
        log_c = torch.where((s == 0)[..., None], q, log_normalise(log_c))
        return stay_where_still(log_c, x_t, t, s)

    def corrections(self, log_p: Tensor, log_q: Tensor, x: Tensor) -> Tensor:
        """log probabilities of setting site i to v, (b, d·v), and of no change, as (b, d·v + 1),
        on the way from p to q."""
        p, q = log_p.exp(), log_q.exp()
        gain = (q - p).clamp_min(0)
        gain = gain / gain.sum(-1, keepdim=True).clamp_min(torch.finfo(gain.dtype).tiny)
        loss = (-torch.expm1((log_q - log_p).gather(-1, x[..., None]))).clamp_min(0)
        rate = 0.5 * ((1 - self.redraw) * loss * gain + self.redraw * q)
        rate = rate.scatter(-1, x[..., None], 0.0).flatten(1)
        total = rate.sum(-1, keepdim=True)
        rate = rate * (MOST / total).clamp_max(1)
        return torch.cat([rate.log(), torch.log1p(-rate.sum(-1, keepdim=True))], dim=-1)


def allowed(ratios: Tensor) -> Tensor:
    """``log_ratios`` as logits: where the present value is forbidden, the allowed ones (+inf)
    count alike and the others not at all."""
    infinite = ratios.isposinf()
    logits = torch.where(infinite, 0.0, -torch.inf).to(ratios.dtype)
    return torch.where(infinite.any(-1, keepdim=True), logits, ratios)


def apply(choice: Tensor, x: Tensor, num_values: int) -> Tensor:
    """x with the chosen site set to the chosen value; the last choice changes nothing."""
    none = x.shape[1] * num_values
    site = (choice // num_values).clamp_max(x.shape[1] - 1)[:, None]
    changed = x.scatter(1, site, (choice % num_values)[:, None])
    return torch.where((choice == none)[:, None], x, changed)


def choice_between(x: Tensor, y: Tensor, num_values: int) -> Tensor:
    """The choice that leads from x to y, which differ at one site or at none, (b, 1)."""
    differ = x != y
    site = differ.long().argmax(-1, keepdim=True)
    change = site * num_values + y.gather(1, site)
    return torch.where(differ.any(-1, keepdim=True), change, x.shape[1] * num_values)
