"""Weighted draws get two answers: leaks and shifted modes show, though weights repair them."""

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis.judging.as_drawn import compare_means
from tcsis.judging.evaluation import evaluate
from tcsis.judging.verdict import judge
from tcsis.targets import Ising, Pairwise, Target, from_callable

COLD = Ising(4, 0.6)
WARM = Ising(4, 0.4407)
UP = 0.9
WELLS = Pairwise.from_spins(0.4 * (1 - torch.eye(12)), math.log(UP / (1 - UP)) / 2 / 12)
"""All up with probability 0.9 or all down with 0.1, nearly."""
LEADS = (
    "alue (1 leads in 59% of the draws, where it is 90%|0 leads in 41%.* where it is 10%) by weight"
)


def leaky(target: Target, n: int, share: float) -> tcsis.Draws:
    """Draws of share·uniform + (1 - share)·p, with the weights that correct them."""
    generator = torch.Generator().manual_seed(1)
    d, v = target.num_sites, target.num_values
    noise = torch.randint(v, (n, d), generator=generator).to(torch.uint8)
    leaks = torch.rand(n, 1, generator=generator) < share
    x = torch.where(leaks, noise, tcsis.exact.draw(target, n, seed=0).x)
    log_density = target.log_density(x).double()
    log_p = log_density - tcsis.exact.solve(target).log_z
    flat = torch.full((n,), math.log(share) - d * math.log(v)).double()
    return tcsis.Draws(x, log_density - torch.logaddexp(flat, math.log1p(-share) + log_p))


def wells(n: int, share: float) -> tcsis.Draws:
    """Draws of which a share is in the upper well of ``WELLS``, with right weights."""
    x = tcsis.exact.draw(WELLS, 12 * n, seed=0).x
    upper = x.double().mean(-1) > 0.5
    up = float(upper.double().mean())
    kept = torch.cat([x[upper][: round(share * n)], x[~upper][: round((1 - share) * n)]])
    log_z = tcsis.exact.solve(WELLS).log_z
    ratio = torch.tensor([(1 - up) / (1 - share), up / share]).double().log() + log_z
    return tcsis.Draws(kept, ratio[(kept.double().mean(-1) > 0.5).long()])


def tempered(n: int, factor: float, seed: int = 0) -> tcsis.Draws:
    """Draws at another temperature with the weights that correct them."""
    other = Ising(4, 0.4407 * factor)
    return tcsis.exact.draw(other, n, seed=seed).reweighted(other, WARM)


def test_a_leak_is_not_plainly_trusted() -> None:
    verdict = judge(leaky(COLD, 10_000, 0.5), COLD)
    assert verdict.level == "trusted by weight"
    assert (verdict.as_drawn.level, verdict.by_weight.level) == ("failed", "trusted")
    assert "Only with their weights: as they come, 43.3% of the draws leak" in verdict.why
    assert "draws.resample()" in verdict.why
    assert str(verdict).startswith("trusted by weight. Only with their weights")


def test_a_leak_of_some_percent_though_the_ess_is_high() -> None:
    draws = leaky(COLD, 10_000, 0.02)
    assert draws.ess > 0.98
    verdict = judge(draws, COLD)
    assert verdict.level == "trusted by weight"
    assert "1.23% of the draws leak" in verdict.as_drawn.why


def test_a_small_leak_is_said() -> None:
    verdict = judge(leaky(COLD, 10_000, 0.005), COLD)
    assert verdict.level == verdict.as_drawn.level == "trusted"
    assert "as they come, 0.24% of the draws leak" in verdict.why
    assert "off by at most 0.04 standard deviations of one draw (the energy)" in verdict.why


def test_two_wells_of_other_shares() -> None:
    """0.9 and 0.1, of which 0.59 and 0.41 are drawn: with exact answers and without."""
    draws = wells(3_000, 0.59)
    verdict = judge(draws, WELLS)
    assert verdict.level == "trusted by weight"
    assert re.search(LEADS, verdict.why)
    large = from_callable(lambda x: WELLS.log_density(x[..., :12]), 40, 2)
    rest = torch.randint(2, (3_000, 28), generator=torch.Generator().manual_seed(0))
    longer = tcsis.Draws(
        torch.cat([draws.x, rest.to(torch.uint8)], -1), draws.log_weight + 28 * math.log(2)
    )
    verdict = judge(longer, large)
    assert (verdict.level, verdict.as_drawn.level) == ("unrefuted", "failed")
    assert re.search("leads in (59|41)% of the draws", verdict.as_drawn.why)
    assert judge(wells(3_000, UP), WELLS).level == "trusted"


@pytest.mark.statistical
def test_nearly_even_weights_stay_trusted() -> None:
    """20 sets at a temperature off by 0.5 %, a bias of 0.02 standard deviations, and with weights
    off by 2 % at random: each set has less than one chance in 100 to be called doubtful."""
    generator = torch.Generator().manual_seed(0)
    for seed in range(20):
        verdict = judge(tempered(5_000, 1.005, seed), WARM)
        assert (verdict.level, verdict.as_drawn.level) == ("trusted", "trusted"), verdict.why
        even = tcsis.exact.draw(WARM, 5_000, seed=seed)
        noise = 0.02 * torch.randn(5_000, generator=generator).double()
        verdict = judge(replace(even, log_weight=even.log_weight + noise), WARM)
        assert (verdict.level, verdict.as_drawn.level) == ("trusted", "trusted"), verdict.why
    assert "as they come, " in verdict.why


def test_without_exact_answers() -> None:
    """Independent sites that are drawn a little off, or far off."""
    target = Pairwise.from_spins(torch.zeros(144, 144), 0.3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    levels = []
    for drawn in (0.3001, 0.302, 0.32):
        p = math.exp(2 * drawn) / (1 + math.exp(2 * drawn))
        x = (torch.rand(20_000, 144, generator=generator) < p).to(torch.uint8)
        up = x.double().sum(-1)
        log_q = up * math.log(p) + (144 - up) * math.log1p(-p)
        verdict = judge(tcsis.Draws(x, target.log_density(x).double() - log_q), target)
        levels.append(verdict.level)
    assert levels == ["trusted", "trusted", "trusted by weight"]
    assert "the magnetisation is off by 0.2" in verdict.why or "energy is off" in verdict.why


def test_sites_without_pairs_or_spread() -> None:
    """Independent sites, of which a strong field leaves one value: a wrong site is seen at once."""
    target = Pairwise.from_spins(torch.zeros(4, 4), 20.0)
    x = torch.ones(2_000, 4, dtype=torch.uint8)
    x[:100, 0] = 0
    draws = tcsis.Draws(x, target.log_density(x).double() + 0.01 * torch.arange(2_000) / 2_000)
    verdict = judge(draws, target)
    assert verdict.as_drawn.level == "failed"
    assert "5% of the draws leak" in verdict.as_drawn.why


def test_forbidden_draws_are_counted_and_named() -> None:
    target = from_callable(lambda x: torch.where(x.sum(-1) > 0, 0.0, -torch.inf), 8, 2)
    x = torch.randint(2, (10_000, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    count = int((x.sum(-1) == 0).sum())
    draws = tcsis.Draws(x, target.log_density(x).double() + 8 * math.log(2))
    verdict = judge(draws, target)
    assert verdict.level == "trusted by weight"
    assert f"{count} of 10,000 draws (0.{count}%) are states that the target forbids" in verdict.why
    nothing = judge(draws[x.sum(-1) == 0], target)
    assert (nothing.level, nothing.as_drawn.level) == ("failed", "failed")
    assert "draws (100%) are states that the target forbids" in nothing.why


def test_weights_that_are_not_sound() -> None:
    generator = torch.Generator().manual_seed(0)
    tail = -1.5 * torch.rand(10_000, generator=generator).double().log()  # Pareto, k = 1.5
    tail[:500] -= 30
    draws = tcsis.Draws(tcsis.exact.draw(WARM, 10_000).x, tail)
    verdict = judge(draws, WARM)
    assert (verdict.level, verdict.as_drawn.level, verdict.by_weight.level) == (
        "doubtful", "trusted", "doubtful",
    )  # fmt: skip
    assert "of the draws leak" in verdict.why
    wrong = judge(replace(draws, x=tcsis.exact.draw(COLD, 10_000).x), WARM)
    assert wrong.level == "failed"
    assert wrong.why.startswith("As they come, the error of the energy is")


def test_wrong_weights_of_right_draws() -> None:
    """The weights fail, and the draws as they come do not."""
    exact = tcsis.exact.draw(WARM, 10_000)
    tilted = exact.log_weight + 0.02 * WARM.log_density(exact.x).double()
    verdict = judge(replace(exact, log_weight=tilted), WARM)
    assert verdict.level == verdict.by_weight.level == "failed"


def test_draws_without_weights_get_one_answer() -> None:
    for draws in (tcsis.exact.draw(WARM, 2_000), tcsis.Draws(tcsis.exact.draw(WARM, 2_000).x)):
        verdict = judge(draws, WARM)
        assert verdict.by_weight is None
        assert (verdict.level, verdict.why) == (verdict.as_drawn.level, verdict.as_drawn.why)
    asked = tempered(10_000, 1.1)
    unweighted = judge(asked, WARM, evaluation=evaluate(asked, WARM))
    assert (unweighted.level, unweighted.by_weight) == ("failed", None)


@pytest.mark.statistical
def test_the_error_of_a_shift() -> None:
    """|D|/error of draws without bias is a standard normal: 2,000 of them have a mean square within
    0.13 of 1, four standard errors, and a constant observable does not shift."""
    generator = torch.Generator().manual_seed(0)
    squares = []
    for _ in range(20):
        f = torch.randn(2_000, 100, generator=generator).double()
        chance = compare_means(f, mean_one(0.5 * torch.randn(2_000, generator=generator)))[-1]
        squares.append(2 * torch.erfinv(1 - chance).square())
    assert float(torch.cat(squares).mean()) == pytest.approx(1, abs=0.13)
    constant = torch.full((2_000, 1), 0.1).double()
    *_, bias, chance = compare_means(constant, mean_one(torch.randn(2_000, generator=generator)))
    assert (float(bias), float(chance)) == (0, 1)


def mean_one(log_weight: Tensor) -> Tensor:
    return log_weight.double().softmax(0) * len(log_weight)
