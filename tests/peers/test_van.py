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
from tcsis.peers.values import channels
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


def random_law(
    target: Target, awake: Callable[..., nn.Module], scale: float = 0.3
) -> Made | Symmetrised:
    law = awake(make_model(VanConfig(width=3), target, seed=0), scale=scale)
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


def law_of(law: Made | Symmetrised, x: Tensor) -> Tensor:
    """q(x) by its definition, site after site, and both ways where it is symmetrised."""
    if isinstance(law, Symmetrised):
        return (law_of(law.made, x) + law_of(law.made, 1 - x)) / 2
    told = channels(x, law.num_values, torch.float64).flatten(1)
    return law.logits(told).softmax(-1).gather(-1, x[..., None]).squeeze(-1).prod(-1).detach()


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_weight_is_z_whatever_the_weights(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """Σ_x q(x)·w(x) with q by its definition and w as ``sample`` gives it, at every state there is.
    Weights of the network that is not symmetrised, of one at half β, of turned states or without q
    have another mean."""
    target = SMALL[name]
    law, x = random_law(target, awake, scale=0.15), all_states(target)
    q, truth = law_of(law, x), tcsis.exact.solve(target).log_z
    draws = van.Van(target, VanConfig(width=3), law).sample(6_000, seed=1)
    place = target.num_values ** torch.arange(target.num_sites - 1, -1, -1)
    log_w = torch.full((len(x),), math.nan, **F64)
    log_w[(draws.x * place).sum(1)] = draws.log_weight
    assert log_w.isfinite().all()  # every state was drawn

    def log_mean(log_weight: Tensor) -> float:
        return float((q.log() + log_weight).logsumexp(0))

    assert log_mean(log_w) == pytest.approx(truth, abs=1e-10)
    log_density = target.log_density(x)
    wrong = {
        "half of β": 0.5 * log_density - q.log(),
        "turned": log_density - q.flip(0).log(),
        "without q": log_density,
    }
    if isinstance(law, Symmetrised):
        del wrong["turned"]  # which is right there
        wrong["not symmetrised"] = log_density - law.made.log_prob(x).detach()
    for log_weight in wrong.values():
        assert abs(log_mean(log_weight) - truth) > 0.01


# -- the gradient ----------------------------------------------------------------------------------


def gradient(loss: Tensor, law: nn.Module) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(law.parameters()))])


def expected_gradient(
    law: Made | Symmetrised, target: Target, reward: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """E_q[reward·∇ log q] over all states, the reward being one of log q and log p̄."""
    x = all_states(target)
    log_q = law.log_prob(x)
    signal = reward(log_q.detach(), target.log_density(x))
    return gradient((log_q.exp().detach() * signal * log_q).sum(), law)


def free_energy_gradient(law: Made | Symmetrised, target: Target) -> Tensor:
    """∇ Σ_x q (log q - log p̄), differentiated as it stands."""
    x = all_states(target)
    log_q = law.log_prob(x)
    return gradient((log_q.exp() * (log_q - target.log_density(x))).sum(), law)


@pytest.mark.parametrize("name", ["ising", "field", "potts"])
def test_the_reward_has_the_gradient_of_the_free_energy(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """With any baseline; turned, without the entropy or with half of β it has another."""
    target = SMALL[name]
    law = random_law(target, awake)
    truth = free_energy_gradient(law, target)
    for baseline in (0.0, 3.0, -3.0):
        found = expected_gradient(law, target, lambda q, p, b=baseline: q - p - b)
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-10)
    wrong: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda q, p: p - q, lambda q, p: -p, lambda q, p: q - 0.5 * p,
    ]  # fmt: skip
    for reward in wrong:
        assert (expected_gradient(law, target, reward) - truth).abs().max() > 1e-3


def with_graph(log_q: Tensor, log_density: Tensor) -> Tensor:
    """``reinforce`` with a graph on its reward."""
    reward = log_q - log_density
    return ((reward - reward.mean()) * log_q).mean()


def with_baseline(log_q: Tensor, log_density: Tensor, sign: float) -> Tensor:
    """``reinforce`` with the mean reward added ``sign`` times: -1 is right."""
    reward = (log_q - log_density).detach()
    return ((reward + sign * reward.mean()) * log_q).mean()


@pytest.mark.parametrize("name", ["ising", "potts"])
def test_the_loss_has_that_gradient_over_a_batch(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """On every state as often as q has it, the batch's gradient is that of the free energy; not so
    with the sign of the density turned, without it, or with a graph on the reward."""
    target = SMALL[name]
    law = random_law(target, awake)
    x = all_states(target)
    counts = (law_of(law, x) * 20_000).round().long()
    batch = x.repeat_interleave(counts, 0)
    log_density = target.log_density(batch)
    truth = free_energy_gradient(law, target)

    def error(loss: Callable[[Tensor, Tensor], Tensor], factor: float = 1.0) -> float:
        found = gradient(loss(law.log_prob(batch), factor * log_density), law)
        return float((found - truth).abs().max() / truth.abs().max())

    assert error(reinforce) < 0.02
    assert error(reinforce, -1.0) > 0.2
    assert error(reinforce, 0.0) > 0.2
    assert error(with_graph) > 0.2


def test_the_baseline_takes_away_what_all_states_share(awake: Callable[..., nn.Module]) -> None:
    """On any batch log p̄ + 100 has the gradient of log p̄; not so with no baseline, nor with one of
    the wrong sign."""
    target = SMALL["potts"]
    law, x = random_law(target, awake), all_states(target)[:7]

    def moved(loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        log_density = target.log_density(x)
        plain = gradient(loss(law.log_prob(x), log_density), law)
        return float((gradient(loss(law.log_prob(x), log_density + 100), law) - plain).abs().max())

    assert moved(reinforce) < 1e-10
    assert moved(lambda q, p: with_baseline(q, p, -1.0)) < 1e-10
    assert moved(lambda q, p: with_baseline(q, p, 0.0)) > 1
    assert moved(lambda q, p: with_baseline(q, p, 1.0)) > 1


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
