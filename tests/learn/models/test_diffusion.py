"""The models for any times: limits, both parametrisations, symmetries, and the fields."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.learn import presets
from tcsis.learn.models.diffusion import (
    DenoiserModel,
    ScoreModel,
    known,
    mean_field,
    present_ratios,
)
from tcsis.noise import UniformNoise
from tcsis.targets import RBM, Ising, Pairwise, Potts, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TARGETS: dict[str, Target] = {
    "ising": Ising(3, 0.4, **DOUBLE),
    "ising in a field": Ising((4, 2), 0.3, 0.5, **DOUBLE),
    "potts": Potts((2, 3), 3, 0.7, **DOUBLE),
    "pairwise": Pairwise(
        [[0, 1], [1, 2], [3, 2], [4, 3]], normal(4, 3, 3, seed=0), normal(5, 3, seed=1), **DOUBLE
    ),
    "rbm": RBM(normal(5, 3, seed=2), normal(5, seed=3), normal(3, seed=4), **DOUBLE),
    "callable": from_callable(
        lambda x: torch.sin(x.double() @ torch.arange(1.0, 6.0).double()) * 2, 5, 3
    ),
}


def make(target: Target, objective: str = "path", **changes: object) -> DenoiserModel | ScoreModel:
    eps = 1e-3 if objective == "score-entropy" else 0.0  # a score needs some signal
    settings = {"objective": objective, "noise_eps": eps, **changes}
    config = presets.tiny(target, "self-normalized").changed(method=settings)
    return config.new_model(target, seed=0).double()


def some_states(target: Target, n: int = 20) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(target.num_values, (n, target.num_sites), generator=generator)


def mixed_times(x: Tensor) -> Tensor:
    """One time a site, of which a quarter 0 and a quarter 1."""
    t = torch.rand(x.shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    return (2 * t - 0.5).clamp(0, 1)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


# -- the denoiser ----------------------------------------------------------------------------------


def test_denoisers_are_normalised_and_know_what_is_known(target: Target, awake: Callable) -> None:
    model, x = awake(make(target)), some_states(target)
    t = mixed_times(x)
    log_d = model.denoiser(x, t).detach()
    assert log_d.shape == (*x.shape, target.num_values)
    assert not bool(log_d.isnan().any())
    assert float(log_d.logsumexp(-1).abs().max()) < 1e-12
    one_hot = torch.nn.functional.one_hot(x, target.num_values).double()
    assert torch.equal(log_d.exp()[t == 0], one_hot[t == 0])
    assert (log_d[t > 0].exp() - one_hot[t > 0]).abs().min() > 0


@pytest.mark.parametrize("time", [0.0, 1.0])
def test_both_ends_of_time_are_finite(target: Target, time: float, awake: Callable) -> None:
    model, x = awake(make(target)), some_states(target)
    p = model.denoiser(x, torch.full(x.shape, time, **DOUBLE)).exp()
    assert bool(p.isfinite().all())
    model.denoiser(x, torch.full(x.shape, 0.999, **DOUBLE)).sum().backward()
    assert all(bool(w.grad.isfinite().all()) for w in model.parameters() if w.grad is not None)


def test_pure_noise_is_not_read(target: Target, awake: Callable) -> None:
    """At α = 0 everywhere the answer cannot depend on x."""
    model, x = awake(make(target)), some_states(target)
    log_d = model.denoiser(x, torch.ones(x.shape, **DOUBLE)).detach()
    torch.testing.assert_close(log_d, log_d[:1].expand_as(log_d), rtol=0, atol=1e-12)


@pytest.mark.parametrize("network", [None, "dense"])
def test_times_that_states_share_are_times_of_their_own(
    target: Target, network: str | None, awake: Callable
) -> None:
    changes = {} if network is None else {"network": {"kind": network, "width": 8}}
    model, x = awake(make(target, **changes)), some_states(target, 70)
    t = mixed_times(x[:1])
    shared, own = model.denoiser(x, t.expand(x.shape)), model.denoiser(x, t.repeat(len(x), 1))
    torch.testing.assert_close(shared, own, rtol=0, atol=1e-10)


def test_untrained_models_are_right_near_the_target(target: Target) -> None:
    """At t = 1e-5 the score is log_ratios to a thousandth, and the denoiser is the exact one."""
    model, x = make(target), some_states(target)
    t = torch.full(x.shape, 1e-5, **DOUBLE)
    ratios = target.log_ratios(x)
    gap = (model.log_score(x, t).detach() - ratios).abs() / ratios.abs().clamp_min(1)
    assert ratios.abs().max() > 1
    assert gap.max() < 1e-3
    log_d, exact = model.denoiser(x, t), Enumeration(target).denoiser(model.noise, x, t)
    assert (log_d - exact).detach().abs().max() < 1e-3


def test_without_preconditioning_they_are_not() -> None:
    target = TARGETS["ising in a field"]
    model, x = make(target, preconditioned=False), some_states(target)
    t = torch.full(x.shape, 1e-5, **DOUBLE)
    assert (model.log_score(x, t).detach() - target.log_ratios(x)).abs().max() > 0.5


@pytest.mark.parametrize("name", ["ising", "potts"])
@pytest.mark.parametrize("objective", ["path", "score-entropy"])
def test_symmetries_are_built_in(name: str, objective: str, awake: Callable) -> None:
    target = TARGETS[name]
    model, x = awake(make(target, objective)), some_states(target)
    held = torch.nn.functional.one_hot(x, target.num_values).amax(1).sum(1)
    x = x[held == target.num_values]
    t = mixed_times(x).clamp(0.05, 0.9)  # different at every site: no two values equally common
    out = model.denoiser(x, t).exp()
    for renaming in itertools.permutations(range(target.num_values)):
        renamed = model.denoiser(torch.tensor(renaming)[x], t).exp()
        torch.testing.assert_close(renamed[..., list(renaming)], out, rtol=0, atol=1e-9)
    plain = awake(make(target, objective, symmetric=False))
    flipped = plain.denoiser(target.num_values - 1 - x, t).exp().flip(-1)
    assert (flipped - plain.denoiser(x, t).exp()).abs().max() > 0.05


def test_translations_are_built_in(awake: Callable) -> None:
    target = TARGETS["ising"]
    model, x = awake(make(target)), some_states(target)
    t = mixed_times(x)

    def roll(y: Tensor) -> Tensor:
        return y.unflatten(1, (3, 3)).roll((1, 2), (1, 2)).flatten(1, 2)

    rolled = model.denoiser(roll(x), roll(t)).exp()
    torch.testing.assert_close(rolled, roll(model.denoiser(x, t).exp()), rtol=0, atol=1e-12)


# -- the score -------------------------------------------------------------------------------------


def test_scores_and_denoisers_are_the_same_knowledge(target: Target, awake: Callable) -> None:
    """A score model made from a denoiser model's score gives its denoiser back."""
    model, x = awake(make(target)), some_states(target)
    t = mixed_times(x).clamp(0.05, 0.95)
    log_score = model.log_score(x, t)
    here = log_score.gather(-1, x[..., None])
    assert torch.equal(here, torch.zeros_like(here))
    stub = ScoreModel(model.noise, lambda x, alpha: log_score + 3)  # a constant a site is nothing
    # as probabilities: the logarithm of one in 1e9 has lost the digits that the score has not
    out, expected = stub.denoiser(x, t).exp(), model.denoiser(x, t).exp()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-8)


def test_scores_are_zero_at_the_present_value(target: Target, awake: Callable) -> None:
    model, x = make(target, "score-entropy"), some_states(target)
    assert isinstance(model, ScoreModel)
    near = torch.full(x.shape, 1e-5, **DOUBLE)
    ratios = target.log_ratios(x)
    gap = (model.log_score(x, near).detach() - ratios).abs() / ratios.abs().clamp_min(1)
    assert gap.max() < 1e-3
    awake(model)
    t = mixed_times(x).clamp_max(0.9)
    log_score = model.log_score(x, t).detach()
    assert bool((log_score.gather(-1, x[..., None]) == 0).all())
    log_d = model.denoiser(x, t).detach()
    assert float(log_d.logsumexp(-1).abs().max()) < 1e-12
    one_hot = torch.nn.functional.one_hot(x, target.num_values).double()
    assert torch.equal(log_d.exp()[t == 0], one_hot[t == 0])


# -- fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ising", "ising in a field", "potts", "pairwise"])
def test_mean_field_of_a_pairwise_target(name: str) -> None:
    target = TARGETS[name]
    assert isinstance(target, Pairwise)
    x = some_states(target)
    one_hot = torch.nn.functional.one_hot(x, target.num_values).double()
    field = target.mean_field(one_hot)
    torch.testing.assert_close(field - field.gather(-1, x[..., None]), target.log_ratios(x))
    soft = normal(*one_hot.shape, seed=5).softmax(-1).requires_grad_()
    (slope,) = torch.autograd.grad(target.relaxed_log_density(soft).sum(), soft)
    gap = target.mean_field(soft.detach()) - slope
    torch.testing.assert_close(gap, gap[..., :1].expand_as(gap), rtol=0, atol=1e-10)


def test_fields_know_as_much_as_alpha_says() -> None:
    target = TARGETS["pairwise"]
    assert isinstance(target, Pairwise)
    x = some_states(target)
    silence, full = torch.zeros(x.shape, **DOUBLE), torch.ones(x.shape, **DOUBLE)
    assert bool((known(x, silence, 3) == 0).all())
    assert known(x[:1, :1], full[:1, :1] / 2, 3).sum().item() == pytest.approx(0)
    fields = mean_field(target)(x, silence)
    torch.testing.assert_close(fields, fields[:1].expand_as(fields))
    for field in (mean_field(target), present_ratios(target)):
        near = field(x, full)
        torch.testing.assert_close(near - near.gather(-1, x[..., None]), target.log_ratios(x))
    assert bool((present_ratios(target)(x, silence) == 0).all())


def test_forbidden_neighbours_leave_the_field_finite(awake: Callable) -> None:
    target = from_callable(
        lambda x: torch.where((x[:, 1:] & x[:, :-1]).any(1), -torch.inf, 0.5 * x.sum(1)), 5, 2
    )
    model = awake(make(target))
    x = torch.tensor([[0, 1, 0, 0, 1], [1, 1, 0, 0, 0]])  # allowed, and forbidden
    log_d = model.denoiser(x, torch.full(x.shape, 0.3, **DOUBLE))
    assert bool(log_d.isfinite().all())


def test_noise_of_the_model_is_that_of_the_config() -> None:
    target = TARGETS["ising"]
    assert make(target, noise_eps=0.25).noise.schedule.eps == 0.25
    assert make(target).noise == UniformNoise(2)
