"""Draws beside a model: what either misses, and log Z from both sides."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis.draws import Draws
from tcsis.judging.weights import bracket, upper_bound
from tcsis.targets import Ising, Pairwise, Potts
from tcsis.targets.base import Target

WELLS = Pairwise.from_spins(0.4 * (1 - torch.eye(12)), 0.03, dtype=torch.float64)
TRUTH = tcsis.exact.solve(WELLS)
GOOD = tcsis.exact.draw(WELLS, 8_000, seed=1).x
UP = GOOD[GOOD.double().mean(-1) > 0.5]


@dataclass(frozen=True)
class Law:
    """A model of q(x) ∝ p̄(x)·(1 - share or share, by the mode), normalised exactly."""

    share: float
    target: Target = WELLS

    def odds(self, x: Tensor) -> Tensor:
        upper = x.double().mean(-1) > 0.5
        return torch.where(upper, math.log(self.share), math.log(1 - self.share)).double()

    def sample(self, n: int, *, seed: int = 0) -> Draws:
        table = TRUTH.enumeration
        states = table.states(torch.arange(table.num_states))
        log_q = (self.target.log_density(states) + self.odds(states)).log_softmax(0)
        generator = torch.Generator().manual_seed(seed)
        x = states[torch.multinomial(log_q.exp(), n, replacement=True, generator=generator)]
        return Draws(x.to(torch.uint8), self.weigh(x))

    def weigh(self, x: Tensor, *, seed: int = 0) -> Tensor:
        table = TRUTH.enumeration
        states = table.states(torch.arange(table.num_states))
        log_c = (self.target.log_density(states) + self.odds(states)).logsumexp(0)
        return log_c - self.odds(x)


def test_a_good_model_agrees_with_good_draws() -> None:
    verdict = tcsis.judge(GOOD, WELLS, model=Law(0.4))
    assert verdict.level == "trusted"
    assert "the model agrees (log Z is above" in verdict.why


def test_a_mode_that_the_draws_miss() -> None:
    verdict = tcsis.judge(UP, WELLS, model=Law(0.5))
    assert verdict.level == "failed"
    assert "by the weighted draws of the model" in verdict.why


def test_a_mode_that_the_model_misses() -> None:
    verdict = tcsis.judge(GOOD, WELLS, model=Law(1 - 1e-9))
    assert verdict.level == "trusted"
    assert "the model reaches only" in verdict.why


def test_both_sides_of_log_z() -> None:
    model = Law(0.3)
    draws = model.sample(8_000, seed=2)
    upper = upper_bound(model, GOOD)
    assert draws.elbo < TRUTH.log_z < upper.value
    found = bracket(draws, upper)
    assert not found.collapsed
    assert bracket(Law(1 - 1e-9).sample(2_000), upper_bound(Law(1 - 1e-9), GOOD)).collapsed


def test_draws_that_are_too_cold() -> None:
    cold = tcsis.exact.draw(WELLS.scaled(1.3), 8_000, seed=4).x
    assert tcsis.judge(cold, WELLS, model=Law(0.5)).level == "failed"


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "n"), [("autoregressive", 3_000), ("any-time", 3_000), ("self-normalized", 200)]
)
def test_every_method_bounds_from_above(method: str, n: int) -> None:
    """E_p[1/w] = 1/Z, whatever was learned, given evidence; 5 standard errors, 6e-7."""
    target = Potts((2, 3), 3, 0.6, dtype=torch.float64).given({1: 2})
    model = tcsis.train(target, method, preset="tiny", steps=3, progress=False)
    x, log_z = tcsis.exact.draw(target, n, seed=1).x, tcsis.exact.solve(target).log_z
    log_weight = model.weigh(x, seed=5)
    inverse = (log_z - log_weight).exp()
    rounding = 1e-6  # of networks in float32
    assert abs(float(inverse.mean()) - 1) < 5 * float(inverse.std()) / math.sqrt(n) + rounding
    assert upper_bound(model, x, seed=5).value == pytest.approx(float(log_weight.mean()))
    x[:5, 1] = 0
    assert bool(model.weigh(x, seed=5)[:5].isneginf().all())


def test_evidence_without_training() -> None:
    target = Ising((2, 3), 0.5, dtype=torch.float64)
    model = tcsis.train(target, "any-time", preset="tiny", steps=30, progress=False)
    given = model.given({0: 1})
    x = tcsis.exact.draw(given.target, 3_000, seed=1).x
    log_weight = given.weigh(x)
    inverse = (tcsis.exact.solve(given.target).log_z - log_weight).exp()
    assert abs(float(inverse.mean()) - 1) < 5 * float(inverse.std()) / math.sqrt(3_000) + 1e-9
    assert tcsis.judge(x, given.target, model=given).level == "trusted"
    assert bool(given.weigh(1 - x).isneginf().all())


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"made for another target: .* expected a model of this"):
        tcsis.judge(GOOD, WELLS.scaled(2.0), model=Law(0.5))
    with pytest.raises(ValueError, match="ExactSampler, which cannot weigh states that are given"):
        tcsis.judge(GOOD, WELLS, model=tcsis.exact.sampler(WELLS))
