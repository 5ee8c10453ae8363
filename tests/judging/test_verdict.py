"""The verdict is right where the truth is known: perfect, biased, one-mode, stuck, too few."""

from dataclasses import replace

import pytest
import torch

import tcsis
from tcsis.judging import weights
from tcsis.judging.checks import round_up
from tcsis.judging.evidence import gather
from tcsis.judging.reference import Reference
from tcsis.judging.verdict import judge
from tcsis.judging.weights import pareto_k, trust
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass

TARGET = Ising(4, 0.4407)
OTHER = Ising(4, 0.4407 * 1.1)
LARGE = SpinGlass(16, 0.2)


def draws_at(target: Ising, n: int = 10_000, seed: int = 0) -> tcsis.Draws:
    return tcsis.Draws(tcsis.exact.draw(target, n, seed=seed).x)


def one_mode(draws: tcsis.Draws) -> tcsis.Draws:
    lower = draws.x.double().mean(-1, keepdim=True) < 0.5
    return replace(draws, x=torch.where(lower, 1 - draws.x, draws.x))


def reweighted(n: int = 10_000) -> tcsis.Draws:
    """Draws at another temperature with the weights that correct them."""
    return tcsis.exact.draw(OTHER, n, seed=3).reweighted(OTHER, TARGET)


@pytest.mark.statistical
def test_perfect_draws_are_trusted() -> None:
    """Each of 20 sets has less than one chance in 100 to be called doubtful; measured 2 in 700 for
    Ising, Potts and glass, and no "failed" among them."""
    for seed in range(20):
        verdict = judge(draws_at(TARGET, seed=seed), TARGET)
        assert verdict.level == "trusted", (seed, verdict.why)
    assert "every observable agrees with its exact value" in verdict.why
    assert verdict.why.startswith("10,000 draws: ")
    assert verdict.why.endswith(".")


def test_exact_draws_with_their_weights() -> None:
    verdict = judge(tcsis.exact.draw(TARGET, 10_000), TARGET)
    assert verdict.level == "trusted"
    assert "log Z is exact" in verdict.why


def test_another_temperature_fails() -> None:
    signed = tcsis.exact.draw(OTHER, 10_000)
    for draws in (draws_at(OTHER), replace(signed, fingerprint=None)):
        verdict = judge(draws, TARGET)
        assert verdict.level == "failed"
        assert "the error of the energy is" in verdict.why.lower()
        assert "times that of perfect draws" in verdict.why
    assert "made for another target: log p̄ of one of them was" in judge(signed, TARGET).why


def test_right_weights_repair_it() -> None:
    verdict = judge(reweighted(), TARGET)
    assert verdict.level == "trusted by weight"
    assert (verdict.as_drawn.level, verdict.by_weight.level) == ("failed", "trusted")
    assert "the energy is off by 0.29 standard deviations of one draw" in verdict.why
    assert "with their weights every observable agrees" in verdict.by_weight.why
    assert "ESS 0.8" in verdict.why


def test_wrong_weights_fail() -> None:
    right = reweighted()
    shifted = judge(replace(right, log_weight=right.log_weight + 0.1), TARGET)
    assert shifted.level == "failed"
    assert "Log Z from the weights is 15.6" in shifted.why
    assert "where it is 15.522" in shifted.why
    generator = torch.Generator().manual_seed(0)
    noise = 0.5 * torch.randn(len(right), generator=generator).double()
    assert judge(replace(right, log_weight=right.log_weight[0] + noise), TARGET).level == "failed"


def test_a_heavy_tail_is_doubtful() -> None:
    generator = torch.Generator().manual_seed(0)
    tail = -1.5 * torch.rand(10_000, generator=generator).double().log()  # Pareto, k = 1.5
    verdict = judge(replace(draws_at(TARGET), log_weight=tail), TARGET)
    assert verdict.level == "doubtful"
    assert "Pareto k is 1." in verdict.why


def test_the_upper_tail_counts() -> None:
    generator = torch.Generator().manual_seed(1)
    for k in (0.3, 0.5, 1.5):
        log_weight = -k * torch.rand(20_000, generator=generator).double().log()
        assert pareto_k(log_weight) == pytest.approx(k, abs=0.15)
        assert pareto_k(-log_weight) < 0
    few_levels = torch.tensor([0.0, 1.0]).double().repeat(500)
    assert pareto_k(few_levels) == -torch.inf
    assert trust(tcsis.Draws(torch.zeros(1_000, 2), few_levels)).trusted
    assert pareto_k(few_levels[:20]) == torch.inf


def test_one_mode_is_a_gap_of_log_2() -> None:
    for draws in (tcsis.exact.draw(TARGET, 10_000), draws_at(TARGET)):
        verdict = judge(one_mode(draws), TARGET)
        assert verdict.level == "failed"
        assert "1 of 2 equal modes (log Z low by about log 2 = 0.69)" in verdict.why


def test_one_mode_shows_without_exact_answers() -> None:
    generator = torch.Generator().manual_seed(0)
    target = SpinGlass(16, 1.0)
    x = (torch.rand(2_000, 256, generator=generator) < 0.7).to(torch.uint8)
    verdict = judge(tcsis.Draws(x), target)
    assert verdict.level == "failed"
    assert "log 2" in verdict.why


def test_a_missing_value_of_potts() -> None:
    target = Potts(3, 3, 1.2)
    x = tcsis.exact.draw(target, 6_000, seed=1).x
    kept = x[(x == 2).sum(-1) < 4]
    verdict = judge(tcsis.Draws(kept), target)
    assert verdict.level == "failed"
    assert "modes are missing" in verdict.why


def test_a_bracket_that_collapsed() -> None:
    collapsed = weights.Bracket(15.0, 15.0, 15.7, 0.5, True, "the draws reach 50% of the reference")
    verdict = judge(tcsis.exact.draw(TARGET, 5_000), TARGET, bracket=collapsed)
    assert (verdict.level, verdict.why) == ("failed", "The draws reach 50% of the reference.")
    crossed = weights.Bracket(16.0, 16.0, 15.0, 1.0, False, "ELBO is above EUBO")
    assert judge(tcsis.exact.draw(TARGET, 5_000), TARGET, bracket=crossed).level == "doubtful"
    whole = weights.Bracket(15.5, 15.5, 15.5, 1.0, False, "no mode is missing")
    verdict = judge(tcsis.exact.draw(TARGET, 5_000), TARGET, bracket=whole)
    assert verdict.level == "trusted"
    assert "no mode is missing" in verdict.why


def test_too_few_draws_to_tell() -> None:
    for draws in (draws_at(TARGET, 20), tcsis.exact.draw(TARGET, 20), reweighted(20)):
        verdict = judge(draws, TARGET)
        assert verdict.level == "doubtful"
        assert verdict.why.startswith("Too few draws to tell: 20 draws")
        assert "about 1,000 are needed" in verdict.why or "about 2,000 are" in verdict.why


def test_too_few_do_not_hide_a_failure() -> None:
    assert judge(one_mode(draws_at(TARGET, 50)), TARGET).level == "failed"


def test_chains_that_never_moved() -> None:
    cold = Ising(4, 3.0)
    start = torch.ones(10, 16, dtype=torch.long)
    frozen = tcsis.mcmc.sample(
        cold, "metropolis", num_chains=10, num_steps=200, init=start, progress=False
    )
    for target in (cold, TARGET):
        verdict = judge(frozen, target)
        assert (verdict.level, verdict.why) == ("failed", "None of the 10 chains ever moved.")
    assert gather(frozen, Reference(cold)).num_effective == 1


def test_chains_stuck_in_their_modes() -> None:
    cold = Ising(4, 1.5)
    chains = tcsis.mcmc.sample(cold, "gibbs", num_chains=40, num_steps=300, progress=False)
    verdict = judge(chains, cold)
    assert verdict.level == "failed"
    assert "The chains are stuck" in verdict.why


def test_good_chains_are_trusted() -> None:
    warm = Ising(4, 0.2)
    chains = tcsis.mcmc.sample(
        warm, "gibbs", num_chains=20, num_steps=2_000, burn_in=100, progress=False
    )
    verdict = judge(chains, warm)
    assert verdict.level == "trusted"
    assert "20 chains agree (R-hat 1.00" in verdict.why
    assert 1_000 < gather(chains, Reference(warm)).num_effective <= 38_000


def test_nothing_to_judge_by() -> None:
    x = torch.randint(2, (2_000, 256), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert judge(tcsis.Draws(x), LARGE).level == "failed"
    assert judge(tcsis.Draws(x), Ising(16, 0.0)).level == "trusted"
    black_box = tcsis.targets.from_callable(lambda x: 0.0 * x.sum(-1), 256, 2)
    verdict = judge(tcsis.Draws(x), black_box)
    assert verdict.level == "unrefuted"
    assert "a black box of 2^256 states" in verdict.why


def test_chains_without_exact_answers() -> None:
    target = SpinGlass((15, 15), 0.2)
    chains = tcsis.mcmc.sample(
        target, "gibbs", num_chains=8, num_steps=500, burn_in=50, progress=False
    )
    verdict = judge(chains, target)
    assert verdict.level == "trusted"
    assert "without exact answers a mode that both miss stays unseen" in verdict.why
    assert "the modes and sites are as balanced as symmetry demands" in verdict.why


def test_a_target_of_one_state() -> None:
    """Where nothing varies there is no floor: agreement is exact, or an error is one."""
    target = Pairwise.from_spins(torch.zeros(4, 4), 40.0)
    assert judge(tcsis.Draws(torch.ones(2_000, 4, dtype=torch.uint8)), target).level == "trusted"
    wrong = torch.ones(2_000, 4, dtype=torch.uint8)
    wrong[:, 0] = 0
    assert judge(tcsis.Draws(wrong), target).level == "failed"


def test_needed_draws_are_round() -> None:
    assert [round_up(n) for n in (1_000, 1_234, 9_100, 20)] == [1_000, 2_000, 10_000, 20]
