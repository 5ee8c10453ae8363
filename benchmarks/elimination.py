"""Exact answers by elimination: the 24 Bayesian networks that ship with pgmpy, lattices, random
graphs and trees; orders beside those of networkx and opt_einsum, answers beside those of pgmpy and
dwave-samplers.

Needs ``pip install pgmpy`` (which brings opt_einsum) and dwave-samplers.  Writes
``docs/results/exact/elimination.md``.  Times are of the processor, on one thread.
"""

import logging
import math
import resource
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dimod
import networkx
import numpy as np
import opt_einsum
import torch
from dwave.samplers import TreeDecompositionSampler
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in
from pgmpy.inference import VariableElimination
from pgmpy.utils import get_example_model
from scipy.stats import chi2

from tcsis.exact import transfer
from tcsis.exact.elimination import MAX_BYTES, Elimination
from tcsis.exact.orders import find_plan
from tcsis.formats.bayes import from_pgmpy
from tcsis.targets import Factors, Ising, Lattice, Pairwise, Potts, SpinGlass

NETWORKS = (
    "asia", "cancer", "earthquake", "sachs", "survey", "alarm", "barley", "child", "insurance",
    "mildew", "water", "hailfinder", "hepar2", "win95pts", "andes", "diabetes", "link", "munin1",
    "munin2", "munin3", "munin4", "pathfinder", "pigs", "munin",
)  # fmt: skip
NUM_DRAWS = 10_000
LIMIT = math.log2(MAX_BYTES / 8)
PATIENCE, NUM_QUERIES = 60, 5
"""Seconds that pgmpy has for one network, and nodes it is asked about."""
PAGE = Path(__file__).parents[1] / "docs" / "results" / "exact" / "elimination.md"


@dataclass
class Timed:
    """The processor time of a ``with`` block."""

    seconds: float = 0.0

    def __enter__(self) -> "Timed":
        self.seconds = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self.seconds


# -- networks ------------------------------------------------------------------------------------


def network_row(name: str) -> list[str]:
    network = get_example_model(name)
    for cpd in network.get_cpds():
        cpd.normalize()  # rounded in the files; pgmpy leaves out tables that should sum to one
    target = from_pgmpy(network, dtype=torch.float64)
    with Timed() as solving:
        solved = Elimination(target)
        answers = solved.answers()
    with Timed() as drawing:
        x = solved.draw(NUM_DRAWS, torch.Generator().manual_seed(0))
    with Timed() as searching:
        _, best = solved.most_probable()
    counts, plan = target.cardinalities, solved.plan
    least = least_chance(x, answers.site_marginals)
    del solved  # not two of them in memory
    return [
        name, str(target.num_sites), f"{min(counts)}-{max(counts)}", f"{plan.width:.1f}",
        f"{plan.num_bytes / 2**20:,.0f}", f"{solving.seconds:.2f}", f"{drawing.seconds:.2f}",
        f"{searching.seconds:.2f}", f"{answers.log_z:.0e}", f"{best:.2f}", f"{least:.2f}",
        beside_pgmpy(network, target),
    ]  # fmt: skip


def least_chance(x: torch.Tensor, marginals: torch.Tensor) -> float:
    """The smallest chance of χ² over all sites, times their number."""
    counts = torch.nn.functional.one_hot(x.long(), marginals.shape[1]).double().sum(0)
    expected = len(x) * marginals
    assert bool((counts[expected == 0] == 0).all()), "an impossible value was drawn"
    large = expected >= 5
    statistic = ((counts - expected).square() / expected).where(large, 0.0).sum(1)
    freedom = (large.sum(1) - 1).clamp_min(1)
    chance = chi2.sf(statistic.numpy(), freedom.numpy())
    return min(1.0, float(chance.min()) * len(chance))


def beside_pgmpy(network: Any, target: Factors) -> str:
    """The largest relative difference of marginals given the most likely state of a leaf, and the
    processor time of both."""
    leaf = target.site_names.index(sorted(network.get_leaves())[0])
    with Timed() as ours:
        state = int(Elimination(target).answers().site_marginals[leaf].argmax())
        name = target.site_names[leaf]
        given = target.given({leaf: state})
        marginals = Elimination(given).answers().site_marginals
    sites = [site for site in range(target.num_sites) if site != leaf]
    sites = sites[:: max(1, len(sites) // NUM_QUERIES)]
    signal.alarm(PATIENCE)
    worst = 0.0
    try:
        with Timed() as theirs:
            peer = VariableElimination(network)
            for site in sites:
                evidence = {name: network.get_cpds(name).state_names[name][state]}
                law = peer.query([target.site_names[site]], evidence=evidence, show_progress=False)
                worst = max(worst, difference(law, target, site, marginals[site].numpy()))
    except (TimeoutError, MemoryError, ValueError, RuntimeError) as error:
        return f"pgmpy: {type(error).__name__}"
    finally:
        signal.alarm(0)
    return f"{worst:.0e} ({ours.seconds:.2f} s, {theirs.seconds:.2f} s)"


def difference(law: Any, target: Factors, site: int, marginal: np.ndarray) -> float:
    names = [str(state) for state in law.state_names[target.site_names[site]]]
    ours = marginal[[target.value_names[site].index(state) for state in names]]
    return float((np.abs(ours - law.values) / np.maximum(law.values, 1e-300)).max())


# -- orders --------------------------------------------------------------------------------------


def graphs() -> dict[str, tuple[list[tuple[int, ...]], list[int]]]:
    """Scopes and numbers of values."""
    found = {}
    for side, boundary in ((10, "open"), (10, "periodic"), (16, "open")):
        bonds = Lattice.of(side, boundary).bonds().unique(dim=0).tolist()
        found[f"{side}×{side} {boundary}"] = [tuple(bond) for bond in bonds], [2] * side**2
    for seed in range(3):
        graph = networkx.random_regular_graph(3, 60, seed=seed)
        found[f"3-regular, n = 60, seed {seed}"] = list(graph.edges), [2] * 60
    return found


def order_row(name: str, scopes: Sequence[tuple[int, ...]], counts: list[int]) -> list[str]:
    log_2 = np.log2(counts)
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(counts)))
    for scope in scopes:
        graph.add_edges_from((i, j) for i in scope for j in scope if i < j)

    def by_decomposition(find: Callable[[networkx.Graph], Any]) -> str:
        with Timed() as timed:
            _, tree = find(graph)
        sizes = [log_2[list(bag)].sum() for bag in tree.nodes]
        return shown(max(sizes), np.logaddexp2.reduce(sizes), timed.seconds)

    def by_path(find: Callable[..., Any]) -> str:
        with Timed() as timed:
            sizes_of = dict(enumerate(counts))
            path = find([frozenset(scope) for scope in scopes], frozenset(), sizes_of)
        sizes = contractions(path, [set(scope) for scope in scopes], log_2)
        return shown(max(sizes), np.logaddexp2.reduce(sizes), timed.seconds)

    with Timed() as timed:
        plan = find_plan(scopes, counts, 60)
    return [
        name, shown(plan.width, math.log2(plan.work), timed.seconds),
        by_decomposition(treewidth_min_fill_in), by_decomposition(treewidth_min_degree),
        by_path(opt_einsum.paths.greedy),
    ]  # fmt: skip


def contractions(
    path: Sequence[Sequence[int]], tensors: list[set[int]], log_2: np.ndarray
) -> list[float]:
    """log2 of the work of every step of a path of pairwise products."""
    sizes = []
    for step in path:
        taken = [tensors.pop(place) for place in sorted(step, reverse=True)]
        joined = set().union(*taken)
        sizes.append(float(log_2[list(joined)].sum()))
        tensors.append(joined & set().union(*tensors))
    return sizes


def shown(width: float, work: float, seconds: float) -> str:
    return f"{width:.1f} / {work:.1f} / {seconds:.2f}"


# -- lattices, trees, other solvers --------------------------------------------------------------


def lattice_row(name: str, target: Pairwise) -> list[str]:
    truth = transfer.solve(target)
    with Timed() as rows:
        transfer.solve(target)
    with Timed() as sites:
        answers = Elimination(target).answers()
    solved = Elimination(target)
    return [
        name, f"{solved.plan.width:.0f}", f"{sites.seconds:.3f}", f"{rows.seconds:.3f}",
        f"{sites.seconds / rows.seconds:.1f}", f"{abs(answers.log_z - truth.log_z):.0e}",
        f"{float((answers.site_marginals - truth.site_marginals).abs().max()):.0e}",
    ]  # fmt: skip


def alone_row(name: str, target: Pairwise) -> list[str]:
    with Timed() as timed:
        solved = Elimination(target)
        solved.answers()
    with Timed() as drawing:
        solved.draw(NUM_DRAWS, torch.Generator().manual_seed(0))
    plan = solved.plan
    return [
        name, f"{plan.width:.1f}", f"{plan.num_bytes / 2**20:,.0f}", f"{timed.seconds:.2f}",
        f"{drawing.seconds:.2f}",
    ]  # fmt: skip


def random_tree(d: int, v: int) -> Pairwise:
    rng = np.random.default_rng(0)
    edges = list(networkx.random_labeled_tree(d, seed=0).edges)
    return Pairwise(edges, rng.normal(size=(d - 1, v, v)), rng.normal(size=(d, v)))


def dwave_row(name: str, graph: networkx.Graph) -> list[str]:
    rng = np.random.default_rng(0)
    couplings = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        couplings[i, j] = couplings[j, i] = rng.normal()
    fields = rng.normal(size=len(graph))
    target = Pairwise.from_spins(couplings, fields, dtype=torch.float64)
    strengths = {(i, j): -couplings[i, j] for i, j in graph.edges}
    model = dimod.BinaryQuadraticModel.from_ising(dict(enumerate(-fields)), strengths)
    with Timed() as theirs:
        result = TreeDecompositionSampler().sample(model, num_reads=1, beta=1.0, seed=1)
    with Timed() as ours:
        answers = Elimination(target).answers()
    log_z = result.info["log_partition_function"]
    return [
        name, f"{abs(answers.log_z - log_z) / abs(log_z):.0e}", f"{ours.seconds:.3f}",
        f"{theirs.seconds:.3f}",
    ]  # fmt: skip


# -- page ----------------------------------------------------------------------------------------


def table(head: str, rows: list[list[str]]) -> str:
    names = head.split(" | ")
    rule = "|".join(["---", *["---:"] * (len(names) - 1)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"| {head} |", f"|{rule}|", *lines, ""])


def progress(make: Callable[..., list[str]], *args: Any) -> list[str]:
    row = make(*args)
    print(" | ".join(row), flush=True)
    return row


def give_up(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, give_up)
    torch.set_num_threads(1)
    Elimination(random_tree(20, 2))  # compiled once
    find_plan(networkx.cycle_graph(5).edges, [2] * 5, 20)
    lattices = {
        "Ising 10×10, open": Ising(10, 0.4407, boundary="open"),
        "Ising 10×10, periodic": Ising(10, 0.4407),
        "±J glass 10×10, open": SpinGlass(10, 1.0, boundary="open"),
        "±J glass 10×10, periodic": SpinGlass(10, 1.0),
        "±J glass 12×12, open": SpinGlass(12, 1.0, boundary="open"),
        "Potts 8×8, V = 3, open": Potts(8, 3, 1.0, "open"),
    }
    alone = {
        "random tree, d = 200, V = 5": random_tree(200, 5),
        "random tree, d = 5,000, V = 5": random_tree(5_000, 5),
        "±J glass 16×16, open": SpinGlass(16, 1.0, boundary="open"),
        "±J glass 18×18, open": SpinGlass(18, 1.0, boundary="open"),
        "Ising 4×4×5, open": Ising((4, 4, 5), 0.2, boundary="open"),
    }
    peers = {
        "3-regular, n = 40": networkx.random_regular_graph(3, 40, seed=1),
        "3-regular, n = 60": networkx.random_regular_graph(3, 60, seed=1),
        "tree, n = 60": networkx.random_labeled_tree(60, seed=2),
        "10×10 open": networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(10, 10)),
    }
    beside_rows = [progress(lattice_row, *item) for item in lattices.items()]
    alone_rows = [progress(alone_row, *item) for item in alone.items()]
    peer_rows = [progress(dwave_row, *item) for item in peers.items()]
    networks = [progress(network_row, name) for name in NETWORKS]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cases = graphs()
    for name in NETWORKS[-12:]:
        target = from_pgmpy(get_example_model(name))
        cases[name] = [scope for scope, _ in target.factors], list(target.cardinalities)
    order_rows = [progress(order_row, name, *case) for name, case in cases.items()]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(networks, peak, order_rows, beside_rows, alone_rows, peer_rows))


def page(
    networks: list[list[str]], peak: float, orders: list[list[str]], beside: list[list[str]],
    alone: list[list[str]], peers: list[list[str]],
) -> str:  # fmt: skip
    heads = (
        "network | nodes | values | width | MB | solving, s | draws, s | most probable, s | "
        "log Z | log p of it | χ² | beside pgmpy",
        "graph | ours | networkx, min fill | networkx, min degree | opt_einsum, greedy",
        "target | width | elimination, s | transfer matrix, s | ratio | difference of log Z | "
        "of marginals",
        f"target | width | MB | solving, s | {NUM_DRAWS:,} draws, s",
        "graph | relative difference of log Z | ours, s | theirs, s",
    )
    tables = zip(heads, (networks, orders, beside, alone, peers), strict=True)
    of_networks, of_orders, of_lattices, of_others, of_peers = (table(*part) for part in tables)
    return f"""# Elimination

    python benchmarks/elimination.py

Seconds are of the processor, on one thread.  A width is log2 of the entries of the largest table.

## The 24 Bayesian networks that ship with pgmpy

Solving is an order, log Z, all marginals and those of all factors and pairs; then {NUM_DRAWS:,}
exact draws, and the most probable state.  Tables are rounded in the files, and normalised here, so
that log Z should be 0.  χ² is the least chance over all sites that their values are drawn
as often as they should be, times the number of sites.  Beside pgmpy: given the most likely state of
a leaf, the largest relative difference of a few marginals, with the time of ours (all marginals,
and all before the leaf was known) and of theirs (those few).  pgmpy was given {PATIENCE} s a
network.  MB are those of our tables; the peak of the whole process, with all that pgmpy read and
computed in it, was {peak:.1f} GB.

{of_networks}
## Orders

Width / log2 of the entries of all cliques, or of all products of a path / seconds.  Ours tries up
to 60 greedy orders, by fill and by size, with chance; networkx gives tree decompositions, and
opt_einsum a path of products of two tables.

{of_orders}
## Lattices, beside the transfer matrix

Both give log Z, energy, marginals and correlations: of neighbours by elimination, of all distances
along the axes by the transfer matrix, which also uses translations where there are any: they make
it so much faster on the periodic Ising lattice.

{of_lattices}
## Where there is no transfer matrix

{of_others}
## Beside dwave-samplers' tree decomposition

Gaussian couplings and fields, β = 1.

{of_peers}"""


if __name__ == "__main__":
    main()
