"""A model of the any-time method given the values of some sites, without training."""

import math
from collections.abc import Callable

import pytest
import torch

import tcsis
from tcsis import exact
from tcsis.learn import presets
from tcsis.learn.learned import Learned
from tcsis.targets import Ising, Potts, Target, from_callable

TARGETS: dict[str, Target] = {
    "ising": Ising((2, 4), 0.4),
    "field": Ising((3, 3), 0.4, field=0.3),
    "potts": Potts((2, 3), 3, 0.8),
    "function": from_callable(lambda x: torch.sin(x.double().cumsum(1)).sum(1), 5, 3),
}
EVIDENCE = [{0: 1}, {1: 0, 4: 1}, {4: 0, 0: 0, 2: 1}, {0: 1, 1: 1, 2: 0, 3: 1}]


@pytest.fixture
def make(awake: Callable) -> Callable[[Target], Learned]:
    """A model of random weights."""

    def making(target: Target) -> Learned:
        config = presets.tiny(target, "any-time")
        module = awake(config.new_model(target.free, seed=0), scale=0.15)
        return Learned(target, config, module.eval())

    return making


@pytest.mark.statistical
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("name", TARGETS)
def test_weights_average_to_z_of_the_evidence(name: str, evidence: dict, make: Callable) -> None:
    """log Z(evidence) from 2,000 draws within 4.5 standard errors of enumeration, 7e-6."""
    target = TARGETS[name]
    given = make(target).given(evidence)
    for calls in (None, 1, 2):
        draws = given.sample(2_000, seed=3, calls=calls)
        assert all((draws.x[:, site] == value).all() for site, value in evidence.items())
        error = max(draws.log_z_error, 1e-5)  # nothing is left to chance where one site is free
        assert abs(draws.log_z - exact.solve(target.given(evidence)).log_z) < 4.5 * error


@pytest.mark.statistical
def test_evidence_that_is_forgotten_shows(make: Callable) -> None:
    """The wrong version: the known sites are put in place after draws that did not know of them."""
    target, evidence = TARGETS["ising"], {0: 1, 1: 0, 2: 1, 5: 0}
    model = make(target)
    given = model.given(evidence).sample(2_000, seed=0)
    blind = model.sample(2_000, seed=0)
    log_q = target.log_density(blind.x.long()).double() - blind.log_weight
    x = blind.x.long()
    x[:, list(evidence)] = torch.tensor(list(evidence.values()))
    log_w = target.log_density(x).double() - log_q
    wrong = float(log_w.logsumexp(0)) - math.log(2_000)
    truth = exact.solve(target.given(evidence)).log_z
    assert abs(given.log_z - truth) < 4.5 * given.log_z_error < abs(wrong - truth)


@pytest.mark.statistical
def test_the_probability_of_evidence(make: Callable) -> None:
    """Within 4.5 of its own standard errors, 7e-6."""
    target = TARGETS["field"]
    given = make(target).given({1: 0, 4: 1})
    found = given.log_evidence(4_000)
    truth = exact.solve(target.given({1: 0, 4: 1})).log_z - exact.solve(target).log_z
    assert abs(found.log_p - truth) < 4.5 * found.error < 1
    assert str(found).startswith(f"log P(evidence) = {found.log_p:.4f} ±")


def test_more_evidence_for_a_model_of_a_given_target(make: Callable) -> None:
    whole = TARGETS["ising"]
    model = make(whole.given({0: 1}))
    given = model.given({3: 0})
    draws = given.sample(500, seed=0)
    assert (draws.x[:, 0] == 1).all() and (draws.x[:, 3] == 0).all()
    assert draws.x.shape == (500, 8)
    truth = exact.solve(whole.given({0: 1, 3: 0})).log_z
    assert abs(draws.log_z - truth) < 5 * draws.log_z_error
    again = model.given({0: 1}).sample(500, seed=0)
    assert abs(again.log_z - exact.solve(whole.given({0: 1})).log_z) < 5 * again.log_z_error
    with pytest.raises(ValueError, match="value 0 at site 0, which is known to be 1"):
        model.given({0: 0})


def test_it_is_a_sampler_like_any_other(make: Callable) -> None:
    given = make(TARGETS["ising"]).given({0: 1, 5: 0})
    draws = given.sample(300, seed=2)
    assert torch.equal(draws.x, given.sample(300, seed=2, batch_size=300).x)
    assert not torch.equal(draws.x, given.sample(300, seed=3).x)
    assert tcsis.judge(draws, given.target).level
    found = tcsis.compare(given.target, [("given", given), "exact"], n=300, progress=False)
    assert list(found.methods) == ["given", "exact"]
    assert math.isfinite(found.methods["given"].log_z)


def test_evidence_that_cannot_be_is_refused(make: Callable) -> None:
    def apart(x: torch.Tensor) -> torch.Tensor:
        return torch.where((x[:, :-1] & x[:, 1:]).any(1), -torch.inf, 0.0).double()

    model = make(from_callable(apart, 6, 2))
    with pytest.raises(
        ValueError, match=r"none of 50 draws of .* is a state that it allows"
    ) as caught:
        model.given({2: 1, 3: 1}).sample(50)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["autoregressive", "self-normalized", "unbiased"])
def test_other_methods_say_what_to_do(method: str) -> None:
    target = TARGETS["ising"]
    config = presets.tiny(target, method)
    model = Learned(target, config, config.new_model(target, seed=0))
    with pytest.raises(ValueError, match=r"no evidence without training: train on target\.given"):
        model.given({0: 1})
