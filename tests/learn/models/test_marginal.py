"""The unbiased model: limits, and scores from the marginal."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tcsis.learn import presets
from tcsis.learn.models.marginal import (
    MarginalModel,
    assembled,
    assembled_score,
    learned,
)
from tcsis.learn.models.skips import NUM_KNOTS
from tcsis.targets import RBM, Ising, Potts, Target

DOUBLE = {"dtype": torch.float64}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TARGETS: dict[str, Target] = {
    "ising": Ising(3, 0.4, 0.3, **DOUBLE),
    "potts": Potts((2, 3), 3, 0.7, **DOUBLE),
    "rbm": RBM(normal(5, 3, seed=2), normal(5, seed=3), normal(3, seed=4), **DOUBLE),
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


def make(target: Target, **changes: object) -> MarginalModel:
    config = presets.tiny(target, "unbiased").changed(method=changes)
    model = config.new_model(target, seed=0).double().eval().requires_grad_(False)
    assert isinstance(model, MarginalModel)
    return model


def some_states(target: Target, t: float = 0.4, n: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randint(target.num_values, (n, target.num_sites), generator=generator)
    spread = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    return x, t * (0.8 + 0.4 * spread)  # a time of its own for every site


def neighbours(target: Target, x: Tensor) -> list[tuple[int, int, Tensor]]:
    """(site, value, x with that site set to that value)."""
    found = []
    for site, value in itertools.product(range(target.num_sites), range(target.num_values)):
        y = x.clone()
        y[:, site] = value
        found.append((site, value, y))
    return found


# -- the marginal ----------------------------------------------------------------------------------


def test_untrained_models_are_the_density_at_time_zero(target: Target) -> None:
    model = make(target)
    x, t = some_states(target)
    density = target.log_density(x)
    torch.testing.assert_close(model.log_marginal(x, 0 * t), density, rtol=0, atol=1e-12)
    near = model.log_marginal(x, torch.full_like(t, 1e-7))
    torch.testing.assert_close(near, density, rtol=1e-4, atol=1e-4)
    alone = make(target, preconditioning={"kind": "density"})
    noise = alone.log_marginal(x, torch.ones_like(t))  # α = 1e-3: nearly no term in log p̄
    assert float((noise - noise.mean()).abs().max()) < 1e-2


def test_skip_terms_are_exact_at_time_zero_after_training_too(
    target: Target, awake: Callable
) -> None:
    model = awake(make(target))
    x, t = some_states(target)
    alpha = model.alpha(x, 0 * t)
    torch.testing.assert_close(model.skip(x, alpha), target.log_density(x), rtol=0, atol=1e-12)
    later = model.alpha(x, t)
    assert float((model.skip(x, later) - make(target).skip(x, later)).abs().max()) > 1e-3


@pytest.mark.parametrize("symmetric", [True, False])
def test_names_do_not_matter_where_they_should_not(symmetric: bool, awake: Callable) -> None:
    target = TARGETS["potts"]
    model = awake(make(target, symmetric=symmetric))
    x, t = some_states(target)
    gaps = [
        (model.log_marginal(torch.tensor(renaming)[x], t) - model.log_marginal(x, t)).abs().max()
        for renaming in itertools.permutations(range(3))
    ]
    assert max(gaps) < 1e-10 if symmetric else max(gaps) > 1e-3


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_flip_of_all_spins_changes_nothing(symmetric: bool, awake: Callable) -> None:
    model = awake(make(Ising(3, 0.4, **DOUBLE), symmetric=symmetric))
    x, t = some_states(Ising(3, 0.4))
    gap = (model.log_marginal(1 - x, t) - model.log_marginal(x, t)).abs().max()
    flipped = learned(model, 1 - x, t).flip(-1) - learned(model, x, t)
    for difference in (gap, flipped.abs().max()):
        assert difference < 1e-10 if symmetric else difference > 1e-3


# -- scores ----------------------------------------------------------------------------------------


def test_assembled_scores_are_differences(target: Target, awake: Callable) -> None:
    model = awake(make(target))
    x, t = some_states(target)
    score = assembled_score(model, x, t)
    for site, value, y in neighbours(target, x):
        expected = model.log_marginal(y, t) - model.log_marginal(x, t)
        torch.testing.assert_close(score[:, site, value], expected, rtol=0, atol=1e-9)


def test_scores_serve_as_denoisers(target: Target, awake: Callable) -> None:
    model = awake(make(target))
    x, t = some_states(target)
    t[:, 0], t[:, 1] = 0, 1
    log_score = assembled_score(model, x, t)
    here = log_score.gather(-1, x[..., None])
    assert torch.equal(here, torch.zeros_like(here))
    log_d = assembled(model, x, t)
    assert float(log_d.logsumexp(-1).abs().max()) < 1e-12
    assert bool((log_d[:, 0].gather(-1, x[:, :1]) == 0).all())
    again = model.noise.log_score_from_denoiser(log_d[:, 2:], x[:, 2:], t[:, 2:])
    _, log_move = model.noise.log_stay_move(model.noise.alpha(x, t.double())[:, 2:, None])
    background = log_move + log_score[:, 2:].logsumexp(-1, keepdim=True)
    possible = log_score[:, 2:] > background  # as the scores of all distributions are
    assert bool(possible.all(-1).any()) and bool(log_d[:, 2:].isfinite().all())
    torch.testing.assert_close(
        again[possible.all(-1)], log_score[:, 2:][possible.all(-1)], rtol=0, atol=1e-7,
        check_dtype=False,
    )  # fmt: skip


def test_the_second_head_is_right_as_noise_vanishes(target: Target) -> None:
    model = make(target)
    x, _ = some_states(target)
    t = torch.full(x.shape, 1e-6, **DOUBLE)
    log_d = learned(model, x, t)
    assert float(log_d.logsumexp(-1).abs().max()) < 1e-10
    score = model.noise.log_score_from_denoiser(log_d, x, t)
    torch.testing.assert_close(score, target.log_ratios(x), rtol=1e-3, atol=1e-3)


def test_the_second_head_is_symmetric(awake: Callable) -> None:
    target = TARGETS["potts"]
    model = awake(make(target))
    x, t = some_states(target)
    for renaming in itertools.permutations(range(3)):
        name = torch.tensor(renaming)
        renamed = learned(model, name[x], t)[..., name]
        torch.testing.assert_close(renamed, learned(model, x, t), rtol=0, atol=1e-10)


def test_scales_start_unset_and_are_saved() -> None:
    state = make(TARGETS["ising"]).state_dict()
    assert bool(state["log_scale"].isneginf().all())
    assert state["log_scale"].shape == (NUM_KNOTS,)


def test_both_answers_from_one_call_are_those_of_two(target: Target, awake: Callable) -> None:
    model = awake(make(target))
    x, t = some_states(target)
    log_p, logits = model.both(x, t)
    torch.testing.assert_close(log_p, model.log_marginal(x, t))
    torch.testing.assert_close(logits, model.site_logits(x, t))
