"""Elimination against enumeration, against another solver, and against itself."""

import math
import re
import time

import dimod
import networkx
import numpy as np
import pytest
import torch
from dwave.samplers import TreeDecompositionSampler, TreeDecompositionSolver
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from tcsis import exact
from tcsis.exact import cliques, elimination, orders
from tcsis.exact.elimination import Elimination
from tcsis.targets import (
    Factors,
    Ising,
    Pairwise,
    Potts,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    from_callable,
)

SEEDS = st.integers(0, 2**31)


def random_factors(
    seed: int, d: int = 7, zeros: float = 0.0, strength: float = 1.0, least: int = 1
) -> Factors:
    """Tables of one to three sites, which have one to three values; some entries forbid."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(least, 4, d)
    factors = []
    for _ in range(d + 2):
        scope = rng.permutation(d)[: rng.integers(1, 4)]
        table = strength * rng.normal(size=counts[scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        factors.append((scope, table))
    return Factors(factors, counts, constant=0.3, dtype=torch.float64)


def whole_law(target: Target) -> tuple[Tensor, Tensor]:
    x = torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)
    return x, target.log_density(x.reshape(-1, target.num_sites))


def agree(target: Target) -> None:
    """Every answer of elimination against the sum over all states."""
    x, log_density = whole_law(target)
    if bool(log_density.isneginf().all()):
        with pytest.raises(ValueError, match="forbids every state"):
            Elimination(target)
        return
    log_z = float(log_density.logsumexp(0))
    p = (log_density - log_z).exp()
    solved = Elimination(target)
    answers = solved.answers()
    assert answers.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-10)
    energy = -float(p[p > 0] @ log_density[p > 0])
    assert answers.mean_energy == pytest.approx(energy, rel=1e-9, abs=1e-9)
    one_hot = torch.nn.functional.one_hot(x, target.num_values).double()
    marginals = torch.einsum("n,niv->iv", p, one_hot)
    torch.testing.assert_close(answers.site_marginals, marginals, rtol=0, atol=1e-10)
    assert torch.equal(answers.pairs, target.pairs)
    same = (x[:, answers.pairs[:, 0]] == x[:, answers.pairs[:, 1]]).double()
    torch.testing.assert_close(answers.pair_same, p @ same, rtol=0, atol=1e-10)
    free = x[:, target.free_sites].numpy()
    for (scope, table), law in zip(solved.model.factors, answers.factor_laws, strict=True):
        expected = np.zeros(table.shape)
        chosen = p.numpy() > 0
        np.add.at(expected, tuple(free[chosen][:, scope].T), p.numpy()[chosen])
        np.testing.assert_allclose(law, expected, rtol=0, atol=1e-10)
    state, best = solved.most_probable()
    assert best == pytest.approx(float(log_density.max()), rel=1e-12, abs=1e-10)
    assert float(target.log_density(state)) == pytest.approx(best, rel=1e-12, abs=1e-10)
    drawn = solved.draw(50, torch.Generator().manual_seed(0))
    assert bool(target.log_density(drawn).isfinite().all())


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    zeros=st.sampled_from([0.0, 0.15, 0.4]),
    strength=st.sampled_from([0.0, 1.0, 30.0, 400.0]),  # the last takes logarithms
    evidence=st.booleans(),
)
def test_random_hypergraphs(seed: int, zeros: float, strength: float, evidence: bool) -> None:
    target = random_factors(seed, zeros=zeros, strength=strength)
    agree(target.given({1: 0, 4: 0}) if evidence else target)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, v=st.integers(2, 4))
def test_random_pairs(seed: int, v: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [pair for pair in networkx.complete_graph(6).edges if rng.random() < 0.5]
    target = Pairwise(
        edges, rng.normal(size=(len(edges), v, v)), rng.normal(size=(6, v)), dtype=torch.float64
    )
    agree(target)
    agree(target.given({0: 1, 5: 0}))


def test_a_message_that_no_float_holds() -> None:
    """A chain that is pulled by 60 nats a bond one way and held at the other end: most of what is
    summed is e^-1200 of the largest, and it alone is allowed."""
    d, pull = 24, np.array([[0.0, -60.0], [-60.0, -60.0]])
    held = [((d - 1,), [-np.inf, 0.0]), ((0,), [-np.inf, 0.0])]
    factors = [*(((i, i + 1), pull) for i in range(d - 1)), *held]
    target = Factors(factors, [2] * d, dtype=torch.float64)
    solved = exact.solve(target)
    log_p = np.array([-np.inf, 0.0])
    for _ in range(d - 1):
        log_p = np.logaddexp.reduce(log_p[:, None] + pull, axis=0)
    assert solved.method == "elimination"
    assert solved.log_z == pytest.approx(log_p[1], rel=1e-13)


def test_numbers_alone_would_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: without logarithms the same kind of sum is lost."""
    target = random_factors(3, strength=4_000.0, least=2)
    log_z = float(whole_law(target)[1].logsumexp(0))
    assert Elimination(target).log_z == pytest.approx(log_z, rel=1e-12)
    monkeypatch.setattr(cliques, "SAFE", math.inf)
    held = Factors(
        [((0, 1), [[0.0, 0.0], [-800.0, -800.0]]), ((0, 2), [[-np.inf] * 2, [0.0] * 2])],
        [2, 2, 2], dtype=torch.float64,
    )  # fmt: skip
    with pytest.raises(ValueError, match="forbids every state"):
        Elimination(held)
    monkeypatch.undo()
    assert Elimination(held).log_z == pytest.approx(-800 + math.log(4), rel=1e-14)


# -- other solvers -------------------------------------------------------------------------------


def glass_on(graph: networkx.Graph, seed: int) -> Pairwise:
    rng = np.random.default_rng(seed)
    couplings = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        couplings[i, j] = couplings[j, i] = rng.normal()
    return Pairwise.from_spins(couplings, rng.normal(size=len(graph)), dtype=torch.float64)


def as_model(target: Pairwise) -> dimod.BinaryQuadraticModel:
    strength, field, _ = target.spin_form
    pairs = zip(target.edges.tolist(), strength.tolist(), strict=True)
    quadratic = {tuple(pair): -j for pair, j in pairs}
    return dimod.BinaryQuadraticModel.from_ising(dict(enumerate((-field).tolist())), quadratic)


@pytest.mark.parametrize(
    "graph",
    [
        networkx.random_regular_graph(3, 40, seed=1),
        networkx.random_labeled_tree(60, seed=2),
        networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(7, 9)),
    ],
    ids=["regular", "tree", "grid"],
)
def test_dwaves_tree_decomposition(graph: networkx.Graph) -> None:
    target = glass_on(graph, 0)
    model = as_model(target)
    result = TreeDecompositionSampler().sample(model, num_reads=1, beta=1.0, seed=1)
    truth = exact.solve(target)
    assert truth.method == "elimination"
    constant = target.spin_form[2]
    assert truth.log_z == pytest.approx(result.info["log_partition_function"] + constant, rel=1e-9)
    for (i, j), same in zip(target.pairs.tolist(), truth.pair_same.tolist(), strict=True):
        law = marginals_of(result.info["interaction_marginals"], i, j)
        assert same == pytest.approx(sum(p for (a, b), p in law.items() if a == b), abs=1e-9)
    best = TreeDecompositionSolver().sample(model).first
    assert exact.most_probable(target)[1] == pytest.approx(-best.energy + constant, rel=1e-9)


def marginals_of(laws: dict, i: int, j: int) -> dict:
    return laws[i, j] if (i, j) in laws else laws[j, i]


@pytest.mark.parametrize(
    "target",
    [SpinGlass(8, 0.7, seed=1), Ising(7, 0.4, field=0.1, boundary="open"), Potts((5, 6), 3, 0.8)],
    ids=["glass", "open", "potts"],
)
def test_the_transfer_matrix(target: Pairwise) -> None:
    truth, answers = exact.solve(target), Elimination(target).answers()
    assert truth.method == "transfer matrix"
    assert answers.log_z == pytest.approx(truth.log_z, rel=1e-11)
    assert answers.mean_energy == pytest.approx(truth.mean_energy, rel=1e-9)
    torch.testing.assert_close(answers.site_marginals, truth.site_marginals, rtol=0, atol=1e-10)


# -- draws ---------------------------------------------------------------------------------------


def chi_squared(target: Target, x: Tensor) -> tuple[float, int]:
    states, log_density = whole_law(target)
    place = target.num_values ** torch.arange(target.num_sites - 1, -1, -1)
    counts = torch.bincount((x.long() * place).sum(1), minlength=len(states)).double()
    expected = len(x) * log_density.softmax(0)
    assert bool((counts[expected == 0] == 0).all())
    large = expected >= 5
    return float(((counts - expected).square() / expected)[large].sum()), int(large.sum())


@pytest.mark.statistical
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_draws_follow_the_law(zeros: float) -> None:
    """χ² over all states, four times at level 1e-5: one false alarm in 25,000 choices of the seed.
    Draws of a law with one table changed by 10 % fail."""
    target = random_factors(5, zeros=zeros, least=2)
    for law in (target, target.given({2: 1})):
        x = Elimination(law).draw(40_000, torch.Generator().manual_seed(1))
        statistic, count = chi_squared(law, x)
        assert statistic < chi2.isf(1e-5, count)
    x = Elimination(target.scaled(1.1)).draw(40_000, torch.Generator().manual_seed(1))
    statistic, count = chi_squared(target, x)
    assert statistic > chi2.isf(1e-5, count)


@pytest.mark.statistical
def test_marginals_of_draws_on_a_large_graph() -> None:
    """200 sites of 5 values: 200 χ² tests at level 1e-6, one false alarm in 5,000 seeds."""
    target = random_tree(200, 5)
    truth, draws = exact.solve(target), exact.draw(target, 20_000, seed=3)
    assert bool((draws.log_weight == truth.log_z).all())
    counts = torch.nn.functional.one_hot(draws.x.long(), 5).double().sum(0)
    expected = 20_000 * truth.site_marginals
    statistic = ((counts - expected).square() / expected).where(expected > 5, 0.0).sum(1)
    assert float(statistic.max()) < chi2.isf(1e-6, 4)


def random_tree(d: int, v: int, seed: int = 0) -> Pairwise:
    rng = np.random.default_rng(seed)
    edges = list(networkx.random_labeled_tree(d, seed=seed).edges)
    return Pairwise(edges, rng.normal(size=(d - 1, v, v)), rng.normal(size=(d, v)))


# -- orders, cost and refusals -------------------------------------------------------------------


def test_large_trees_take_less_than_a_second() -> None:
    exact.solve(random_tree(50, 3))  # the order is found by compiled code
    begin = time.process_time()
    truth = exact.solve(random_tree(200, 5, seed=1))
    assert time.process_time() - begin < 1
    assert truth.method == "elimination"


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_sums_each_factor_once(seed: int) -> None:
    """Every factor and every message fits into the clique it is sent to."""
    target = random_factors(seed, d=12)
    plan = orders.find_plan([scope for scope, _ in target.factors], target.cardinalities, 30)
    assert sorted(plan.order) == list(range(12))
    rank = {site: k for k, site in enumerate(plan.order)}
    groups = [scope for scope, _ in target.factors] + list(plan.later)
    for group in filter(None, groups):
        first = min(group, key=rank.__getitem__)
        assert {*group} <= {first, *plan.later[rank[first]]}
    lower = orders.least_width(orders.neighbours_of(groups, 12), np.log2(target.cardinalities))
    assert lower <= plan.width + 1e-9


def test_orders_are_as_good_as_those_of_networkx() -> None:
    for seed in range(3):
        graph = networkx.random_regular_graph(3, 60, seed=seed)
        plan = orders.find_plan(graph.edges, [2] * 60, 40)
        width, _ = networkx.algorithms.approximation.treewidth_min_fill_in(graph)
        assert plan.width <= width + 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (SherringtonKirkpatrick(60, 1.0), r"table of 2\^60.0 entries or more, and 2\^29 fit"),
        (SherringtonKirkpatrick(400, 1.0), r"table of 2\^199.5 entries or more, and 2\^29 fit"),
        (Ising(24, 0.4, field=0.1, boundary="open"), r"the narrowest order found for it takes"),
    ],
    ids=["dense", "denser", "wide"],
)
def test_too_wide(target: Target, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        exact.solve(target)
    assert "\n" not in str(refused.value)
    assert not exact.drawable(target)
    assert not exact.affordable(target)


def test_a_limit_of_memory() -> None:
    target = SpinGlass(16, 0.5, boundary="open")
    assert elimination.applies(target)
    assert elimination.quick(target)
    with pytest.raises(ValueError, match=re.escape("and 32 MB are allowed")):
        Elimination(target, max_bytes=2**25)
    with pytest.raises(ValueError, match=re.escape("entries or more, and 2^16 fit into 512 kB")):
        Elimination(target, max_bytes=2**19)
    assert exact.draw(target, 10, max_bytes=2**10).x.shape == (10, 256)  # by determinants
    with pytest.raises(ValueError, match="fit into 1 kB"):
        exact.draw(Ising(16, 0.5, field=0.1, boundary="open"), 10, max_bytes=2**10)


def test_a_sweep_fits_where_no_greedy_order_does() -> None:
    """On a strip around a torus of 100×8 sites, and on a glass with little memory."""
    plan = elimination.plan_or_obstacle(SpinGlass((100, 8), 1.0, seed=2), elimination.MAX_BYTES)
    assert isinstance(plan, orders.Plan)
    assert plan.width == 17
    glass = SpinGlass(16, 1.0, seed=2, boundary="open")
    some, little = Elimination(glass), Elimination(glass, max_bytes=2**26)
    assert little.plan.width < some.plan.width
    assert sorted(little.plan.order) == list(range(256))
    assert little.log_z == pytest.approx(some.log_z, rel=1e-12)
    assert little.most_probable()[1] == pytest.approx(some.most_probable()[1], rel=1e-12)


def test_black_boxes_are_not_summed_by_what_they_look_like() -> None:
    """A function may be recognised as pairwise, which is no proof."""
    chain = random_tree(30, 2)
    target = from_callable(chain.to(dtype=torch.float64).log_density, 30, 2)
    assert isinstance(target.sketch, Pairwise)
    with pytest.raises(ValueError, match="not known to be a product of tables"):
        exact.solve(target)


def test_contradictions_are_refused() -> None:
    never = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    target = Factors([((0, 1), never), ((1, 2), never), ((0, 2), never[::-1])], [2, 2, 2])
    with pytest.raises(ValueError, match="forbids every state"):
        Elimination(target)
    agreeing = Factors([((0, 1), never), ((1, 2), never)], [2, 2, 2])
    with pytest.raises(ValueError, match="forbids every state"):
        Elimination(agreeing.given({0: 0, 2: 1}))
