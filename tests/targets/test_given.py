"""Targets given some of their sites, against all states of the whole target."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tcsis.targets import (
    RBM,
    Given,
    Ising,
    Lattice,
    Pairwise,
    Scaled,
    SpinGlass,
    Symmetries,
    Target,
    Tilted,
    counting,
    from_callable,
)
from tcsis.targets.known import parse_known, parse_numbers
from tcsis.targets.spec import build, describe

DOUBLE = {"dtype": torch.float64}
ISING = Ising(4, 0.3)


def all_states(num_sites: int, num_values: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(num_values)] * num_sites).reshape(-1, num_sites)


def by_hand(target: Given) -> tuple[Tensor, Tensor]:
    """All states of the whole target and their log density, -inf where they disagree."""
    x = all_states(target.num_sites, target.num_values)
    agrees = torch.ones(len(x), dtype=torch.bool)
    for site, value in target.known.pairs:
        agrees &= x[:, site] == value
    return x, target.target.log_density(x).where(agrees, -torch.inf)


# -- the law ---------------------------------------------------------------------------------------


def test_density_on_all_sites(given_target: Given) -> None:
    x, expected = by_hand(given_target)
    assert torch.equal(given_target.log_density(x), expected)
    assert torch.equal(given_target.energy(x), -expected)


def test_density_on_the_free_sites(given_target: Given) -> None:
    free = given_target.free
    y = all_states(free.num_sites, free.num_values)
    whole = given_target.complete(y)
    assert free.num_sites == given_target.num_sites - len(given_target.known.pairs)
    assert torch.equal(whole[:, given_target.free_sites], y)
    expected = given_target.target.log_density(whole)
    torch.testing.assert_close(free.log_density(y), expected, rtol=0, atol=1e-12)
    x, log_density = by_hand(given_target)  # and nothing is left out
    kept = x[~log_density.isneginf()]
    assert len(kept) == int((~expected.isneginf()).sum())


def test_ratios(given_target: Given) -> None:
    """At every state, outside of the evidence too, where allowed neighbours are +inf away."""
    x, log_density = by_hand(given_target)
    place = given_target.num_values ** torch.arange(given_target.num_sites - 1, -1, -1)
    ratios = given_target.log_ratios(x)
    for site in range(given_target.num_sites):
        there = x[:, None].repeat(1, given_target.num_values, 1)
        there[:, :, site] = torch.arange(given_target.num_values)
        there = log_density[(there * place).sum(-1)]
        expected = torch.where(there == log_density[:, None], 0.0, there - log_density[:, None])
        torch.testing.assert_close(ratios[:, site], expected, rtol=0, atol=1e-10)
        at_site = given_target.log_ratios_at(x, torch.full((len(x),), site))
        torch.testing.assert_close(at_site, expected, rtol=0, atol=1e-10)


def test_ratios_on_the_free_sites(given_target: Given) -> None:
    free = given_target.free
    y = all_states(free.num_sites, free.num_values)
    expected = given_target.log_ratios(given_target.complete(y))[:, given_target.free_sites]
    torch.testing.assert_close(free.log_ratios(y), expected, rtol=0, atol=1e-10)


def test_a_batch_of_any_shape(given_target: Given) -> None:
    y = torch.zeros(2, 1, 3, given_target.free.num_sites, dtype=torch.uint8)
    x = given_target.complete(y)
    assert x.shape == (2, 1, 3, given_target.num_sites)
    assert x.dtype == torch.uint8
    assert given_target.log_density(x).shape == (2, 1, 3)
    assert given_target.log_ratios(x).shape == (*x.shape, given_target.num_values)


# -- what the free sites are -----------------------------------------------------------------------


def test_a_pairwise_target_stays_one() -> None:
    target = SpinGlass(4, 0.7, seed=3).given({0: 1, 1: 0, 6: 1})
    assert type(target.free) is Pairwise
    assert target.free.colouring is not None
    assert target.lattice == Lattice((4, 4))
    assert target.symmetries == Symmetries()


def test_an_rbm_stays_one() -> None:
    rbm = RBM(torch.ones(4, 2), torch.ones(4), torch.zeros(2)).given({2: 1})
    assert type(rbm.free) is RBM
    assert rbm.free.ratios_cost == 4


def test_pairs_are_those_of_free_sites() -> None:
    pairs = Pairwise([[0, 1], [1, 2], [2, 3]], torch.ones(3, 2, 2), torch.ones(4, 2))
    assert pairs.given({0: 1}).pairs.tolist() == [[1, 2], [2, 3]]
    assert from_callable(lambda x: x.sum(-1).double(), 4, 2).given({0: 1}).pairs is None


def test_a_recognised_function_is_recognised_on_its_free_sites() -> None:
    ising = Ising(4, 0.3, **DOUBLE)
    target = from_callable(ising.log_density, 16, 2).given({3: 1, 7: 0})
    sketch = target.free.sketch
    assert isinstance(sketch, Pairwise)
    x = torch.randint(2, (20, 14), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sketch.log_density(x), target.free.log_density(x))
    other = from_callable(lambda x: x.prod(-1).double(), 6, 2).given({0: 1})
    assert other.free.sketch is other.free


def test_a_colouring_stays_valid() -> None:
    class Coloured(Target):
        num_sites, num_values, device, dtype = 5, 2, torch.device("cpu"), torch.float64
        colouring = torch.tensor([0, 1, 2, 1, 2])

        def _log_density(self, x: Tensor) -> Tensor:
            return x.sum(-1).double()

    assert Coloured().given({0: 1}).free.colouring.tolist() == [0, 1, 0, 1]
    assert Coloured().given({3: 1}).free.colouring.tolist() == [0, 1, 2, 2]


def test_allowed_states_stay_allowed() -> None:
    def two_of_four(x: Tensor) -> Tensor:
        return torch.where(x.sum(-1) == 2, 0.0, -torch.inf).double()

    allowed = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]])
    target = from_callable(two_of_four, 4, 2, allowed=allowed)
    assert target.given({0: 1}).free.allowed.tolist() == [[1, 0, 0]]
    assert target.given({0: 1}).allowed.tolist() == [[1, 1, 0, 0]]
    assert target.given({0: 1, 3: 1}).free.allowed is None


def test_gradients() -> None:
    def relaxed(z: Tensor) -> Tensor:
        return (z[..., 1] * z[..., 1].roll(1, -1)).sum(-1)

    target = from_callable(
        lambda x: (x * x.roll(1, -1)).sum(-1).double(), 5, 2, relaxed=relaxed
    ).given({1: 1, 2: 0})
    y = all_states(3, 2)
    assert target.free.differentiable
    expected = target.free.log_ratios(y)  # each site enters linearly
    torch.testing.assert_close(target.free.taylor_log_ratios(y), expected)


# -- transformed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.5, torch.tensor([0.5, 2.0, 1.0])])
def test_scaled(given_target: Given, scale: float | Tensor) -> None:
    x = given_target.complete(torch.zeros(3, given_target.free.num_sites, dtype=torch.long))
    scaled = given_target.scaled(scale)
    expected = given_target.log_density(x) * scale
    torch.testing.assert_close(scaled.log_density(x), expected)
    torch.testing.assert_close(scaled.free.log_density(x[:, given_target.free_sites]), expected)
    x[:, given_target.known.sites[0]] = 1 - given_target.known.values[0].clamp_max(1)
    assert scaled.log_density(x).isneginf().all()


def test_placed() -> None:
    target = ISING.given({0: 1}).to(dtype=torch.float64)
    assert target.log_density(torch.ones(16, dtype=torch.long)).dtype == torch.float64
    assert target.free.dtype == torch.float64
    function = from_callable(lambda x: x.sum(-1).double(), 4, 2).given({0: 1})
    assert function.to(dtype=torch.float32).free.dtype == torch.float32


def test_work_on_the_free_sites_is_counted(given_target: Given) -> None:
    free = given_target.free
    y = torch.zeros(7, free.num_sites, dtype=torch.long)
    with counting(given_target) as cost:
        free.log_density(y)
        given_target.log_density(given_target.complete(y))
        with counting(free) as inner:
            free.log_ratios(y)
    assert inner.densities == 7 * free.ratios_cost
    assert cost.densities == 14 + inner.densities
    with counting(given_target.target) as cost:
        given_target.log_density(given_target.complete(y))
    assert cost.densities == 7


def test_a_black_box_pays_for_its_free_sites_alone() -> None:
    target = from_callable(lambda x: x.sum(-1).double(), 10, 3)
    free = target.given(dict.fromkeys(range(8), 1)).free
    with counting(target) as cost:
        free.log_ratios(torch.zeros(1, 2, dtype=torch.long))
    assert cost.densities == free.ratios_cost == 2 * 2 + 1


# -- what is given ---------------------------------------------------------------------------------


def test_ways_to_say_it() -> None:
    x = torch.tensor([-1] * 16)
    x[3], x[5] = 1, 0
    ways = [
        ISING.given({5: 0, 3: 1}),
        ISING.given(x, x >= 0),
        ISING.given({np.int64(3): np.uint8(1), 5: 0}),
        ISING.given({3: 1}).given({5: 0}),
        ISING.given({3: 1}).given({3: 1, 5: 0}),
    ]
    for target in ways:
        assert target.known.pairs == ((3, 1), (5, 0))
        assert repr(target) == "Ising(side=4, beta=0.3).given({3: 1, 5: 0})"
        assert target.target is ISING
    many = ISING.given(dict.fromkeys(range(9), 1))
    assert repr(many) == "Ising(side=4, beta=0.3).given(9 of 16 sites)"
    assert parse_numbers(str(many.known)) == dict.fromkeys(range(9), 1)


def mask(*sites: int) -> Tensor:
    known = torch.tensor(sites, dtype=torch.long)
    return torch.zeros(16, dtype=torch.bool).index_fill(0, known, True)


TOKENS = torch.zeros(16, dtype=torch.long)
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (lambda: ISING.given({}), "names no site: expected at least one"),
    "an empty mask": (lambda: ISING.given(TOKENS, mask()), "names no site"),
    "a site too far": (lambda: ISING.given({16: 1}), "names site 16: expected sites 0..15"),
    "a site below": (lambda: ISING.given({-1: 1}), "names site -1: expected sites 0..15"),
    "a value too large": (lambda: ISING.given({2: 2}), "value 2 at site 2: expected 0..1"),
    "a value below": (lambda: ISING.given({2: -1}), "value -1 at site 2: expected 0..1"),
    "a tensor's value": (lambda: ISING.given(TOKENS - 1, mask(4)), "value -1 at site 4"),
    "half a site": (lambda: ISING.given({2.5: 1}), "2.5 for a site: expected an integer"),
    "half a value": (lambda: ISING.given({2: 0.5}), "0.5 for the value at site 2: expected an int"),
    "a truth": (lambda: ISING.given({2: True}), "True for the value at site 2"),
    "a list": (lambda: ISING.given([0, 1]), r"given is [0, 1]: expected a value for each known"),
    "a tensor alone": (lambda: ISING.given(TOKENS), "without a mask: expected given(x, mask)"),
    "a mask of numbers": (lambda: ISING.given(TOKENS, TOKENS), "expected tokens (d,) and booleans"),
    "a mask for a mapping": (lambda: ISING.given({1: 1}, mask(1)), "x is a dict and mask"),
    "a batch": (lambda: ISING.given(TOKENS[None], mask(1)), "of shape (1, 16)"),
    "floats": (lambda: ISING.given(TOKENS.double(), mask(1)), "x has dtype torch.float64"),
    "another size": (lambda: ISING.given(TOKENS[:9], mask(1)[:9]), "have 9 sites: expected 16"),
    "everything": (
        lambda: ISING.given(TOKENS, mask(*range(16))),
        "names all 16 sites: expected at least one to be free; of a single state ask",
    ),
    "a contradiction": (
        lambda: ISING.given({3: 1}).given({5: 0, 3: 0}),
        "value 0 at site 3, which is known to be 1: expected no contradiction",
    ),
    "everything in two steps": (
        lambda: ISING.given({3: 1}).given(dict.fromkeys(range(16), 1)), "names all 16 sites"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    attempt, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        attempt()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3", "given has '3': expected site=value"),
        ("3=1=1", "given has '3=1=1'"),
        ("=1", "given has '=1'"),
        ("a=", "given has 'a='"),
        ("3=1,3=0", "the values 1 and 0 at site 3: expected one"),
        ({"3": 1}, "expected site=value with commas between, such as 3=1,17=0, in a string"),
    ],
)
def test_texts_that_are_refused(text: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_known(text)


def test_texts() -> None:
    assert parse_known(" 3 = 1, smoking=yes,") == {"3": "1", "smoking": "yes"}
    assert parse_known("3=1,3=1") == {"3": "1"}
    assert parse_numbers("3=1,17=0") == {3: 1, 17: 0}
    with pytest.raises(ValueError, match="given is 'a=1': expected numbers"):
        parse_numbers("a=1")


# -- plain data ------------------------------------------------------------------------------------


def test_plain_data_and_back(given_target: Given) -> None:
    spec, tensors = describe(given_target)
    assert parse_numbers(spec["given"]) == dict(given_target.known.pairs)
    if spec["name"] == "callable":
        with pytest.raises(ValueError, match="was saved without the function itself"):
            build(spec, tensors)
        return
    again = build(spec, tensors)
    assert repr(again) == repr(given_target)
    x = given_target.complete(all_states(given_target.free.num_sites, given_target.num_values))
    assert torch.equal(again.log_density(x), given_target.log_density(x))


def test_transformed_targets_given_something() -> None:
    """Which know of no shortcut but are right."""
    fields = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)).double()
    pairwise = Pairwise([[0, 1], [1, 2], [2, 3]], torch.ones(3, 2, 2), torch.ones(4, 2), **DOUBLE)
    for whole in (Tilted(pairwise, fields), Scaled(pairwise, 0.5)):
        target = whole.given({1: 1, 2: 0})
        y = all_states(2, 2)
        expected = whole.log_density(target.complete(y))
        torch.testing.assert_close(target.free.log_density(y), expected)
        torch.testing.assert_close(target.log_density(target.complete(y)), expected)
