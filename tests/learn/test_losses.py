"""Every loss is least, with slope zero, at the exact answer, also where estimates are single draws.

The mean over what is random in a batch is taken exactly, by enumeration; models are the exact
answer plus a parameter times something else.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tcsis.exact import Enumeration
from tcsis.learn import losses, presets
from tcsis.learn.buffers import Buffer, Uniform
from tcsis.learn.config import Config
from tcsis.learn.estimators import (
    DenoiserEstimator,
    Estimated,
    JointGuided,
    Marginalised,
    Noised,
    Warm,
)
from tcsis.learn.method import Loss
from tcsis.learn.models.marginal import learned
from tcsis.learn.models.skips import NUM_KNOTS
from tcsis.learn.times import mixed_times, shared_times
from tcsis.noise import LogLinear, UniformNoise
from tcsis.targets import Ising, Target

DOUBLE = {"dtype": torch.float64}
SPINS = Ising(2, 0.25, 0.3, **DOUBLE)
NOISE = UniformNoise(2, LogLinear(eps=1e-3))
TABLE = Enumeration(SPINS)
STATES = TABLE.states(torch.arange(16))


def make_loss(config: Config, model: nn.Module) -> Loss:
    buffer = Buffer(config.buffer, SPINS, STATES.clone())
    return config.method.loss(model, SPINS, buffer)


# -- any times -------------------------------------------------------------------------------------


class Tilted(nn.Module):
    """The exact answer plus a parameter times something else, in all the roles of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = NOISE
        self.tilt = nn.Parameter(torch.zeros((), **DOUBLE))
        self.log_scale = torch.zeros(NUM_KNOTS, **DOUBLE)

    def alpha(self, x: Tensor, t: Tensor) -> Tensor:
        return NOISE.alpha(x, t).expand(x.shape)

    def something(self, x: Tensor) -> Tensor:
        return self.tilt * torch.sin(1 + x.double() @ torch.arange(1.0, 5.0).double())

    def denoiser(self, x: Tensor, t: Tensor) -> Tensor:
        tilt = self.something(x)[:, None, None] * torch.tensor([0.0, 1.0])
        return (TABLE.denoiser(NOISE, x, t) + tilt).log_softmax(-1)

    def log_score(self, x: Tensor, t: Tensor) -> Tensor:
        score = TABLE.log_score(NOISE, x, t) + self.something(x)[:, None, None]
        return score.scatter(-1, x[..., None], 0.0)

    def log_marginal(self, x: Tensor, t: Tensor) -> Tensor:
        return TABLE.log_marginal(NOISE, x, t) + TABLE.log_z + self.something(x)

    def both(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_marginal(x, t), self.denoiser(x, t) - NOISE.log_kernel(x, t)

    def joint(self, x: Tensor, t: Tensor) -> Tensor:
        return self.log_marginal(x, t)[:, None, None] + self.denoiser(x, t)


def log_kernels(x_t: Tensor, t: Tensor) -> Tensor:
    """log k_t(x_t | x_0) for all x_0, (b, 16)."""
    shape = (len(x_t), 16, 4)
    return NOISE.log_prob(
        x_t[:, None].expand(shape), STATES.expand(shape), t[:, None].expand(shape)
    )


def posterior(x_t: Tensor, t: Tensor) -> Tensor:
    """p(x_0 | x_t), (b, 16)."""
    return (log_kernels(x_t, t) + TABLE.log_p).softmax(1)


def drawn_denoiser(x_t: Tensor, t: Tensor, x_0: Tensor) -> Tensor:
    """All weight on x_0: of mean the denoiser, for x_0 from the posterior."""
    return torch.nn.functional.one_hot(x_0, 2).double().log()


def drawn_score(x_t: Tensor, t: Tensor, x_0: Tensor) -> Tensor:
    """k_t(y | x_0)/k_t(x_t | x_0): of mean the score, for x_0 from the posterior."""
    kernel = NOISE.log_kernel(x_0, t)
    return kernel - kernel.gather(-1, x_t[..., None])


def drawn_marginal(x_t: Tensor, t: Tensor, x_0: Tensor) -> Tensor:
    """p̄(x_0): of mean p̄_t, for x_0 from the kernel."""
    return SPINS.log_density(x_0)


def drawn_joint(x_t: Tensor, t: Tensor, x_0: Tensor) -> Tensor:
    """p̄(x_0) where x_0^i = u and nothing elsewhere: of mean p̄(x_t, x_0^i = u), for x_0 from the
    kernel."""
    return SPINS.log_density(x_0)[:, None, None] + drawn_denoiser(x_t, t, x_0)


WAYS: dict[str, tuple[Callable, Callable, Callable, Callable]] = {
    # how to compare, the exact answer, one draw of it, and what x_0 is drawn from
    "denoisers": (losses.denoisers, Tilted.denoiser, drawn_denoiser, posterior),
    "paths": (lambda model: losses.paths(model, 8), Tilted.denoiser, drawn_denoiser, posterior),
    "scores": (losses.scores, Tilted.log_score, drawn_score, posterior),
    "marginals": (
        lambda model: losses.marginals(model, losses.unscaled(model)), Tilted.log_marginal,
        drawn_marginal, lambda x_t, t: log_kernels(x_t, t).exp(),
    ),
    "joints": (
        lambda model: losses.joints(model, losses.unscaled(model), 8), Tilted.joint, drawn_joint,
        lambda x_t, t: log_kernels(x_t, t).exp(),
    ),
    "scaled marginals": (
        lambda model: losses.marginals(model, losses.scaled(model)), Tilted.log_marginal,
        drawn_marginal, lambda x_t, t: log_kernels(x_t, t).exp(),
    ),
}  # fmt: skip


def check_least_at_zero(model: Tilted, mean_loss: Callable[[], Tensor]) -> None:
    least = mean_loss()
    (slope,) = torch.autograd.grad(least, model.tilt)
    assert abs(slope.item()) < 1e-9 * max(1.0, least.abs().item())
    for tilt in (0.1, -0.1):
        with torch.no_grad():
            model.tilt.fill_(tilt)
            assert mean_loss() > least.detach() + 1e-4
            model.tilt.zero_()


@pytest.mark.parametrize("time", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", WAYS)
def test_losses_are_least_at_the_exact_answer(name: str, time: float) -> None:
    model = Tilted()
    way, exact, _, _ = WAYS[name]
    t = torch.full(STATES.shape, time, **DOUBLE)
    hat = exact(model, STATES, t).detach()
    assert way(model)(STATES, t, hat).abs().max().item() < 1e-9
    check_least_at_zero(model, lambda: way(model)(STATES, t, hat).mean())


@pytest.mark.parametrize("time", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", WAYS)
def test_losses_are_least_at_the_mean_of_single_draws(
    name: str, time: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "MOST_WEIGHT", math.inf)
    model = Tilted()
    way, _, draw, law = WAYS[name]
    x_t, x_0 = STATES.repeat_interleave(16, 0), STATES.repeat(16, 1)
    t = torch.full(x_t.shape, time, **DOUBLE)
    weight = law(STATES, t[:16]).flatten()
    assert weight.sum().item() == pytest.approx(16)
    hat = draw(x_t, t, x_0)

    def mean_loss() -> Tensor:
        model.log_scale.fill_(TABLE.log_density.max())  # which moves with every batch
        return (weight * way(model)(x_t, t, hat)).sum() / 16

    check_least_at_zero(model, mean_loss)


def test_paths_is_the_divergence_of_steps() -> None:
    """K·KL(p̂(x_s|x_t) ‖ p(x_s|x_t)) by hand for one site, from the bridge."""
    model = Tilted()
    with torch.no_grad():
        model.tilt.fill_(0.4)
    t = torch.full(STATES.shape, 0.6, **DOUBLE)
    s = t - 0.25
    hat = TABLE.denoiser(NOISE, STATES, t)
    bridges = torch.stack(
        [NOISE.log_bridge(STATES, torch.full_like(STATES, u), s, t).exp() for u in range(2)], -2
    )
    p_hat, p = (
        (bridges * log_d.exp()[..., None]).sum(-2) for log_d in (hat, model.denoiser(STATES, t))
    )
    expected = 4 * (p_hat * (p_hat.log() - p.log())).sum((1, 2))
    torch.testing.assert_close(losses.paths(model, 4)(STATES, t, hat), expected)
    # the last step ends at the target itself
    t = torch.full(STATES.shape, 0.1, **DOUBLE)
    hat = TABLE.denoiser(NOISE, STATES, t)
    torch.testing.assert_close(
        losses.paths(model, 4)(STATES, t, hat), 4 * losses.denoisers(model)(STATES, t, hat)
    )


def test_scales_are_kept_by_time() -> None:
    """A batch at two times sets two of the scales, to the largest estimate at each."""
    model = Tilted()
    model.log_scale.fill_(-torch.inf)
    compare = losses.marginals(model, losses.scaled(model))
    t = torch.tensor([0.0] * 8 + [1.0] * 8, **DOUBLE)[:, None].expand(16, 4)
    hat = torch.arange(16.0, **DOUBLE) + 300
    assert bool(compare(STATES, t, hat).isfinite().all())
    assert model.log_scale[-1] == 307 and model.log_scale[0] == 315
    assert bool(model.log_scale[1:-1].isneginf().all())
    assert bool(compare(STATES, t, hat - 10).isfinite().all())
    assert model.log_scale[-1] == pytest.approx(307 - 0.1) and model.log_scale[0] == 314.9


@pytest.mark.parametrize("objective", ["path", "cross-entropy"])
def test_sites_that_are_known_leave_the_slope_finite(objective: str, awake: Callable) -> None:
    """At α = 1 a model knows a site, at α = 0 nothing of it: both in one batch."""
    config = presets.tiny(SPINS, "self-normalized").changed(
        method={"objective": objective, "times": "mixed"}
    )
    model = awake(config.new_model(SPINS, seed=0))
    loss = make_loss(config, model)
    loss(STATES.repeat(8, 1), torch.Generator().manual_seed(0))[0].backward()
    for key, weights in model.named_parameters():
        assert bool(weights.grad.isfinite().all()) and weights.grad.abs().max() > 0, key


def test_a_second_head_that_nothing_trains_is_refused() -> None:
    config = presets.tiny(SPINS, "unbiased")
    estimator = {"kind": "log_marginal", "num_samples": 4}
    with pytest.raises(ValueError, match="log_marginal trains the marginal alone: expected"):
        config.changed(method={"estimator": estimator})
    config.changed(method={"estimator": estimator, "scores": "assembled"})


def test_guided_walkers_keep_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state has the answer of its own half of the times, in its own place."""

    def marked(mark: float) -> Callable:
        return lambda self, model, target, buffer, batch: batch.x_0[:, 0] + mark

    monkeypatch.setattr(JointGuided, "guided", marked(0.25))
    monkeypatch.setattr(JointGuided, "from_buffer", marked(0.75))
    x = torch.arange(6)[:, None].expand(6, 4)
    t = torch.tensor([0.1, 0.9, 0.6, 0.2, 0.8, 0.4], dtype=torch.float64)[:, None].expand(6, 4)
    batch = Noised(x % 2, t, x, torch.Generator())
    config = presets.tiny(SPINS, "unbiased")
    model, estimator = config.new_model(SPINS, 0), JointGuided(num_chains=1, num_rungs=1)
    buffer = Buffer(config.buffer, SPINS, STATES)
    hat = estimator.estimate(model, SPINS, buffer, batch)
    assert hat.tolist() == [0.25, 1.75, 2.75, 3.25, 4.75, 5.25]
    one_kind = estimator.estimate(model, SPINS, buffer, batch[torch.tensor([0])])
    assert one_kind.tolist() == [0.25]
    # states that are no population of the target do not serve as starts
    strangers = Buffer(Uniform(), SPINS, STATES)
    hat = estimator.estimate(model, SPINS, strangers, batch)
    assert hat.tolist() == [0.25, 1.25, 2.25, 3.25, 4.25, 5.25]


def test_walkers_train_both_heads(awake: Callable) -> None:
    estimator = {"kind": "joint_guided", "num_chains": 2, "num_rungs": 2}
    config = presets.tiny(SPINS, "unbiased").changed(method={"estimator": estimator})
    model = awake(config.new_model(SPINS, seed=0))
    loss = make_loss(config, model)
    loss(STATES.repeat(8, 1), torch.Generator().manual_seed(0))[0].backward()
    for key, weights in model.named_parameters():
        if weights.requires_grad:
            assert bool(weights.grad.isfinite().all()) and weights.grad.abs().max() > 0, key


def test_a_head_of_the_marginal_leaves_the_denoiser_alone(awake: Callable) -> None:
    """Neither its slope nor its size: clipped together, the larger would cut the smaller."""
    config = presets.tiny(SPINS, "unbiased")
    model = awake(config.new_model(SPINS, seed=0))
    denoiser, marginal = config.method.parts(model)
    every = [*denoiser, *marginal]
    assert {id(w) for w in every} == {id(w) for w in model.parameters()}
    x, t = STATES, torch.full(STATES.shape, 0.4, **DOUBLE)
    (1e6 * model.log_marginal(x, t).square().mean()).backward()
    assert all(w.grad is None or not w.grad.any() for w in denoiser)
    (0.01 * learned(model, x, t)[:, 0, 0].mean()).backward()
    before = torch.cat([w.grad.flatten() for w in denoiser]).clone()
    for part in (denoiser, marginal):
        nn.utils.clip_grad_norm_(part, 5.0)
    after = torch.cat([w.grad.flatten() for w in denoiser])
    assert torch.equal(after, before) and before.norm() < 5
    (1e6 * model.log_marginal(x, t).square().mean()).backward()
    nn.utils.clip_grad_norm_(every, 5.0)  # as one part
    together = torch.cat([w.grad.flatten() for w in denoiser])
    assert float(together.norm()) < 0.01 * float(before.norm())


def test_a_marginal_without_joint_estimates_trains_its_trunk(awake: Callable) -> None:
    changes = {"estimator": {"kind": "log_marginal", "num_samples": 4}, "scores": "assembled"}
    config = presets.tiny(SPINS, "unbiased").changed(method=changes)
    assert config.method.network.kind == "dense"
    model = awake(config.new_model(SPINS, seed=0))
    make_loss(config, model)(STATES, torch.Generator().manual_seed(0))[0].backward()
    trunk = model.heads.trunk.parameters()
    assert all(float(w.grad.abs().max()) > 0 for w in trunk)


# -- the straight line -----------------------------------------------------------------------------


def test_a_batch_is_noised_estimated_compared_and_put_back() -> None:
    seen: dict[str, Tensor] = {}

    def estimate(batch: Noised) -> tuple:
        seen.update(x_t=batch.x_t, t=batch.t, x_0=batch.x_0)
        return torch.full((len(batch.x_t),), 7.0), 1 - batch.x_0

    def compare(x_t: Tensor, t: Tensor, hat: Tensor) -> Tensor:
        assert torch.equal(t, seen["t"]) and torch.equal(x_t, seen["x_t"])
        return hat

    x_0 = torch.zeros(4_000, 4, dtype=torch.long)
    loss, back = losses.denoising(NOISE, shared_times, estimate, compare)(
        x_0, torch.Generator().manual_seed(0)
    )
    assert loss.item() == 7
    assert torch.equal(back, 1 - x_0)
    assert torch.equal(seen["x_0"], x_0)
    late = seen["t"][:, 0] > 0.5  # half of the noise shows as a change
    assert seen["x_t"][late].double().mean().item() == pytest.approx(0.375, abs=0.03)
    assert seen["x_t"][~late].double().mean().item() == pytest.approx(0.125, abs=0.03)


def test_shared_times_are_one_in_each_interval() -> None:
    t = shared_times(torch.zeros(100, 4), torch.Generator().manual_seed(0))
    assert torch.equal(t, t[:, :1].expand(100, 4))
    assert torch.equal((t[:, 0] * 100).floor().long().sort().values, torch.arange(100))
    assert not torch.equal(t, t.sort(0).values)


def test_mixed_times_are_what_schedules_meet() -> None:
    """Half shared, a quarter known or not at random, a quarter with the first sites known, all
    numbers of them from none to all but one; shares within 4.5 standard errors of 4,000 states."""
    order = torch.tensor([2, 0, 3, 1])
    generator = torch.Generator().manual_seed(0)
    t = mixed_times(order)(torch.zeros(4_000, 4), generator)
    decided = ((t == 0) | (t == 1)).all(1)
    assert decided.double().mean().item() == pytest.approx(0.5, abs=0.036)
    shared = t[~decided]
    assert torch.equal(shared, shared[:, :1].expand(shared.shape))
    ends = t[decided][:, order]
    in_order = (ends.diff(dim=1) >= 0).all(1)  # as half of these are, and 5 of 16 at random
    assert len(ends[~in_order].unique(dim=0)) == 2**4 - 5
    # P(the first k known) at random is ∫ t^(4-k)·(1-t)^k dt, and 1/4 in order for k < 4
    for k in range(5):
        share = (ends[in_order].sum(1) == 4 - k).sum().item() / len(ends)
        at_random = 1 / (5 * math.comb(4, k))
        assert share == pytest.approx((at_random + (0.25 if k < 4 else 0)) / 2, abs=0.045), k


class ExactDenoiser(DenoiserEstimator):
    kind: str = "exact"

    def denoiser(self, target: Target, noise: UniformNoise, batch: Noised) -> Estimated:
        return TABLE.denoiser(noise, batch.x_t, batch.t), batch.x_0


def test_estimates() -> None:
    """``warm`` moves x_0 on, others do not, and a score is that of its denoiser."""
    generator = torch.Generator().manual_seed(0)
    t = torch.linspace(0.1, 0.9, 16, **DOUBLE)[:, None].expand(16, 4)
    batch = Noised(NOISE.draw(STATES, t, generator=generator), t, STATES, generator)
    log_d, moved = Warm(num_sweeps=2).denoiser(SPINS, NOISE, batch)
    assert log_d.shape == (16, 4, 2) and moved.shape == STATES.shape
    assert not torch.equal(moved, STATES)
    log_d, same = Marginalised(num_samples=4).denoiser(SPINS, NOISE, batch)
    assert log_d.shape == (16, 4, 2) and torch.equal(same, STATES)
    log_score, same = ExactDenoiser().log_score(SPINS, NOISE, batch)
    assert torch.equal(same, STATES)
    torch.testing.assert_close(log_score, TABLE.log_score(NOISE, batch.x_t, t), rtol=0, atol=1e-9)
    near, _ = ExactDenoiser().log_score(SPINS, NOISE, replace(batch, t=0 * t))
    assert not bool(near.isnan().any())


@pytest.mark.statistical
def test_warm_trains_to_the_exact_denoiser() -> None:
    """Slope of the mean loss at the exact denoiser, 200 batches of states from p; within 4.5
    standard errors of zero, false alarms 7e-6; and far from it at a wrong one."""
    model = Tilted()
    generator = torch.Generator().manual_seed(3)
    estimate = partial(Warm().denoiser, SPINS, NOISE)
    loss = losses.denoising(NOISE, shared_times, estimate, losses.denoisers(model))

    def score() -> float:
        slopes = []
        for _ in range(200):
            x_0 = TABLE.draw(32, generator).long()
            slopes.append(torch.autograd.grad(loss(x_0, generator)[0], model.tilt)[0])
        slopes = torch.stack(slopes)
        return (slopes.mean() / slopes.std() * 200**0.5).item()

    assert abs(score()) < 4.5
    with torch.no_grad():
        model.tilt.fill_(0.3)
    assert score() > 8
