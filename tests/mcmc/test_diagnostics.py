"""Mixed chains are called mixed, and every kind of stuck chain stuck."""

import math

import pytest
import torch

from tcsis import Draws, exact, mcmc, targets
from tcsis.mcmc.diagnostics import shown
from tcsis.targets import Ising, Potts


def as_chains(x: torch.Tensor, num_chains: int) -> Draws:
    return Draws(x.reshape(num_chains, -1, x.shape[-1]), seconds=2.0, num_density_calls=100.0)


def test_independent_draws_are_mixed() -> None:
    target = Ising(4, 0.3)
    diagnosis = mcmc.diagnose(as_chains(exact.draw(target, 8_000, seed=0).x, 8), target)
    assert diagnosis.verdict == "mixed"
    assert diagnosis.ess == pytest.approx(8_000, rel=0.15)
    assert diagnosis.ess_per_second == diagnosis.ess / 2
    assert diagnosis.ess_per_density_call == diagnosis.ess / 100
    assert "R-hat of" in diagnosis.why
    assert diagnosis.table().row_count == 5


def test_frozen_chains_are_stuck() -> None:
    """All in one and the same state: R-hat would be NaN and the effective size full."""
    for target in (Ising(4, 3.0), Ising(4, 3.0, field=1.0)):
        diagnosis = mcmc.diagnose(Draws(torch.ones(5, 100, 16, dtype=torch.uint8)), target)
        assert diagnosis.verdict == "stuck"
        assert diagnosis.ess == 0
        assert diagnosis.why == "5 of 5 chains never moved"


def test_single_mode_chains_are_stuck() -> None:
    """Cold Gibbs chains that all start up: energies look perfect, the down mode is never seen."""
    target = Ising(6, 0.6)
    start = torch.ones(8, 36, dtype=torch.long)
    draws = mcmc.sample(target, "gibbs", num_chains=8, num_steps=500, init=start, seed=0)
    diagnosis = mcmc.diagnose(draws, target)
    assert diagnosis.verdict == "stuck"
    assert diagnosis.ess == 0
    assert "stayed in one mode" in diagnosis.why
    mixed = mcmc.diagnose(mcmc.sample(target, "wolff", num_chains=8, num_steps=2_000), target)
    assert mixed.verdict == "mixed"


def test_potts_modes() -> None:
    target = Potts(5, 3, 1.6)
    start = torch.arange(6)[:, None].expand(6, 25) % 3
    draws = mcmc.sample(target, "gibbs", num_chains=6, num_steps=200, init=start, seed=0)
    assert "stayed in one mode" in mcmc.diagnose(draws, target).why


def test_chains_that_disagree_are_not_mixed() -> None:
    """Without a symmetry to tell, R-hat does: half the chains start far away and are slow."""
    target = Ising(8, 0.5, field=0.01)
    start = torch.arange(8)[:, None].expand(8, 64) % 2
    draws = mcmc.sample(target, "glauber", num_chains=8, num_steps=2_000, thin=20, init=start)
    diagnosis = mcmc.diagnose(draws, target)
    assert diagnosis.verdict == "not mixed"
    assert diagnosis.ess < 100


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"expected \(chain, draw, site\)"):
        mcmc.diagnose(exact.draw(Ising(4, 0.3), 10), Ising(4, 0.3))


def test_independent_draws_of_a_dominant_state_are_not_stuck() -> None:
    """Some chains of five draws repeat a frequent state by chance; that is no reason for alarm."""
    target = Ising(2, 0.5)
    draws = exact.draw(target, 2_000, seed=3).x.reshape(400, 5, 4)
    assert mcmc.diagnose(Draws(draws), target).verdict != "stuck"


def test_chains_that_stand_on_forbidden_states_are_stuck() -> None:
    target = targets.from_callable(lambda x: torch.where(x.sum(-1) > 0, 0.0, -torch.inf), 3, 2)
    diagnosis = mcmc.diagnose(Draws(torch.zeros(4, 10, 3, dtype=torch.uint8)), target)
    assert diagnosis.verdict == "stuck"


def test_an_r_hat_without_meaning_has_no_digits() -> None:
    assert (shown(1.01234), shown(5.4e15), shown(math.inf)) == (
        "1.012", "above 1,000", "above 1,000",
    )  # fmt: skip
