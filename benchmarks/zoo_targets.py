"""The zoo: small targets of many kinds, each with an exact answer that no sampler had a part in.

Whatever is random in a target is drawn from a fixed seed.  Targets made with ``from_callable`` show
a sampler nothing but log p̄.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import networkx
import numpy as np
import torch
import zoo_exact
from torch import Tensor
from zoo_exact import Answer

from tcsis import targets
from tcsis.targets.base import Target

SPINS = torch.tensor([-1.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True)
class Mode:
    """A part of the states: ``holds`` (n, d) -> (n,) says how far each belongs to it, and ``share``
    is its probability, None where it is to be found by enumeration."""

    holds: Callable[[Tensor], Tensor]
    share: float | None = None


@dataclass(frozen=True)
class Case:
    """A target, its exact answer, how long to train, and a mode whose share must come out."""

    name: str
    family: str
    make: Callable[[], Target]
    exact: Callable[[Target], Answer]
    minutes: float = 2.0
    mode: Mode | None = None
    all_states: bool = False
    """Whether the draws are also compared with the probability of every single state."""

    def answer(self) -> Answer:
        return self.exact(self.make())

    def mode_share(self) -> float | None:
        if self.mode is None or self.mode.share is not None:
            return None if self.mode is None else self.mode.share
        return zoo_exact.mean_of(self.mode.holds, self.make())


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def signs(seed: int, *shape: int) -> Tensor:
    """±1 with equal odds."""
    return normal(seed, *shape).sign()


# -- lattices --------------------------------------------------------------------------------------


def lattice_spins(side: int, coupling: float, fields: Tensor) -> Target:
    """log p̄ = coupling·Σ s s + Σ_i fields_i s_i on a periodic square lattice."""
    lattice = targets.Lattice.of(side)
    bonds = lattice.bonds()
    tables = (coupling * torch.outer(SPINS, SPINS)).expand(len(bonds), 2, 2)
    return targets.Pairwise(bonds, tables, fields[:, None] * SPINS, lattice=lattice)


def random_fields() -> Target:
    return lattice_spins(6, 0.4407, normal(1, 36))


def antiferromagnet() -> Target:
    return lattice_spins(6, -0.6, torch.full((36,), 0.6))


def clock() -> Target:
    """log p̄ = Σ_<ij> cos(2π(x_i - x_j)/6)."""
    lattice = targets.Lattice.of(4)
    bonds = lattice.bonds()
    tables = cosines(6).expand(len(bonds), 6, 6)
    return targets.Pairwise(bonds, tables, torch.zeros(16, 6), lattice=lattice)


def cosines(num_values: int) -> Tensor:
    """cos(2π(u - v)/V), (v, v)."""
    u = torch.arange(num_values, dtype=torch.float64)
    return torch.cos(2 * math.pi / num_values * (u[:, None] - u))


def leads(value: int, num_values: int) -> Callable[[Tensor], Tensor]:
    """1 where the value holds the most sites, shared among equals."""

    def holds(x: Tensor) -> Tensor:
        counts = torch.nn.functional.one_hot(x.long(), num_values).sum(-2)
        most = (counts == counts.amax(-1, keepdim=True)).double()
        return most[..., value] / most.sum(-1)

    return holds


FLIPPED = Mode(leads(1, 2), share=0.5)


def ising(side: int | tuple[int, ...], beta: float, field: float = 0.0, **options: str) -> Target:
    return targets.Ising(side, beta, field, **options)


def ising_in_field(beta: float, field: float, family: str) -> Case:
    return Case(
        f"Ising 4×4, β = {beta}, field {field:g}", family, partial(ising, 4, beta, field),
        zoo_exact.enumerated, mode=Mode(leads(1, 2)), all_states=True,
    )  # fmt: skip


def by_elimination(target: Target) -> Answer:
    return zoo_exact.eliminated(zoo_exact.pairwise_factors(target))


def potts(num_values: int, beta: float) -> Case:
    return Case(
        f"Potts V = {num_values}, 6×6, β = {beta:.4g}", "Potts",
        partial(targets.Potts, 6, num_values, beta),
        lambda _: zoo_exact.potts(6, num_values, beta),
        mode=Mode(leads(0, num_values), share=1 / num_values),
    )  # fmt: skip


LATTICES = [
    *[ising_in_field(beta, 0.1, "Ising, weak field") for beta in (0.28, 0.4407, 0.6)],
    ising_in_field(0.6, 1.0, "Ising, strong field"),
    Case("Ising 6×6, β = 0.4407, random fields", "Ising, random fields", random_fields,
         by_elimination),
    Case("Ising 10×10, β = 0.4407", "Ising, no field", partial(ising, 10, 0.4407),
         zoo_exact.even_lattice, mode=FLIPPED),
    Case("Ising 16×16, β = 0.4407", "Ising, no field", partial(ising, 16, 0.4407),
         zoo_exact.large_lattice, mode=FLIPPED, minutes=5),
    Case("Ising 8×8, open, β = 0.4407", "Ising, no field",
         partial(ising, 8, 0.4407, boundary="open"), by_elimination, mode=FLIPPED),
    Case("Ising 3×3×3, β = 0.3", "Ising, 3-D", partial(ising, (3, 3, 3), 0.3), by_elimination,
         mode=FLIPPED),
    Case("antiferromagnet 6×6, β = 0.6, field 1", "antiferromagnet", antiferromagnet,
         by_elimination),
    potts(3, math.log(1 + math.sqrt(3))),
    potts(4, math.log(3)),
    potts(10, 1.426),
    Case("clock V = 6, 4×4", "clock", clock, zoo_exact.even_lattice),
]  # fmt: skip


# -- glasses and graphs ----------------------------------------------------------------------------


def glass(side: int, beta: float, disorder: str = "bimodal") -> Target:
    return targets.SpinGlass(side, beta, disorder)


def spins_on(graph: networkx.Graph, strengths: Tensor) -> Target:
    """log p̄ = Σ_e J_e s_i s_j, edges in sorted order."""
    edges = edges_of(graph)
    tables = strengths[: len(edges), None, None] * torch.outer(SPINS, SPINS)
    return targets.Pairwise(edges, tables, torch.zeros(len(graph), 2))


def edges_of(graph: networkx.Graph) -> Tensor:
    return torch.tensor(sorted(tuple(sorted(edge)) for edge in graph.edges))


def regular_graph() -> Target:
    return spins_on(networkx.random_regular_graph(3, 20, seed=0), signs(2, 30))


def scale_free_graph() -> Target:
    return spins_on(networkx.barabasi_albert_graph(30, 2, seed=0), normal(3, 60))


def qubo() -> Target:
    """log p̄ = xᵀQx, every entry of Q normal."""
    q = normal(4, 20, 20)
    return targets.from_callable(lambda x: ((x.double() @ q) * x).sum(-1), 20, 2)


GLASSES = [
    Case("±J 8×8, β = 1", "lattice glass", partial(glass, 8, 1.0), by_elimination),
    Case("±J 8×8, β = 2", "lattice glass", partial(glass, 8, 2.0), by_elimination),
    Case("Gaussian glass 8×8, β = 1", "lattice glass", partial(glass, 8, 1.0, "gaussian"),
         by_elimination),
    Case("±J 12×12, β = 1", "lattice glass", partial(glass, 12, 1.0), zoo_exact.even_lattice,
         minutes=5),
    Case("SK, 20 sites, β = 1.5", "SK", partial(targets.SherringtonKirkpatrick, 20, 1.5),
         zoo_exact.enumerated),
    Case("SK, 64 sites, β = 1.5", "SK", partial(targets.SherringtonKirkpatrick, 64, 1.5),
         partial(zoo_exact.even, log_z=None), minutes=5),
    Case("±J, random 3-regular, 20 sites, β = 1", "random graph", regular_graph,
         zoo_exact.enumerated),
    Case("scale-free, 30 sites, normal J", "random graph", scale_free_graph, by_elimination),
    Case("QUBO, 20 variables, dense", "QUBO", qubo, zoo_exact.enumerated),
]  # fmt: skip


# -- forbidden states ------------------------------------------------------------------------------


def random_network(num_nodes: int, degree: float, seed: int) -> networkx.Graph:
    return networkx.gnp_random_graph(num_nodes, degree / (num_nodes - 1), seed=seed)


def independent_sets(graph: networkx.Graph, weight: float = 1.0) -> Target:
    """log p̄ = weight·(size of the set), -inf where two neighbours are in it."""
    i, j = edges_of(graph).T

    def log_density(x: Tensor) -> Tensor:
        clash = (x[:, i] * x[:, j]).any(-1)
        return (weight * x.sum(-1, dtype=torch.float64)).masked_fill(clash, -torch.inf)

    return targets.from_callable(log_density, len(graph), 2)


def independent_set_factors(graph: networkx.Graph, weight: float) -> list[zoo_exact.Factor]:
    edges = edges_of(graph).numpy()
    table = np.array([[0.0, 0.0], [0.0, -np.inf]])
    fields = np.tile([0.0, weight], (len(graph), 1))
    return zoo_exact.graph_factors(edges, np.tile(table, (len(edges), 1, 1)), fields)


def independent_set_case(
    name: str, family: str, graph: networkx.Graph, weight: float = 1.0, mode: Mode | None = None
) -> Case:
    return Case(
        name, family, partial(independent_sets, graph, weight),
        lambda _: zoo_exact.eliminated(independent_set_factors(graph, weight)), mode=mode,
    )  # fmt: skip


def torus(side: int) -> networkx.Graph:
    grid = networkx.grid_2d_graph(side, side, periodic=True)
    return networkx.convert_node_labels_to_integers(grid, ordering="sorted")


def prefers_even(x: Tensor) -> Tensor:
    """1 where the even sites of a 6×6 lattice hold more than the odd ones, ½ where as many."""
    place = torch.arange(6)
    even = ((place[:, None] + place) % 2 == 0).flatten()
    excess = x[:, even].sum(-1, dtype=torch.long) - x[:, ~even].sum(-1, dtype=torch.long)
    return (excess.sign() + 1) / 2


def colourings(graph: networkx.Graph, num_values: int) -> Target:
    """log p̄ = 0, -inf where two neighbours have one colour."""
    i, j = edges_of(graph).T

    def log_density(x: Tensor) -> Tensor:
        clash = (x[:, i] == x[:, j]).any(-1)
        return torch.zeros(len(x), dtype=torch.float64).masked_fill(clash, -torch.inf)

    return targets.from_callable(log_density, len(graph), num_values)


def colouring_factors(graph: networkx.Graph, num_values: int) -> list[zoo_exact.Factor]:
    edges = edges_of(graph).numpy()
    table = np.where(np.eye(num_values) == 1, -np.inf, 0.0)
    fields = np.zeros((len(graph), num_values))
    return zoo_exact.graph_factors(edges, np.tile(table, (len(edges), 1, 1)), fields)


def colouring_case(graph: networkx.Graph, num_values: int) -> Case:
    return Case(
        f"colourings V = {num_values}, {len(graph)} nodes", "colourings",
        partial(colourings, graph, num_values),
        lambda _: zoo_exact.eliminated(colouring_factors(graph, num_values)),
    )  # fmt: skip


def k_hot() -> Target:
    """log p̄ = Σ_{i<j} J_ij x_i x_j with J normal; -inf unless 5 of the 20 sites are on."""
    j = normal(5, 20, 20).triu(1)

    def log_density(x: Tensor) -> Tensor:
        pairs = ((x.double() @ j) * x).sum(-1)
        return pairs.masked_fill(x.sum(-1) != 5, -torch.inf)

    return targets.from_callable(log_density, 20, 2)


def even_parity() -> Target:
    """Normal fields; -inf where the number of ones is odd: no single flip is ever allowed."""
    fields = normal(6, 16)

    def log_density(x: Tensor) -> Tensor:
        return (x.double() @ fields).masked_fill(x.sum(-1) % 2 == 1, -torch.inf)

    return targets.from_callable(log_density, 16, 2)


def permutations() -> Target:
    """log p̄ = Σ_i A[i, x_i] with A normal; -inf unless the seven values all differ."""
    a = normal(7, 7, 7)
    sites = torch.arange(7)

    def log_density(x: Tensor) -> Tensor:
        repeated = x.sort(-1).values.diff(dim=-1).eq(0).any(-1)
        return a[sites, x].sum(-1).masked_fill(repeated, -torch.inf)

    return targets.from_callable(log_density, 7, 7)


def knapsack() -> Target:
    """20 things of weight 1 to 20 and normal value; -inf above half of the whole weight."""
    generator = torch.Generator().manual_seed(8)
    weights, values = torch.randint(1, 21, (20,), generator=generator), normal(8, 20)

    def log_density(x: Tensor) -> Tensor:
        heavy = 2 * (x * weights).sum(-1) > weights.sum()
        return (x.double() @ values).masked_fill(heavy, -torch.inf)

    return targets.from_callable(log_density, 20, 2)


FORBIDDEN = [
    *[
        independent_set_case(
            f"independent sets, {n} nodes", "independent sets", random_network(n, 3, seed=n)
        )
        for n in (24, 60)
    ],
    independent_set_case(
        "hard squares 6×6, activity 3.8", "independent sets", torus(6), math.log(3.8),
        Mode(prefers_even, share=0.5),
    ),
    colouring_case(random_network(16, 4, seed=0), 4),
    Case("5 of 20 sites, normal pairs", "fixed number", k_hot, zoo_exact.enumerated),
    Case("even parity, 16 sites, normal fields", "parity", even_parity, zoo_exact.enumerated),
    Case("permutations of 7, normal costs", "permutations", permutations, zoo_exact.enumerated),
    Case("knapsack, 20 things", "knapsack", knapsack, zoo_exact.enumerated),
]  # fmt: skip


# -- other functions -------------------------------------------------------------------------------


def rbm() -> Target:
    return targets.RBM(0.7 * normal(9, 40, 12), torch.zeros(40), torch.zeros(12))


def neural() -> Target:
    """log p̄ = 4·a·tanh(B·tanh(C·s)), a fixed random network on 16 spins."""
    a, b, c = normal(10, 32) / 4, normal(11, 32, 32) / 4, normal(12, 16, 32) / 4

    def log_density(x: Tensor) -> Tensor:
        return 4 * ((2 * x - 1).double() @ c).tanh().matmul(b).tanh() @ a

    return targets.from_callable(log_density, 16, 2)


def triples(seed: int, num: int, num_sites: int) -> Tensor:
    """Random triples of different sites, (num, 3)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(num, num_sites, generator=generator).argsort(1)[:, :3]


def three_spins() -> Target:
    """log p̄ = Σ J s_i s_j s_k over 30 random triples, J = ±1: noisy parity checks."""
    sites, j = triples(13, 30, 20), signs(13, 30)
    return targets.from_callable(lambda x: (2 * x - 1)[:, sites].prod(-1).double() @ j, 20, 2)


def satisfaction() -> Target:
    """Random 3-SAT, 80 clauses: log p̄ = -2 for each that is violated."""
    sites, wanted = triples(14, 80, 20), normal(14, 80, 3) > 0
    sign = torch.zeros(80, 20, dtype=torch.float64).scatter(1, sites, 2 * wanted.double() - 1)
    denied = (~wanted).sum(1)

    def log_density(x: Tensor) -> Tensor:
        num_true = x.double() @ sign.T + denied  # of the three literals of every clause
        return -2.0 * (num_true == 0).sum(-1).double()

    return targets.from_callable(log_density, 20, 2)


def variable_selection(num: int = 12, num_data: int = 60, g: float = 60.0) -> Target:
    """Which of 12 predictors, half of them near copies of the other half: the posterior of a
    regression with a g-prior, -½·k·log(1+g) - ½·(n-1)·log(1 + g·(1-R²))."""
    half = normal(15, num_data, num // 2)
    data = torch.cat([half, half + 0.3 * normal(16, num_data, num // 2)], dim=1)
    data = data - data.mean(0)
    y = data[:, :3].sum(1) + 2 * normal(17, num_data)
    y = y - y.mean()
    gram, projection, eye = data.T @ data, data.T @ y, torch.eye(num, dtype=torch.float64)

    def log_density(x: Tensor) -> Tensor:
        on = x.double()
        masked = on[:, :, None] * gram * on[:, None, :] + (1 - on)[:, :, None] * eye
        fitted = torch.linalg.solve(masked, on * projection)
        rest = 1 - fitted @ projection / y.square().sum()
        return -0.5 * (on.sum(-1) * math.log1p(g) + (num_data - 1) * torch.log1p(g * rest))

    return targets.from_callable(log_density, num, 2)


def chain(num_sites: int, num_values: int) -> Target:
    """log p̄ = 1.5·Σ_i cos(2π(x_i - x_{i+1})/V), open."""
    edges = torch.stack([torch.arange(num_sites - 1), torch.arange(1, num_sites)], dim=1)
    tables = (1.5 * cosines(num_values)).expand(len(edges), num_values, num_values)
    return targets.Pairwise(edges, tables, torch.zeros(num_sites, num_values))


def chain_function() -> Target:
    """The chain of 12 sites with V = 20 as a function."""

    def log_density(x: Tensor) -> Tensor:
        return 1.5 * torch.cos(2 * math.pi / 20 * x.double().diff(dim=-1)).sum(-1)

    return targets.from_callable(log_density, 12, 20)


FACTORISED_FIELDS = 2 * normal(18, 20, 5)


def factorised() -> Target:
    sites = torch.arange(20)
    return targets.from_callable(lambda x: FACTORISED_FIELDS[sites, x].sum(-1), 20, 5)


def near_deterministic() -> Target:
    """One state of 16 sites holds nearly everything: log odds of ±6 and couplings of 0.05."""
    log_odds, j = 6 * signs(19, 16), 0.05 * normal(19, 16, 16)
    j = j.triu(1) + j.triu(1).T
    return targets.Pairwise.from_spins(j, log_odds / 2)


def in_the_state(x: Tensor) -> Tensor:
    """1 in the state that the fields of ``near_deterministic`` ask for."""
    return (x == (signs(19, 16) > 0)).all(-1).double()


def two_modes() -> Target:
    """log(0.9·e^(-4·ones) + 0.1·e^(-4·zeros)) of 16 sites."""

    def log_density(x: Tensor) -> Tensor:
        ones = x.sum(-1, dtype=torch.float64)
        return torch.logaddexp(math.log(0.9) - 4 * ones, math.log(0.1) - 4 * (16 - ones))

    return targets.from_callable(log_density, 16, 2)


FUNCTIONS = [
    Case("RBM 40×12, weights 0.7", "RBM", rbm, zoo_exact.rbm),
    Case("neural energy, 16 sites", "neural energy", neural, zoo_exact.enumerated),
    Case("three-spin couplings, 20 sites", "parity", three_spins, zoo_exact.enumerated),
    Case("3-SAT, 20 variables, 80 clauses", "satisfaction", satisfaction, zoo_exact.enumerated),
    Case("variable selection, 12 predictors", "posterior", variable_selection,
         zoo_exact.enumerated),
    Case("chain V = 20, 12 sites", "chain", partial(chain, 12, 20), by_elimination),
    Case("chain V = 20, 12 sites, as a function", "chain", chain_function,
         lambda _: by_elimination(chain(12, 20))),
    Case("chain V = 64, 16 sites", "chain", partial(chain, 16, 64), by_elimination),
    Case("factorised V = 5, 20 sites", "factorised", factorised,
         lambda _: zoo_exact.independent(FACTORISED_FIELDS.numpy())),
    Case("near-deterministic, 16 sites", "one state", near_deterministic, zoo_exact.enumerated,
         mode=Mode(in_the_state)),
    Case("two far modes, 9 : 1, 16 sites", "two modes", two_modes, zoo_exact.enumerated,
         mode=Mode(leads(0, 2))),
]  # fmt: skip

CASES = [*LATTICES, *GLASSES, *FORBIDDEN, *FUNCTIONS]
