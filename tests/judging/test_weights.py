"""Bounds from both sides, missing modes, and weights not to be trusted."""

import math

import pytest
import torch
from torch import Tensor

from tcsis import reverse
from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.judging.weights import bracket, eubo, leak, missed, name_modes, trust
from tcsis.noise import UniformNoise
from tcsis.reverse import schedules
from tcsis.reverse.steps import Denoiser, Step, euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.targets import Ising

TARGET = Ising((3, 2), 0.3, dtype=torch.float64)
TABLE = Enumeration(TARGET)
NOISE = UniformNoise(2)


def exact(x: Tensor, t: Tensor) -> Tensor:
    return TABLE.denoiser(NOISE, x, t)


def reference(table: Enumeration, n: int = 3_000) -> Tensor:
    return table.draw(n, torch.Generator().manual_seed(5))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "step", [euler, tweedie, Trapezoidal(TARGET)], ids=["euler", "tweedie", "trapezoidal"]
)
def test_bounds_hold_from_both_sides(step: Step) -> None:
    """ELBO < log Z < EUBO; the gaps are many standard errors wide with four steps."""
    schedule = schedules.parallel(6, [1, 0.6, 0.3, 0.1, 0])
    draws = reverse.sample(TARGET, exact, NOISE, schedule, step, 3_000, seed=0)
    upper = eubo(TARGET, exact, NOISE, schedule, step, reference(TABLE), seed=1)
    assert draws.elbo < TABLE.log_z + 0.002
    assert upper.value > TABLE.log_z - 0.002
    # E_noise[1/w] = 1/Z: the forward run weighs the same paths
    inverse = (TABLE.log_z - upper.log_weight).exp()
    assert abs(float(inverse.mean()) - 1) < 4 * float(inverse.std()) / math.sqrt(3_000)  # 6e-5
    verdict = bracket(draws, upper)
    assert not verdict.collapsed
    assert "no mode is missing" in verdict.why


def one_sided(table: Enumeration) -> Denoiser:
    """Knows of the states in which the first site is 1 only, or nearly so."""

    def denoiser(x: Tensor, t: Tensor) -> Tensor:
        log_d = table.denoiser(NOISE, x, t).clamp_min(-60)
        pull = torch.zeros_like(log_d)
        pull[:, 0, 1] = torch.where(t[:, 0] > 0, 30.0, 0.0)
        return (log_d + pull).log_softmax(-1)

    return denoiser


def test_a_missing_half_is_named() -> None:
    """At low temperature one of two modes is drawn, with perfect weights: log Z is low by log 2."""
    target = Ising(2, 1.0, dtype=torch.float64)
    table = Enumeration(target)
    schedule, denoiser = schedules.sequential([0, 3, 1, 2]), one_sided(table)
    draws = reverse.sample(target, denoiser, NOISE, schedule, tweedie, 1_000, seed=0)
    assert draws.ess > 0.99
    assert draws.log_z == pytest.approx(table.log_z - math.log(2), abs=0.01)
    assert trust(draws).trusted
    upper = eubo(target, denoiser, NOISE, schedule, tweedie, reference(table))
    verdict = bracket(draws, upper)
    assert verdict.collapsed
    assert "1 of 2 equal modes" in verdict.why
    assert verdict.coverage == pytest.approx(0.5, abs=0.05)


def test_modes_are_named_by_their_logarithm() -> None:
    assert "1 of 3 equal modes" in name_modes(0.34)
    assert "log 3 = 1.10" in name_modes(0.34)
    assert "low by about 0.36" in name_modes(0.7)
    assert "all of the target" in name_modes(0.0)


def weighted(log_weight: Tensor) -> Draws:
    return Draws(torch.zeros(len(log_weight), 2, dtype=torch.uint8), log_weight)


def test_heavy_tails_are_not_trusted() -> None:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(4_000, generator=generator, dtype=torch.float64)
    assert trust(weighted(0.3 * normal)).trusted
    verdict = trust(weighted(4 * normal))
    assert not verdict.trusted
    assert "means nothing" in verdict.why
    assert verdict.pareto_k > 0.7
    assert trust(weighted(torch.zeros(100))).trusted
    few_larger = torch.cat([torch.zeros(3_900), torch.linspace(0.01, 0.9, 100)])
    few_larger[-1] = 0.99  # a heavy tail by its shape, but of weights that hardly differ
    assert trust(weighted(few_larger)).trusted
    assert not trust(weighted(normal[:20])).trusted
    with pytest.raises(ValueError, match="no log_weight"):
        trust(Draws(torch.zeros(3, 2, dtype=torch.uint8)))


def test_both_tails_of_a_mixture() -> None:
    """Half from the target p, half from a law r that it hardly has: w = p/q, q = (p + r)/2."""
    p = torch.tensor([0.6, 0.39, 0.01 - 1e-6, 1e-6]).double()
    q = 0.5 * p + 0.5 * torch.tensor([0, 0, 0, 1.0]).double()
    draws = torch.multinomial(
        q, 20_000, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    log_weight = (p / q).log()
    assert leak(log_weight[draws]) == pytest.approx(0.5, abs=0.02)
    assert leak(log_weight[draws] + 7) == leak(log_weight[draws])
    assert missed(log_weight, 0.0) == 0
    narrow = torch.tensor([1.0 - 3e-5, 1e-5, 1e-5, 1e-5]).double()
    assert missed((p / narrow).log(), 0.0) == 0.5  # of four reference states two


def test_forbidden_draws_leak() -> None:
    log_weight = torch.zeros(100).double()
    log_weight[:30] = -torch.inf
    assert leak(log_weight) == pytest.approx(0.3)
    assert leak(log_weight[:30]) == 1
    assert leak(torch.zeros(5)) == 0


def test_weights_on_levels_have_no_tail() -> None:
    """As many equal weights at the top as the tail has draws, and a lower level just below it."""
    for n in (30, 500, 2_000):
        for top in range(1, n // 2, 7):
            levels = torch.full((n,), -2e-3, dtype=torch.float64)
            levels[:top] = 0.0
            assert trust(weighted(levels)).trusted
