"""Independence chains: exact however poor the model, on its own or with local steps between."""

import re
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

import tcsis
from tcsis import exact, mcmc
from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn import presets
from tcsis.learn.learned import Learned
from tcsis.mcmc.independence import LocalMoves, Paths, Proposals, independence_chains
from tcsis.mcmc.kernel import log_acceptance
from tcsis.targets import Ising, Potts, Target, from_callable

DOUBLE = {"dtype": torch.float64}
TARGETS: dict[str, Target] = {
    "ising": Ising((2, 3), 0.3, 0.4, **DOUBLE),
    "potts": Potts((2, 2), 3, 0.5, **DOUBLE),
}
METHODS = ("autoregressive", "self-normalized")


@pytest.fixture
def make(awake: Callable) -> Callable[[Target, str], Learned]:
    """A model that was never trained, with random weights: its ESS is 0.01 to 0.5."""

    network = {"kind": "lattice", "width": 8, "depth": 2}  # wrong enough for mistakes to show

    def making(target: Target, method: str) -> Learned:
        few = {} if method == "autoregressive" else {"num_calls": 2, "network": network}
        config = presets.tiny(target, method).changed(method=few)
        return Learned(target, config, awake(config.new_model(target, seed=0)).eval())

    return making


class Coins:
    """Uniform states: w(x) = V^d·p̄(x)."""

    def __init__(self, target: Target):
        self.target = target

    def sample(self, n: int, *, seed: int = 0) -> Draws:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randint(self.target.num_values, (n, self.target.num_sites), generator=generator)
        return Draws(x.to(torch.uint8), self.target.log_density(x), 0.0, n, 2 * n)


def misfit(target: Target, x: Tensor) -> tuple[float, int]:
    """χ² of independent states (n, d) against p, and its degrees of freedom."""
    p = Enumeration(target).p
    counts = torch.bincount(state_index(x.long(), target.num_values), minlength=len(p))
    expected = len(x) * p
    return float(((counts - expected).square() / expected).sum()), len(p) - 1


# -- exactness -------------------------------------------------------------------------------------


def transitions(target: Target, model: Learned, acceptance: Callable) -> tuple[Tensor, Tensor]:
    """p and the matrix P(x → y) = q(y)·acceptance for y ≠ x, where q = p̄/w."""
    table = Enumeration(target)
    x = table.states(torch.arange(table.num_states))
    log_weight = model.sampler.weigh(x, torch.Generator())
    q = (target.log_density(x) - log_weight).exp()
    torch.testing.assert_close(q.sum(), torch.ones_like(q.sum()), rtol=0, atol=1e-12)
    matrix = q * acceptance(log_weight[:, None], log_weight[None], 0.0, 0.0).exp()
    matrix.fill_diagonal_(0.0)
    return table.p, matrix + torch.diag(1 - matrix.sum(1))


def inverted(here: Tensor, there: Tensor, forward: float, backward: float) -> Tensor:
    return log_acceptance(there, here, forward, backward)


@pytest.mark.parametrize("name", TARGETS)
def test_invariance(name: str, make: Callable) -> None:
    target = TARGETS[name]
    model = make(target, "autoregressive")
    p, matrix = transitions(target, model, log_acceptance)
    torch.testing.assert_close(p @ matrix, p, rtol=0, atol=1e-12)
    p, matrix = transitions(target, model, inverted)
    assert (p @ matrix - p).abs().max() > 1e-3


NUM_CHAINS = 8_000


def from_the_target(model: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains start at exact draws, with paths from the noise, so that every step has to keep p."""

    def start(proposals: Proposals) -> Paths:
        proposals.draw(1)
        x = exact.draw(model.target, proposals.num_chains, seed=5).x
        return Paths(x, model.sampler.weigh(x.long(), torch.Generator().manual_seed(6)))

    monkeypatch.setattr(Proposals, "start", start)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", [None, "gibbs"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", TARGETS)
def test_chains_from_the_target_stay_there(
    name: str, method: str, kernel: str | None, make: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight tests at level 1e-5: one false alarm in 12,500 seeds."""
    model = make(TARGETS[name], method)
    from_the_target(model, monkeypatch)
    draws = model.chain(1, num_chains=NUM_CHAINS, kernel=kernel, burn_in=2, seed=1)
    assert 0.1 < draws.acceptance < 0.9
    statistic, freedom = misfit(model.target, draws.flat.x)
    assert statistic < chi2.isf(1e-5, freedom)


@pytest.mark.statistical
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mistake", ["inverted", "stale"])
def test_a_wrong_chain_is_caught(
    mistake: str, method: str, make: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the same test with the acceptance ratio the wrong way round, or with
    the weight of the path to the state before the local move."""
    model = make(TARGETS["ising"], method)
    from_the_target(model, monkeypatch)
    if mistake == "inverted":
        monkeypatch.setattr("tcsis.mcmc.independence.log_acceptance", inverted)
    else:
        keep_weights(monkeypatch)
    draws = model.chain(1, num_chains=NUM_CHAINS, kernel="gibbs", burn_in=2, seed=1)
    statistic, freedom = misfit(model.target, draws.flat.x)
    assert statistic > chi2.isf(1e-12, freedom)


def keep_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local moves that leave the weights what they were."""
    move = LocalMoves.move
    wrong = lambda moves, here: Paths(move(moves, here).x, here.log_weight)  # noqa: E731
    monkeypatch.setattr(LocalMoves, "move", wrong)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", [None, "gibbs"])
@pytest.mark.parametrize("name", TARGETS)
def test_chains_come_to_the_target(name: str, kernel: str | None, make: Callable) -> None:
    """From draws of the model, the largest weight of which is 20 times the mean: after 300 steps
    less than 1e-6 of the start is left, and after 60 with local ones.  Four tests at level 1e-5."""
    model = make(TARGETS[name], "autoregressive")
    burn_in = 300 if kernel is None else 60
    draws = model.chain(1, num_chains=2_000, kernel=kernel, burn_in=burn_in, seed=2)
    statistic, freedom = misfit(model.target, draws.flat.x)
    assert statistic < chi2.isf(1e-5, freedom)
    statistic, freedom = misfit(model.target, model.sample(2_000).x)
    assert statistic > chi2.isf(1e-12, freedom)


@pytest.mark.statistical
def test_any_sampler_of_weighted_draws_serves() -> None:
    """At level 1e-5, by annealing that is far too short."""
    target = TARGETS["potts"]
    sampler = tcsis.learning_free(target, num_rungs=1, num_steps=1, num_sweeps=1)
    draws = mcmc.independence_chains(sampler, target, 1, num_chains=2_000, burn_in=40, seed=0)
    statistic, freedom = misfit(target, draws.flat.x)
    assert statistic < chi2.isf(1e-5, freedom)


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, "gibbs"])
def test_a_seed_is_a_chain_and_thinning_keeps_every_few(kernel: str | None, make: Callable) -> None:
    model = make(TARGETS["potts"], "autoregressive")
    every = model.chain(12, num_chains=3, kernel=kernel, burn_in=5, seed=4)
    assert every.x.shape == (3, 12, 4)
    assert every.x.dtype == torch.uint8
    assert every.log_weight is None
    again = model.chain(4, num_chains=3, kernel=kernel, burn_in=5, thin=3, seed=4)
    assert torch.equal(again.x, every.x[:, 2::3])
    assert again.acceptance == every.acceptance
    late = model.chain(10, num_chains=3, kernel=kernel, burn_in=7, seed=4)
    assert torch.equal(late.x, every.x[:, 2:])
    other = model.chain(12, num_chains=3, kernel=kernel, burn_in=5, seed=5)
    assert not torch.equal(other.x, every.x)


def test_proposals_come_in_batches_and_are_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tcsis.mcmc.independence.BATCH_SIZE", 8)
    draws = independence_chains(Coins(TARGETS["ising"]), TARGETS["ising"], 9, num_chains=3)
    assert draws.x.shape == (3, 9, 6)
    assert draws.num_density_calls == 3 * (1 + 100 + 9)
    assert draws.num_network_calls == 2 * 3 * (1 + 100 + 9)


def test_local_moves_are_paid_for() -> None:
    """A sweep of Gibbs is one density on a pairwise target, and weights here are another."""
    target = TARGETS["ising"]
    draws = independence_chains(
        Coins(target), target, 9, num_chains=3, burn_in=1, kernel="gibbs",
        weigh=lambda x, generator: target.log_density(x),
    )  # fmt: skip
    assert draws.num_density_calls == 3 * (1 + 10 + 2 * 10)
    assert draws.num_network_calls == 2 * 3 * (1 + 10 + 10)


def test_chains_are_judged_as_they_are() -> None:
    target = Ising(3, 0.1)
    draws = independence_chains(Coins(target), target, 1_000, seed=1)
    assert mcmc.diagnose(draws, target).verdict == "mixed"
    assert tcsis.judge(draws, target).level == "trusted"
    slow = Ising(4, 0.4)
    draws = independence_chains(Coins(slow), slow, 1_000, seed=1)
    assert mcmc.diagnose(draws, slow).verdict != "mixed"
    assert tcsis.judge(draws, slow).level != "trusted"


# -- forbidden states and refusals -----------------------------------------------------------------


def no_neighbours(x: Tensor) -> Tensor:
    """8 of 729 states are allowed: no two equal neighbours, and no 2 but at the ends."""
    clash = (x[:, 1:] == x[:, :-1]).any(1) | (x[:, 1:-1] == 2).any(1)
    return torch.where(clash, -torch.inf, 0.1 * x.sum(1).double())


def test_chains_never_stand_at_forbidden_states() -> None:
    target = from_callable(no_neighbours, 6, 3)
    draws = independence_chains(Coins(target), target, 200, num_chains=4, burn_in=0, seed=0)
    assert target.log_density(draws.x.long()).isfinite().all()
    assert 0 < draws.acceptance < 0.05
    rare = from_callable(lambda x: torch.where(x.sum(1) > 0, -torch.inf, 0.0).double(), 10, 2)
    stuck = independence_chains(Coins(rare), rare, 4, num_chains=30, burn_in=0, seed=0)
    assert not stuck.x.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_draws": 0}, "num_draws is 0"),
        ({"thin": 0}, "thin is 0"),
        ({"burn_in": -1}, "burn_in is -1"),
        ({"kernel": "gips"}, "did you mean 'gibbs'?"),
        ({"kernel": "tempering"}, "kernel is 'tempering': expected one that leaves the target"),
        ({"kernel": "dula"}, "kernel is 'dula': expected one that leaves the target"),
        ({"kernel": "gibbs"}, "kernel is 'gibbs' and weigh is missing"),
        ({"sampler": mcmc.ChainSampler(TARGETS["ising"])}, "gives draws without log_weight"),
        ({"sampler": Coins(TARGETS["potts"])}, "of shape (10, 4): expected (10, 6)"),
        (
            {"sampler": Coins(from_callable(lambda x: torch.full((len(x),), -torch.inf), 6, 2))},
            "all 10,230 first draws of the sampler have weight zero",
        ),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    target = TARGETS["ising"]
    settings = {"sampler": Coins(target), "target": target, "num_draws": 5} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        independence_chains(**settings)
