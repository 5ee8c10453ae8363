"""VAN against enumeration: its law, its weights, its gradient, training, files."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tcsis
from tcsis.learn.training import DivergedError
from tcsis.peers import mdns, van
from tcsis.peers.training import MANY_STEPS
from tcsis.peers.van.model import Made, Symmetrised, VanConfig, make_model
from tcsis.peers.van.training import VanLoss, reinforce
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick, Target, from_callable

F64 = {"dtype": torch.float64}
SMALL: dict[str, Target] = {
    "ising": Ising(side=2, beta=0.4, **F64),
    "field": Ising(side=(2, 3), beta=0.4, field=0.3, **F64),
    "potts": Potts(side=2, num_values=3, beta=0.4, **F64),
    "graph": SherringtonKirkpatrick(5, beta=0.7, seed=1, **F64),
}
QUICK = VanConfig(num_steps=300, batch_size=256, num_evaluations=0)


def all_states(target: Target) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)


def random_law(target: Target, awake: Callable[..., nn.Module]) -> Made | Symmetrised:
    law = awake(make_model(VanConfig(width=3), target, seed=0))
    assert isinstance(law, Made | Symmetrised)
    return law


# -- the law ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_the_law_is_normalised_and_reads_only_what_is_before(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    target = SMALL[name]
    law, x = random_law(target, awake), all_states(target)
    log_q = law.log_prob(x).detach()
    assert float(log_q.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert float(log_q.std()) > 0.2
    made = law.made if isinstance(law, Symmetrised) else law
    z = torch.randn(1, made.first.weight.shape[0], **F64, requires_grad=True)
    for k in range(target.num_sites):
        (read,) = torch.autograd.grad(made.logits(z)[0, k].square().sum(), z)
        sites = read.reshape(target.num_sites, -1).abs().sum(1) > 0
        assert sites.tolist() == [j < k for j in range(target.num_sites)]


@pytest.mark.parametrize("name", SMALL)
def test_draws_know_their_probability(name: str, awake: Callable[..., nn.Module]) -> None:
    law = random_law(SMALL[name], awake)
    x, log_q = law.draw(64, torch.Generator().manual_seed(0))
    torch.testing.assert_close(log_q, law.log_prob(x), rtol=0, atol=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["ising", "potts"])
def test_draws_follow_the_law(name: str, awake: Callable[..., nn.Module]) -> None:
    """Frequencies of 50,000 draws within five standard errors, about 1e-6 a state."""
    target, n = SMALL[name], 50_000
    law = random_law(target, awake)
    x, _ = law.draw(n, torch.Generator().manual_seed(0))
    place = target.num_values ** torch.arange(target.num_sites - 1, -1, -1)
    states = all_states(target)
    seen = torch.bincount((x * place).sum(1), minlength=len(states)) / n
    expected = law.log_prob(states).exp()
    assert ((seen - expected).abs() < 5 * (expected / n).sqrt() + 1e-4).all()


def test_turned_states_are_as_likely(awake: Callable[..., nn.Module]) -> None:
    law = random_law(SMALL["ising"], awake)
    x = all_states(SMALL["ising"])
    assert isinstance(law, Symmetrised)
    torch.testing.assert_close(law.log_prob(x), law.log_prob(1 - x))
    assert (law.made.log_prob(x) - law.made.log_prob(1 - x)).abs().max() > 0.1
    assert isinstance(make_model(VanConfig(), SMALL["field"], seed=0), Made)


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_weight_is_z_whatever_the_weights(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """E[w] over all draws that there can be, by the weights that ``sample`` gives."""
    target = SMALL[name]
    law = random_law(target, awake)
    draws = van.Van(target, VanConfig(width=3), law).sample(500, seed=1)
    log_q = law.log_prob(draws.x.long())
    torch.testing.assert_close(draws.log_weight, target.log_density(draws.x.long()) - log_q)
    x = all_states(target)
    log_q = law.log_prob(x).detach()
    mean = (log_q + (target.log_density(x) - log_q)).logsumexp(0)
    assert float(mean) == pytest.approx(tcsis.exact.solve(target).log_z, abs=1e-10)
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=5 * draws.log_z_error)


# -- the gradient ----------------------------------------------------------------------------------


def gradient(loss: Tensor, law: nn.Module) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(law.parameters()))])


def expected_gradient(law: Made | Symmetrised, target: Target, weigh: Callable[..., Tensor]):
    """E_q of (reward less baseline)·∇ log q over all states, with the mean as its baseline."""
    x = all_states(target)
    log_q = law.log_prob(x)
    q = log_q.exp().detach()
    reward = (log_q - target.log_density(x)).detach()
    return gradient((q * weigh(reward, q @ reward) * log_q).sum(), law)


@pytest.mark.parametrize("name", ["ising", "field", "potts"])
def test_reinforce_is_the_gradient_of_the_free_energy(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """Σ_x q (log q - log p̄) differentiated as it stands; a baseline of the wrong sign, none of the
    entropy or no β gives another."""
    target = SMALL[name]
    law, x = random_law(target, awake), all_states(target)
    log_q = law.log_prob(x)
    truth = gradient((log_q.exp() * (log_q - target.log_density(x))).sum(), law)
    found = expected_gradient(law, target, lambda reward, mean: reward - mean)
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-10)
    half = expected_gradient(law, target.scaled(0.5), lambda reward, mean: reward - mean)
    assert (half - truth).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["ising", "potts"])
def test_the_loss_has_that_gradient_over_a_batch(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """On every state as often as q has it, the batch's gradient is the expected one; with the sign
    of the baseline turned it is not, nor are its fluctuations then smaller than without."""
    target = SMALL[name]
    law = random_law(target, awake)
    x = all_states(target)
    counts = (law.log_prob(x).exp().detach() * 20_000).round().long()
    batch = x.repeat_interleave(counts, 0)
    log_density = target.log_density(batch)
    log_q = law.log_prob(batch)
    found = gradient(reinforce(log_q, log_density), law)
    truth = expected_gradient(law, target, lambda reward, mean: reward - mean)
    assert (found - truth).abs().max() < 0.02 * truth.abs().max()

    def spread(sign: float) -> float:
        reward = (log_q - log_density).detach()
        return float((reward + sign * reward.mean()).square().mean())

    assert spread(-1) < spread(0) < spread(1)


def test_the_gradient_is_zero_at_the_target() -> None:
    """q = p for one site of three values: no batch has a gradient, whatever its states are."""
    target = Pairwise([], torch.zeros(0, 3, 3), torch.tensor([[0.3, -0.2, 0.9]]), **F64)
    law = make_model(VanConfig(), target, seed=0).double()
    with torch.no_grad():
        law.direct.bias.copy_(torch.tensor([0.3, -0.2, 0.9]))
    x = torch.tensor([[0], [2], [2], [1]])
    right = reinforce(law.log_prob(x), target.log_density(x))
    heated = reinforce(law.log_prob(x), 0.5 * target.log_density(x))
    assert gradient(right, law).abs().max() < 1e-12
    assert gradient(heated, law).abs().max() > 1e-2
    assert float(right.detach()) == pytest.approx(-tcsis.exact.solve(target).log_z)


def test_the_target_is_heated_at_first() -> None:
    """At progress 0 a uniform law is already right; at the end log p̄ counts in full."""
    target = SMALL["field"]
    config = VanConfig(batch_size=4_000)
    law = make_model(config, target, seed=0)
    loss = VanLoss(law, target, config, torch.Generator().manual_seed(0))
    uniform = -target.num_sites * math.log(2)
    assert float(loss(0, 0.0).detach()) == pytest.approx(uniform, abs=1e-5)
    mean = float(target.log_density(all_states(target)).mean())
    spread = float(target.log_density(all_states(target)).std())
    assert float(loss(0, 1.0).detach()) == pytest.approx(
        uniform - mean, abs=5 * spread / math.sqrt(4_000)
    )


# -- training --------------------------------------------------------------------------------------


def test_training_on_a_critical_lattice() -> None:
    target = Ising(side=4, beta=0.4407)
    untrained = van.Van(target, QUICK, make_model(QUICK, target, seed=0)).sample(1_000)
    model = van.train(target, config=QUICK, seed=0, progress=False)
    draws = model.sample(2_000)
    assert untrained.ess < 0.1
    assert draws.ess > 0.95
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.02)
    assert model.seconds > 0
    assert model.num_density_calls == QUICK.num_steps * QUICK.batch_size
    assert draws.num_network_calls == 2_000 * 16
    assert draws.num_density_calls == 2_000


@pytest.mark.parametrize("name", ["potts", "graph", "field"])
def test_every_kind_of_target_trains(name: str) -> None:
    target = SMALL[name].to(dtype=torch.float32)
    config = QUICK.model_copy(update={"num_evaluations": 2, "num_evaluated": 100})
    model = van.train(target, config=config, steps=100, progress=False)
    before = van.Van(target, config, make_model(config, target, seed=0)).sample(400)
    after = model.sample(400)
    assert 1 - after.ess < 0.5 * (1 - before.ess)
    assert abs(after.log_z - tcsis.exact.solve(target).log_z) < 0.1
    assert [record["step"] for record in model.history] == [50, 100]


def test_forbidden_states_have_no_weight_and_are_learned_of() -> None:
    def no_neighbours(x: Tensor) -> Tensor:
        return torch.where((x & x.roll(1, -1)).any(-1), -torch.inf, 0.5 * x.sum(-1).double())

    target = from_callable(no_neighbours, 6, num_values=2)
    model = van.train(target, config=QUICK, steps=600, progress=False)
    draws = model.sample(2_000)
    assert draws.ess > 0.9
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.05)


def test_given_some_sites(tmp_path: Path) -> None:
    target = Ising(3, 0.3, field=0.2).given({0: 1, 1: 0, 5: 1})
    model = van.train(target, config=QUICK, steps=50, progress=False)
    draws = model.sample(1_000)
    assert not target.known.contradicted(draws.x).any()
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.1)


def test_same_seed_same_draws_and_files(tmp_path: Path) -> None:
    target = Potts(side=2, num_values=3, beta=0.4)
    config = QUICK.model_copy(update={"num_evaluations": 1})
    first, again, other = (
        van.train(target, config=config, seed=seed, steps=5, progress=False) for seed in (1, 1, 2)
    )
    draws = first.sample(100, seed=4)
    assert torch.equal(draws.log_weight, again.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.log_weight, other.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.x, first.sample(100, seed=5).x)
    first.save(tmp_path)
    loaded = van.load(tmp_path)
    assert (loaded.config, loaded.history, loaded.seconds) == (
        first.config, first.history, first.seconds,
    )  # fmt: skip
    assert torch.equal(draws.log_weight, loaded.sample(100, seed=4).log_weight)
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        van.load(tmp_path, target=Potts(side=2, num_values=3, beta=0.5))
    with pytest.raises(ValueError, match="holds no model of LEAPS"):
        tcsis.peers.leaps.load(tmp_path)


def test_by_name_beside_other_methods(tmp_path: Path) -> None:
    target = Ising(side=3, beta=0.4)
    found = tcsis.compare(target, ["van", "gibbs"], n=2_000, steps=300, progress=False)
    assert found.result.methods[0].training_seconds > 0
    found.report(tmp_path / "report.html")
    assert "van" in (tmp_path / "report.html").read_text()
    assert tcsis.judge(found.methods["van"], target).level == "trusted"


def test_refusals() -> None:
    target = Ising(side=3, beta=0.4)
    with pytest.raises(ValueError, match="n is 0"):
        van.Van(target, QUICK, make_model(QUICK, target, seed=0)).sample(0)
    with pytest.raises(ValueError, match="time_budget is -1"):
        van.train(target, time_budget=-1, progress=False)
    with pytest.raises(ValueError, match="has no setting 'num_walkers'"):
        VanConfig(num_walkers=3)
    config = QUICK.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(DivergedError, match="lower learning_rate"):
        van.train(target, config=config, progress=False)
    nothing = from_callable(lambda x: torch.full((len(x),), -torch.inf), 40, num_values=3)
    with pytest.raises(ValueError, match="forbids all 256 states"):
        van.train(nothing, config=QUICK, progress=False)


def test_the_config_of_another_peer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^config is a MdnsConfig: expected a VanConfig$"):
        van.train(Ising(side=2, beta=0.3), config=mdns.MdnsConfig(), progress=False)


def test_a_budget_alone_is_used_to_its_end() -> None:
    model = van.train(Ising(side=2, beta=0.3), time_budget=3.0, progress=False)
    assert model.config.num_steps == MANY_STEPS
    assert model.seconds > 2.5
