"""Schedules, orders, grids and the planners."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tcsis import reverse
from tcsis.exact import Enumeration
from tcsis.noise import LogLinear, UniformNoise
from tcsis.reverse import planning, schedules
from tcsis.reverse.calls import Calls
from tcsis.reverse.steps import Denoiser, tweedie
from tcsis.targets import Ising, Lattice, Pairwise, SherringtonKirkpatrick, from_callable

DOUBLE = {"dtype": torch.float64}
NOISE = UniformNoise(2)
TINY = Ising(2, 0.3, **DOUBLE)


def exact_denoiser(target: Ising) -> Denoiser:
    table = Enumeration(target)
    return lambda x, t: table.denoiser(NOISE, x, t)


# -- schedules -----------------------------------------------------------------------------------


@given(st.permutations(range(6)), st.integers(1, 6))
def test_blockwise_brings_every_site_from_one_to_zero(order: list[int], size: int) -> None:
    blocks = [order[start : start + size] for start in range(0, 6, size)]
    times = schedules.blockwise(blocks).times
    assert times.shape == (len(blocks) + 1, 6)
    assert bool((times[0] == 1).all())
    assert bool((times[-1] == 0).all())
    for step, block in enumerate(blocks):
        assert (times[step] - times[step + 1]).nonzero().flatten().tolist() == sorted(block)


def test_parallel_and_sequential() -> None:
    assert schedules.parallel(3, [1, 0.5, 0]).times.tolist() == [[1] * 3, [0.5] * 3, [0] * 3]
    assert schedules.sequential([2, 0, 1]).times.tolist() == [
        [1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0],
    ]  # fmt: skip


def test_coloured_leaves_an_independent_class_for_the_end() -> None:
    target = Ising(4, 0.4, **DOUBLE)
    schedule = schedules.coloured(target)
    assert schedule.num_calls == 8
    assert len(schedule.last) == 8
    assert bool((schedule.times[-1, schedule.last] == 1).all())
    blocks = [[1, 11], [3, 4, 6, 9, 12, 14]]
    assert schedules.coloured(target, blocks).num_calls == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.sequential([0, 1, 1]), "each site 0..2 exactly once"),
        (lambda: schedules.blockwise([[0], [2]]), "each site 0..1 exactly once"),
        (lambda: schedules.parallel(2, [1, 1.5, 0]), "0 <= t <= 1"),
        (lambda: schedules.parallel(2, [1, float("nan"), 0]), "0 <= t <= 1"),
        (lambda: schedules.parallel(2, [1, 0.2, 0.5, 0]), "rises at step 1 for site 0"),
        (lambda: schedules.parallel(2, [1, 0.5, 0.5, 0]), "moves no site at step 1"),
        (lambda: schedules.parallel(2, [0.9, 0]), "starts at 0.9 for site 0"),
        (lambda: schedules.parallel(2, [1, 0.1]), "ends at 0.1 for site 0"),
        (lambda: schedules.parallel(2, [1]), "at least one step"),
        (lambda: schedules.parallel(2, [[1, 0]]), "expected \\(num_calls"),
        (lambda: schedules.uniform_grid(NOISE, 0), "num_calls is 0"),
        (lambda: schedules.uniform_grid(NOISE, 2.5), "num_calls is 2.5"),
        (
            lambda: planning.plan_blocks(exact_denoiser(TINY), TINY, 5),
            "num_calls is 5 for 4 sites",
        ),
        (lambda: schedules.coloured(SherringtonKirkpatrick(6, 1.0)), "no colouring"),
        (lambda: schedules.coloured(Ising(4, 0.4), [[0, 2]]), "outside the last colour class"),
        (lambda: schedules.Schedule(torch.zeros(3)), "expected \\(num_steps"),
        (
            lambda: schedules.Schedule(torch.tensor([[1.0, 1], [0, 0]]), torch.tensor([1])),
            "brings to 0 already",
        ),
    ],
)
def test_bad_schedules_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


# -- orders, blocks, grids -----------------------------------------------------------------------


def test_farthest_point_on_a_torus_a_graph_and_nothing() -> None:
    order = schedules.farthest_point(Lattice.of(4))
    assert order.sort().values.tolist() == list(range(16))
    assert order[:2].tolist() == [0, 10]  # the opposite corner of the torus is its middle
    path = Pairwise([[0, 1], [1, 2], [2, 3], [3, 4]], torch.ones(4, 2, 2), torch.zeros(5, 2))
    assert schedules.farthest_point(path)[:3].tolist() == [0, 4, 2]
    assert schedules.farthest_point(path, torch.tensor([1, 3, 2])).tolist() == [1, 3, 2]
    complete = SherringtonKirkpatrick(4, 1.0)
    assert schedules.farthest_point(complete).tolist() == [0, 1, 2, 3]
    black_box = from_callable(lambda x: x.sum(-1).float(), 4, 2)
    assert schedules.farthest_point(black_box).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("eps", [0.0, 0.01])
def test_uniform_grid_is_uniform_in_alpha(eps: float) -> None:
    alpha = LogLinear(eps)
    grid = schedules.uniform_grid(UniformNoise(3, alpha), 5)
    schedules.parallel(2, grid)  # which checks that it falls from 1 to 0
    rises = alpha.alpha(grid).diff()
    assert torch.allclose(rises, torch.full((5,), (1 - eps) / 5).double(), atol=1e-12)


# -- planners ------------------------------------------------------------------------------------


def test_tuned_grid_evens_out_the_weight_variance() -> None:
    target = Ising((3, 2), 0.5, **DOUBLE)
    grid = planning.tuned_grid(exact_denoiser(target), NOISE, 6, 8, num_intervals=8, n=2_000)
    schedules.parallel(6, grid)
    tuned = step_variances(target, grid)
    uniform = step_variances(target, schedules.uniform_grid(NOISE, 8))
    assert tuned.sum() < uniform.sum()
    assert tuned.std() / tuned.mean() < 0.7 * uniform.std() / uniform.mean()


def step_variances(target: Ising, grid: Tensor) -> Tensor:
    """Exact variance of each step's log weight over draws of the true noise process."""
    table = Enumeration(target)
    generator = torch.Generator().manual_seed(0)
    x_s = table.draw(4_000, generator).long()
    variances = []
    calls = Calls(exact_denoiser(target), 2)
    for t, s in zip(grid.flip(0)[1:], grid.flip(0)[:-1], strict=True):
        t, s = t.expand(x_s.shape), s.expand(x_s.shape)
        move = tweedie.forward(calls, NOISE, x_s, None, t, s, generator)
        gain = table.log_marginal(NOISE, x_s, s) - table.log_marginal(NOISE, move.x, t)
        variances.append(float((move.log_ratio + gain).var()))
        x_s = move.x
    return torch.tensor(variances)


def test_best_division_is_the_best() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = torch.rand(6, 7, generator=generator).double()
    backwards = torch.arange(7) <= torch.arange(6)[:, None]
    cost = cost.masked_fill(backwards, torch.inf).numpy()
    for parts in (1, 2, 3, 6):
        ends = planning.best_division(cost, parts)
        assert len(ends) == parts

        def total(ends: list[int]) -> float:
            return sum(cost[a, b] for a, b in zip([0, *ends[:-1]], ends, strict=True))

        every = itertools.combinations(range(1, 6), parts - 1)
        assert total(ends) == pytest.approx(min(total([*inner, 6]) for inner in every))


@pytest.mark.statistical
def test_planned_blocks_keep_the_ess_they_promise() -> None:
    """The promise is exp(-variance); measured on 4,000 draws it is within 0.05 (many σ)."""
    target = Ising((4, 2), 0.3, **DOUBLE)
    denoiser = exact_denoiser(target)
    order = torch.arange(8)
    plan = planning.plan_blocks(denoiser, target, 3, order=order, n=1_000)
    assert torch.cat(plan.blocks).tolist() == list(range(8))
    draws = reverse.sample(
        target, denoiser, NOISE, schedules.blockwise(plan.blocks), tweedie, 4_000, seed=0
    )
    assert draws.ess == pytest.approx(plan.ess, abs=0.05)
    thirds = reverse.sample(
        target, denoiser, NOISE, schedules.blockwise(order.split(3)), tweedie, 4_000, seed=0
    )
    assert draws.ess > thirds.ess
