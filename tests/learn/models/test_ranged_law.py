"""A law for every value of a range: at its levels, between them, and a plain one where nothing
moves."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.learn.any_time import AnyTime
from tcsis.learn.descent import first_weights
from tcsis.learn.models.known_law import KnownLaw, way
from tcsis.learn.models.ranged_law import RangedLaw
from tcsis.reverse.schedules import singles
from tcsis.targets import Ising, Potts, SpinGlass, Target

TARGETS: dict[str, Target] = {
    "ising": Ising((2, 4), 0.4),
    "field": Ising((2, 3), 0.4, field=0.3),
    "potts": Potts((2, 3), 3, 0.8),
    "glass": SpinGlass((2, 4), 1.0, seed=1),
}


@pytest.fixture(params=TARGETS)
def case(request: pytest.FixtureRequest, awake: Callable) -> tuple[Target, RangedLaw]:
    """A model of four levels, correlations of each its own."""
    target = TARGETS[request.param]
    with first_weights(0):
        model = RangedLaw(AnyTime(width=6).model(target), 4)
    states = [all_states(target)[:: level + 1][:60] for level in range(4)]
    model = awake(model)
    model.correlate(torch.stack([x[:15] for x in states]).to(torch.uint8))
    return target, model


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def log_law(law: KnownLaw, x: Tensor) -> Tensor:
    """log q of the sites that are drawn, one by one, (b,)."""
    route = way(law, singles(law.order), torch.zeros(law.num_sites, dtype=torch.bool))
    answers = law(route.questions, x)
    return answers.gather(-1, x[:, law.order, None]).sum((1, 2))


@pytest.mark.parametrize("place", [-1.0, -0.5, 0.13, 0.97, 1.0])
def test_it_is_a_law_at_every_value(case: tuple[Target, RangedLaw], place: float) -> None:
    """Over all values of the sites that are drawn, q sums to 1."""
    target, model = case
    law, x = model.at(place), all_states(target)
    last = torch.zeros(0).long() if law.last is None else law.last
    x = x[(x[:, last] == 0).all(1)]
    assert float(log_law(law, x).detach().exp().sum()) == pytest.approx(1, abs=1e-9)


def test_a_level_is_the_law_at_its_place(case: tuple[Target, RangedLaw]) -> None:
    target, model = case
    x = all_states(target)[::7]
    places = [-1, -1 / 3, 1 / 3, 1]
    told = [log_law(model.at(place), x) for place in places]
    for number, expected in enumerate(told):
        assert model.place(number) == pytest.approx(places[number])
        torch.testing.assert_close(log_law(model.level(number), x), expected)
    assert all((one - other).abs().max() > 1e-3 for one, other in pairwise(told))


def test_a_level_follows_the_weights(case: tuple[Target, RangedLaw]) -> None:
    """What a level keeps at hand are first guesses, not weights."""
    target, model = case
    x = all_states(target)[::7]
    before = log_law(model.level(2), x)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(0.7)
    torch.testing.assert_close(log_law(model.level(2), x), log_law(model.at(1 / 3), x))
    assert (log_law(model.level(2), x) - before).abs().max() > 1e-3


def test_gradients_reach_what_moves_and_what_stays(case: tuple[Target, RangedLaw]) -> None:
    """A slope's gradient is that of the weight times the feature."""
    target, model = case
    log_law(model.level(2), all_states(target)[::7]).sum().backward()
    network, features = model.law.network, model.features(1 / 3)
    assert network.read.grad is not None
    assert network.read.grad.abs().max() > 0
    for name, slope in model.slopes.items():
        own = network.get_parameter(name)
        if not own.numel():  # no biases where values are alike
            continue
        expected = features.reshape(-1, *[1] * own.ndim) * own.grad
        torch.testing.assert_close(slope.grad, expected)
    assert model.law.network.row.grad.abs().max() > 0


def test_a_constant_family_is_the_plain_law() -> None:
    """Where nothing moves with λ and all levels have the same states, every λ is what the method
    has for one target; so is a fresh model, from the same first weights."""
    target, states = TARGETS["ising"], all_states(TARGETS["ising"])
    with first_weights(0):
        plain = AnyTime(width=6).model(target)
    with first_weights(0):
        model = RangedLaw(AnyTime(width=6).model(target), 3)
    plain.correlate(states[::5])
    model.correlate(states[::5].expand(3, -1, -1))
    expected = log_law(plain, states)
    for law in (model.at(-0.4), model.at(1.0), model.level(0), model.level(1)):
        torch.testing.assert_close(log_law(law, states), expected)
    assert {name: value.shape for name, value in plain.state_dict().items()} == {
        name: value.shape for name, value in model.at(0.2).state_dict().items()
    }


def test_features_are_chebyshev_polynomials(case: tuple[Target, RangedLaw]) -> None:
    for u in (-1.0, -0.3, 0.0, 0.8, 1.0):
        expected = [u, 2 * u**2 - 1, 4 * u**3 - 3 * u, 8 * u**4 - 8 * u**2 + 1]
        assert case[1].features(u).tolist() == pytest.approx(expected, abs=1e-12)


def test_first_guesses_lie_between_those_of_the_levels() -> None:
    with first_weights(0):
        model = RangedLaw(AnyTime(width=4).model(TARGETS["glass"]), 3)
    model.covariances.copy_(torch.arange(3.0)[:, None, None] * torch.eye(8))
    for place, expected in ((-1, 0), (-0.5, 0.5), (0, 1), (0.75, 1.75), (1, 2)):
        found = model.at(place).covariance
        assert torch.allclose(found, expected * torch.eye(8), atol=1e-6)
    assert math.isclose(float(model.at(0.3).covariance[0, 0]), 1.3, rel_tol=1e-6)
