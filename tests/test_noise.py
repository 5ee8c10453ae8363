"""The forward process against matrix exponentials, Bayes and enumeration."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.stats import chi2

from tcsis.noise import (
    LogLinear,
    UniformNoise,
    draw_categorical,
    log_add,
    log_normalise,
    log_sum,
)

SCHEDULES = [LogLinear(), LogLinear(eps=1e-3)]
VALUES = st.sampled_from([2, 3, 5])
TIMES = st.floats(0, 1)


def kernel_matrix(noise: UniformNoise, t: float, s: float = 0.0) -> torch.Tensor:
    """k_{s→t}(v | u) as a matrix (u, v)."""
    x = torch.arange(noise.num_values)[:, None]
    t, s = torch.tensor(t, dtype=torch.float64), torch.tensor(s, dtype=torch.float64)
    return noise.log_kernel(x, t, s)[:, 0].exp()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule(schedule: LogLinear) -> None:
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    alpha = schedule.alpha(t)
    assert alpha[0] == 1
    assert 0 <= alpha[-1] < 2e-3
    assert (alpha.diff() < 0).all()
    torch.testing.assert_close(schedule.time(alpha), t, rtol=0, atol=1e-7)


@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(max_examples=25, deadline=None)
@given(v=VALUES, times=st.tuples(TIMES, TIMES))
def test_kernel_is_stochastic_symmetric_and_markov(
    schedule: LogLinear, v: int, times: tuple[float, float]
) -> None:
    noise = UniformNoise(v, schedule)
    s, t = sorted(times)
    k = kernel_matrix(noise, t)
    torch.testing.assert_close(k.sum(-1), torch.ones(v, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.equal(k, k.T)
    composed = kernel_matrix(noise, s) @ kernel_matrix(noise, t, s)
    torch.testing.assert_close(composed, k, rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(v=VALUES, t=st.floats(0, 0.999))
def test_kernel_is_the_exponential_of_the_papers_rates(v: int, t: float) -> None:
    """exp(σ̄_t·Q), off-diagonal rates 1, with σ̄_t = -log(α_t)/V."""
    rates = np.ones((v, v)) - v * np.eye(v)
    expected = expm(-np.log1p(-t) / v * rates)
    torch.testing.assert_close(
        kernel_matrix(UniformNoise(v), t), torch.from_numpy(expected), rtol=0, atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(v=VALUES, times=st.tuples(st.floats(0, 1), st.floats(1e-3, 1)), seed=st.integers(0, 999))
def test_bridge_is_bayes(v: int, times: tuple[float, float], seed: int) -> None:
    """p(x_s | x_t, x_0) from the joint distribution of (x_0, x_s, x_t), site by site."""
    noise = UniformNoise(v)
    t = times[1]
    s = times[0] * t
    joint = kernel_matrix(noise, s)[:, :, None] * kernel_matrix(noise, t, s)[None]  # x_0, x_s, x_t
    expected = joint / joint.sum(1, keepdim=True)
    x_0, x_t = torch.cartesian_prod(torch.arange(v), torch.arange(v)).T
    times_s = torch.full((v * v, 1), s, dtype=torch.float64)
    times_t = torch.full((v * v, 1), t, dtype=torch.float64)
    bridge = noise.log_bridge(x_t[:, None], x_0[:, None], times_s, times_t)[:, 0].exp()
    torch.testing.assert_close(bridge, expected[x_0, :, x_t], rtol=0, atol=1e-12)


def test_times_shared_and_per_site() -> None:
    """A shared time equals the same time at every site; sites at different times are separate."""
    noise = UniformNoise(3)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(3, (4, 6), generator=generator)
    t = torch.rand(4, generator=generator, dtype=torch.float64)
    spread = t[:, None].expand(4, 6)
    assert torch.equal(noise.log_kernel(x, t), noise.log_kernel(x, spread))
    assert torch.equal(noise.log_kernel(x, 0.25), noise.log_kernel(x, torch.full((4, 6), 0.25)))
    mixed = torch.rand(4, 6, generator=generator, dtype=torch.float64)
    whole = noise.log_kernel(x, mixed)
    for site in range(6):
        alone = noise.log_kernel(x[:, site : site + 1], mixed[:, site : site + 1])
        assert torch.equal(whole[:, site : site + 1], alone)
    y = noise.draw(x, mixed, generator=generator)
    expected = whole.gather(-1, y[..., None]).squeeze(-1).sum(-1)
    torch.testing.assert_close(noise.log_prob(y, x, mixed), expected)


def test_ends_of_time() -> None:
    """At t = 0 nothing moves, at t = 1 nothing is known, and a site that stands still stays."""
    noise = UniformNoise(4)
    x = torch.randint(4, (100, 5), generator=torch.Generator().manual_seed(0))
    assert torch.equal(noise.draw(x, 0.0), x)
    assert torch.equal(noise.draw(x, 1.0, 1.0), x)
    assert torch.equal(noise.draw(x, 0.7, 0.7), x)
    assert (noise.log_kernel(x, 1.0).exp() == 0.25).all()
    assert noise.log_prob(x, x, 0.0).eq(0).all()
    assert noise.log_prob(x, (x + 1) % 4, 0.0).isneginf().all()
    bridge = noise.log_bridge(x, x, torch.zeros(100), torch.ones(100))
    assert torch.equal(bridge.argmax(-1), x)
    assert torch.equal(noise.draw_bridge(x, x, 0.0, 1.0), x)


@pytest.mark.statistical
def test_draws_follow_the_kernel_and_the_bridge() -> None:
    """χ² at 40,000 draws for each site's own time; 12 tests at level 1e-4, so 1 in 800 alarms."""
    noise, n = UniformNoise(3), 40_000
    t = torch.tensor([0.1, 0.5, 0.9, 1.0], dtype=torch.float64).expand(n, 4)
    x_0 = torch.tensor([0, 1, 2, 0]).expand(n, 4)
    x_t = torch.tensor([0, 2, 0, 1]).expand(n, 4)
    generator = torch.Generator().manual_seed(1)
    drawn = [
        (noise.draw(x_0, t, generator=generator), noise.log_kernel(x_0, t)[0]),
        (noise.draw(x_0, t, t / 2, generator=generator), noise.log_kernel(x_0, t, t / 2)[0]),
        (
            noise.draw_bridge(x_t, x_0, t / 3, t, generator=generator),
            noise.log_bridge(x_t, x_0, t / 3, t)[0],
        ),
    ]
    for x, log_p in drawn:
        for site in range(4):
            counts = torch.bincount(x[:, site], minlength=3).double()
            expected = n * log_p[site].exp()
            statistic = float(((counts - expected) ** 2 / expected).sum())
            assert statistic < chi2.isf(1e-4, 2)


def test_a_score_of_no_distribution_loses_no_value() -> None:
    """Where the bracket is negative, which no distribution has, a tenth of the score stands in; the
    score of a distribution that forbids a value still forbids it."""
    noise = UniformNoise(3)
    x, t = torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1), 0.5, dtype=torch.float64)
    wild = torch.tensor([[[0.0, 9.0, -9.0]]], dtype=torch.float64)
    assert bool(noise.denoiser_from_log_score(wild, x, t).isfinite().all())
    forbids = torch.tensor([[[0.3, 0.7, 0.0]]], dtype=torch.float64).log()
    score = noise.log_score_from_denoiser(forbids, x, t)
    again = noise.denoiser_from_log_score(score, x, t).exp()
    torch.testing.assert_close(again, forbids.exp(), rtol=0, atol=1e-9)


def test_draws_are_seeded() -> None:
    noise, x = UniformNoise(3), torch.zeros(10, 8, dtype=torch.uint8)
    a, b = (noise.draw(x, 0.5, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(a, b)
    assert a.dtype == torch.uint8


def test_categorical_never_draws_the_impossible() -> None:
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, -80.0]).expand(10_000, 4)
    drawn = draw_categorical(logits, generator=torch.Generator().manual_seed(0))
    assert drawn.unique().tolist() == [1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, x: n.draw(x, 1.5), "t ranges from 1.5 to 1.5: expected 0 <= t <= 1"),
        (lambda n, x: n.draw(x, float("nan")), "expected 0 <= t <= 1"),
        (lambda n, x: n.draw(x, 0.2, 0.5), "s is later than t"),
        (lambda n, x: n.draw(x, 0.5, -0.1), "s ranges from -0.1"),
        (lambda n, x: n.draw(x, torch.rand(5)), "t has shape (5,) for x of shape (2, 3)"),
        (lambda n, x: n.draw(x, torch.rand(2, 4)), "one time a state, or (2, 3), one a site"),
        (lambda n, x: n.log_score_from_denoiser(torch.zeros(2, 3, 2), x, 0.0), "α = 1"),
        (lambda n, x: n.denoiser_from_log_score(torch.zeros(2, 3, 2), x, 1.0), "α = 0"),
        (lambda n, x: UniformNoise(1), "num_values is 1"),
    ],
)
def test_bad_times(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        call(UniformNoise(2), torch.zeros(2, 3, dtype=torch.long))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("num_values", [2, 3])
def test_sums_over_values_are_those_of_torch(num_values: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 30 * torch.randn(200, num_values, dtype=torch.float64, generator=generator)
    logits[0] = torch.tensor([-torch.inf] + [1.5] * (num_values - 1))
    logits[1] = -torch.inf
    torch.testing.assert_close(log_sum(logits), logits.logsumexp(-1), rtol=0, atol=1e-8)
    torch.testing.assert_close(log_normalise(logits[2:]), logits[2:].log_softmax(-1))


def test_log_add_has_the_gradient_of_the_softmax() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 50, dtype=torch.float64, generator=generator)
    a[0] = b[0]
    a[1] = -torch.inf
    both = torch.stack([a, b], -1).requires_grad_()
    log_sum(both).sum().backward()
    torch.testing.assert_close(both.grad, both.softmax(-1).detach())
    torch.testing.assert_close(log_add(a, b), torch.logaddexp(a, b))
