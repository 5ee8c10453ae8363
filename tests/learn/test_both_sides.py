"""The objective that sees both sides: leaks, gaps of any size, and states exchanged for draws."""

from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import exact
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn import buffers
from tcsis.learn.asks import RATIOS
from tcsis.learn.autoregressive import Autoregressive, by_both_sides, by_conditionals, by_spread
from tcsis.learn.buffers import Buffer, Uniform, exchanged
from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.models.labels import ByName
from tcsis.learn.models.last import log_summed
from tcsis.learn.objectives import MOST_GAP, spread_parts
from tcsis.targets import Ising, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def slopes(loss: Tensor, model: CausalLaw) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [
        torch.zeros_like(weights) if slope is None else slope
        for slope, weights in zip(found, model.parameters(), strict=True)
    ]


# -- leaks -----------------------------------------------------------------------------------------

HALVES: dict[str, Callable[[Tensor], Tensor]] = {
    "half of the states": lambda x: x[:, 1] == x[:, 2],
    "a first site that all share": lambda x: x[:, 0] == 1,
}


@pytest.mark.parametrize("less", [-20.0, -torch.inf])
@pytest.mark.parametrize("half", HALVES)
def test_a_leak_is_seen(half: str, less: float) -> None:
    """The model is uniform, and so is the target on the half that the buffer holds."""
    outside = HALVES[half]
    target = from_callable(lambda x: torch.where(outside(x), less, 0.0).double(), 4, 2)
    x = all_states(target)
    leaks = outside(x)
    model = CausalLaw(2, torch.arange(4), None, ByName(2), width=8).double()
    buffer = x[~leaks].repeat(32, 1)
    loss, back = by_spread(model, RATIOS, Buffer(Uniform(), target), buffer, torch.Generator())
    assert float(loss.detach()) < 1e-20
    assert max(float(slope.abs().max()) for slope in slopes(loss, model)) < 1e-12
    assert torch.equal(back, buffer)

    loss, back = by_both_sides(
        model, RATIOS, Buffer(Uniform(), target), buffer, torch.Generator().manual_seed(0)
    )
    assert float(loss.detach()) > 5
    assert not outside(back).any()

    def leaked() -> float:
        return float(model.log_prob(x).detach().sum(1).exp()[leaks].sum())

    found = slopes(loss, model)
    assert leaked() == pytest.approx(0.5)
    with torch.no_grad():
        for weights, slope in zip(model.parameters(), found, strict=True):
            weights -= 1e-3 * slope
    assert leaked() < 0.5 - 1e-4
    if half.startswith("a first site"):
        assert float(found[-1][0, 0, 0]) > 1  # the logit of the first site's value 1
        assert float(model.network.bias.detach()[0, 0, 0]) < 0


def test_the_cross_entropy_sees_what_all_states_share() -> None:
    """A first site that is always the same is what the conditionals say, with no draw of q."""
    target = from_callable(lambda x: -20.0 * x[:, 0].double(), 3, 2)
    model = CausalLaw(2, torch.arange(3), None, ByName(2), width=4).double()
    x = all_states(target)[:4]
    loss, _ = by_conditionals(model, RATIOS, Buffer(Uniform(), target), x, torch.Generator())
    assert float(loss.detach()) == pytest.approx(0.6931, abs=1e-3)


# -- gaps ------------------------------------------------------------------------------------------


def parts_and_slope(log_p: Tensor, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """The parts, and the slope of their sum in log q."""
    log_q = log_q.clone().requires_grad_()
    parts = spread_parts(log_p - log_q, log_q)
    (slope,) = torch.autograd.grad(parts.sum(), log_q)
    return parts.detach(), slope


def test_the_mean_part_is_half_the_variance() -> None:
    """Of the population, where nothing is cut; a constant cancels."""
    log_p, log_q = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), **DOUBLE)
    gap = log_p - log_q
    for constant in (0.0, 300.0, -300.0):
        parts, slope = parts_and_slope(log_p + constant, log_q)
        assert float(parts.mean()) == pytest.approx(float(gap.var(unbiased=False)) / 2, abs=1e-10)
        torch.testing.assert_close(slope, gap.mean() - gap, rtol=0, atol=1e-10)


def test_agreement_has_no_slope() -> None:
    log_q = torch.randn(20, generator=torch.Generator().manual_seed(1), **DOUBLE)
    parts, slope = parts_and_slope(log_q + 7, log_q)
    assert float(parts.max()) < 1e-20
    assert float(slope.abs().max()) < 1e-12


@pytest.mark.parametrize("far", [-torch.inf, -1e6, 1e6])
def test_far_gaps_pull_with_so_much_and_no_more(far: float) -> None:
    log_p, log_q = torch.randn(2, 50, generator=torch.Generator().manual_seed(2), **DOUBLE)
    log_p[:3] = far
    parts, slope = parts_and_slope(log_p, log_q)
    assert parts.isfinite().all()
    assert float(slope.abs().max()) <= MOST_GAP + 1e-9
    # forbidden or too unlikely: lower log q; far too likely: raise it
    expected = torch.full((3,), MOST_GAP if far < 0 else -MOST_GAP, **DOUBLE)
    torch.testing.assert_close(slope[:3], expected)
    assert float(parts[:3].min()) > float(parts[3:].max())


@pytest.mark.parametrize("n", [1, 5])
def test_all_forbidden_is_a_number_too(n: int) -> None:
    parts, slope = parts_and_slope(torch.full((n,), -torch.inf, **DOUBLE), -torch.ones(n, **DOUBLE))
    assert parts.isfinite().all()
    torch.testing.assert_close(slope, torch.full((n,), MOST_GAP, **DOUBLE))


# -- exchanges -------------------------------------------------------------------------------------


def box(x: Tensor) -> Tensor:
    """Three sites at once, and one state of eight forbidden."""
    log_p = torch.sin(3.0 * state_index(x, 2).double()) + x[:, 0] * x[:, 1] * x[:, 3]
    return torch.where(x[:, :3].all(1), -torch.inf, log_p)


def transitions(model: CausalLaw, target: Target, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """P from what ``exchanged`` decides for all pairs (x, y), with y from q; the rest stays."""
    states = all_states(target)
    n = len(states)
    x, y = states.repeat_interleave(n, 0), states.repeat(n, 1)
    log_q = model.log_prob(states).sum(1).detach()
    log_w = log_summed(target, states, model.last) - log_q
    gap = torch.cat([log_w.repeat_interleave(n), log_w.repeat(n)])
    asked = []

    def always(log_probability: Tensor, generator: torch.Generator) -> Tensor:
        asked.append(log_probability)
        return torch.ones_like(log_probability, dtype=torch.bool)

    monkeypatch.setattr(buffers, "decide", always)
    after = exchanged(target, x, y, gap, model.last, torch.Generator())
    accepted = (after == y).all(1) & (x != y).any(1)
    moved = torch.where(accepted, asked[0].exp() * log_q.exp().repeat(n), 0.0).reshape(n, n)
    return moved + torch.diag(1 - moved.sum(1))


def test_exchanges_leave_the_target_invariant(
    awake: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = from_callable(box, 4, 2)
    model = awake(CausalLaw(2, torch.arange(4), None, ByName(2), width=4), scale=1.0)
    p = Enumeration(target).p
    matrix = transitions(model, target, monkeypatch)
    assert (matrix > -1e-12).all()
    torch.testing.assert_close(p @ matrix, p, rtol=0, atol=1e-12)
    assert float(matrix[p > 0][:, p == 0].max()) == 0
    assert (torch.linalg.matrix_power(matrix, 50)[:, p > 0] > 0).all()  # p and no other


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["box", "lattice"])
def test_states_of_the_target_stay_so(name: str, awake: Callable) -> None:
    """Exact draws through the whole objective of a model that is far off, with a last site and a
    last class: χ² at 1e-5; draws of the model itself fail it."""
    target = from_callable(box, 4, 2) if name == "box" else Ising(2, 0.25, 0.3, **DOUBLE)
    model = awake(Autoregressive(width=4).model(target), scale=0.5)
    table, n = Enumeration(target), 20_000
    x = exact.draw(target, n, seed=0).x.long()
    _, back = by_both_sides(
        model, RATIOS, Buffer(Uniform(), target), x, torch.Generator().manual_seed(1)
    )
    assert float((back != x).any(1).double().mean()) > 0.1

    def distance(states: Tensor) -> float:
        counts = torch.bincount(state_index(states, 2), minlength=16).double()
        assert counts[table.p == 0].sum() == 0 or states is own
        expected = n * table.p
        return float(((counts - expected).square() / expected)[table.p > 0].sum())

    own = model.sample(target, n, torch.Generator().manual_seed(2)).x
    limit = chi2.isf(1e-5, int((table.p > 0).sum()) - 1)
    assert distance(back) < limit < distance(own)
