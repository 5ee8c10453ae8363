"""SDDS against enumeration: its chains, its weights, its two gradients, training, files."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tcsis
from tcsis.learn.networks import Convolutions
from tcsis.peers import sdds
from tcsis.peers.sdds import ForwardKL, ReverseKL, SddsConfig
from tcsis.peers.sdds.chain import FlipNoise, Paths, draw_paths, log_bernoulli
from tcsis.peers.sdds.model import ReverseNetwork, make_model
from tcsis.peers.sdds.objectives import Objective, without_line
from tcsis.peers.sdds.training import inverse_temperature
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick, Target, from_callable

F64 = {"dtype": torch.float64}
LEVELS = ("trusted", "trusted by weight", "unrefuted", "doubtful")
SMALL: dict[str, Target] = {
    "chain": Pairwise(
        [[0, 1], [1, 2]],
        torch.tensor([[[0.8, 0.0], [0.1, 0.5]], [[0.2, -0.6], [0.0, 0.9]]]),
        torch.tensor([[0.0, 0.3], [0.0, -0.5], [0.1, 0.0]]),
        **F64,
    ),
    "graph": SherringtonKirkpatrick(3, beta=0.7, seed=1, **F64),
    "function": from_callable(lambda x: torch.sin(1.0 + x[:, 0] + 2 * x[:, 1]), 2, 2),
}
SHORT = SddsConfig(chain_length=3, num_paths=64, batch_size=64, num_steps=5, num_evaluations=0)
QUICK = SddsConfig(num_paths=64, num_evaluations=0)
OBJECTIVES: dict[str, Objective] = {"reverse": ReverseKL(), "forward": ForwardKL()}


def states_of(target: Target) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(2)] * target.num_sites)


def random_model(
    target: Target, awake: Callable[..., nn.Module], length: int, scale: float = 0.4
) -> ReverseNetwork:
    config = SddsConfig(chain_length=length)
    model = awake(make_model(config, target, seed=0), scale=scale)
    assert isinstance(model, ReverseNetwork)
    return model


def all_paths(model: ReverseNetwork, target: Target) -> Paths:
    """Every path that there is, once."""
    x, length = states_of(target), model.noise.num_steps
    places = torch.cartesian_prod(*[torch.arange(len(x))] * (length + 1))
    x = x[places.T]  # (T + 1, n, d)
    steps = [torch.tensor([t]) for t in range(1, length + 1)]
    log_q = [log_bernoulli(model(x[int(t)], t), x[int(t) - 1]) for t in steps]
    log_p = [model.noise.log_prob(x[int(t)], x[int(t) - 1], t) for t in steps]
    return Paths(
        x[1:], x[:-1], torch.stack(log_q), torch.stack(log_p), target.log_density(x[0]).double()
    )


def path_law(paths: Paths) -> Tensor:
    """log U(x_T) + Σ log q, (n,)."""
    return paths.log_q.sum(0) - paths.x_t.shape[-1] * math.log(2)


# -- the chains ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 5, 64])
def test_what_is_left_of_a_state(length: int) -> None:
    """α_t is the product of all 1 - 2β_s, and nothing is left in the end."""
    noise, t = FlipNoise(length), torch.arange(1, length + 1).double()
    torch.testing.assert_close(noise.alpha(t), (1 - 2 * noise.flip(t)).cumprod(0))
    assert float(noise.alpha(torch.tensor(0.0))) == 1
    assert float(noise.alpha(t[-1])) == 0


def test_both_laws_of_a_step_are_normalised(awake: Callable[..., nn.Module]) -> None:
    target = SMALL["chain"]
    model, x = random_model(target, awake, 3), states_of(target)
    for t in (1, 2, 3):
        step = torch.tensor([t])
        for here in x:
            logits = model(here.expand_as(x), step).detach()
            back = log_bernoulli(logits, x).exp().sum()
            forth = model.noise.log_prob(x, here.expand_as(x), step).exp().sum()
            assert float(back) == pytest.approx(1, abs=1e-12)
            assert float(forth) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", SMALL)
def test_the_mean_weight_is_z_whatever_the_network(
    name: str, length: int, awake: Callable[..., nn.Module]
) -> None:
    """The sum over all paths; a sign, a factor of two or a missing log U shows."""
    target = SMALL[name]
    truth = tcsis.exact.solve(target).log_z
    with torch.no_grad():
        paths = all_paths(random_model(target, awake, length), target)
    law = path_law(paths)
    assert float(law.logsumexp(0)) == pytest.approx(0, abs=1e-10)
    assert float(paths.log_weight.std()) > 0.2
    assert float((law + paths.log_weight).logsumexp(0)) == pytest.approx(truth, abs=1e-10)
    wrong = {
        "sign": replace(paths, log_p=-paths.log_p),
        "factor of two": replace(paths, log_p=2 * paths.log_p),
        "no noise": replace(paths, log_p=torch.zeros_like(paths.log_p)),
    }
    for other in wrong.values():
        assert abs(float((law + other.log_weight).logsumexp(0)) - truth) > 0.1
    without = paths.log_weight - target.num_sites * math.log(2)
    assert abs(float((law + without).logsumexp(0)) - truth) > 0.1


def test_independent_sites_are_exact_before_training() -> None:
    """There the reverse conditionals are products, the field says all, and weights are all Z."""
    fields = torch.tensor([[0.0, 0.7], [0.3, -0.4], [0.0, 2.0]], **F64)
    target = Pairwise([], torch.zeros(0, 2, 2), fields, **F64)
    model = make_model(SHORT, target, seed=0).double()
    weights = all_paths(model, target).log_weight
    truth = torch.full_like(weights, tcsis.exact.solve(target).log_z)
    torch.testing.assert_close(weights, truth, rtol=0, atol=1e-6)


@pytest.mark.statistical
def test_drawn_paths_know_their_law(awake: Callable[..., nn.Module]) -> None:
    """Frequencies of x_0 of 50,000 paths within five standard errors, about 1e-6 a state."""
    target, n = SMALL["chain"], 50_000
    model = random_model(target, awake, 3)
    drawn = draw_paths(model, model.noise, target, n, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.x_t[:-1], drawn.x_before[1:])
    for t in (1, 2, 3):
        logits = model(drawn.x_t[t - 1], torch.tensor([t]))
        again = log_bernoulli(logits, drawn.x_before[t - 1])
        torch.testing.assert_close(drawn.log_q[t - 1], again.detach())
    place = 2 ** torch.arange(target.num_sites - 1, -1, -1)
    seen = torch.bincount((drawn.x_before[0] * place).sum(1), minlength=8) / n
    paths = all_paths(model, target)
    ends = (paths.x_before[0] * place).sum(1)
    law = torch.zeros(8, **F64).index_add(0, ends, path_law(paths).exp().detach())
    assert ((seen - law).abs() < 5 * (law / n).sqrt()).all()


# -- the gradients ---------------------------------------------------------------------------------


def gradient(loss: Tensor, model: nn.Module) -> Tensor:
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def divergences(model: ReverseNetwork, target: Target) -> dict[str, Tensor]:
    """Both KLs of paths, by enumeration."""
    paths = all_paths(model, target)
    log_q, log_w = path_law(paths), paths.log_weight
    log_p = (log_q + log_w).detach()  # q cancels
    log_p = log_p - log_p.logsumexp(0)
    return {
        "reverse": (log_q.exp() * (log_q - log_p)).sum(),
        "forward": (log_p.exp() * (log_p - log_q)).sum(),
    }


def test_the_policy_gradient_is_that_of_the_reverse_kl(awake: Callable[..., nn.Module]) -> None:
    """Over all paths, with any baseline that is a function of x_t; not with one of x_{t-1}."""
    target = SMALL["chain"]
    model = random_model(target, awake, 3)
    expected = gradient(divergences(model, target)["reverse"], model)
    paths = all_paths(model, target)
    law, reward = path_law(paths).exp().detach(), paths.reward_to_go.detach()

    def policy(signal: Tensor) -> Tensor:
        return gradient(-(law * signal * paths.log_q).sum(), model)

    base = target.log_density(paths.x_t).double()
    found = policy(reward - 3 * base)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert expected.abs().max() > 0.05


@pytest.mark.parametrize("wrong", ["sign", "of x before", "without noise"])
def test_wrong_rewards_have_another_gradient(wrong: str, awake: Callable[..., nn.Module]) -> None:
    target = SMALL["chain"]
    model = random_model(target, awake, 3)
    expected = gradient(divergences(model, target)["reverse"], model)
    paths = all_paths(model, target)
    reward = paths.reward_to_go.detach()
    signal = {
        "sign": -reward,
        "of x before": reward - target.log_density(paths.x_before).double(),
        "without noise": reward - paths.log_p.cumsum(0),
    }[wrong]
    found = gradient(-(path_law(paths).exp().detach() * signal * paths.log_q).sum(), model)
    assert (found - expected).abs().max() > 0.02


@pytest.mark.statistical
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loss_of_drawn_steps_has_the_gradient_of_its_kl(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    """Of 20,000 paths, up to the scale of the rewards.  The angle between the two and the length
    have errors of about 0.02 at an effective share of 0.5: the bounds are three times that."""
    target, objective = SMALL["chain"], OBJECTIVES[name]
    model = random_model(target, awake, 3, scale=0.1)
    expected = gradient(divergences(model, target)[name], model)
    drawn = draw_paths(model, model.noise, target, 20_000, torch.Generator().manual_seed(1))
    known = target.log_density(drawn.x_t)
    log_q = [log_bernoulli(model(drawn.x_t[t], torch.tensor([t + 1])), drawn.x_before[t])
             for t in range(3)]  # fmt: skip
    loss = objective.loss(torch.stack(log_q), drawn.log_q, objective.signal(drawn, known))
    found = gradient(loss, model)
    cosine = float(found @ expected / found.norm() / expected.norm())
    assert cosine > math.cos(0.06)
    if name == "forward":
        assert float(3 * found.norm() / expected.norm()) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_gradient_is_left_at_the_exact_solution(name: str) -> None:
    """On average, and in single precision not by chance either: steps drawn have no signal but for
    rounding, which must not be taken for one.  (With fields of equal size the reward to go is a
    line in log p̄(x_t), so that the baseline is exact too.)  At half of β there is a gradient."""
    fields = torch.tensor([[0.0, 0.7], [0.3, -0.4]], **F64)
    target = Pairwise([], torch.zeros(0, 2, 2), fields, **F64)
    exact = make_model(SHORT, target, seed=0).double()
    assert gradient(divergences(exact, target)[name], exact).abs().max() < 1e-6

    model, objective = make_model(SHORT, target, seed=0), OBJECTIVES[name]
    drawn = draw_paths(model, model.noise, target, 50, torch.Generator().manual_seed(1))
    known = target.log_density(drawn.x_t)

    def largest(paths: Paths) -> float:
        log_q = log_bernoulli(model(paths.x_t[1], torch.tensor([2])), paths.x_before[1])
        signal = objective.signal(paths, known)[1]
        return float(gradient(objective.loss(log_q, paths.log_q[1], signal), model).abs().max())

    assert largest(drawn) < 1e-3
    assert largest(replace(drawn, log_density=0.5 * drawn.log_density)) > 0.05


def test_what_may_be_turned_is_turned_alike(awake: Callable[..., nn.Module]) -> None:
    """Logits are odd in the spins where the target may be turned, and there alone."""
    for name, odd in (("graph", True), ("chain", False)):
        model, x = random_model(SMALL[name], awake, 3), states_of(SMALL[name])
        for t in (1, 2, 3):
            sum_of_both = model(x, torch.tensor([t])) + model(1 - x, torch.tensor([t]))
            assert (float(sum_of_both.detach().abs().max()) < 1e-10) is odd


def test_steps_that_moved_too_far_do_not_count() -> None:
    """By the ratio q/q_then: e^0.19 is above 1.2, and e^-0.21 is not below 0.8."""
    log_q = torch.tensor([0.5, 0.5, -0.5, -0.5, 0.19, -0.21], requires_grad=True)
    signal = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    ReverseKL(clip=0.2).loss(log_q, torch.zeros(6), signal).backward()
    assert log_q.grad is not None
    assert (log_q.grad != 0).tolist() == [False, True, True, False, False, True]


def test_a_line_is_taken_away() -> None:
    x = torch.randn(2, 40, **F64, generator=torch.Generator().manual_seed(0))
    rest = without_line(3 - 2 * x, x)
    assert rest.abs().max() < 1e-12
    assert without_line(x.square(), x).abs().max() > 0.1


def test_the_temperature_falls_to_one() -> None:
    assert inverse_temperature(4.0, 0.0) == 0.25
    assert inverse_temperature(4.0, 0.25) == pytest.approx(1 / 2.5)
    assert inverse_temperature(4.0, 0.5) == inverse_temperature(4.0, 1.0) == 1


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_training_raises_the_effective_share(name: str) -> None:
    target = Ising(side=4, beta=0.4407)
    config = QUICK.model_copy(update={"objective": OBJECTIVES[name], "num_paths": 128})
    untrained = sdds.Sdds(target, config, make_model(config, target, seed=0)).sample(2_000)
    model = sdds.train(target, config=config, steps=120, progress=False)
    draws = model.sample(2_000)
    assert untrained.ess < 0.25
    assert draws.ess > 0.4
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.15)
    assert draws.num_network_calls == 2_000 * 24
    assert draws.num_density_calls == 2_000
    assert model.num_density_calls > 30 * 128 * 24


@pytest.mark.parametrize(
    "target",
    [
        SherringtonKirkpatrick(5, beta=1.0, seed=1),
        Ising(side=(3, 4), beta=0.5, field=0.2, boundary="open"),
        from_callable(lambda x: 0.3 * x.float().sum(-1), 4, num_values=2),
        Ising(3, 0.3, field=0.2).given({0: 1, 1: 0, 5: 1}),
    ],
    ids=["graph", "open", "function", "given"],
)
@pytest.mark.statistical
def test_every_kind_of_target_trains(target: Target, tmp_path: Path) -> None:
    """log Z within 4.5 standard errors (7e-6)."""
    config = SHORT.model_copy(update={"chain_length": 8, "num_evaluations": 1})
    model = sdds.train(target, config=config, steps=5, progress=False)
    draws = model.sample(1_000)
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error + 1e-5)
    assert [record["step"] for record in model.history] == [5]
    if not target.opaque:
        model.save(tmp_path)
        assert torch.equal(sdds.load(tmp_path).sample(20).x, model.sample(20).x)


def test_same_seed_same_draws_and_another_another() -> None:
    target = Ising(side=3, beta=0.4)
    first, again, other = (
        sdds.train(target, config=SHORT, seed=seed, progress=False) for seed in (1, 1, 2)
    )
    draws = first.sample(100, seed=4)
    assert torch.equal(draws.log_weight, again.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.log_weight, other.sample(100, seed=4).log_weight)
    assert not torch.equal(draws.x, first.sample(100, seed=5).x)


def test_save_and_load(tmp_path: Path) -> None:
    target = Ising(side=3, beta=0.4)
    config = SHORT.model_copy(
        update={"objective": ForwardKL(), "network": Convolutions(width=8), "num_evaluations": 1}
    )
    model = sdds.train(target, config=config, progress=False)
    model.save(tmp_path)
    again = sdds.load(tmp_path)
    assert again.config == model.config
    assert (again.history, again.seconds) == (model.history, model.seconds)
    assert torch.equal(model.sample(50, seed=1).log_weight, again.sample(50, seed=1).log_weight)
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        sdds.load(tmp_path, target=Ising(side=3, beta=0.5))
    with pytest.raises(ValueError, match="holds no model of DNFS"):
        tcsis.peers.dnfs.load(tmp_path)


def test_by_name_and_judged(tmp_path: Path) -> None:
    target = Ising(side=3, beta=0.4)
    found = tcsis.compare(target, ["sdds"], n=500, steps=20, progress=False)
    draws = found.methods["sdds"]
    assert draws.x.shape == (500, 9)
    assert tcsis.judge(draws, target).level in LEVELS
    found.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="has 3 values a site: expected 2"):
        sdds.train(Potts(side=2, num_values=3, beta=0.4), progress=False)
    with pytest.raises(ValueError, match="chain_length is wrong"):
        SddsConfig(chain_length=1)
    with pytest.raises(ValueError, match=r"objective.*kind is 'kl'"):
        SddsConfig(objective={"kind": "kl"})
    hard = from_callable(lambda x: torch.where(x.sum(-1) > 1, -torch.inf, 0.0), 4, num_values=2)
    with pytest.raises(ValueError, match="log density -inf at states of uniform noise"):
        sdds.train(hard, config=SHORT, progress=False)
