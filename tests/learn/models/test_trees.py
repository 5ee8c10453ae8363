"""Targets without cycles: the model before any training is the target itself."""

from collections.abc import Callable

import networkx
import pytest
import torch
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.learn.autoregressive import Autoregressive
from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.models.labels import ByAppearance, ByName
from tcsis.learn.models.trees import conditionals, parents
from tcsis.targets import Ising, Pairwise, Potts, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def joined(graph: networkx.Graph, v: int, seed: int, alike: bool = False) -> Pairwise:
    """Random couplings and fields on a graph; with ``alike`` no value is told from another."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2)
    d = len(graph)
    if alike:
        strength = torch.randn(len(edges), 1, 1, generator=generator, **DOUBLE)
        return Pairwise(edges, strength * torch.eye(v), torch.zeros(d, v), **DOUBLE)
    tables = torch.randn(len(edges), v, v, generator=generator, **DOUBLE)
    return Pairwise(edges, tables, torch.randn(d, v, generator=generator, **DOUBLE), **DOUBLE)


def tree(d: int, seed: int) -> networkx.Graph:
    """With its sites in random order, so that parents come before and after."""
    order = torch.randperm(d, generator=torch.Generator().manual_seed(seed)).tolist()
    found = networkx.random_labeled_tree(d, seed=seed)
    return networkx.relabel_nodes(found, dict(enumerate(order)))


def forest(d: int, seed: int) -> networkx.Graph:
    found = tree(d, seed)
    found.remove_edges_from(sorted(found.edges)[::2])
    return found


def path(d: int) -> networkx.Graph:
    return networkx.path_graph(d)


EXACT: dict[str, tuple[Target, type]] = {
    **{f"tree of {v}, seed {s}": (joined(tree(d, s), v, s), ByName)
       for v, d in ((2, 9), (3, 6), (5, 4)) for s in range(2)},
    **{f"forest of {v}": (joined(forest(d, 4), v, 4), ByName)
       for v, d in ((2, 9), (3, 6), (5, 4))},
    **{f"forest of {v} alike": (joined(forest(d, 5), v, 5, alike=True), ByAppearance)
       for v, d in ((2, 9), (3, 6), (5, 4))},
    "ising chain": (Ising((8,), 0.7, boundary="open", **DOUBLE), ByAppearance),
    "ising chain in a field": (Ising((8,), 0.7, 0.3, boundary="open", **DOUBLE), ByName),
    "potts chain": (Potts((6,), 3, 0.9, boundary="open", **DOUBLE), ByAppearance),
    "antiferromagnetic potts": (Potts((4,), 5, -1.2, boundary="open", **DOUBLE), ByAppearance),
    "uncoupled": (joined(networkx.empty_graph(7), 3, 1), ByName),
    "uncoupled alike": (joined(networkx.empty_graph(6), 3, 1, alike=True), ByAppearance),
    "one site": (joined(networkx.empty_graph(1), 5, 1), ByName),
    "strong": (Pairwise([[0, 1], [1, 2]], 30 * torch.eye(3).expand(2, 3, 3),
                        torch.arange(9.0).reshape(3, 3), **DOUBLE), ByName),
    "black box": (from_callable(lambda x: (x[:, :-1] * x[:, 1:]).double().sum(1) - x[:, 0], 8, 2),
                  ByName),
}  # fmt: skip


def log_weights(target: Target, model: CausalLaw) -> Tensor:
    table = Enumeration(target)
    return model.log_weight(target, table.states(torch.arange(table.num_states)))


def double(maker: Callable[[], CausalLaw]) -> CausalLaw:
    """A model whose first weights are found in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        return maker()
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", EXACT)
def test_the_first_weights_are_exact(name: str) -> None:
    """log w = log Z at every state."""
    target, labels = EXACT[name]
    model = double(lambda: Autoregressive(width=2).model(target))
    assert isinstance(model.labels, labels)
    assert model.last is None
    log_w = log_weights(target, model)
    assert float((log_w - Enumeration(target).log_z).abs().max()) < 1e-10
    in_single = Autoregressive(width=2).model(target)
    assert float(log_weights(target, in_single).var()) < 1e-9


@pytest.mark.parametrize("name", EXACT)
def test_parents_come_first(name: str) -> None:
    target = EXACT[name][0].sketch
    found = parents(target)
    assert found is not None
    assert sorted(found) == list(range(target.num_sites))
    seen: set[int] = set()
    for site, parent in found.items():
        assert parent is None or parent in seen
        seen.add(site)
    joined_pairs = {tuple(sorted((a, b))) for a, b in found.items() if b is not None}
    assert joined_pairs == {tuple(edge) for edge in target.edges.tolist()}


def test_conditionals_are_those_of_the_target() -> None:
    """log p(x_k = w | parent = u) from the pair marginals of an enumeration."""
    target = joined(tree(6, 3), 3, 3)
    table, parent = Enumeration(target), parents(target)
    assert parent is not None
    for site, law in conditionals(target, parent).items():
        above = parent[site]
        other = (site + 1) % 6 if above is None else above
        pair = table.pair_marginals[other, :, site]
        exact = pair.sum(0, keepdim=True) if above is None else pair / pair.sum(1, keepdim=True)
        torch.testing.assert_close(law.softmax(1), exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [3, 5])
def test_a_cycle_is_no_tree(d: int) -> None:
    target = joined(networkx.cycle_graph(d), 2, 0)
    assert parents(target) is None
    model = double(lambda: Autoregressive(width=2).model(target))
    assert float(log_weights(target, model).var()) > 0.01
    assert parents(Ising((4,), 0.4)) is None  # periodic
    assert parents(from_callable(lambda x: x.sum(1).double(), 3, 2)) is None  # it may be one
