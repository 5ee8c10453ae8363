"""Draws that have fooled a verdict, or that a verdict has wronged: each by itself."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis import Draws, exact, judge, mcmc
from tcsis.judging import annealed
from tcsis.judging.beside import Weighted, compare, name_of
from tcsis.judging.weights import pareto_k, trust
from tcsis.targets import Factors, Ising, Pairwise, Potts, SpinGlass, Target, from_callable
from tcsis.targets.repeatable import check_repeatable

CENTRES = torch.randint(2, (10, 30), generator=torch.Generator().manual_seed(0))


def ten_modes(x: Tensor) -> Tensor:
    return torch.logsumexp(-2.5 * (x[..., None, :] != CENTRES).sum(-1).double(), -1)


def shuffled(draws: Draws) -> Draws:
    """As from a file of anybody's, in any order."""
    x = draws.flat.x
    return Draws(x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))])


# -- chains ---------------------------------------------------------------------------------------


def test_chains_frozen_in_neel_states() -> None:
    """Energies and magnetisations agree; the sites do not."""
    target = Ising(side=16, beta=-0.7)
    chains = mcmc.sample(
        target, "gibbs", num_chains=7, num_steps=1_500, burn_in=500, seed=2, progress=False
    )
    verdict = judge(chains, target)
    assert verdict.level == "failed"
    assert "R-hat of the sites" in verdict.why
    assert judge(Draws(chains.flat.x), target).level == "failed"
    laid = judge(shuffled(chains), target)
    assert laid.level == "failed"
    assert "though the symmetry of the target makes it 50" in laid.why


def test_chains_in_four_of_ten_modes() -> None:
    target = from_callable(ten_modes, 30, 2)
    chains = mcmc.sample(
        target, "gibbs", num_chains=4, num_steps=300, init=CENTRES[:4], progress=False
    )
    assert judge(chains, target).level == "failed"
    assert judge(Draws(chains.flat.x), target).level == "failed"
    verdict = judge(shuffled(chains), target)
    assert verdict.level == "doubtful"
    assert "in a population annealed for comparison" in verdict.why


def test_a_single_chain() -> None:
    target = Ising(4, 0.3)
    chain = mcmc.sample(
        target, "gibbs", num_chains=1, num_steps=20_000, burn_in=100, progress=False
    )
    verdict = judge(chain, target)
    assert verdict.level == "trusted"
    assert "the parts of the one chain agree" in verdict.why
    still = Draws(torch.ones(1, 100, 16, dtype=torch.uint8))
    assert judge(still, target).why == "The one chain never moved."


def test_many_short_chains() -> None:
    target = Ising(4, 0.3)
    for steps in (101, 103):
        chains = mcmc.sample(
            target, "gibbs", num_chains=500, num_steps=steps, burn_in=100, progress=False
        )
        verdict = judge(chains, target)
        assert verdict.level == "doubtful"
        assert "about" in verdict.why and "are needed" in verdict.why
    chains = mcmc.sample(
        target, "gibbs", num_chains=2_000, num_steps=103, burn_in=100, progress=False
    )
    verdict = judge(chains, target)
    assert verdict.level == "trusted"
    assert "3 draws are too few of a chain" in verdict.why


def test_a_mode_that_annealing_knows() -> None:
    """Chains from one start in the larger of two modes, and draws whose weights see only that."""
    target = Ising(16, 0.6, field=0.002)
    start = torch.ones(10, 256, dtype=torch.long)
    chains = mcmc.sample(
        target, "gibbs", num_chains=10, num_steps=600, burn_in=100, init=start, progress=False
    )
    assert judge(chains, target).level in ("doubtful", "failed")
    verdict = judge(shuffled(chains), target)
    assert verdict.level == "doubtful"
    assert "annealed for comparison" in verdict.why


def test_chains_laid_end_to_end_are_no_independent_draws() -> None:
    """Neighbours that are alike make a chain of them; shuffled, nothing shows it."""
    target = Ising(4, 0.3)
    chains = mcmc.sample(target, num_chains=20, num_steps=2_100, burn_in=100, progress=False)
    verdict = judge(Draws(chains.flat.x), target)
    assert verdict.level == "trusted"
    assert "the parts of the one chain agree" in verdict.why
    independent = judge(Draws(exact.draw(target, 5_000).x), target)
    assert "chain" not in independent.why


def test_resampled_draws_are_worth_no_more_than_before() -> None:
    target, other = Ising(4, 0.4407), Ising(4, 0.3)
    weighted = exact.draw(other, 20_000, seed=1).reweighted(other, target)
    again = weighted.resample(seed=0)
    assert again.worth == pytest.approx(weighted.ess * 20_000)
    verdict = judge(again, target)
    assert verdict.level == "trusted"
    assert f"worth {again.worth:,.0f} independent ones" in verdict.why
    few = exact.draw(other, 1_500, seed=1).reweighted(other, target).resample(50_000)
    assert "too few draws" in judge(few, target).why.lower()


# -- densities ------------------------------------------------------------------------------------


def test_densities_that_are_no_function_of_the_state() -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(12, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )
    cases = {
        "dropout": lambda x: net(x.float())[:, 0],
        "noise": lambda x: 0.1 * x.sum(-1) + 0.5 * torch.randn(len(x)),
        "batch": lambda x: 0.1 * (x.sum(-1) - x.float().sum(-1).mean()),
    }
    for function in cases.values():
        with pytest.raises(ValueError, match=r"gives .* and then .* at the same state \["):
            from_callable(function, 12, 2)
    net.eval()
    assert from_callable(cases["dropout"], 12, 2).num_sites == 12


def test_a_density_that_turns_noisy_is_refused_before_judging_and_training() -> None:
    class Turning(Target):
        num_sites, num_values = 10, 2
        dtype, device = torch.float64, torch.device("cpu")
        noise = 0.0

        def _log_density(self, x: Tensor) -> Tensor:
            return x.sum(-1).double() + self.noise * torch.randn(x.shape[:-1]).double()

    target = Turning()
    draws = Draws(torch.randint(2, (50, 10), generator=torch.Generator().manual_seed(0)))
    judge(draws, target)
    target.noise = 0.5
    with pytest.raises(ValueError, match="at the same state"):
        judge(draws, target)
    with pytest.raises(ValueError, match="at the same state"):
        tcsis.train(target, preset="tiny", steps=3, progress=False)


def test_rounding_is_no_noise() -> None:
    """Sums in single precision differ with the size of a batch."""
    generator = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(300, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    target = from_callable(lambda x: 10 * net(x.float())[:, 0], 300, 2)
    check_repeatable(target, torch.randint(2, (1_000, 300), generator=generator))


# -- other targets --------------------------------------------------------------------------------


def test_draws_say_which_target_they_are_of(tmp_path) -> None:
    from tcsis.draws.storage import read_draws, write_draws

    mine, other = SpinGlass(16, 0.3, seed=0), SpinGlass(16, 0.3, seed=1)
    chains = mcmc.sample(mine, num_chains=20, num_steps=120, burn_in=20, progress=False)
    write_draws(tmp_path / "draws.nc", chains, mine)
    for draws in (chains, chains.flat, chains[3:5], read_draws(tmp_path / "draws.nc")[0]):
        verdict = judge(draws, other)
        assert verdict.level == "failed"
        assert "were made for another target" in verdict.why
        assert "another target" not in judge(draws, mine).why
    assert judge(Draws(chains.flat.x), other).level == "failed"


def test_a_constant_makes_no_other_target_but_another_log_z() -> None:
    fields, more = torch.linspace(-1, 1, 8), 3.0
    one, shifted = (
        Pairwise.from_spins(torch.zeros(8, 8), fields, constant=c, dtype=torch.float64)
        for c in (0.0, more)
    )
    draws = exact.draw(one, 2_000)
    assert judge(replace(draws, log_weight=None), shifted).level == "trusted"
    assert judge(draws, shifted).level == "failed"
    assert judge(draws.reweighted(one, shifted), shifted).level == "trusted"
    joined = tcsis.concatenate([draws, exact.draw(shifted, 2_000)])
    assert "another target" in judge(joined, one).why


# -- weights --------------------------------------------------------------------------------------


def test_bounded_and_tied_weights_need_no_tail() -> None:
    generator = torch.Generator().manual_seed(0)
    bounded = torch.rand(5_000, generator=generator).double().mul(3.4).log()
    assert trust(Draws(torch.zeros(5_000, 2), bounded)).trusted
    levels = torch.tensor([0.0, 1.0, 3.0]).double()
    often = levels[
        torch.multinomial(torch.tensor([0.9, 0.09, 0.01]), 5_000, True, generator=generator)
    ]
    assert pareto_k(often) == -math.inf
    once = torch.cat([often, torch.tensor([9.0]).double()])  # met once, and it decides
    assert pareto_k(once) > 0.7
    assert not trust(Draws(torch.zeros(5_001, 2), once)).trusted


@pytest.mark.statistical
def test_the_number_of_draws_does_not_turn_the_verdict() -> None:
    """A model of 4×4 spins at an ESS below 0.9, whose weights are tied.  Each verdict has a chance
    of 1 in 100 to be less than trusted by weight."""
    target = Ising(4, 0.4407)
    model = tcsis.train(target, "self-normalized", preset="tiny", steps=60, progress=False)
    for n in (2_000, 5_000, 10_000):
        for seed in range(3):
            verdict = judge(model.sample(n, seed=seed), target)
            assert verdict.level.startswith("trusted"), (n, seed, verdict.why)


def test_one_draw_has_no_error() -> None:
    draws = exact.draw(Ising(4, 0.4407), 1)
    assert draws.log_z_error == math.inf
    shifted = judge(replace(draws, log_weight=draws.log_weight + 3), Ising(4, 0.4407))
    assert shifted.level == "doubtful"
    assert shifted.why.startswith("Too few draws to tell: one draw would hide")


# -- what cannot be seen --------------------------------------------------------------------------


def test_a_needle_is_not_trusted() -> None:
    generator = torch.Generator().manual_seed(0)
    needle = torch.randint(2, (30,), generator=generator)
    height = 30 * math.log(2) + math.log(9)  # 0.9 of all probability
    target = from_callable(lambda x: height * (x == needle).all(-1).double(), 30, 2)
    x = torch.randint(2, (5_000, 30), generator=generator).to(torch.uint8)
    for log_weight in (None, torch.full((5_000,), 30 * math.log(2)).double()):
        verdict = judge(Draws(x, log_weight), target)
        assert verdict.level == "unrefuted"
        assert "a narrow mode that no draw has met would stay unseen" in verdict.why
        assert "annealed for comparison agrees" in verdict.why


def test_few_families_do_not_vouch() -> None:
    few = annealed.Annealed(torch.zeros(100, 4).long(), torch.zeros(100).long(), 0.0, 0.5)
    assert not few.sound
    assert few.num_families == pytest.approx(4)


def test_forbidden_draws_are_counted() -> None:
    target = from_callable(lambda x: torch.where(x.sum(-1) == 2, 0.0, -math.inf).double(), 14, 2)
    x = torch.ones(10_000, 14, dtype=torch.uint8)
    x[0, 2:] = 0
    for log_weight in (None, target.log_density(x)):
        verdict = judge(Draws(x, log_weight), target)
        assert verdict.level == "failed"
        assert "9,999 of 10,000 draws (100%) are states that the target forbids" in verdict.why


# -- annealing for comparison ---------------------------------------------------------------------


def test_errors_of_a_population_go_by_families() -> None:
    """Copies in families of ten: the error of a mean is that of the families alone."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(200, 1, generator=generator).double()
    copies, family = y.repeat_interleave(10, 0), torch.arange(200).repeat_interleave(10)
    mean, _, error = annealed.family_moments(copies, family)
    assert float(mean) == pytest.approx(float(y.mean()))
    assert float(error) == pytest.approx(float(y.std(correction=0)) / math.sqrt(200))
    _, _, naive = annealed.family_moments(copies, torch.arange(2_000))
    assert float(naive) < float(error) / 3  # as if all were independent


def test_annealed_log_z_and_states() -> None:
    target = Ising(4, 0.4407)
    population = annealed.anneal(target)
    assert population is not None and population.sound
    truth = exact.solve(target).log_z
    assert abs(population.log_z - truth) < 4 * population.log_z_error
    x = exact.draw(target, 3_000).x.long()
    p = torch.full((3_000,), 1 / 3_000, dtype=torch.float64)
    assert compare(Weighted(x, p, 3_000), population, target).chance > 1e-3
    up = torch.where(x.double().mean(-1, keepdim=True) < 0.5, 1 - x, x)
    assert compare(Weighted(up, p, 3_000), population, target).chance < 1e-6


def left_behind(target: Target, x: Tensor) -> annealed.Annealed:
    """A population in equal families of ten, like replicas that a transition has passed by."""
    return annealed.Annealed(x, torch.arange(len(x)) // 10, 1.0, math.sqrt(10 / len(x)))


def test_a_population_that_is_not_at_the_target_is_led_to_it() -> None:
    """From noise, in a few rounds; its log Z, which is of what it was, goes."""
    target = Ising(6, 0.4407)
    noise = torch.randint(2, (2_000, 36), generator=torch.Generator().manual_seed(1))
    found = annealed.settled(left_behind(target, noise), target, 5, 10_000)
    assert found.at_rest and found.log_z is None
    energies = target.energy(found.x)
    error = float(energies.std()) / math.sqrt(2_000)
    assert abs(float(energies.mean()) - exact.solve(target).mean_energy) < 4 * error
    short = annealed.settled(left_behind(target, noise), target, 5, 5)
    assert not short.at_rest


def test_a_population_at_the_target_is_left_as_it_is() -> None:
    """Families of exact draws, whose averages wander by what sweeps do to them."""
    target = Ising(6, 0.4407)
    for seed in range(20):
        drawn = left_behind(target, exact.draw(target, 2_000, seed=seed).x.long())
        found = annealed.settled(drawn, target, 20, 20)
        assert found.at_rest and found.x is drawn.x and found.log_z == 1.0


def test_a_population_that_does_not_rest_does_not_vouch(monkeypatch: pytest.MonkeyPatch) -> None:
    target = SpinGlass((6, 6, 6), 0.6, seed=0)
    states = annealed.population(target, 500, 60, 5)
    assert states is not None and states.sound and not states.at_rest
    monkeypatch.setattr("tcsis.judging.reference.anneal", lambda target: states)
    chains = mcmc.sample(target, num_chains=2_000, num_steps=500, burn_in=499, progress=False)
    verdict = judge(shuffled(chains), target)
    assert verdict.level == "unrefuted"
    assert "had not come to rest" in verdict.why


@pytest.mark.slow
def test_a_transition_of_first_order() -> None:
    """Annealed replicas are left in the disordered phase, which has a twentieth of the draws: once
    that made perfect draws doubtful, and those of the wrong phase alone trusted."""
    target = Potts(16, 10, math.log(1 + math.sqrt(10)))
    ordered = torch.arange(10).repeat(200)[:, None].expand(-1, 256)
    noise = torch.randint(10, (2_000, 256), generator=torch.Generator().manual_seed(0))
    settings = {"num_chains": 4_000, "progress": False, "init": torch.cat([ordered, noise])}
    good = mcmc.sample(target, "gibbs", num_steps=2_000, burn_in=1_999, **settings)
    assert judge(shuffled(good), target).level == "trusted"
    settings["init"] = noise.repeat(2, 1)
    hot = mcmc.sample(target, "gibbs", num_steps=30, burn_in=29, **settings)
    verdict = judge(shuffled(hot), target)
    assert verdict.level == "doubtful"
    assert "energy" in verdict.why and "annealed for comparison" in verdict.why


def test_what_disagrees_goes_by_its_name() -> None:
    target = Factors(
        [((0, 1), torch.zeros(2, 2))], [2, 2],
        site_names=["rain", "lawn"], value_names=[["no", "yes"], ["dry", "wet"]],
    )  # fmt: skip
    before = next(k for k in range(100) if "at site" in name_of(k, target))
    assert name_of(before, target) == "share of value yes at site rain"
    assert name_of(before + 1, target) == "share of value wet at site lawn"
