"""Random planar graphs with random couplings, and what enumeration says of them."""

from collections.abc import Callable

import networkx
import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

from tcsis.targets import Pairwise

SPIN_PRODUCT = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)


def coupled(num_sites: int, edges: list, beta: np.ndarray) -> Pairwise:
    """log p̄ = Σ_e β_e s_i s_j + 0.7."""
    tables = torch.as_tensor(beta, dtype=torch.float64)[:, None, None] * SPIN_PRODUCT
    pairs = torch.as_tensor(np.asarray(edges, dtype=np.int64).reshape(-1, 2))
    return Pairwise(pairs, tables, torch.zeros(num_sites, 2), constant=0.7, dtype=torch.float64)


def triangulation(num_points: int, seed: int) -> list[tuple[int, int]]:
    points = np.random.default_rng(seed).random((num_points, 2))
    return sorted({
        (min(a, b), max(a, b))
        for triangle in Delaunay(points).simplices.tolist()
        for a, b in ((triangle[0], triangle[1]), (triangle[1], triangle[2]),
                     (triangle[0], triangle[2]))
    })  # fmt: skip


def graphs() -> dict[str, tuple[int, list]]:
    """Trees, bridges, several parts, single sites, hubs, and faces within faces."""
    cycle = [(i, (i + 1) % 5) for i in range(5)]
    bridged = [*cycle, (4, 5), (5, 6), (6, 7), (7, 5)]
    parts = [*cycle, (6, 7), (7, 8), (8, 6), (9, 10)]
    wheel = [(0, i) for i in range(1, 7)] + [(i, i % 6 + 1) for i in range(1, 7)]
    return {
        "one site": (1, []),
        "no bonds": (3, []),
        "one bond": (2, [(0, 1)]),
        "two bonds": (3, [(0, 1), (1, 2)]),
        "triangle": (3, [(0, 1), (1, 2), (0, 2)]),
        "star": (7, [(3, i) for i in range(7) if i != 3]),
        "tree": (9, list(networkx.random_labeled_tree(9, seed=3).edges())),
        "bridge": (8, bridged),
        "parts": (12, parts),
        "wheel": (7, wheel),
        "cube": (8, list(networkx.convert_node_labels_to_integers(
            networkx.cubical_graph()).edges())),
        "points": (12, triangulation(12, 0)),
        "thinned": (13, triangulation(13, 1)[::2]),
    }  # fmt: skip


GRAPHS = graphs()


@pytest.fixture
def model_on() -> Callable[..., Pairwise]:
    """One of the graphs with couplings of either sign, some of them zero."""

    def make(name: str, scale: float, seed: int = 0) -> Pairwise:
        num_sites, edges = GRAPHS[name]
        beta = scale * np.random.default_rng(seed).normal(size=len(edges))
        beta[::5] = 0.0
        return coupled(num_sites, edges, beta)

    return make


@pytest.fixture(params=GRAPHS)
def planar(request: pytest.FixtureRequest, model_on: Callable[..., Pairwise]) -> Callable:
    """All of the graphs, one after the other, as functions of scale and seed."""
    return lambda scale, seed=0: model_on(request.param, scale, seed)


@pytest.fixture
def on_points() -> Callable[..., Pairwise]:
    """Random points joined to triangles, or every second bond of that."""

    def make(num_points: int, scale: float, seed: int, every: int = 1) -> Pairwise:
        edges = triangulation(num_points, seed)[::every]
        beta = scale * np.random.default_rng(seed).normal(size=len(edges))
        return coupled(num_points, edges, beta)

    return make
