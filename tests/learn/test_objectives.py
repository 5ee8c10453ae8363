"""The objectives: zero at agreement, positive elsewhere, least at the mean of a noisy truth."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tcsis.learn import objectives

X_T = torch.tensor([[0, 2], [1, 1]])


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def log_score(seed: int) -> Tensor:
    return normal(2, 2, 3, seed=seed).scatter(-1, X_T[..., None], 0.0)


def log_denoiser(seed: int) -> Tensor:
    return normal(2, 2, 3, seed=seed).log_softmax(-1)


SCALE = torch.tensor(0.7, dtype=torch.float64)
OBJECTIVES: dict[str, tuple[Callable, Callable]] = {  # the divergence, and what it compares
    "score entropy": (lambda a, b: objectives.score_entropy(a, b, X_T), log_score),
    "cross-entropy": (lambda a, b: objectives.cross_entropy(a.log_softmax(-1), b), log_denoiser),
    "Itakura–Saito": (objectives.itakura_saito, lambda seed: normal(5, seed=seed)),
    "marginal score entropy": (
        lambda a, b: objectives.marginal_score_entropy(a, b, SCALE),
        lambda seed: normal(5, seed=seed),
    ),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_zero_at_agreement_and_positive_elsewhere(name: str) -> None:
    divergence, make = OBJECTIVES[name]
    truth, other = make(1), make(2)
    model = truth.clone().requires_grad_()
    loss = divergence(model, truth)
    assert loss.shape == truth.shape[:1]
    assert loss.abs().max().item() < 1e-12
    (slope,) = torch.autograd.grad(loss.sum(), model)
    assert slope.abs().max() < 1e-12
    assert divergence(other, truth).min() > 1e-3


@pytest.mark.parametrize("name", OBJECTIVES)
def test_noise_in_the_estimate_averages_out(name: str) -> None:
    """An estimate that is a or b with probability 0.3 and 0.7, e.g. by chance of the draws, has the
    mean m = 0.3·a + 0.7·b: the mean loss has its minimum there, for it is linear in the estimate.
    """
    divergence, make = OBJECTIVES[name]
    a, b = make(3), make(4)
    model = (0.3 * a.exp() + 0.7 * b.exp()).log().requires_grad_()
    loss = 0.3 * divergence(model, a).sum() + 0.7 * divergence(model, b).sum()
    (slope,) = torch.autograd.grad(loss, model)
    assert slope.abs().max() < 1e-12
    off = model.detach() + 0.1 * (make(5) - make(6))
    assert 0.3 * divergence(off, a).sum() + 0.7 * divergence(off, b).sum() > loss.detach()


def test_noise_does_not_average_out_of_a_squared_logarithm() -> None:
    """The control: what is not linear in p̂ is minimal elsewhere."""
    a, b = normal(5, seed=3), normal(5, seed=4)
    model = (0.3 * a.exp() + 0.7 * b.exp()).log().requires_grad_()
    loss = 0.3 * (model - a).square().sum() + 0.7 * (model - b).square().sum()
    (slope,) = torch.autograd.grad(loss, model)
    assert slope.abs().max() > 0.05


def test_formulas_by_hand() -> None:
    log_p, log_p_hat = torch.tensor([0.2]).double(), torch.tensor([0.9]).double()
    p, p_hat = math.exp(0.2), math.exp(0.9)
    itakura = objectives.itakura_saito(log_p, log_p_hat).item()
    assert itakura == pytest.approx(p_hat / p - math.log(p_hat / p) - 1)
    scaled = objectives.marginal_score_entropy(log_p, log_p_hat, torch.tensor(0.5)).item()
    assert scaled == pytest.approx((p - p_hat * 0.2 + p_hat * (0.9 - 1)) / math.exp(0.5))
    log_d, log_hat = torch.tensor([[[0.25, 0.75]]]).log(), torch.tensor([[[1.0, 0.0]]]).log()
    assert objectives.cross_entropy(log_d, log_hat).item() == pytest.approx(math.log(4))


def test_score_entropy_leaves_the_present_value_out() -> None:
    truth, other = log_score(1), log_score(2)
    loss = objectives.score_entropy(other, truth, X_T)
    s, s_hat = other.exp(), truth.exp()
    terms = s - s_hat * other + s_hat * (truth - 1)
    away = torch.nn.functional.one_hot(X_T, 3) == 0
    torch.testing.assert_close(loss, (terms * away).sum((1, 2)))


def test_scores_may_be_zero() -> None:
    """A forbidden neighbour: the loss is s itself, finite, and falls as s does."""
    truth = log_score(1)
    truth[0, 0, 1] = -torch.inf
    model = log_score(2).requires_grad_()
    loss = objectives.score_entropy(model, truth, X_T)
    (slope,) = torch.autograd.grad(loss.sum(), model)
    assert bool(loss.isfinite().all())
    assert slope[0, 0, 1].item() == pytest.approx(model[0, 0, 1].exp().item())


def test_denoisers_may_be_zero() -> None:
    hat = torch.tensor([[[0.0, -torch.inf, -torch.inf], [0.0, -torch.inf, -torch.inf]]]).double()
    model = log_denoiser(1)[:1].requires_grad_()
    loss = objectives.cross_entropy(model, hat)
    torch.testing.assert_close(loss, -model[..., 0].sum(1))
    (slope,) = torch.autograd.grad(loss.sum(), model)
    assert bool(slope.isfinite().all())
    # and a model that knows as much agrees
    assert objectives.cross_entropy(hat, hat).item() == 0


def test_itakura_saito_goes_on_smoothly_beyond_the_cut() -> None:
    cut = objectives.MOST_LOG_RATIO
    log_p = torch.tensor([-cut - 1e-9, -cut + 1e-9, -cut - 5, -200.0]).double().requires_grad_()
    loss = objectives.itakura_saito(log_p, torch.zeros(4).double())
    (slope,) = torch.autograd.grad(loss.sum(), log_p)
    assert loss[0].item() == pytest.approx(loss[1].item())
    torch.testing.assert_close(slope, torch.full_like(slope, 1 - math.exp(cut)))
    assert loss[2].item() == pytest.approx(math.expm1(cut) - cut + 5 * math.expm1(cut))


# -- the running scale -----------------------------------------------------------------------------


def test_nothing_overflows_in_units_of_the_scale() -> None:
    """float32 ends at exp(88); densities of 10×10 spins are about exp(200)."""
    log_p_hat = torch.tensor([180.0, 195.0, 200.0])
    log_p = (log_p_hat + torch.tensor([1.0, -1.0, 2.0])).requires_grad_()
    assert bool(log_p.exp().isinf().all())
    scale = objectives.running_scale(torch.tensor(-torch.inf), log_p_hat.max())
    loss = objectives.marginal_score_entropy(log_p, log_p_hat, scale).sum()
    (slope,) = torch.autograd.grad(loss, log_p)
    assert bool(loss.isfinite()) and bool(slope.isfinite().all())
    torch.testing.assert_close(slope, (log_p - 200).exp() - (log_p_hat - 200).exp())
    low = torch.tensor([-300.0])
    scale = objectives.running_scale(torch.tensor([-torch.inf]), low)
    assert objectives.marginal_score_entropy(low + 1, low, scale).item() == pytest.approx(
        math.e - 2, rel=1e-4
    )


def test_the_scale_rises_at_once_and_sinks_slowly() -> None:
    scale = torch.tensor([10.0, 10.0, -torch.inf])
    moved = objectives.running_scale(scale, torch.tensor([12.0, 5.0, 7.0]), rate=0.1)
    assert moved.tolist() == pytest.approx([12.0, 9.5, 7.0])
