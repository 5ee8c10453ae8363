"""Factor models: what they are made from, names, evidence, structure and refusals."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch

from tcsis.targets import Factors, Ising, Potts, counting
from tcsis.targets.base import Target

COUNTS = [2, 3, 2, 1]
NAMES = {
    "site_names": ["rain", "wind", "wet", "always"],
    "value_names": [["no", "yes"], ["calm", "fresh", "storm"], ["no", "yes"], ["so"]],
}


def weather(**options: Any) -> Factors:
    rng = np.random.default_rng(0)
    wet = rng.normal(size=(2, 2, 3))
    wet[0, 1, 2] = -np.inf  # no dry storm while it rains
    factors = [((2, 0, 1), wet), ((0,), [-0.1, -2.3]), ((1, 3), rng.normal(size=(3, 1)))]
    return Factors(factors, COUNTS, dtype=torch.float64, **options)


def test_the_sum_of_its_tables() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 2))
    target = Factors([((0, 1), a), ((2, 1, 0), b), ((), 0.5)], [2, 3, 2], dtype=torch.float64)
    for x in itertools.product(range(2), range(3), range(2)):
        expected = a[x[0], x[1]] + b[x[2], x[1], x[0]] + 0.5
        assert float(target.log_density(torch.tensor(x))) == pytest.approx(expected, abs=1e-14)
    assert target.num_values == 3
    assert float(target.log_density(torch.tensor([2, 0, 0]))) == -torch.inf
    assert target.possible.tolist() == [[True, True, False], [True] * 3, [True, True, False]]


def test_factors_of_the_same_sites_add_up() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    once = Factors([((0, 1), a + b.T)], [2, 3])
    twice = Factors([((0, 1), a), ((1, 0), b)], [2, 3])
    assert len(twice.factors) == 1
    x = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    assert torch.equal(once.log_density(x), twice.log_density(x))


@pytest.mark.parametrize("target", [Ising(4, 0.4, field=0.2), Potts((2, 3), 3, 0.7)])
def test_pairs_as_factors(target: Any) -> None:
    factors = Factors.from_pairwise(target)
    x = torch.randint(target.num_values, (50, target.num_sites))
    torch.testing.assert_close(factors.log_density(x), target.log_density(x))
    torch.testing.assert_close(factors.log_ratios(x), target.log_ratios(x))
    assert torch.equal(factors.pairs, target.pairs)
    one_hot = torch.nn.functional.one_hot(x, target.num_values).float()
    torch.testing.assert_close(factors.relaxed_log_density(one_hot), target.log_density(x))
    torch.testing.assert_close(factors.taylor_log_ratios(x), target.taylor_log_ratios(x))


def test_sites_of_one_colour_share_no_factor() -> None:
    rng = np.random.default_rng(2)
    factors = [((i, i + 1, i + 3), rng.normal(size=(2, 2, 2))) for i in range(12)]
    target = Factors(factors, [2] * 15, dtype=torch.float64)
    assert target.colouring is not None
    for scope, _ in target.factors:
        assert len({int(target.colouring[site]) for site in scope}) == len(scope)
    x = torch.randint(2, (20, 15))
    y = x.clone()
    for colour in target.colouring.unique():
        sites = (target.colouring == colour).nonzero().squeeze(1)
        y[:, sites] = torch.randint(2, (20, len(sites)))
        terms, rest = target.class_terms(x, sites), target.class_rest(x, sites)
        moved = x.index_copy(1, sites, y[:, sites])
        density = rest + terms.gather(-1, moved[:, sites, None]).sum((1, 2))
        torch.testing.assert_close(density, target.log_density(moved))


def test_class_terms_of_a_forbidden_state() -> None:
    """Ratios would say nothing there."""
    never = np.array([[-np.inf, 0.0], [0.0, 0.0]])
    target = Factors([((0, 1), never), ((0, 2), never)], [2, 2, 2], dtype=torch.float64)
    x, sites = torch.zeros(1, 3, dtype=torch.long), torch.tensor([1, 2])
    assert target.class_terms(x, sites).tolist() == [[[-torch.inf, 0.0], [-torch.inf, 0.0]]]
    assert target.class_rest(x, sites).tolist() == [0.0]


def test_evidence_by_name() -> None:
    target = weather(**NAMES)
    given = target.given({"rain": "yes", "wind": "storm"})
    assert given.known.pairs == ((0, 1), (1, 2))
    assert given.free.site_names == ("wet", "always")
    assert given.free.value_names == (("no", "yes"), ("so",))
    assert given.site_names == target.site_names
    further = target.given({"rain": "yes"}).given({"wet": "yes"})
    assert further.known.pairs == ((0, 1), (2, 1))
    assert isinstance(given.free, Factors)
    x = torch.tensor([[0, 0], [1, 0]])
    density = target.log_density(given.complete(x))
    assert torch.equal(given.free.log_density(x), density)
    assert density[0] == -torch.inf
    assert density[1].isfinite()


def test_evidence_that_contradicts_itself() -> None:
    given = Factors([((0, 1), [[0.0, -np.inf]] * 2)], [2, 2, 2]).given({0: 0, 1: 1})
    assert bool(given.free.log_density(torch.tensor([[0], [1]])).isneginf().all())


def test_scaled_tables_forbid_what_they_did() -> None:
    target = weather()
    x = torch.cartesian_prod(*[torch.arange(count) for count in COUNTS])
    for scale in (0.0, 0.3, -1.0):
        by_table, by_density = target.scaled(scale), Target.scaled(target, scale)
        assert isinstance(by_table, Factors)
        torch.testing.assert_close(by_table.log_density(x), by_density.log_density(x))


def test_the_cost_of_ratios_is_that_of_the_tables_read() -> None:
    rng = np.random.default_rng(3)
    chain = Factors([((i, i + 1), rng.normal(size=(2, 2))) for i in range(99)], [2] * 100)
    with counting(chain) as cost:
        chain.log_ratios(torch.zeros(1, 100, dtype=torch.long))
    assert cost.densities == pytest.approx((198 + 100) * 2 / 199)
    with counting(chain) as cost:
        chain.log_ratios_at(torch.zeros(1, 100, dtype=torch.long), torch.tensor([5]))
    assert cost.densities == pytest.approx(2.98 * 2 / 199)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    target, x = weather(), torch.randint(3, (40, 4))
    density, ratios = target.log_density(x), target.log_ratios(x)
    monkeypatch.setattr("tcsis.targets.factors.MAX_CHUNK_TOKENS", 1)
    assert torch.equal(target.log_density(x), density)
    assert torch.equal(target.log_ratios(x), ratios)


TABLE = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factors([], []), "cardinalities is empty: expected at least one site"),
        (lambda: Factors([], [2, 0]), "cardinalities has 0 at site 1: expected 1 to 255 values"),
        (lambda: Factors([], 3), "cardinalities is 3: expected the number of values"),
        (lambda: Factors([TABLE], [2, 2]), "factor 0 is ndarray"),
        (lambda: Factors([((0, 2), TABLE)], [2, 2]), "factor 0 names site 2: expected sites 0..1"),
        (lambda: Factors([((1, 1), TABLE)], [2, 2]), "factor 0 names a site twice in (1, 1)"),
        (
            lambda: Factors([((0, 1), TABLE)], [2, 3]),
            "the table of factor 0 has shape (2, 2): expected (2, 3)",
        ),
        (
            lambda: Factors([((0,), [0.0, np.nan])], [2]),
            "the table of factor 0 has nan at [1]: expected finite numbers, or -inf",
        ),
        (lambda: Factors([((0,), ["a", "b"])], [2]), "is not an array of real numbers"),
        (lambda: weather(site_names=["a"]), "site_names has 1 names: expected 4"),
        (lambda: weather(site_names=["a", "b", "a", "c"]), "site_names has 'a' twice"),
        (lambda: weather(value_names=[["a", "b"]]), "value_names has 1 entries"),
        (lambda: weather().given({0: 2}), "given has the value 2 at site 0: expected 0..1"),
        (lambda: weather().given({"rain": 1}), "there are no names"),
        (lambda: weather(**NAMES).given({"rian": 1}), "did you mean 'rain'?"),
        (lambda: weather(**NAMES).given({"wind": "clam"}), "did you mean 'calm'?"),
        (lambda: weather(**NAMES).given({"rain": 1, 0: 0}), "given names site 0 twice"),
        (lambda: weather().relaxed_log_density(torch.zeros(4, 3)), "has no gradient"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        make()
    assert "\n" not in str(refused.value)
