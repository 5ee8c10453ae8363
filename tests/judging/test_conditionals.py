"""What sites do given the others: zero in expectation for the target itself, and for no other."""

import math

import pytest
import torch
from scipy.stats import binom

import tcsis
from tcsis.judging import conditionals
from tcsis.judging.chances import bennett
from tcsis.judging.conditionals import Residuals, check_conditionals
from tcsis.judging.evidence import gather
from tcsis.judging.reference import Reference
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass, Target


def random_potts(scale: float = 1.0) -> Pairwise:
    generator = torch.Generator().manual_seed(3)
    edges = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]])
    couplings = scale * torch.randn(5, 3, 3, generator=generator)
    fields = scale * torch.randn(4, 3, generator=generator)
    return Pairwise(edges, couplings, fields, dtype=torch.float64)


def all_states(target: Target, law: Target) -> Residuals:
    """Every state, weighted by its probability under ``law``, with the conditionals of target."""
    d, v = target.num_sites, target.num_values
    x = torch.cartesian_prod(*[torch.arange(v)] * d)
    p = law.log_density(x).double().softmax(0)
    pairs = torch.combinations(torch.arange(d))
    log_p = target.log_ratios(x).double().log_softmax(-1)
    return Residuals(x, log_p, p * len(x), None, pairs)


def means(residuals: Residuals) -> torch.Tensor:
    """The exact expectations of everything that is looked at."""
    x, a, v = residuals.x, residuals.weight / len(residuals.x), residuals.log_p.shape[-1]
    p = residuals.log_p.exp()
    here = torch.nn.functional.one_hot(x, v).double()
    sites = torch.einsum("n,ndv->dv", a, here - p).flatten()
    i, j = residuals.pairs.T
    same = (x[:, i] == x[:, j]).double() - p[:, i].gather(-1, x[:, j, None]).squeeze(-1)
    summed = conditionals.summed(residuals, here, residuals.log_p).mean
    others = (here.sum(1, keepdim=True) - here) / x.shape[1]
    order = conditionals.summed(residuals, here, others).mean
    return torch.cat([sites, a @ same, torch.tensor([summed, order], dtype=torch.float64)])


@pytest.mark.parametrize("target", [random_potts(), Ising((2, 3), 0.5, dtype=torch.float64)])
def test_every_expectation_is_zero_for_the_target_and_for_no_other(target: Target) -> None:
    assert means(all_states(target, target)).abs().max() < 1e-12
    wrong = means(all_states(target, target.scaled(1.1)))
    assert wrong.abs().max() > 1e-2


def test_a_colder_law_follows_too_closely() -> None:
    target = random_potts()
    colder, hotter = (all_states(target, target.scaled(scale)) for scale in (1.1, 0.9))
    assert "too closely, as at a lower temperature" in conditionals.summed_deviations(colder)[0].why
    assert "too loosely, as at a higher" in conditionals.summed_deviations(hotter)[0].why


def test_bennett_bounds_the_binomial_tail() -> None:
    """P(|X - np| ≥ t) ≤ the bound, and the bound is near the tail where events are many."""
    for n, p in ((10_000, 0.3), (10_000, 1e-6), (500, 0.01), (50, 0.5)):
        mean, variance = n * p, n * p * (1 - p)
        for count in {round(mean + z * math.sqrt(variance)) + 1 for z in (1, 3, 5, 8)} | {2, 3}:
            if count <= mean:
                continue
            t = count - mean
            exact = binom.sf(count - 1, n, p) + binom.cdf(math.floor(mean - t), n, p)
            bound = bennett(*(torch.tensor(y, dtype=torch.float64) for y in (t, variance, 1.0)))
            assert exact <= float(bound)
            if variance > 100 and exact > 1e-12:
                assert float(bound) < 60 * exact
    still = torch.zeros(2, dtype=torch.float64)
    assert bennett(torch.tensor([0.0, 1.0]), still, torch.ones(2)).tolist() == [1.0, 0.0]


def finding(draws: tcsis.Draws, target: Target) -> tuple[str, str]:
    found = check_conditionals(gather(draws, Reference(target)))
    assert found is not None
    return found.level, found.why


def test_rare_events_are_no_alarm() -> None:
    """All but two sites of 20,000 where a field leaves them one in 10,000 are up: a z-test would
    call the two sites 20 standard errors off."""
    target = Pairwise.from_spins(torch.zeros(400, 400), math.log(1e6) / 2, dtype=torch.float64)
    x = torch.ones(2_000, 400, dtype=torch.uint8)
    x[0, 3] = x[1, 3] = 0
    assert finding(tcsis.Draws(x), target)[0] == "trusted"
    x[::50, 3] = 0
    level, why = finding(tcsis.Draws(x), target)
    assert level != "trusted"
    assert "site 3 has the value 1 in 98.0% of the draws" in why


@pytest.mark.statistical
def test_perfect_draws_pass_and_others_fail() -> None:
    """False alarms: 1e-3 a set.  8 sets each of draws with and without weights, and chains."""
    right, wrong = SpinGlass(6, 0.7), SpinGlass(6, 0.7 * 1.05)
    for seed in range(8):
        drawn = tcsis.exact.draw(right, 5_000, seed=seed)
        assert finding(tcsis.Draws(drawn.x), right)[0] == "trusted"
        off = tcsis.exact.draw(wrong, 5_000, seed=seed)
        assert finding(tcsis.Draws(off.x), right)[0] == "failed"
        assert finding(off.reweighted(wrong, right), right)[0] == "trusted"
        as_chains = tcsis.Draws(off.x.reshape(10, 500, 36))
        assert finding(as_chains, right)[0] != "trusted"
        assert finding(tcsis.Draws(drawn.x.reshape(10, 500, 36)), right)[0] == "trusted"


@pytest.mark.statistical
def test_all_draws_of_a_cheap_black_box_are_looked_at() -> None:
    """False alarms: 1e-3 a set, of 3.  A twentieth of the draws would not show 5 % of
    temperature."""

    def three_spins(x: torch.Tensor) -> torch.Tensor:
        s = 2.0 * x.double() - 1
        return 0.5 * (s[..., 2:] * s[..., 1:-1] * s[..., :-2]).sum(-1)

    s = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    table = 0.5 * torch.einsum("i,j,k->ijk", s, s, s)
    black_box = tcsis.targets.from_callable(three_spins, 40, 2)
    for seed, scale in enumerate((1.0, 1.05, 0.95)):
        tables = [((i, i + 1, i + 2), scale * table) for i in range(38)]
        drawn = tcsis.exact.draw(tcsis.targets.Factors(tables, [2] * 40), 10_000, seed=seed)
        level, why = finding(tcsis.Draws(drawn.x), black_box)
        assert level == ("trusted" if scale == 1 else "failed"), why


@pytest.mark.statistical
def test_slow_chains_are_compared_in_batches() -> None:
    """Chains whose states hardly change look like many draws that all agree on a fluctuation."""
    target = Potts(4, 3, 0.8)
    for seed in range(3):
        chains = tcsis.mcmc.sample(
            target, "glauber", num_chains=20, num_steps=3_000, burn_in=1_000, seed=seed,
            progress=False,
        )  # fmt: skip
        assert finding(chains, target)[0] == "trusted"
        order = torch.randperm(40_000, generator=torch.Generator().manual_seed(seed))
        independent = tcsis.Draws(chains.flat.x[order])  # or so it seems
        assert finding(independent, target)[0] != "trusted"
