"""log_ratios, log_ratios_at and the Taylor form against brute force, for every target."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tcsis.targets import (
    RBM,
    Factors,
    Ising,
    Pairwise,
    Potts,
    Scaled,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    Tilted,
    from_callable,
)

DOUBLE = {"dtype": torch.float64}
SIDES = st.sampled_from([2, 3, 5, (2, 3), (4, 2), (3,), (2, 3, 2)])
BETAS = st.floats(-3, 3)
SEEDS = st.integers(0, 2**31)


def random_pairwise(seed: int, num_sites: int, num_values: int, density: float = 0.5) -> Pairwise:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.combinations(torch.arange(num_sites))
    edges = edges[torch.rand(len(edges), generator=generator) < density]
    edges = torch.where(torch.rand(len(edges), 1, generator=generator) < 0.5, edges, edges.flip(1))
    couplings = torch.randn(len(edges), num_values, num_values, generator=generator).double()
    fields = torch.randn(num_sites, num_values, generator=generator).double()
    return Pairwise(edges, couplings, fields, constant=0.7, **DOUBLE)


def black_box(seed: int, num_sites: int, num_values: int) -> Target:
    """A random table of log densities, looked up state by state."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(num_values**num_sites, generator=generator, dtype=torch.float64)
    place = num_values ** torch.arange(num_sites)
    return from_callable(lambda x: table[(x * place).sum(-1)], num_sites, num_values)


def random_rbm(seed: int, num_sites: int, num_hidden: int) -> RBM:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((num_sites, num_hidden), (num_sites,), (num_hidden,))
    return RBM(*(2 * torch.randn(shape, generator=generator) for shape in shapes), **DOUBLE)


def random_factors(seed: int, zeros: float) -> Factors:
    """Tables of one to three of five sites that have one to three values, some forbidden."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, 5)
    factors = []
    for _ in range(6):
        scope = rng.permutation(5)[: rng.integers(1, 4)]
        table = rng.normal(size=counts[scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        factors.append((scope, table))
    return Factors(factors, counts, constant=0.7, **DOUBLE)


def random_fields(seed: int) -> Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)


SIZES = st.integers(2, 7)
VALUES = st.integers(2, 5)
TARGETS = st.one_of(
    st.builds(
        Ising, SIDES, BETAS, st.floats(-2, 2), st.sampled_from(["periodic", "open"]),
        dtype=st.just(torch.float64),
    ),
    st.builds(Potts, SIDES, VALUES, BETAS, dtype=st.just(torch.float64)),
    st.builds(
        SpinGlass, SIDES, BETAS, st.sampled_from(["bimodal", "gaussian"]), SEEDS,
        dtype=st.just(torch.float64),
    ),
    st.builds(SherringtonKirkpatrick, SIZES, BETAS, SEEDS, dtype=st.just(torch.float64)),
    st.builds(random_pairwise, SEEDS, SIZES, VALUES, st.sampled_from([0.0, 0.3, 1.0])),
    st.builds(random_rbm, SEEDS, SIZES, st.integers(1, 6)),
    st.builds(black_box, SEEDS, st.integers(1, 5), st.integers(2, 4)),
    st.builds(lambda seed, scale: Scaled(random_pairwise(seed, 4, 3), scale), SEEDS, BETAS),
    st.builds(lambda seed: Tilted(random_pairwise(seed, 4, 3), random_fields(seed)), SEEDS),
    st.builds(lambda seed: random_pairwise(seed, 5, 3).given({1: 2, 3: 0}), SEEDS),
    st.builds(lambda seed: random_pairwise(seed, 6, 2).given({0: 1, 5: 0}).free, SEEDS),
    st.builds(lambda seed: random_rbm(seed, 5, 3).given({1: 1, 3: 0}).free, SEEDS),
    st.builds(lambda seed: black_box(seed, 5, 3).given({2: 1}).free, SEEDS),
    st.builds(random_factors, SEEDS, st.sampled_from([0.0, 0.2])),
    st.builds(lambda seed: random_factors(seed, 0.2).given({0: 0, 3: 0}), SEEDS),
    st.builds(lambda seed: random_factors(seed, 0.2).given({0: 0, 3: 0}).free, SEEDS),
    st.builds(lambda seed, scale: random_factors(seed, 0.2).scaled(scale), SEEDS, BETAS),
)  # fmt: skip


def brute_force(target: Target, x: Tensor) -> Tensor:
    """log p̄ of every neighbour, one at a time, minus log p̄(x), and 0 where both are forbidden;
    (d,) -> (d, v)."""
    ratios = torch.zeros(target.num_sites, target.num_values, dtype=torch.float64)
    for site, value in itertools.product(range(target.num_sites), range(target.num_values)):
        y = x.clone()
        y[site] = value
        there, here = target.log_density(y), target.log_density(x)
        ratios[site, value] = 0.0 if there == here else there - here
    return ratios


@settings(max_examples=150, deadline=None)
@given(target=TARGETS, seed=SEEDS)
def test_ratios_equal_brute_force(target: Target, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(target.num_values, (2, 1, target.free.num_sites), generator=generator)
    x = target.complete(x)  # where a target is given something, ratios are of states that have it
    expected = torch.stack([brute_force(target, state) for state in x[:, 0]])[:, None]
    ratios = target.log_ratios(x)
    torch.testing.assert_close(ratios, expected, rtol=0, atol=1e-10)
    assert (ratios.gather(-1, x[..., None]) == 0).all()
    sites = torch.randint(target.num_sites, (2, 1), generator=generator)
    at_sites = expected.gather(2, sites[..., None, None].expand(2, 1, 1, target.num_values))
    torch.testing.assert_close(
        target.log_ratios_at(x, sites), at_sites[:, :, 0], rtol=0, atol=1e-10
    )


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, num_sites=SIZES, num_values=VALUES)
def test_taylor_is_exact_for_pairwise(seed: int, num_sites: int, num_values: int) -> None:
    """A pairwise log density is linear in the one-hot vector of each site."""
    target = random_pairwise(seed, num_sites, num_values)
    x = torch.randint(num_values, (6, num_sites), generator=torch.Generator().manual_seed(seed))
    by_gradient = Target._taylor_log_ratios(target, x)
    torch.testing.assert_close(by_gradient, target.taylor_log_ratios(x), rtol=0, atol=1e-10)
    one_hot = torch.nn.functional.one_hot(x, num_values).double()
    torch.testing.assert_close(target.relaxed_log_density(one_hot), target.log_density(x))


def test_taylor_is_first_order_for_rbm() -> None:
    """The Taylor error falls with the square of the weights."""
    x = torch.randint(2, (50, 6), generator=torch.Generator().manual_seed(0))
    weights = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    errors = []
    for scale in (0.1, 0.05):
        target = RBM(scale * weights, torch.ones(6), torch.zeros(4), **DOUBLE)
        errors.append(float((target.taylor_log_ratios(x) - target.log_ratios(x)).abs().max()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_default_ratios_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    target = black_box(0, 5, 3)
    x = torch.randint(3, (40, 5), generator=torch.Generator().manual_seed(0))
    whole = target.log_ratios(x)
    monkeypatch.setattr("tcsis.targets.base.MAX_CHUNK_TOKENS", 1)
    assert torch.equal(target.log_ratios(x), whole)


def test_rbm_ratios_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    target = random_rbm(0, 6, 4)
    x = torch.randint(2, (40, 6), generator=torch.Generator().manual_seed(0))
    whole = target.log_ratios(x)
    monkeypatch.setattr("tcsis.targets.rbm.MAX_CHUNK_TOKENS", 1)
    torch.testing.assert_close(target.log_ratios(x), whole, rtol=0, atol=1e-12)


def test_a_field_for_every_state() -> None:
    """Tilted fields (b, 1, d, v) against x (b, k, d), forbidden values included."""
    target, v = random_pairwise(0, 4, 3), 3
    fields = torch.randn(5, 1, 4, v, generator=torch.Generator().manual_seed(1)).double()
    fields[2, 0, 1, 2] = -torch.inf
    tilted = Tilted(target, fields)
    x = torch.randint(2, (5, 6, 4), generator=torch.Generator().manual_seed(2))
    chosen = fields.expand(5, 6, 4, v).gather(-1, x[..., None]).sum((-2, -1))
    torch.testing.assert_close(tilted.log_density(x), target.log_density(x) + chosen)
    ratios = tilted.log_ratios(x)
    assert ratios[2, :, 1, 2].isneginf().all()
    assert not ratios.isnan().any()
    by_site = torch.stack(
        [tilted.log_ratios_at(x, torch.full((5, 6), site)) for site in range(4)], dim=-2
    )
    torch.testing.assert_close(by_site, ratios)
    torch.testing.assert_close(tilted.taylor_log_ratios(x), ratios)
    for row in range(5):
        alone = Tilted(target, fields[row, 0])
        torch.testing.assert_close(alone.log_ratios(x[row]), ratios[row])


def test_forbidden_states() -> None:
    """-inf is a hard constraint: here, two neighbouring ones on a ring of four."""

    def log_density(x: Tensor) -> Tensor:
        clash = (x * x.roll(1, -1)).sum(-1)
        return torch.where(clash > 0, -torch.inf, x.sum(-1).double())

    target = from_callable(log_density, 4, 2)
    allowed, forbidden = torch.tensor([0, 1, 0, 0]), torch.tensor([1, 1, 0, 0])
    assert target.log_ratios(allowed)[:, 1].tolist() == [-torch.inf, 0, -torch.inf, 1]
    ratios = target.log_ratios(forbidden)
    assert not ratios.isnan().any()
    assert ratios.tolist() == [[torch.inf, 0], [torch.inf, 0], [0, 0], [0, 0]]
    assert target.log_ratios_at(forbidden, torch.tensor(0)).tolist() == [torch.inf, 0]
    assert target.scaled(0.0).log_density(torch.stack([allowed, forbidden])).tolist() == [
        0, -torch.inf,
    ]  # fmt: skip
