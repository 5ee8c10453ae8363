"""Any-time TCSIS: a denoiser for every set of known sites, drawn along planned blocks.

Every site is at t = 0 (known) or t = 1 (noise).  There the denoiser is q(x_i | x_known), one
network for all known sets, and a draw goes from noise to whole states in blocks of sites, one
network call a block, in any number of calls; the last colour class comes from the target.  From the
identity come the conditionals that the network is compared with, posterior draws with one site
summed out.

    L = S + min(1, S)·C        as in ``tcsis.learn.objectives``, sites drawn one by one

A share of the steps is trained with evidence: the known sites of a state of the buffer are given to
draws of the model's own, and the gaps of all that share them are compared with each other, so that
the unknown log Z of the evidence cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.basics.frozen import Positive
from tcsis.learn.asks import RATIOS, Asks, AsksNamed
from tcsis.learn.block_sampler import AnyTimeSampler
from tcsis.learn.buffers import Buffer, exchanged
from tcsis.learn.method import Loss, Method, refuse_unless_alike
from tcsis.learn.models.known_law import KnownLaw, draw, way
from tcsis.learn.models.last import log_summed
from tcsis.learn.models.values import Apart, values_of
from tcsis.learn.objectives import cross_entropy, spread_parts, together
from tcsis.learn.start import RIDGE, descend
from tcsis.reverse.schedules import farthest_point, remaining, singles
from tcsis.targets.base import Target

NUM_COPIES = 3
"""Own draws that share the evidence of one state."""
MOST_GIVEN = 0.6
"""The largest share of known sites that evidence is trained with."""
NUM_FITTED, MOST_READ = 4_096, 2e7
"""States that the linear part is fitted to, fewer where they are many numbers to read."""


# -- what is minimised ----------------------------------------------------------------------------


def by_both_sides(
    model: KnownLaw, evidence: float, asks: Asks, buffer: Buffer, x: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of states x (b, d) of the buffer and draws of the model's own, and the states to put back."""
    known = given_sites(model, evidence, generator)
    order, last = model.free(known)
    alone, target = not bool(known.any()), buffer.law
    route = model.in_order if alone else way(model, singles(order), known)
    weights = model.weights(route.questions)
    givers, copies = (x, 1) if alone else (x[: (len(x) + 1) // 2], NUM_COPIES)
    y, _ = draw(model, route, weights, givers.repeat(copies, 1), generator)
    both = torch.cat([givers, y])
    answers = model.answers(weights, route.questions.read, both)
    log_q = answers.gather(-1, both[:, order, None]).double().sum((1, 2))
    gap = log_summed(target, both, last) - log_q
    shape = (-1,) if alone else (1 + copies, len(givers))  # what is compared with each other
    parts = spread_parts(gap.reshape(shape), log_q.reshape(shape))
    some = givers[: asks.num_compared(target, len(givers))]
    log_hat = asks.laws(target, some, order).to(answers.dtype)
    loss = together(parts, cross_entropy(answers[: len(some)], log_hat).mean())
    return loss, exchanged(target, x, y, gap.detach(), last, generator) if alone else x


def linear_loss(model: KnownLaw, asks: Asks, target: Target, x: Tensor) -> Callable[[], Tensor]:
    """The cross-entropy C of the linear part alone at states x (b, d), as a function of the weights
    that the network has when it is called."""
    asked = model.in_order.questions
    log_hat = asks.laws(target, x, model.order).double()
    z = model.read(asked.read, x)
    gain = torch.ones_like(asked.guess.offset[:, :1])

    def loss() -> Tensor:
        network = model.network
        linear, bias = network.linear_part(asked.sites, asked.known, asked.read, asked.guess, gain)
        answer = torch.baddbmm(bias, z.flatten(1, 2), linear)
        log_q = model.law(answer.reshape(*z.shape[:-1], -1))
        ridge = RIDGE * network.linear.double().square().sum()
        return cross_entropy(log_q.double(), log_hat).mean() + ridge

    return loss


def given_sites(model: KnownLaw, evidence: float, generator: torch.Generator) -> Tensor:
    """Which sites are known from the start, (d,): none, or with probability ``evidence`` a random
    share of them."""
    device = generator.device
    some, share = torch.rand(2, device=device, generator=generator).tolist()
    scatter = torch.rand(model.num_sites, device=device, generator=generator)
    known = (scatter < MOST_GIVEN * share) & (some < evidence)
    return known if bool((~known[model.order]).any()) else torch.zeros_like(known)


# -- the method -----------------------------------------------------------------------------------


def refuse_other_lattice(model: KnownLaw, start: KnownLaw) -> None:
    """Refuse as many weights, of other displacements."""
    ours, theirs = (None if m.lattice is None else m.lattice.shape for m in (model, start))
    if ours != theirs:
        raise ValueError(
            f"start is a model of a lattice {theirs} where this is one of {ours}: expected "
            "one that is no longer along any axis"
        )


class AnyTime(Method[KnownLaw]):
    """A network of ``width``, each answer of which reads the ``reach`` nearest known sites; a share
    ``evidence`` of the steps is trained with sites given.  With ``symmetric``, values that the
    target does not tell apart are treated alike.  ``asks`` says what is asked of the target."""

    kind: Literal["any-time"] = "any-time"
    width: Positive = 64
    reach: Positive = 128
    evidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    symmetric: bool = True
    asks: AsksNamed = RATIOS

    def asked(self, target: Target) -> Target:
        return self.asks.asked(target)

    def model(self, target: Target) -> KnownLaw:
        known = target.sketch
        last = self.asks.last(known)
        if last is not None and len(last) == known.num_sites:
            last = None  # without interactions nothing would be left to draw before
        sites = None if last is None else remaining(known.num_sites, last)
        values = values_of(known) if self.symmetric else Apart(known.num_values)
        return KnownLaw(known, farthest_point(known, sites), last, values, self.width, self.reach)

    def prepare(
        self, model: KnownLaw, target: Target, buffer: Buffer, generator: torch.Generator
    ) -> None:
        """Correlations for first guesses; then fit the linear part and the biases, which is
        convex.  The rest answers nothing yet."""
        model.correlate(buffer.all)
        network = model.network
        numbers = model.read(model.in_order.questions.read, buffer.all[:1]).numel()  # of one state
        x = buffer.all[: max(256, min(NUM_FITTED, int(MOST_READ / max(1, numbers))))]
        loss = linear_loss(model, self.asks, target, x)
        descend([network.linear, *([network.bias] if len(network.bias) else [])], loss)

    def check_start(self, model: KnownLaw, start: nn.Module) -> None:
        if isinstance(start, KnownLaw) and model.holds(start):
            return
        refuse_unless_alike(model, start)
        assert isinstance(start, KnownLaw)
        refuse_other_lattice(model, start)

    def carry(self, model: KnownLaw, start: nn.Module, buffer: Buffer) -> None:
        """The same, or those of a smaller periodic lattice by displacement; the correlations are
        those of the buffer."""
        model.correlate(buffer.all)
        assert isinstance(start, KnownLaw)
        if model.holds(start):
            model.carry(start)
            return
        model.network.load_state_dict(start.network.state_dict())

    def loss(self, model: KnownLaw, target: Target, buffer: Buffer) -> Loss:
        return partial(by_both_sides, model, self.evidence, self.asks, buffer)

    def sampler(self, model: KnownLaw, target: Target) -> AnyTimeSampler:
        nothing = torch.zeros(target.num_sites, dtype=torch.bool)
        return AnyTimeSampler(target, model, nothing, torch.zeros(target.num_sites).long())

    def num_products(self, model: KnownLaw, target: Target) -> float:
        """Of the two layers of ``Weights``, at every site that is drawn."""
        read = min(self.reach, target.num_sites) * model.values.in_width
        return float(len(model.order) * self.width * (read + self.width))

    def tiny(self) -> AnyTime:
        return self.model_copy(update={"width": 8})
