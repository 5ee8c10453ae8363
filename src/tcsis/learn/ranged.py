"""The any-time method for a range of targets: one network, of which λ sets some of the weights.

    model = tcsis.train_range(Ising(10, 0.6), beta=(0.1, 0.6))
    model.at(beta=0.37).sample(10_000)

A step of training is one of the any-time method at one level of λ, taken at random, with states of
that level.  The network is smooth in λ, so that it serves what is between the levels too.  At any λ
it is a model of the any-time method, and that is what ``at`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tcsis.learn.any_time import AnyTime, by_both_sides, linear_loss, refuse_other_lattice
from tcsis.learn.block_sampler import AnyTimeSampler
from tcsis.learn.buffers import Buffer, PopulationAnnealing, Source
from tcsis.learn.levels import LevelBuffer
from tcsis.learn.method import How, Loss, Method, refuse_unless_alike
from tcsis.learn.models.known_law import KnownLaw
from tcsis.learn.models.ranged_law import RangedLaw
from tcsis.learn.start import descend
from tcsis.targets.base import Target
from tcsis.targets.ranges import Range

NUM_LOOKED = 5
"""Values of the range, none of them a level, that an evaluation looks at."""
NUM_FITTED, NUM_STATES = 8, 512
"""Levels to which the linear part is fitted, and states of each of them."""


class Ranged(Method[RangedLaw]):
    """``inner`` for all targets of the range ``over``, trained at ``levels`` of it."""

    kind: Literal["ranged"] = "ranged"
    over: Range
    inner: AnyTime = AnyTime()
    levels: Annotated[int, Field(ge=2)] = 32

    def asked(self, target: Target) -> Target:
        return self.inner.asked(target)

    def buffer(self, source: Source, target: Target) -> Buffer:
        if not isinstance(source, PopulationAnnealing):
            raise ValueError(
                f"buffer is {source.kind}: expected population_annealing, for a range has a "
                "population at every level"
            )
        self.over.check_end(target)
        values = self.over.levels(self.levels).tolist()
        members = [self.over.at(target, value) for value in values]
        below, above = ([n for n, x in enumerate(values) if sign * x >= 0] for sign in (-1, 1))
        first = tuple(sorted({*below[-1:], *above[:1]}))  # where least holds states
        return LevelBuffer(source, target, members=members, first=first, level=self.levels - 1)

    def model(self, target: Target) -> RangedLaw:
        known = self.over.least_symmetric(target.sketch)
        return RangedLaw(self.inner.model(known), self.levels)

    def prepare(
        self, model: RangedLaw, target: Target, buffer: Buffer, generator: torch.Generator
    ) -> None:
        """Correlations of every level, and the linear part fitted to several of them at once."""
        assert isinstance(buffer, LevelBuffer)
        model.correlate(buffer.levels)
        chosen = torch.linspace(0, self.levels - 1, min(NUM_FITTED, self.levels)).long().tolist()
        losses = {
            number: linear_loss(
                model.level(number), self.inner.asks, buffer.members[number],
                buffer.levels[number, :NUM_STATES].long(),
            )
            for number in chosen
        }  # fmt: skip

        def loss() -> Tensor:
            total = torch.zeros((), dtype=torch.float64)
            for number, of_level in losses.items():
                model.level(number)  # with the weights as they are now
                total = total + of_level()
            return total / len(losses)

        network, slopes = model.law.network, model.slopes
        fitted = [network.linear, slopes["linear"], network.bias, slopes["bias"]]
        descend([weights for weights in fitted if weights.numel()], loss)

    def check_start(self, model: RangedLaw, start: nn.Module) -> None:
        refuse_unless_alike(model, start)
        assert isinstance(start, RangedLaw)
        refuse_other_lattice(model.law, start.law)

    @torch.no_grad()
    def carry(self, model: RangedLaw, start: nn.Module, buffer: Buffer) -> None:
        """Those of another range, of any number of levels; the correlations are those of the
        buffer."""
        assert isinstance(buffer, LevelBuffer)
        model.correlate(buffer.levels)
        for weights, theirs in zip(model.parameters(), start.parameters(), strict=True):
            weights.copy_(theirs)

    def loss(self, model: RangedLaw, target: Target, buffer: Buffer) -> Loss:
        assert isinstance(buffer, LevelBuffer)

        def of_level(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            law = model.level(buffer.level)
            total, back = by_both_sides(
                law, self.inner.evidence, self.inner.asks, buffer, x.long(), generator
            )
            return total, back.to(x.dtype)

        return of_level

    def sampler(self, model: RangedLaw, target: Target) -> AnyTimeSampler:
        """At the end of the range, which the target of a run is."""
        return self.inner.sampler(model.at(1.0), target)

    def at(
        self, model: RangedLaw, target: Target, values: Mapping[str, float]
    ) -> tuple[Target, AnyTime, KnownLaw]:
        value = self.over.read(values)
        known = self.over.least_symmetric(target.free.sketch)  # as the model was made for it
        alike = known.symmetries.value_permutation
        inner = self.inner.model_copy(update={"symmetric": self.inner.symmetric and alike})
        return self.over.at(target, value), inner, model.at(self.over.place(value))

    def looked(
        self, model: RangedLaw, target: Target, n: int, generator: torch.Generator
    ) -> dict[str, float]:
        """The smallest and the mean ESS over values between the levels."""
        between = self.over.levels(self.levels).unfold(0, 2, 1).mean(1)
        chosen = torch.linspace(0, len(between) - 1, min(NUM_LOOKED, len(between))).long()
        found = []
        for value in between[chosen].tolist():
            law, member = model.at(self.over.place(value)), self.over.at(target, value)
            draws = self.inner.sampler(law, member).draw(-(-n // NUM_LOOKED), generator, How())
            found.append(draws.ess or 0.0)
        return {"worst_ess": min(found), "mean_ess": sum(found) / len(found)}

    def tell(self, record: Mapping[str, float]) -> str:
        over = self.over
        return (
            f"{over.parameter} from {over.low:g} to {over.high:g}, between the levels: ESS "
            f"{record['worst_ess']:.3f} at worst, {record['mean_ess']:.3f} in the mean"
        )

    def num_products(self, model: RangedLaw, target: Target) -> float:
        return self.inner.num_products(model.law, target)

    def tiny(self) -> Ranged:
        return self.model_copy(update={"inner": self.inner.tiny(), "levels": 8})
