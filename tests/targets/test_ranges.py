"""A family of targets along one number: members that keep all else, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from tcsis.targets import (
    Ising,
    Pairwise,
    Potts,
    Range,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    counting,
    from_callable,
)

GLASS = SpinGlass((2, 4), 0.7, "gaussian", seed=3, boundary="open", dtype=torch.float64)
MEMBERS: dict[str, tuple[Target, dict[str, Any], float, Target]] = {
    "ising": (
        Ising((3, 4), 0.2, 0.3, "open"), {"beta": (0.1, 0.6)}, 0.37,
        Ising((3, 4), 0.37, 0.3, "open"),
    ),
    "field": (Ising(4, 0.3), {"field": (-1, 1)}, 0.25, Ising(4, 0.3, 0.25)),
    "potts": (Potts(3, 4, 0.2), {"beta": (0, 2)}, 0.0, Potts(3, 4, 0.0)),
    "glass": (
        GLASS, {"beta": (0.5, 2)}, 1.5,
        SpinGlass((2, 4), 1.5, "gaussian", seed=3, boundary="open", dtype=torch.float64),
    ),
    "complete": (
        SherringtonKirkpatrick(6, 1.0, seed=2), {"beta": (0.5, 2)}, 0.5,
        SherringtonKirkpatrick(6, 0.5, seed=2),
    ),
    "power": (GLASS, {"power": (0, 1)}, 0.5, SpinGlass(
        (2, 4), 0.35, "gaussian", seed=3, boundary="open", dtype=torch.float64
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_members_keep_all_else(name: str) -> None:
    target, interval, value, expected = MEMBERS[name]
    member = Range.of(interval).at(target, value)
    x = torch.randint(0, target.num_values, (20, target.num_sites))
    assert torch.equal(member.log_density(x), expected.log_density(x))
    assert member.dtype == target.dtype
    assert member.lattice == target.lattice


def test_names_are_kept() -> None:
    names = [f"s{number}" for number in range(9)]
    member = Range.of({"beta": (0.1, 0.6)}).at(Ising(3, 0.6).named(names), 0.2)
    assert member.site_names == tuple(names)


def test_the_power_of_any_target() -> None:
    target = from_callable(lambda x: x.sum(-1).double() ** 2, 4, 3)
    over = Range.of({"power": (0.2, 1)})
    x = torch.randint(0, 3, (10, 4))
    assert torch.equal(over.at(target, 0.5).log_density(x), target.log_density(x) / 2)
    assert over.end(target) is target


@pytest.mark.parametrize("interval", [{"beta": (0.1, 0.6)}, {"power": (0.1, 1)}])
def test_what_members_evaluate_counts(interval: dict[str, Any]) -> None:
    target = Ising(3, 0.6)
    with counting(target) as cost:
        Range.of(interval).at(target, 0.3).log_density(torch.zeros(7, 9).long())
    assert cost.densities == 7


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        ({}, "the range is one of nothing: expected one parameter with its two ends"),
        ({"beta": (0.1, 0.6), "field": (0, 1)}, "the range is one of beta, field"),
        ({"beta": 0.3}, "beta is 0.3: expected its two ends"),
        ({"beta": (0.6, 0.1)}, "beta goes from 0.6 to 0.1: expected two finite numbers, the small"),
        ({"beta": (0.1, float("inf"))}, "beta goes from 0.1 to inf"),
        ({"power": (0.2, 2)}, "power goes from 0.2 to 2.0: expected it to end at 1"),
    ],
)
def test_bad_intervals_are_refused(interval: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Range.of(interval)


@pytest.mark.parametrize(
    ("target", "known"),
    [(Ising(3, 0.4), "beta, field, power"), (Pairwise.from_spins(torch.eye(3) * 0), "power")],
)
def test_a_number_that_is_not_there_is_refused(target: Target, known: str) -> None:
    with pytest.raises(ValueError, match=f"has no number 'width': expected a range of {known}"):
        Range.of({"width": (0, 1)}).at(target, 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beta": 0.7}, "beta is 0.7: the model was trained for beta from 0.1 to 0.6"),
        ({"beta": 0.0999}, "expected a value inside, or train on a longer range"),
        ({"beta": float("nan")}, "beta is nan: the model was trained for"),
        ({"beta": "0.3"}, "beta is '0.3': expected a number"),
        ({"field": 0.3}, "the model is asked for at field: it is of beta from 0.1 to 0.6"),
        ({}, "the model is asked for at nothing: it is of beta"),
    ],
)
def test_values_outside_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Range.of({"beta": (0.1, 0.6)}).read(given)


def test_values_of_other_libraries_are_read() -> None:
    over = Range.of({"beta": (0.1, 0.6)})
    values = (np.float32(0.25), np.float64(0.25), torch.tensor(0.25), torch.linspace(0, 1, 5)[1])
    for value in values:
        found = over.read({"beta": value})
        assert found == 0.25
        assert type(found) is float


def test_the_least_symmetric_member() -> None:
    """A field of zero at one end, or nowhere near one."""
    for ends in ((0, 0.5), (-0.5, 0), (-0.5, 0.5)):
        member = Range.of({"field": ends}).least_symmetric(Ising(3, 0.4))
        assert not member.symmetries.value_permutation
    assert Range.of({"beta": (0, 1)}).least_symmetric(Ising(3, 0.4)).symmetries.value_permutation


def test_a_glass_without_couplings_at_one_end_has_no_translations() -> None:
    for ends in ((0, 1), (-1, 0), (-1, 1)):
        member = Range.of({"beta": ends}).least_symmetric(SpinGlass((2, 4), 1.0, seed=1))
        assert not member.symmetries.translations


def test_a_value_at_an_end_may_be_rounded() -> None:
    over = Range.of({"beta": (0.1, 0.6)})
    assert 0.2 * 3 > 0.6
    assert over.read({"beta": 0.2 * 3}) == 0.6
    assert over.read({"beta": 0.1 - 1e-12}) == 0.1


def test_a_number_of_a_target_that_is_given_something_is_refused() -> None:
    with pytest.raises(ValueError, match="is given something: expected a range of power"):
        Range.of({"beta": (0.1, 0.6)}).end(Ising(3, 0.4).given({0: 1}))


@pytest.mark.parametrize("text", ["=0.1:0.6", "beta", "beta=0.1", "beta=0.1:0.3:0.6", ""])
def test_text_that_names_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a parameter and its two ends, such as"):
        Range.parse(text)
