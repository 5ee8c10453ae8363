"""The compiled engine: right distributions by enumeration, independent streams, exact numbers."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import chi2

from tcsis.exact import Enumeration
from tcsis.mcmc.compiled import (
    PairwiseArrays,
    make_streams,
    moves,
    step,
    sweep,
    swendsen_wang,
    threads,
    wolff,
)
from tcsis.mcmc.compiled.lanes import CHUNK, WIDTH, exp2, fill_uniforms
from tcsis.mcmc.compiled.odds import gibbs_flip, metropolis_flip, odds_model
from tcsis.mcmc.compiled.random import GOLDEN, UNIT, advance, split_mix, thresholds
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass

LEVEL = 1e-6
"""Of one χ² test.  There are about 200, so one choice of seeds in 5,000 gives a false alarm."""

NUM_CHAINS = 40_000

Move = Callable[[PairwiseArrays, np.ndarray, np.ndarray, float | np.ndarray], object]


def random_tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_graph(num_sites: int, tables: Callable[[int], torch.Tensor], fields: torch.Tensor):
    edges = torch.combinations(torch.arange(num_sites))
    return Pairwise(edges, tables(len(edges)), fields)


def agreement(strength: torch.Tensor, v: int) -> torch.Tensor:
    return strength[:, None, None] * torch.eye(v, dtype=torch.float64)


RING = torch.tensor([[0, 1, 0, -1], [1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0]])
PATH = torch.tensor([[0, 1, 0, 0], [1, 0, -1, 0], [0, -1, 0, 0], [0, 0, 0, 0]])
SPIN_FORMS = {
    "table": Pairwise.from_spins(0.2 * (1 - torch.eye(5))),
    "table-field": Pairwise.from_spins(RING, 0.8, beta=0.5),
    "table-path": Pairwise.from_spins(PATH, torch.tensor([0.4, -0.2, 0.4, 0.4])),
    "odds": random_graph(
        4, lambda m: 0.6 * random_tensor(m, 2, 2), 0.5 * random_tensor(4, 2, seed=1)
    ),
}
VALUE_FORMS = {
    "values-agreement": random_graph(
        3, lambda m: agreement(random_tensor(m), 3), 0.7 * random_tensor(3, 3, seed=1)
    ),
    "values-tables": random_graph(3, lambda m: random_tensor(m, 3, 3), random_tensor(3, 3, seed=1)),
}
FORMS = SPIN_FORMS | VALUE_FORMS
FERROMAGNETS = {
    "ising": Ising((2, 3), 0.3),
    "ising-field": Ising(2, 0.3, 0.4),
    "disordered": random_graph(
        4, lambda m: agreement(random_tensor(m).abs(), 2), random_tensor(4, 2, seed=1)
    ),
    "potts": Potts((2, 2), 3, 0.8, boundary="open"),
    "potts-fields": random_graph(
        3, lambda m: agreement(random_tensor(m).abs(), 3), random_tensor(3, 3, seed=1)
    ),
}


def updates(kind: str, rule: str, num_sweeps: int = 25) -> Move:
    """Sweeps, or as many random steps as they have updates."""
    if kind == "sweep":
        return lambda model, x, streams, scale: sweep(model, x, streams, num_sweeps, rule, scale)
    return lambda model, x, streams, scale: step(
        model, x, streams, num_sweeps * model.num_sites, rule, scale
    )


UPDATES = {
    f"{rule}-{kind}": updates(kind, rule)
    for rule in ("gibbs", "metropolis")
    for kind in ("sweep", "step")
}
CLUSTERS: dict[str, Move] = {
    "wolff": lambda model, x, streams, scale: wolff(model, x, streams, 40, scale),
    "swendsen-wang": lambda model, x, streams, scale: swendsen_wang(model, x, streams, 20, scale),
}


def uniform_states(target: Pairwise, num_chains: int, seed: int = 0) -> NDArray[np.uint8]:
    shape = (num_chains, target.num_sites)
    return np.random.default_rng(seed).integers(0, target.num_values, shape, dtype=np.uint8)


def probabilities(target: Pairwise, scale: float) -> np.ndarray:
    return softmax(scale * Enumeration(target).log_density.numpy())


def site_kernels(target: Pairwise, rule: str, scale: float) -> list[np.ndarray]:
    """The transition matrix over all states of an update of each site."""
    p = probabilities(target, scale)
    states = Enumeration(target).states(torch.arange(len(p))).numpy()
    differ = states[:, None] != states[None]  # (N, N, d)
    kernels = []
    for site in range(target.num_sites):
        reachable = ~np.delete(differ, site, axis=2).any(2)
        if rule == "gibbs":
            kernel = reachable * p
            kernel /= kernel.sum(1, keepdims=True)
        else:
            kernel = reachable * np.minimum(1, p / p[:, None]) / (target.num_values - 1)
            np.fill_diagonal(kernel, 0)
            np.fill_diagonal(kernel, 1 - kernel.sum(1))
        kernels.append(kernel)
    return kernels


def statistic(p: np.ndarray, x: NDArray[np.uint8], v: int) -> tuple[float, int]:
    """χ² of independent draws x against p over all states, and its degrees of freedom."""
    expected = len(x) * p
    counts = np.bincount(x @ v ** np.arange(x.shape[1] - 1, -1, -1), minlength=len(p))
    assert not counts[p == 0].any()
    rare = expected < 10
    expected = np.append(expected[~rare], expected[rare].sum())
    counts = np.append(counts[~rare], counts[rare].sum())
    seen = expected > 0
    return float(((counts - expected)[seen] ** 2 / expected[seen]).sum()), int(seen.sum()) - 1


def check_law(p: np.ndarray, x: NDArray[np.uint8], v: int) -> None:
    value, freedom = statistic(p, x, v)
    assert value < chi2.isf(LEVEL, freedom)


@pytest.mark.parametrize("name", FORMS)
def test_each_target_takes_its_form(name: str) -> None:
    form, _ = moves.choose_form(PairwiseArrays.of(FORMS[name]), "gibbs", np.ones(3))
    assert form == name.split("-")[0]


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1.0, 0.6])
@pytest.mark.parametrize("rule", moves.RULES)
@pytest.mark.parametrize("name", FORMS)
def test_laws_of_single_site_updates(name: str, rule: str, scale: float) -> None:
    """After two sweeps and after five steps from one state, and after many from anywhere, the
    chains have the law that the transition matrices give."""
    target, n, v = FORMS[name], NUM_CHAINS, FORMS[name].num_values
    kernels, model = site_kernels(target, rule, scale), PairwiseArrays.of(target)
    whole_sweep, one_step = np.linalg.multi_dot(kernels), np.mean(kernels, axis=0)
    p, start = probabilities(target, scale), uniform_states(target, n)
    assert p @ whole_sweep == pytest.approx(p)
    for move, matrix, few, many in ((sweep, whole_sweep, 2, 20), (step, one_step, 5, 60)):
        streams, x = make_streams(1, n), np.zeros_like(start)
        move(model, x, streams, few, rule, scale)
        check_law(np.linalg.matrix_power(matrix, few)[0], x, v)
        x = start.copy()
        move(model, x, streams, many, rule, scale)
        check_law(np.linalg.matrix_power(matrix, many).mean(0), x, v)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in FORMS if name != "table"])
def test_single_site_updates_find_the_target(name: str) -> None:
    """Except Metropolis sweeps without fields, which always flip a free spin, and so may cycle."""
    for move in UPDATES.values():
        x = uniform_states(FORMS[name], NUM_CHAINS)
        move(PairwiseArrays.of(FORMS[name]), x, make_streams(3, NUM_CHAINS), 1.0)
        check_law(probabilities(FORMS[name], 1.0), x, FORMS[name].num_values)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1.0, 0.6])
@pytest.mark.parametrize("move", CLUSTERS)
@pytest.mark.parametrize("name", FERROMAGNETS)
def test_cluster_moves_find_the_target(name: str, move: str, scale: float) -> None:
    target = FERROMAGNETS[name]
    x = uniform_states(target, NUM_CHAINS)
    CLUSTERS[move](PairwiseArrays.of(target), x, make_streams(1, NUM_CHAINS), scale)
    check_law(probabilities(target, scale), x, target.num_values)


@pytest.mark.statistical
@pytest.mark.parametrize("move", ["gibbs-sweep", "metropolis-step", "wolff", "swendsen-wang"])
def test_a_scale_for_each_chain(move: str) -> None:
    """Chains at three scales mixed in one batch; scale zero is the uniform distribution."""
    targets = FERROMAGNETS if move in CLUSTERS else FORMS
    for target in targets.values():
        x, scale = uniform_states(target, NUM_CHAINS), np.resize([0.0, 0.5, 1.1], NUM_CHAINS)
        streams = make_streams(2, NUM_CHAINS)
        (UPDATES | CLUSTERS)[move](PairwiseArrays.of(target), x, streams, scale)
        for one in (0.0, 0.5, 1.1):
            check_law(probabilities(target, one), x[scale == one], target.num_values)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["table-field", "odds", "values-tables"])
def test_a_wrong_coupling_is_caught(name: str) -> None:
    """The negative control: a factor of two in the couplings fails the test passed above."""
    right = FORMS[name]
    wrong = Pairwise(right.edges, 2 * right.couplings, right.fields)
    for update in (UPDATES["gibbs-sweep"], UPDATES["metropolis-step"]):
        x = uniform_states(wrong, NUM_CHAINS)
        update(PairwiseArrays.of(wrong), x, make_streams(3, NUM_CHAINS), 1.0)
        value, freedom = statistic(probabilities(right, 1.0), x, right.num_values)
        assert value > 10 * chi2.isf(LEVEL, freedom)


# -- streams -----------------------------------------------------------------------------------

LARGER = {
    "table": Ising(5, 0.4),
    "odds": SpinGlass(5, 0.8, "gaussian"),
    "values-agreement": Potts(5, 3, 0.9),
    "values-tables": Pairwise(
        Potts(5, 3, 1.0).edges, random_tensor(50, 3, 3), random_tensor(25, 3, seed=1)
    ),
}
SHORT_UPDATES = {
    "gibbs-sweep": updates("sweep", "gibbs", 3),
    "gibbs-step": updates("step", "gibbs", 3),
    "metropolis-sweep": updates("sweep", "metropolis", 3),
    "metropolis-step": updates("step", "metropolis", 3),
}
CASES = [(name, move) for name in LARGER for move in SHORT_UPDATES]
CASES += [(name, move) for name in ("table", "values-agreement") for move in CLUSTERS]


def moved(name: str, move: str, chains: slice) -> np.ndarray:
    """States and streams of some of 300 chains after a move of these only."""
    x = uniform_states(LARGER[name], 300)[chains].copy()
    streams = np.ascontiguousarray(make_streams(7, 300)[:, chains])
    (SHORT_UPDATES | CLUSTERS)[move](PairwiseArrays.of(LARGER[name]), x, streams, 1.0)
    return np.concatenate([x, streams.T], axis=1)


@pytest.mark.parametrize(("name", "move"), CASES)
def test_a_chain_does_not_depend_on_the_others(name: str, move: str) -> None:
    """Alone, in a small batch, in the middle of a block, in the last block: the same bits."""
    everyone = moved(name, move, slice(None))
    for chains in (slice(0, 1), slice(100, 105), slice(30, 230), slice(255, 300)):
        assert np.array_equal(moved(name, move, chains), everyone[chains])


@pytest.mark.parametrize(("name", "move"), CASES)
def test_a_chain_does_not_depend_on_threads(
    name: str, move: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "UPDATES_PER_THREAD", 1)
    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "most_threads", lambda count=count: count)
        results.append(moved(name, move, slice(None)))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_moves_add_up_and_seeds_differ() -> None:
    """Two calls of one move are one call of two; another seed is another chain."""
    target = LARGER["odds"]
    model = PairwiseArrays.of(target)
    x, y, z = (uniform_states(target, 20) for _ in range(3))
    streams = make_streams(0, 20)
    for _ in range(2):
        sweep(model, x, streams, 1)
        step(model, x, streams, 3, "metropolis")
    streams = make_streams(0, 20)
    sweep(model, y, streams, 1)
    step(model, y, streams, 3, "metropolis")
    sweep(model, y, streams, 1)
    step(model, y, streams, 2, "metropolis")
    step(model, y, streams, 1, "metropolis")
    sweep(model, z, make_streams(1, 20), 2)
    assert np.array_equal(x, y)
    assert not np.array_equal(x, z)
    assert np.array_equal(make_streams(5, 30)[:, :4], make_streams(5, 4))


def test_counts_are_changes() -> None:
    for target in LARGER.values():
        model, x = PairwiseArrays.of(target), uniform_states(target, 150)
        for rule in ("gibbs", "metropolis"):
            before, streams = x.copy(), make_streams(0, 150)
            assert np.array_equal(sweep(model, x, streams, 1, rule), (x != before).sum(1))
            before = x.copy()
            assert np.array_equal(step(model, x, streams, 1, rule), (x != before).sum(1))
    model, x = PairwiseArrays.of(Potts(5, 3, 0.9)), uniform_states(Potts(5, 3, 0.9), 150)
    for cluster_move in (wolff, swendsen_wang):
        before = x.copy()
        assert np.array_equal(cluster_move(model, x, streams, 1)[1], (x != before).sum(1))


# -- numbers -----------------------------------------------------------------------------------


def reference(state: list[int]) -> int:
    """xoshiro128++ of Blackman and Vigna in plain integers; changes ``state``."""

    def rotate(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) & 0xFFFFFFFF

    output = (rotate((state[0] + state[3]) & 0xFFFFFFFF, 7) + state[0]) & 0xFFFFFFFF
    shifted = state[1] << 9 & 0xFFFFFFFF
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = rotate(state[3], 11)
    return output


def test_generators_against_references() -> None:
    state = [1, 2, 3, 4]
    assert [reference(state) for _ in range(4)] == [641, 1573767, 3222811527, 3517856514]
    words = tuple(np.uint32(word) for word in (1, 2, 3, 4))
    state = [1, 2, 3, 4]
    for _ in range(1_000):
        u, words = advance(words)
        assert u == reference(state) >> 1
    seeds = np.array([1234567], dtype=np.uint64)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for output in published:
        seeds = seeds + GOLDEN
        assert split_mix(seeds)[0] == output
    streams, u = make_streams(3, WIDTH), np.zeros((CHUNK, WIDTH), dtype=np.uint32)
    states = [[int(word) for word in streams[:, chain]] for chain in range(WIDTH)]
    for _ in range(2):
        fill_uniforms(streams, u)
        for chain, state in enumerate(states):
            assert [reference(state) >> 1 for _ in range(CHUNK)] == u[:, chain].tolist()


@pytest.mark.statistical
def test_uniforms_are_uniform() -> None:
    """In each chain, across chains and between neighbouring seeds; false alarms 1 in 10^5."""
    first = []
    for seed in range(2_000):
        streams, u = make_streams(seed, WIDTH), np.zeros((CHUNK, WIDTH), dtype=np.uint32)
        fill_uniforms(streams, u)
        first.append(u)
    draws = np.stack(first)  # (seeds, draws, chains)
    for part in (
        draws,
        draws[:, 0],
        draws[:, :, 0],
        draws[:, :, :-1] ^ draws[:, :, 1:],
        draws[:-1] ^ draws[1:],
    ):
        for shift in (23, 0):
            counts = np.bincount((part >> shift).ravel() & 255, minlength=256)
            expected = part.size / 256
            assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 255)


def test_exp2() -> None:
    y = -np.geomspace(1e-6, 126, 20_000).astype(np.float32)
    relative = [float(exp2(value)) / 2.0 ** float(value) - 1 for value in y]
    assert np.abs(relative).max() < 1e-7
    assert exp2(np.float32(0)) == 1
    assert 0 < exp2(np.float32(-1e30)) < 2.0**-100


def flip_probability(flip: Callable, delta: float) -> float:
    """The share of the uniforms that flip, by bisection: they are the smallest ones."""
    low, high = -1, UNIT  # of the last that flips and the first that does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if flip(np.float32(delta), np.uint32(middle)) else (low, middle)
    return high / UNIT


def test_flip_probabilities() -> None:
    """Within 1e-6 of the rules, to 1e-6 relative where they are small, and zero and one exact."""
    for delta in np.linspace(-25, 25, 101):
        exact = expit(delta * np.log(2)), min(1.0, 2.0**delta)
        found = flip_probability(gibbs_flip, delta), flip_probability(metropolis_flip, delta)
        assert found == pytest.approx(exact, rel=1e-6, abs=1e-9)
        assert 1 - found[0] == pytest.approx(1 - exact[0], rel=1e-6, abs=1e-9)
    for flip in (gibbs_flip, metropolis_flip):
        assert flip_probability(flip, -80) == 0
        assert flip_probability(flip, 80) == 1
    assert thresholds([0.0, 0.5, 1.0]).tolist() == [0, 2**30, 2**31]


def test_table_and_odds_walk_the_same_way() -> None:
    """Both forms turn the same uniform into the same flip, so their chains coincide."""
    for target in (Ising((5, 4), 0.5, boundary="open"), SpinGlass(6, 0.7), FORMS["table-path"]):
        model = PairwiseArrays.of(target)
        for rule in moves.RULES:
            x, y = (uniform_states(target, 200) for _ in range(2))
            odds = odds_model(model, rule == "gibbs", np.ones(200))
            moves.run(moves.SWEEPS["odds"], y, make_streams(0, 200), 10, 36, odds)
            sweep(model, x, make_streams(0, 200), 10, rule)
            assert np.array_equal(x, y)


FREE = Pairwise(torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, 2, 2), random_tensor(3, 2))
ISING = PairwiseArrays.of(Ising(2, 0.3))
TABLES = PairwiseArrays.of(VALUE_FORMS["values-tables"])
X, STREAMS = np.zeros((5, 4), dtype=np.uint8), make_streams(0, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sweep(ISING, X, STREAMS, 1, "heat"), "rule is 'heat': expected one of gibbs"),
        (lambda: sweep(ISING, X, STREAMS, -1), "number of moves is -1"),
        (lambda: sweep(ISING, X, STREAMS, 1, scale=-0.5), "expected finite numbers of at least 0"),
        (lambda: step(ISING, X, STREAMS, 1, scale=np.inf), "expected finite numbers"),
        (lambda: step(ISING, X.astype(np.int64), STREAMS, 1), "x has dtype int64"),
        (lambda: step(ISING, X[:, :3].copy(), STREAMS, 1), "expected uint8 of shape (chains, 4)"),
        (lambda: step(ISING, X + np.uint8(2), STREAMS, 1), "x has tokens up to 2: expected 0..1"),
        (lambda: step(ISING, X, STREAMS[:, :3], 1), "expected make_streams(seed, 5)"),
        (
            lambda: wolff(PairwiseArrays.of(Ising(2, -0.3)), X, STREAMS, 1),
            "a coupling is antiferromagnetic, b = -1.2",
        ),
        (
            lambda: swendsen_wang(TABLES, X[:, :3].copy(), STREAMS, 1),
            "not of the form a + b·[u = v]",
        ),
    ],
)  # fmt: skip
def test_bad_input(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
