"""Proposition 1 and the score-denoiser relation, against enumerated p_t.

Here p_t is found the long way round, by pushing the whole distribution through a dense forward
matrix, so that nothing of the library's own folding of sites stands on both sides.
"""

import pytest
import torch

from tcsis import exact
from tcsis.exact import Enumeration
from tcsis.noise import UniformNoise
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass, Target

TARGETS = [
    pytest.param(Ising(2, 0.6, 0.3), id="ising-2x2"),
    pytest.param(Ising(3, 0.44), id="ising-3x3"),
    pytest.param(SpinGlass((2, 3), 1.0, "gaussian", 5), id="glass-2x3"),
    pytest.param(Potts(2, 3, 0.8), id="potts-3"),
    pytest.param(
        Pairwise(
            [[0, 1], [1, 2], [0, 2]],
            torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0)),
            torch.randn(3, 5, generator=torch.Generator().manual_seed(1)),
        ),
        id="pairwise-5",
    ),
]


def times(d: int, shared: bool) -> torch.Tensor:
    """One time for all sites or one for each, (1,) or (1, d)."""
    if shared:
        return torch.tensor([0.37], dtype=torch.float64)
    return torch.rand(1, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)


def noised(table: Enumeration, noise: UniformNoise, t: torch.Tensor) -> torch.Tensor:
    """p_t = p·K with the dense matrix K[x_0, x_t] = Π_i k_t(x_t^i | x_0^i), (N,)."""
    states = table.states(torch.arange(table.num_states))
    rows = [noise.log_prob(states, x_0.expand_as(states), t.expand(len(states), *t.shape[1:]))
            for x_0 in states]  # fmt: skip
    return table.p @ torch.stack(rows).exp()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_identity(target: Target, shared: bool) -> None:
    """p_t(x) = E_{x_0 ~ k_t(·|x)}[p(x_0)]: the forward kernel read backwards gives p_t, and ratios
    of it give the score."""
    table, noise = Enumeration(target), UniformNoise(target.num_values)
    t = times(target.num_sites, shared)
    p_t = noised(table, noise, t)
    states = table.states(torch.arange(table.num_states))
    x_t = states[torch.randperm(len(states), generator=torch.Generator().manual_seed(0))[:7]]
    log_k = torch.stack([  # log k_t(x_0 | x_t): x_t is now what is given
        noise.log_prob(states, x.expand_as(states), t.expand(len(states), *t.shape[1:]))
        for x in x_t
    ])  # fmt: skip
    expectation = (log_k.exp() @ table.p).log()
    place = target.num_values ** torch.arange(target.num_sites - 1, -1, -1)
    index = (x_t * place).sum(-1)
    torch.testing.assert_close(expectation, p_t[index].log(), rtol=0, atol=1e-10)
    time = t.expand(len(x_t), *t.shape[1:])
    torch.testing.assert_close(
        table.log_marginal(noise, x_t, time), p_t[index].log(), rtol=0, atol=1e-10
    )
    score = exact.score(target, noise, x_t, time)
    for site in range(target.num_sites):
        for value in range(target.num_values):
            neighbour = index + (value - x_t[:, site]) * place[site]
            expected = (p_t[neighbour] / p_t[index]).log()
            torch.testing.assert_close(score[:, site, value], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_denoiser_is_the_posterior(target: Target, shared: bool) -> None:
    table, noise = Enumeration(target), UniformNoise(target.num_values)
    states = table.states(torch.arange(table.num_states))
    x_t = states[torch.randperm(len(states), generator=torch.Generator().manual_seed(1))[:5]]
    t = times(target.num_sites, shared)
    time = t.expand(len(x_t), *t.shape[1:])
    denoiser = exact.denoiser(target, noise, x_t, time).exp()
    for row, x in enumerate(x_t):
        log_k = noise.log_prob(x.expand_as(states), states, t.expand(len(states), *t.shape[1:]))
        posterior = (table.log_p + log_k).softmax(0)
        for value in range(target.num_values):
            expected = posterior @ (states == value).double()
            torch.testing.assert_close(denoiser[row, :, value], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_score_and_denoiser_are_the_same_knowledge(target: Target, shared: bool) -> None:
    table, noise = Enumeration(target), UniformNoise(target.num_values)
    x_t = table.states(torch.arange(0, table.num_states, 3))
    t = times(target.num_sites, shared)
    time = t.expand(len(x_t), *t.shape[1:])
    score, denoiser = table.log_score(noise, x_t, time), table.denoiser(noise, x_t, time)
    torch.testing.assert_close(
        noise.log_score_from_denoiser(denoiser, x_t, time), score, rtol=0, atol=1e-10
    )
    torch.testing.assert_close(
        noise.denoiser_from_log_score(score, x_t, time), denoiser, rtol=0, atol=1e-10
    )


def test_conversion_in_words() -> None:
    """The formula as the paper's readers write it: stay, move, and all other values."""
    noise, v = UniformNoise(4), 4
    alpha = 0.6
    stay, move = alpha + (1 - alpha) / v, (1 - alpha) / v
    x_t = torch.tensor([[2]])
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    score = noise.log_score_from_denoiser(
        p.log()[None, None], x_t, torch.tensor([1 - alpha], dtype=torch.float64)
    ).exp()[0, 0]
    for value in (0, 1, 3):
        others = 1 - p[2] - p[value]
        expected = p[2] * move / stay + p[value] * stay / move + others
        torch.testing.assert_close(score[value], expected)
    assert score[2] == 1


def test_ends_of_time() -> None:
    """As t → 0 the score is the target's own ratios; at t = 1 the denoiser is the marginal."""
    target = Ising(3, 0.4, 0.2, dtype=torch.float64)
    noise = UniformNoise(2)
    x = torch.randint(2, (6, 9), generator=torch.Generator().manual_seed(0))
    at_zero = exact.score(target, noise, x, torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(at_zero, target.log_ratios(x), rtol=0, atol=1e-10)
    at_one = exact.denoiser(target, noise, x, torch.ones(6, dtype=torch.float64))
    marginals = exact.solve(target).site_marginals
    assert marginals is not None
    torch.testing.assert_close(at_one.exp(), marginals.expand(6, 9, 2), rtol=0, atol=1e-12)
