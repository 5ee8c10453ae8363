"""Every torch kernel's transition matrix, built from its own probabilities, leaves p invariant.

Two halves make the proof: the matrix P that a kernel's probability functions describe satisfies
πP = π to 1e-12 (and detailed balance where claimed), and the states that its ``step`` really
produces follow the rows of P.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.mcmc.balanced import (
    LocallyBalanced,
    barker,
    exact_difference,
    log_moves,
    taylor_difference,
)
from tcsis.mcmc.gibbs import PairGibbs, RandomScanGibbs, SweepGibbs, colour_classes
from tcsis.mcmc.kernel import InTurn, Kernel, log_acceptance
from tcsis.mcmc.langevin import DiscreteMALA, log_proposal
from tcsis.mcmc.metropolis import Metropolis, WholeMetropolis
from tcsis.mcmc.path import PathAuxiliary
from tcsis.targets import RBM, Ising, Pairwise, Potts, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


OneSite = Metropolis | WholeMetropolis | RandomScanGibbs

TABLE = normal(27, seed=5)
TARGETS = {
    "ising": Ising(2, 0.3, 0.4, **DOUBLE),
    "pairwise-3": Pairwise(
        [[0, 1], [1, 2]], normal(2, 3, 3, seed=0), normal(3, 3, seed=1), **DOUBLE
    ),
    "potts-3": Potts((2, 2), 3, 0.5, **DOUBLE),
    "rbm": RBM(normal(3, 2, seed=2), normal(3, seed=3), normal(2, seed=4), **DOUBLE),
    "black-box-3": from_callable(
        lambda x: TABLE[state_index(x, 3)], 3, 3,
        relaxed=lambda z: torch.einsum("nu,nv,nw,uvw->n", *z.unbind(1), TABLE.reshape(3, 3, 3)),
    ),
}  # fmt: skip


def all_states(target: Target) -> tuple[Tensor, Tensor]:
    """Every state (N, d) and its probability (N,)."""
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states)), table.p


def with_staying(off_diagonal: Tensor) -> Tensor:
    """A transition matrix from its moves; what is left over stays."""
    return off_diagonal + torch.diag(1 - off_diagonal.sum(-1))


def log_move(target: Target, kernel: OneSite, x: Tensor) -> Tensor:
    """log probability that one step sets site i to v ≠ x_i, (N, d) -> (N, d, v)."""
    ratios, d, v = target.log_ratios(x), target.num_sites, target.num_values
    if isinstance(kernel, Metropolis | WholeMetropolis):
        moves = ratios.clamp_max(0) - math.log(d * (v - 1))
    else:
        moves = ratios.log_softmax(-1) - math.log(d)
    return moves.scatter(-1, x[..., None], -torch.inf)


def local_matrix(target: Target, kernel: OneSite) -> Tensor:
    """P from log probabilities (N, d, v) of setting one site."""
    x, _ = all_states(target)
    probability = log_move(target, kernel, x).exp()
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64)
    for site, value in itertools.product(range(target.num_sites), range(target.num_values)):
        y = x.clone()
        y[:, site] = value
        matrix[torch.arange(len(x)), state_index(y, target.num_values)] += probability[
            :, site, value
        ]
    return with_staying(matrix)


def sweep_matrix(target: Target, kernel: SweepGibbs) -> Tensor:
    """P of a sweep from x to y: while a class is drawn, the classes before it stand at y already
    and the ones after it still at x."""
    states, _ = all_states(target)
    n = len(states)
    x, y = states[:, None].expand(n, n, -1), states.expand(n, n, -1)
    log_p = torch.zeros(n, n, dtype=torch.float64)
    for sites in colour_classes(target):
        conditionals = target.log_ratios(x)[..., sites, :].log_softmax(-1)
        x = x.index_copy(-1, sites, y[..., sites])
        log_p += conditionals.gather(-1, y[..., sites, None]).sum((-2, -1))
    return log_p.exp()


def pair_matrix(target: Target, kernel: PairGibbs) -> Tensor:
    """P of ⌈d/2⌉ draws of a pair: the mean over all pairs of p(y | the sites that are not of the
    pair), to that power."""
    x, p = all_states(target)
    d = target.num_sites
    one = torch.zeros(len(x), len(x), dtype=torch.float64)
    pairs = list(itertools.combinations(range(d), 2))
    for pair in pairs:
        others = [site for site in range(d) if site not in pair]
        alike = (x[:, None, others] == x[None, :, others]).all(-1)
        one += alike * p / (alike * p).sum(1, keepdim=True) / len(pairs)
    return torch.linalg.matrix_power(one, (d + 1) // 2)


def in_turn_matrix(target: Target, kernel: InTurn) -> Tensor:
    return sweep_matrix(target, SweepGibbs()) @ pair_matrix(target, PairGibbs())


Path = tuple[Tensor, Tensor, Tensor]  # end states (N, d), log q there (N,), log q back (N,)


def sequences(target: Target, kernel: LocallyBalanced) -> Iterator[Path]:
    """All ordered choices of 1..num_flips moves at different sites, from every state at once."""
    x, _ = all_states(target)
    v = target.num_values
    here = kernel.init(target, x)
    log_count = -math.log(kernel.num_flips)
    for count in range(1, kernel.num_flips + 1):
        active = torch.ones(len(x), count, dtype=torch.bool)
        for sites in itertools.permutations(range(target.num_sites), count):
            for values in itertools.product(range(v), repeat=count):
                site, value = torch.tensor(sites).expand(len(x), -1), torch.tensor(values)
                y = x.scatter(-1, site, value.expand_as(site))
                back = (site * v + x.gather(-1, site)).flip(-1)
                forward = kernel.log_sequence(here, site * v + value, active)
                backward = kernel.log_sequence(kernel.init(target, y), back, active)
                yield y, forward + log_count, backward + log_count


def walks(target: Target, kernel: PathAuxiliary) -> Iterator[Path]:
    """All walks of 1..length moves, from every state at once."""
    x, _ = all_states(target)
    v, rows = target.num_values, torch.arange(len(x))
    moves = log_moves(kernel.init(target, x), kernel.balance)  # (N, d, v)
    steps = list(itertools.product(range(target.num_sites), range(v)))
    for count in range(1, kernel.length + 1):
        for walk in itertools.product(steps, repeat=count):
            forward = backward = torch.full((len(x),), -math.log(kernel.length)).double()
            here = x
            for site, value in walk:
                there = here.clone()
                there[:, site] = value
                at, to = state_index(here, v), state_index(there, v)
                forward = forward + moves[at, site, value]
                backward = backward + moves[to, site, here[rows, site]]
                here = there
            yield here, forward, backward


def proposals(target: Target, kernel: DiscreteMALA) -> Iterator[Path]:
    x, _ = all_states(target)
    here = kernel.init(target, x)
    for y in x:
        y = y.expand_as(x)
        there = kernel.init(target, y)
        yield (
            y,
            log_proposal(here, y, kernel.step_size),
            log_proposal(there, x, kernel.step_size),
        )


def hastings_matrix(
    target: Target,
    paths: Iterator[Path],
    acceptance: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = log_acceptance,
) -> Tensor:
    """P = Σ_paths q(path)·acceptance, and the rest stays."""
    x, _ = all_states(target)
    log_density = target.log_density(x)
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64)
    for y, forward, backward in paths:
        index = state_index(y, target.num_values)
        accepted = acceptance(log_density, log_density[index], forward, backward)
        moved = torch.where(forward == -torch.inf, 0.0, (forward + accepted).exp())
        matrix.index_put_((torch.arange(len(x)), index), moved, accumulate=True)
    return with_staying(matrix - torch.diag(matrix.diagonal()))


KERNELS: dict[str, tuple[Kernel, Callable]] = {
    "metropolis": (Metropolis(), local_matrix),
    "whole-metropolis": (WholeMetropolis(), local_matrix),
    "glauber": (RandomScanGibbs(), local_matrix),
    "gibbs": (SweepGibbs(), sweep_matrix),
    "pair-gibbs": (PairGibbs(), pair_matrix),
    "in-turn": (InTurn((SweepGibbs(), PairGibbs())), in_turn_matrix),
    "gwg": (LocallyBalanced(), sequences),
    "exact-sqrt": (LocallyBalanced(exact_difference), sequences),
    "exact-barker": (LocallyBalanced(exact_difference, barker), sequences),
    "taylor-barker": (LocallyBalanced(taylor_difference, barker), sequences),
    "multi-flip": (LocallyBalanced(num_flips=2), sequences),
    "path": (PathAuxiliary(length=2), walks),
    "path-taylor": (PathAuxiliary(length=2, difference=taylor_difference), walks),
    "dmala": (DiscreteMALA(step_size=0.6), proposals),
    "dmala-exact": (DiscreteMALA(step_size=0.6, difference=exact_difference), proposals),
}
HASTINGS = (sequences, walks, proposals)


def matrix_of(target: Target, name: str) -> Tensor:
    kernel, build = KERNELS[name]
    made = build(target, kernel)
    return hastings_matrix(target, made) if build in HASTINGS else made


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_invariance(target: str, kernel: str) -> None:
    matrix = matrix_of(TARGETS[target], kernel)
    _, p = all_states(TARGETS[target])
    assert (matrix > -1e-12).all()
    torch.testing.assert_close(matrix.sum(-1), torch.ones_like(p), rtol=0, atol=1e-12)
    torch.testing.assert_close(p @ matrix, p, rtol=0, atol=1e-12)
    flow = p[:, None] * matrix
    if kernel not in ("gibbs", "in-turn"):  # a fixed order is invariant but not reversible
        torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-12)
    else:
        assert (flow - flow.T).abs().max() > 1e-4
    # the chain reaches every state, so p is its only invariant distribution
    assert (torch.linalg.matrix_power(matrix, 50) > 0).all()


def swapped(here: Tensor, there: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    return log_acceptance(here, there, backward, forward)


def without_proposal(here: Tensor, there: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    return log_acceptance(here, there, 0.0, 0.0).where(forward > -torch.inf, -torch.inf)


def wrong_sign(here: Tensor, there: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    return log_acceptance(there, here, forward, backward)


def factor_two(here: Tensor, there: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    return log_acceptance(2 * here, 2 * there, forward, backward)


@pytest.mark.parametrize("wrong", [swapped, without_proposal, wrong_sign, factor_two])
@pytest.mark.parametrize("kernel", [name for name, (_, b) in KERNELS.items() if b in HASTINGS])
def test_a_wrong_acceptance_is_caught(kernel: str, wrong: Callable) -> None:
    """The negative control: each classic mistake breaks invariance far beyond the tolerance."""
    target = TARGETS["pairwise-3"]
    value, build = KERNELS[kernel]
    _, p = all_states(target)
    matrix = hastings_matrix(target, build(target, value), wrong)
    assert (p @ matrix - p).abs().max() > 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", ["ising", "pairwise-3", "rbm"])
def test_steps_follow_the_matrix(target: str, kernel: str) -> None:
    """4,000 steps from every state against the rows of P, one χ² over all cells expected to hold
    five or more.  42 tests at level 1e-5: one false alarm in 2,400 seeds."""
    system, (value, _) = TARGETS[target], KERNELS[kernel]
    x, _ = all_states(system)
    repeats = 4_000
    start = value.init(system, x.repeat_interleave(repeats, 0))
    after, share = value.step(system, start, torch.Generator().manual_seed(1))
    assert share.min() >= 0
    assert share.max() <= 1
    cell = torch.arange(len(x)).repeat_interleave(repeats) * len(x)
    cell = cell + state_index(after.x, system.num_values)
    counts = torch.bincount(cell, minlength=len(x) ** 2).double()
    expected = repeats * matrix_of(system, kernel).flatten()
    assert counts[expected < 1e-6].sum() == 0
    large = expected >= 5
    statistic = float(((counts - expected)[large] ** 2 / expected[large]).sum())
    assert statistic < chi2.isf(1e-5, int(large.sum()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kept_quantities_stay_true(kernel: str) -> None:
    """What a state keeps of x is what would be computed afresh, after any number of steps."""
    target, value = TARGETS["pairwise-3"], KERNELS[kernel][0]
    generator = torch.Generator().manual_seed(0)
    state = value.init(target, torch.randint(3, (5, 7, 3), generator=generator))
    for _ in range(20):
        state, _ = value.step(target, state, generator)
    fresh = value.init(target, state.x)
    for kept, computed in ((state.log_density, fresh.log_density), (state.ratios, fresh.ratios)):
        assert (kept is None) == (computed is None)
        if kept is not None:
            torch.testing.assert_close(kept, computed)


@pytest.mark.parametrize("kernel", KERNELS)
def test_chains_find_the_support(kernel: str) -> None:
    """Hard constraints: chains started on forbidden states come in and never leave again."""

    def log_density(x: Tensor) -> Tensor:
        return torch.where((x * x.roll(1, -1)).sum(-1) > 0, -torch.inf, 0.3 * x.sum(-1).double())

    target = from_callable(log_density, 6, 2)
    value, _ = KERNELS[kernel]
    if isinstance(value, LocallyBalanced | DiscreteMALA | PathAuxiliary):
        value = type(value)(**{**vars(value), "difference": exact_difference})
    generator = torch.Generator().manual_seed(0)
    state = value.init(target, torch.ones(50, 6, dtype=torch.long))
    for _ in range(400):
        state, _ = value.step(target, state, generator)
    assert target.log_density(state.x).isfinite().all()
