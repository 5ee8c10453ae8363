"""The any-time method: an objective that is zero at the truth and sees leaks, with and without
evidence; a start that knows the target; plans for any number of calls; weights that are right."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tcsis import reverse, schedules
from tcsis.exact import Enumeration
from tcsis.learn import presets
from tcsis.learn.any_time import AnyTime, by_both_sides, given_sites
from tcsis.learn.asks import RATIOS
from tcsis.learn.block_sampler import MOST_PILOTS, AnyTimeSampler, denoise
from tcsis.learn.buffers import Buffer, Uniform
from tcsis.learn.descent import first_weights
from tcsis.learn.method import How
from tcsis.learn.models.known_law import KnownLaw
from tcsis.learn.training import Run
from tcsis.noise import UniformNoise
from tcsis.reverse.planning import best_division
from tcsis.reverse.steps import tweedie
from tcsis.targets import Ising, Pairwise, Potts, Target, from_callable


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def fresh(target: Target, **settings: Any) -> KnownLaw:
    with first_weights(0):
        return AnyTime(**settings).model(target)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# -- what is minimised ----------------------------------------------------------------------------

PAIR = Pairwise.from_spins([[0.0, 0.7], [0.7, 0.0]])


def exact_pair() -> KnownLaw:
    """log-odds 0 where nothing is known, and 2·0.7·s of the other site where it is."""
    model = fresh(PAIR, width=4).double()
    with torch.no_grad():
        model.network.linear.fill_(1.4)
    return model


@pytest.mark.parametrize("evidence", [0.0, 1.0])
def test_the_loss_is_zero_at_the_truth(evidence: float) -> None:
    """Also where evidence is given: gaps are compared where they share it."""
    model, x = exact_pair(), all_states(PAIR).repeat(8, 1)
    for seed in range(20):
        loss, _ = by_both_sides(
            model, evidence, RATIOS, Buffer(Uniform(), PAIR), x, generator(seed)
        )
        assert abs(float(loss.detach())) < 1e-12


def test_evidence_alone_is_learned_from() -> None:
    """A model that is right where nothing is known, and not where something is."""
    model, x = exact_pair(), all_states(PAIR).repeat(8, 1)
    with torch.no_grad():
        model.network.linear.fill_(0.9)
    known = next(s for s in range(50) if given_sites(model, 1.0, generator(s)).any())
    alone, _ = by_both_sides(model, 0.0, RATIOS, Buffer(Uniform(), PAIR), x, generator(known))
    given, _ = by_both_sides(model, 1.0, RATIOS, Buffer(Uniform(), PAIR), x, generator(known))
    assert abs(float(alone.detach())) < 1e-12
    assert float(given.detach()) > 1e-3


@pytest.mark.parametrize("less", [-20.0, -torch.inf])
@pytest.mark.parametrize("evidence", [0.0, 1.0])
def test_a_leak_is_seen(less: float, evidence: float) -> None:
    """The model is uniform, and so is the target on the half that the buffer holds."""

    def outside(x: Tensor) -> Tensor:
        return x[:, :3].sum(1) % 2 == 0

    target = from_callable(lambda x: torch.where(outside(x), less, 0.0).double(), 5, 2)
    model = fresh(target, width=4, symmetric=False).double()
    x = all_states(target)
    buffer = x[~outside(x)].repeat(32, 1)
    loss, back = by_both_sides(
        model, evidence, RATIOS, Buffer(Uniform(), target), buffer, generator(3)
    )
    assert float(loss.detach()) > 0.3
    assert not outside(back).any()
    assert all(slope is None or bool(slope.isfinite().all()) for slope in slopes(loss, model))


def slopes(loss: Tensor, model: KnownLaw) -> tuple[Tensor | None, ...]:
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def test_evidence_leaves_something_to_draw() -> None:
    model = fresh(Ising((2, 4), 0.4), width=4)
    counts = [int(given_sites(model, 1.0, generator(seed)).sum()) for seed in range(200)]
    assert max(counts) >= 4
    assert not any(given_sites(model, 0.0, generator(seed)).any() for seed in range(20))
    for seed in range(200):
        assert not given_sites(model, 1.0, generator(seed))[model.order].all()


# -- the start ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        from_callable(lambda x: (9.0 * x[:, 0] - 3 * x[:, 3]).double(), 4, 2),
        Pairwise([[0, 1]], torch.zeros(1, 3, 3), 2 * torch.randn(5, 3, generator=generator(1))),
    ],
)
def test_without_interactions_the_first_weights_are_exact(target: Target) -> None:
    run = Run(target, presets.tiny(target, "any-time"), seed=0, time_budget=None)
    run.begin()
    assert run.starts_exact()


# -- draws ----------------------------------------------------------------------------------------


def trained(target: Target, num_steps: int) -> Run:
    config = presets.tiny(target, "any-time")
    config = config.changed(num_steps=num_steps, num_evaluations=0, method={"width": 16})
    run = Run(target, config, seed=0, time_budget=None)
    for _ in run.steps():
        pass
    return run


TARGETS: dict[str, Target] = {
    "ising": Ising((2, 4), 0.4),
    "field": Ising((3, 3), 0.4, field=0.3),
    "potts": Potts((2, 3), 3, 0.8),
}


def awake_sampler(target: Target, awake: Callable) -> AnyTimeSampler:
    return AnyTime(width=6).sampler(awake(fresh(target, width=6), scale=0.1), target)


@pytest.mark.statistical
@pytest.mark.parametrize("calls", [None, 1, 2, 3])
@pytest.mark.parametrize("name", TARGETS)
def test_weights_average_to_z(name: str, calls: int | None, awake: Callable) -> None:
    """With random weights: log Z from 2,000 draws within 4.5 standard errors, 7e-6."""
    target = TARGETS[name]
    draws = awake_sampler(target, awake).draw(2_000, generator(), How(calls=calls))
    assert 0.02 < draws.ess < 0.999
    assert abs(draws.log_z - Enumeration(target).log_z) < 4.5 * draws.log_z_error


SCHEDULES = {
    "coloured": schedules.coloured(TARGETS["ising"]),
    "sequential": schedules.sequential([4, 0, 7, 2, 6, 1, 3, 5]),
    "blockwise": schedules.blockwise([[4, 1], [0, 7], [2, 6, 3, 5]]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", SCHEDULES)
def test_weights_average_to_z_along_schedules(name: str, awake: Callable) -> None:
    """Also where a schedule draws the last class, which the target then does not: log Z from 2,000
    draws within 4.5 standard errors, 7e-6.  Drawn twice, they would add 4·log 2."""
    target = TARGETS["ising"]
    how = How(schedule=SCHEDULES[name])
    draws = awake_sampler(target, awake).draw(2_000, generator(), how)
    assert abs(draws.log_z - Enumeration(target).log_z) < 4.5 * draws.log_z_error < 1


def test_what_a_plan_costs_is_counted_once(awake: Callable) -> None:
    target = Ising((4, 4), 0.4)
    sampler = awake_sampler(target, awake)
    first, second = (sampler.draw(10, generator(), How(calls=3)) for _ in range(2))
    assert first.num_network_calls == 10 * 3 + MOST_PILOTS * 8
    assert second.num_network_calls == 10 * 3
    assert torch.equal(first.x, second.x)


@pytest.mark.parametrize("batch_size", [2, 3, 7, 9])
def test_small_batches(batch_size: int) -> None:
    model, x = fresh(TARGETS["field"], width=4), all_states(TARGETS["field"])
    for evidence in (0.0, 1.0):
        loss, back = by_both_sides(
            model,
            evidence,
            RATIOS,
            Buffer(Uniform(), TARGETS["field"]),
            x[:batch_size],
            generator(batch_size),
        )
        assert bool(loss.isfinite()) and back.shape == (batch_size, 9)


@pytest.mark.parametrize("name", TARGETS)
def test_weights_by_enumeration(name: str, awake: Callable) -> None:
    """Σ q·w = Z and Σ q = 1 over all states: w belongs to q."""
    target = TARGETS[name]
    sampler, states = awake_sampler(target, awake), all_states(target)
    log_w = sampler.weigh(states, generator())
    log_p = target.log_density(states).double()
    assert float((log_p - log_w).exp().sum()) == pytest.approx(1)
    drawn = sampler.draw(50, generator(), How())
    torch.testing.assert_close(drawn.log_weight, sampler.weigh(drawn.x.long(), generator()))


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 8, 80])
def test_plans_take_every_site_once_in_as_many_calls(calls: int, awake: Callable) -> None:
    sampler = awake_sampler(Ising((4, 4), 0.4), awake)
    blocks = sampler.blocks(calls)
    assert len(blocks) == min(calls, 8)
    assert torch.equal(torch.cat(blocks), sampler.model.order)
    draws = sampler.draw(10, generator(), How(calls=calls, batch_size=4))
    assert draws.num_network_calls == 10 * len(blocks)  # the plan was made before
    assert sampler.schedule(calls).num_calls == len(blocks)


def test_plans_spend_calls_where_they_count(awake: Callable) -> None:
    """The variance promised for the planned blocks is that of their draws, as long as it is small,
    and less than that of equal blocks."""
    target = Ising((4, 4), 0.4407)
    sampler = trained(target, 300).learned().sampler
    assert isinstance(sampler, AnyTimeSampler)
    planned = sampler.draw(4_000, generator(), How(calls=4)).log_weight.var()
    equal = schedules.coloured(target, list(sampler.model.order.split(2)))
    even = sampler.draw(4_000, generator(), How(schedule=equal)).log_weight.var()
    ends = best_division(sampler.variances, 4)
    promised = sum(sampler.variances[a, b] for a, b in zip([0, *ends[:-1]], ends, strict=True))
    single = sampler.draw(4_000, generator(), How()).log_weight.var()
    assert float(planned - single) == pytest.approx(promised, rel=0.5)
    assert planned < even


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (How(step=tweedie), "step is given: the any-time method draws every block"),
        (How(calls=2, schedule=schedules.sequential(range(8))), "exclude each other"),
        (How(schedule=schedules.parallel(8, [1, 0.5, 0])), "has times between 0 and 1"),
        (How(schedule=schedules.sequential(range(4))), "schedule has 4 sites and the target 8"),
        (How(calls=0), "calls is 0: expected"),
    ],
)
def test_what_it_does_not_do_is_refused(how: How, message: str, awake: Callable) -> None:
    with pytest.raises(ValueError, match=message):
        awake_sampler(TARGETS["ising"], awake).draw(5, generator(), how)


# -- as a denoiser --------------------------------------------------------------------------------


@pytest.mark.statistical
def test_the_reverse_loop_draws_by_the_same_law(awake: Callable) -> None:
    """E[w] = Z for sequential and blockwise schedules through the general loop, 4.5 standard
    errors, and the same spread of weights as by the sampler's own way."""
    target = TARGETS["field"]
    sampler = awake_sampler(target, awake)
    noise = UniformNoise(2)
    schedule = sampler.schedule(2)
    loop = reverse.sample(target, sampler.denoiser, noise, schedule, n=2_000, seed=0)
    own = sampler.draw(2_000, generator(), How(calls=2))
    assert abs(loop.log_z - Enumeration(target).log_z) < 4.5 * loop.log_z_error
    error = math.hypot(loop.log_z_error, own.log_z_error)
    assert abs(loop.log_z - own.log_z) < 4.5 * error
    assert float(loop.log_weight.std()) == pytest.approx(float(own.log_weight.std()), rel=0.1)


def test_states_at_times_of_their_own(awake: Callable) -> None:
    """Rows of different known sites are answered as they would be alone."""
    target = TARGETS["potts"]
    sampler, x = awake_sampler(target, awake), all_states(TARGETS["potts"])[:40]
    t = (torch.rand(40, 6, generator=generator()) < 0.5).double()
    together = denoise(sampler.model, x, t)
    apart = torch.cat([denoise(sampler.model, x[k : k + 1], t[k : k + 1]) for k in range(40)])
    torch.testing.assert_close(together, apart)
    assert torch.allclose(together.exp().sum(-1), torch.ones((), dtype=together.dtype))
    with pytest.raises(ValueError, match="t is neither 0 nor 1"):
        denoise(sampler.model, x, t * 0.5)


def test_training_brings_log_weights_together() -> None:
    target = Ising((4, 4), 0.6)
    before, after = (trained(target, n).sample(2_000, generator()) for n in (1, 300))
    assert 0.8 < before.ess < 0.97 < 0.99 < after.ess
    assert after.log_weight.var() < before.log_weight.var() / 4


def test_buffer_states_that_are_put_back_keep_the_evidence() -> None:
    model, x = exact_pair(), all_states(PAIR).repeat(8, 1)
    buffer = Buffer(presets.tiny(PAIR, "any-time").buffer, PAIR, x)
    loss = AnyTime(evidence=1.0).loss(model, PAIR, buffer)
    for seed in range(10):
        back = loss(x, generator(seed))[1]
        known = given_sites(model, 1.0, generator(seed))
        assert torch.equal(back[:, known], x[:, known])
