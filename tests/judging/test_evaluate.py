"""Perfect draws stand at their floors; wrong ones stand out, in the row that shows why."""

from dataclasses import replace

import pytest
import torch

import tcsis
from tcsis.judging.evaluation import evaluate_states
from tcsis.judging.reference import Reference, States
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass, Target

RING = Pairwise.from_spins(
    torch.eye(12).roll(1, 0) * 1.0 + torch.eye(12).roll(-1, 0) * 1.0, 0.2, beta=0.7
)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target",
    [Ising(4, 0.4407), Ising(10, 0.28), Potts(3, 3, 0.9), SpinGlass(6, 1.0), RING],
    ids=repr,
)
def test_perfect_draws_stand_at_the_floor(target: Target) -> None:
    """Every error under 4 floors (a half-normal's mean is 0.8 σ, so 3.2 σ; fewer than 7 rows of
    which the vectors fluctuate less): at most one false alarm in 100 for each target."""
    evaluation = tcsis.evaluate(tcsis.exact.draw(target, 4_000, seed=11), target)
    for row in evaluation.rows:
        assert row.error is not None
        assert row.floor is not None
        assert row.error < 4 * row.floor, row.name


@pytest.mark.statistical
def test_a_rare_bin_of_perfect_draws() -> None:
    """Value 1 leads in 1 state of 4,000, so that the exact draws for comparison may meet it far too
    seldom; still every error is under 6 floors, in a false alarm of one in 1,000 for each seed."""
    target = Pairwise([[0, 1]], torch.zeros(1, 2, 2), [[0.0, -4.6], [0.0, -4.6], [0.0, -4.6]])
    for seed in range(20):
        row = tcsis.evaluate(tcsis.exact.draw(target, 10_000, seed=seed), target)["modes"]
        assert row.error is not None and row.floor is not None
        assert row.error < 6 * row.floor
    wrong = tcsis.exact.draw(target, 10_000).x
    wrong[:200] = 1
    row = tcsis.evaluate(wrong, target)["modes"]
    assert row.error is not None and row.floor is not None
    assert row.error > 6 * row.floor


def test_marginals_a_hair_above_one() -> None:
    """A known or certain site has P = 1 up to rounding, and the floor stays a number."""
    target = Ising(3, 0.4, dtype=torch.float64)
    reference = Reference(target)
    truth = tcsis.exact.solve(target)
    marginals = truth.site_marginals.clone()
    marginals[0] = torch.tensor([-1e-16, 1 + 1e-15], dtype=torch.float64)
    vars(reference)["truth"] = replace(truth, site_marginals=marginals)
    drawn = States(target, tcsis.exact.draw(target, 100).x.long())
    floor = evaluate_states(drawn, None, reference, weighted=False)["site marginals"].floor
    assert floor is not None and floor > 0


def test_a_missing_mode_shows() -> None:
    target = Ising(4, 0.6)
    x = tcsis.exact.draw(target, 4_000, seed=1).x
    one_mode = torch.where(x.double().mean(-1, keepdim=True) < 0.5, 1 - x, x)
    evaluation = tcsis.evaluate(one_mode, target)
    assert evaluation["energy"].error < 4 * evaluation["energy"].floor
    for name in ("modes", "magnetisation", "correlation", "site marginals"):
        assert evaluation[name].error > 10 * evaluation[name].floor, name


def test_a_wrong_temperature_shows() -> None:
    evaluation = tcsis.evaluate(tcsis.exact.draw(Ising(10, 0.4), 2_000), Ising(10, 0.4407))
    for name in ("energy", "correlation", "magnetisation", "energy histogram"):
        assert evaluation[name].error > 5 * evaluation[name].floor, name


@pytest.mark.statistical
def test_weights_repair_a_wrong_temperature() -> None:
    """Draws at β = 0.42 reweighted to 0.4407 have ESS 0.9 and stand near the floor again."""
    target, proposal = Ising(4, 0.4407), Ising(4, 0.42)
    x = tcsis.exact.draw(proposal, 20_000, seed=2).x
    log_weight = target.log_density(x).double() - proposal.log_density(x).double()
    draws = tcsis.Draws(x, log_weight)
    plain = tcsis.evaluate(draws, target)["energy"]
    weighted = tcsis.evaluate(draws, target, weighted=True)["energy"]
    assert plain.error > 8 * plain.floor
    assert weighted.error < 4 * weighted.floor


def test_without_exact_answers() -> None:
    """A cube of side 6 that repels has no exact answer: the estimates stand alone, and say so."""
    x = torch.randint(2, (50, 256), generator=torch.Generator().manual_seed(0))
    evaluation = tcsis.evaluate(x[:, :216], Ising((6, 6, 6), -0.2))
    assert evaluation.method is None
    assert all(row.error is None for row in evaluation.rows if row.name != "modes")
    assert "no exact answer at this size" in str(evaluation)
    large = tcsis.evaluate(x, Ising(16, 0.3))
    assert large.method == "kaufman"
    assert all(row.error is not None for row in large.rows)
    repelled = tcsis.evaluate(x, Ising(16, -0.3))
    assert repelled.method == "kaufman"
    assert repelled["correlation"].error is not None
    assert repelled["magnetisation"].error is None  # there are no draws


@pytest.mark.statistical
def test_against_exact_draws_alone() -> None:
    """A ferromagnet in three dimensions has draws and no log Z: perfect draws are at the floor, in
    every row below 4 of them, and those of 5 % another temperature are not."""
    target = Ising((5, 5, 5), 0.2)
    right, wrong = (
        tcsis.evaluate(tcsis.exact.draw(law, 4_000, seed=3), target)
        for law in (target, Ising((5, 5, 5), 0.21))
    )
    assert "exact by draws, coupled from the past" in str(right)
    assert all(row.error < 4 * row.floor for row in right.rows)
    assert wrong["energy"].error > 4 * wrong["energy"].floor
    assert wrong["correlation"].error > 4 * wrong["correlation"].floor


def test_the_table_reads_well() -> None:
    text = str(tcsis.evaluate(tcsis.exact.draw(Ising(4, 0.4407), 1_000), Ising(4, 0.4407)))
    assert "1,000 draws, exact by enumeration" in text
    for name in ("energy", "correlation", "magnetisation", "modes", "states", "iid floor"):
        assert name in text


def test_bad_input() -> None:
    target = Ising(4, 0.4)
    with pytest.raises(ValueError, match="carry no log_weight"):
        tcsis.evaluate(torch.zeros(2, 16, dtype=torch.long), target, weighted=True)
    with pytest.raises(ValueError, match="the array has no draws: expected at least one"):
        tcsis.evaluate(torch.zeros(0, 16, dtype=torch.long), target)
    with pytest.raises(ValueError, match="draws is a set: expected Draws, an array"):
        tcsis.evaluate({0, 1}, target)
    with pytest.raises(ValueError, match=r"draws have shape \(2, 9\): expected \(n, 16\)"):
        tcsis.evaluate(torch.zeros(2, 9, dtype=torch.long), target)
    with pytest.raises(KeyError, match="is not among energy, site marginals"):
        tcsis.evaluate(torch.zeros(2, 16, dtype=torch.long), target)["entropy"]


def test_a_single_draw() -> None:
    for target in (Ising((2, 3), 0.3, field=0.1), SpinGlass(16, 1.0)):
        evaluation = tcsis.evaluate(torch.zeros(1, target.num_sites, dtype=torch.long), target)
        assert not evaluation["energy"].estimate.isnan()


def test_forbidden_draws_without_weight() -> None:
    """Annealing may end on a forbidden state, whose weight is zero and whose energy infinite."""
    target = tcsis.targets.from_callable(
        lambda x: torch.where(x.sum(-1) % 6 == 0, 0.0, -torch.inf), 6, 2
    )
    x = torch.tensor([[0] * 6, [1] * 6, [0, 1] * 3])
    draws = tcsis.Draws(x, torch.tensor([0.0, 0.0, -torch.inf]))
    assert tcsis.evaluate(draws, target, weighted=True)["energy"].estimate == 0


@pytest.mark.statistical
def test_the_floor_of_a_connected_correlation() -> None:
    """In a field the means take most of the spread with them; the floor must follow.  The mean of
    60 half-normal errors is known to 10 %, so 50 % is five deviations."""
    target = Ising((2, 3), 0.3, field=3.0)
    rows = [
        tcsis.evaluate(tcsis.exact.draw(target, 200, seed=seed), target)["correlation"]
        for seed in range(60)
    ]
    assert sum(row.error for row in rows) / 60 == pytest.approx(rows[0].floor, rel=0.5)


def test_the_reference_is_not_what_users_draw() -> None:
    target = SpinGlass((5, 5), 0.8, seed=1)
    assert tcsis.evaluate(tcsis.exact.draw(target, 20_000), target)["energy histogram"].error > 0


def test_whether_weights_were_used_is_a_fact() -> None:
    target = Ising(2, 0.4)
    even = tcsis.exact.draw(target, 100)
    uneven = tcsis.Draws(even.x, torch.linspace(0, 1, 100, dtype=torch.float64))
    for draws, weighted, title in (
        (even, True, "100 draws, exact"),
        (uneven, True, "100 draws, weighted, exact"),
        (uneven, False, "100 draws, unweighted, exact"),
        (tcsis.Draws(even.x), False, "100 draws, exact"),
    ):
        evaluation = tcsis.evaluate(draws, target, weighted=weighted)
        assert (evaluation.weighted, evaluation.uneven) == (weighted, draws is uneven)
        assert title in str(evaluation)
