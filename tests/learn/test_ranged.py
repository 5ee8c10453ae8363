"""One model for a range of targets: states of every level, weights of the value that is asked for,
files, and what it serves without training."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis import exact
from tcsis.exact import Enumeration
from tcsis.learn import presets
from tcsis.learn.buffers import PopulationAnnealing, Uniform
from tcsis.learn.learned import Learned
from tcsis.learn.levels import LevelBuffer
from tcsis.learn.models.last import last_law
from tcsis.learn.ranged import Ranged
from tcsis.learn.training import Run
from tcsis.reverse.steps import at
from tcsis.targets import Ising, Pairwise, Potts, Range, SpinGlass, Target, from_callable

OVER = Range(parameter="beta", low=0.1, high=0.6)
FAMILIES = {
    "ising": (Ising(3, 0.6), {"beta": (0.1, 0.6)}, lambda value: Ising(3, value)),
    "potts": (Potts((2, 3), 3, 1.2), {"beta": (0.3, 1.2)}, lambda value: Potts((2, 3), 3, value)),
    "glass": (
        SpinGlass((2, 4), 2.0, seed=1), {"beta": (0.3, 2.0)},
        lambda value: SpinGlass((2, 4), value, seed=1),
    ),
    "field": (
        Ising((2, 4), 0.4), {"field": (-0.5, 0.5)}, lambda value: Ising((2, 4), 0.4, field=value)
    ),
    "power": (
        Pairwise.from_spins([[0, 1.0, -0.5], [1.0, 0, 0.7], [-0.5, 0.7, 0]], [0.2, 0, 0.1]),
        {"power": (0.2, 1)},
        lambda value: Pairwise.from_spins(
            [[0, 1.0, -0.5], [1.0, 0, 0.7], [-0.5, 0.7, 0]], [0.2, 0, 0.1], beta=value
        ),
    ),
}  # fmt: skip
Family = tuple[Target, dict[str, tuple[float, float]], Callable[[float], Target]]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def untrained(target: Target, interval: dict[str, tuple[float, float]], wake: Callable) -> Learned:
    over = Range.of(interval)
    config = presets.ranged(target, over, "tiny")
    target = over.end(target)
    return Learned(target, config, wake(config.new_model(target, 0)))


def off_levels(interval: dict[str, tuple[float, float]]) -> tuple[str, list[float]]:
    ((name, (low, high)),) = interval.items()
    return name, [low + share * (high - low) for share in (0.07, 0.45, 0.9)]


# -- weights --------------------------------------------------------------------------------------


def test_weights_are_those_of_the_value(family: Family, awake: Callable) -> None:
    """Σ_x q(x) = 1 and Σ_x q(x)·w(x) = Z(λ), q by the law itself and w as ``weigh`` has it."""
    target, interval, member = family
    model = untrained(target, interval, awake)
    name, values = off_levels(interval)
    for value in values:
        one, truth = model.at(**{name: value}), member(value)
        x = all_states(truth)
        log_q, log_w = law_of(one, x), one.weigh(x)
        assert float(log_q.exp().sum()) == pytest.approx(1, abs=1e-6)
        log_z = Enumeration(truth).log_z
        assert float((log_q + log_w).logsumexp(0)) == pytest.approx(log_z, abs=1e-6)
        # the weights of another value are told apart
        wrong = replace(one, target=member(values[0] if value != values[0] else values[1]))
        assert abs(float((log_q + wrong.weigh(x)).logsumexp(0)) - log_z) > 1e-3


def law_of(model: Learned, x: Tensor) -> Tensor:
    """log q of whole states, (b,): of the sites that are drawn, and the last class from p̄."""
    law, target = model.module, model.target
    answers = law(law.in_order.questions, x)
    log_q = answers.gather(-1, x[:, law.order, None]).double().sum((1, 2))
    if law.last is None:
        return log_q.detach()
    return (log_q + at(last_law(target, x, law.last), x[:, law.last])).detach()


@pytest.mark.statistical
def test_draws_estimate_log_z(family: Family, awake: Callable) -> None:
    """Of a network that was not trained, at 4.5 standard errors (7e-6 a value)."""
    target, interval, member = family
    model = untrained(target, interval, partial(awake, scale=0.03))
    name, values = off_levels(interval)
    for value in values:
        draws = model.at(**{name: value}).sample(4_000, seed=1)
        assert draws.ess > 0.02  # so that the standard error means something
        off = draws.log_z - Enumeration(member(value)).log_z
        assert abs(off) < 4.5 * draws.log_z_error + 1e-5


# -- states ---------------------------------------------------------------------------------------


def levels_of(target: Target, interval: dict[str, tuple[float, float]], size: int) -> LevelBuffer:
    source = PopulationAnnealing(size=size, num_rungs=10, steps_per_rung=4, every=1)
    buffer = Ranged(over=Range.of(interval), levels=5).buffer(source, target)
    assert isinstance(buffer, LevelBuffer)
    return buffer


@pytest.mark.statistical
def test_states_of_every_level_follow_its_target(family: Family) -> None:
    """Mean log p̄ of 4,000 states against enumeration, at 5 standard errors and 1 % for resampled
    ones that are alike; the levels in another order are told apart."""
    target, interval, _ = family
    buffer = levels_of(Range.of(interval).end(target), interval, 4_000)
    generator = torch.Generator().manual_seed(0)
    buffer.start(generator)
    for step in range(20):
        buffer.refresh(step, 0.0, lambda n, generator: None, generator)
    off = []
    for states in (buffer.levels, buffer.levels.flip(0)):
        z = []
        for member, x in zip(buffer.members, states, strict=True):
            table, log_p = Enumeration(member), member.log_density(all_states(member)).double()
            p = (log_p - table.log_z).exp()
            mean = float(p @ log_p)
            sd = math.sqrt(float(p @ (log_p - mean) ** 2) / len(x))
            own = float(member.log_density(x.long()).double().mean())
            z.append(abs(own - mean) / (sd + 0.002 * abs(mean) + 1e-9))
        off.append(max(z))
    assert off[0] < 5
    assert off[1] > 10


@pytest.mark.statistical
@pytest.mark.parametrize(("levels", "most"), [(9, 0.5), (8, 2.0)])
def test_no_field_keeps_the_states_of_the_other_sign(levels: int, most: float) -> None:
    """In the cold few sweeps turn a lattice, and an even number of levels has none without field.
    The magnetisation of every level within five standard errors: a false alarm in a hundred
    thousand."""
    interval = {"field": (-most, most)}
    target = Range.of(interval).end(Ising((3, 4), 1.5))
    source = PopulationAnnealing(size=1_000, num_rungs=20, steps_per_rung=1)
    buffer = Ranged(over=Range.of(interval), levels=levels).buffer(source, target)
    assert isinstance(buffer, LevelBuffer)
    buffer.start(torch.Generator().manual_seed(0))
    for member, x in zip(buffer.members, buffer.levels, strict=True):
        states = all_states(member)
        p = member.log_density(states).double().softmax(0)
        spin = 2 * states.double().mean(1) - 1
        mean = float(p @ spin)
        error = float((p @ (spin - mean).square() / len(x)).sqrt())
        assert abs(2 * float(x.double().mean()) - 1 - mean) < 5 * error


def test_what_is_put_back_stays_with_its_level() -> None:
    buffer = levels_of(Ising(3, 0.6), {"beta": (0.1, 0.6)}, 16)
    generator = torch.Generator().manual_seed(0)
    buffer.start(generator)
    buffer.level = 2
    buffer.all[torch.tensor([3, 5])] = torch.ones(2, 9, dtype=torch.uint8)
    assert bool((buffer.levels[2, [3, 5]] == 1).all())
    assert buffer.law.beta == pytest.approx(0.35)
    assert torch.equal(buffer.of_target, buffer.levels[4].long())
    other = levels_of(Ising(3, 0.6), {"beta": (0.1, 0.6)}, 16)
    other.place(buffer.tensors())
    assert other.level == 2
    assert torch.equal(other.levels, buffer.levels)


def test_all_levels_have_their_turn() -> None:
    buffer = levels_of(Ising(3, 0.6), {"beta": (0.1, 0.6)}, 16)
    generator = torch.Generator().manual_seed(0)
    buffer.start(generator)
    seen, before = set(), buffer.levels.clone()
    for step in range(60):
        buffer.refresh(step, 0.0, lambda n, generator: None, generator)
        seen.add(buffer.level)
    assert seen == set(range(5))
    assert all(not torch.equal(a, b) for a, b in zip(before, buffer.levels, strict=True))


def test_other_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="buffer is uniform: expected population_annealing"):
        Ranged(over=OVER).buffer(Uniform(), Ising(3, 0.6))


def test_a_target_that_is_not_the_end_is_refused() -> None:
    """Its states would be taken for those of the upper end."""
    config = presets.ranged(Ising(3, 0.6), OVER, "tiny")
    with pytest.raises(ValueError, match=r"of beta to 0\.6: expected the target at the upper end"):
        tcsis.train(Ising(3, 0.5), config=config, progress=False)


# -- training -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Learned:
    return tcsis.train_range(
        Ising((4, 4), 0.6), "tiny", beta=(0.1, 0.6), steps=250, seed=0, progress=False
    )


@pytest.mark.statistical
def test_training_serves_values_between_the_levels(model: Learned) -> None:
    """Levels are at 0.1, 0.267, 0.433 and 0.6; the weights of a wrong value would be off by far
    more than log Z at 4.5 standard errors."""
    for beta in (0.12, 0.18, 0.35, 0.4407, 0.52):
        one = model.at(beta=beta)
        draws = one.sample(4_000, seed=1)
        assert repr(one.target) == f"Ising(side=4, beta={beta})"
        assert draws.ess > 0.8
        log_z = exact.solve(Ising(4, beta)).log_z
        assert abs(draws.log_z - log_z) < 4.5 * draws.log_z_error + 1e-5
    before = Learned(
        model.target, model.config, model.config.new_model(model.target, 0)
    )  # no step, no first guesses
    assert before.at(beta=0.52).sample(1_000).ess < 0.5


def test_log_z_differences_are_mean_energies(model: Learned) -> None:
    """d log Z/dβ = E[Σ s s]: log Z of the weights against Simpson's rule over mean energies."""
    betas = torch.linspace(0.1, 0.6, 11, dtype=torch.float64).tolist()
    log_z, slope = [], []
    for beta in betas:
        one = model.at(beta=beta)
        draws = one.sample(4_000, seed=2)
        log_z.append(draws.log_z)
        bonds = one.target.log_density(draws.x.long()).double() / beta
        slope.append(float(draws.weights @ bonds))
    simpson = sum(
        (4 if k % 2 else 2 if 0 < k < 10 else 1) * value for k, value in enumerate(slope)
    ) * (0.05 / 3)  # fmt: skip
    assert log_z[-1] - log_z[0] == pytest.approx(simpson, abs=0.05)


def test_at_a_value_it_does_what_all_models_do(model: Learned, tmp_path: Path) -> None:
    one = model.at(beta=0.3)
    assert one.kind == "any-time"
    draws = one.sample(2_000, seed=1)
    assert tcsis.evaluate(draws, one.target)["correlation"].error < 0.05
    assert tcsis.judge(draws, one.target, model=one).level in ("trusted", "trusted by weight")
    assert one.sample(100, calls=3).num_network_calls > 0
    given = one.given({0: 1, 5: 0})
    truth = exact.solve(given.target).log_z - exact.solve(one.target).log_z
    found = given.log_evidence(2_000)
    assert abs(found.log_p - truth) < 4.5 * found.error + 1e-3
    one.save(tmp_path)
    again = tcsis.load(tmp_path)
    assert torch.equal(again.sample(50, seed=3).x, one.sample(50, seed=3).x)
    assert repr(again.target) == repr(one.target)


def test_files(model: Learned, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = tcsis.load(tmp_path)
    first, second = (one.at(beta=0.25).sample(50, seed=3) for one in (model, again))
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.log_weight, second.log_weight)
    assert torch.equal(model.sample(50).x, model.at(beta=0.6).sample(50).x)


def test_values_outside_are_refused(model: Learned) -> None:
    with pytest.raises(ValueError, match=r"beta is 0\.7: the model was trained for beta from 0\.1"):
        model.at(beta=0.7)
    with pytest.raises(ValueError, match="asked for at field: it is of beta"):
        model.at(field=0.2)
    with pytest.raises(ValueError, match="method any-time, which knows one target"):
        model.at(beta=0.3).at(beta=0.4)


def test_evaluations_look_between_the_levels(model: Learned) -> None:
    last = model.history[-1]
    assert 0.9 < last["worst_ess"] <= last["mean_ess"] <= 1
    assert "missed" in last
    assert model.num_density_calls > 0


def test_a_resumed_run_ends_where_it_would_have(tmp_path: Path) -> None:
    target = Ising(3, 0.6)
    whole = tcsis.train_range(target, "tiny", beta=(0.1, 0.6), steps=12, progress=False)
    options = {"folder": tmp_path, "progress": False, "beta": (0.1, 0.6)}
    config = presets.ranged(target, OVER, "tiny").changed(num_steps=12)
    run = Run(target, config, 0)
    steps = run.steps()
    for _ in range(5):
        next(steps)
    tcsis.learn.checkpoint.save(tmp_path / "checkpoint", *run.state())
    resumed = tcsis.train_range(target, "tiny", steps=12, resume=True, **options)
    assert torch.equal(resumed.at(beta=0.2).sample(50).x, whole.at(beta=0.2).sample(50).x)
    for name, weights in whole.module.state_dict().items():
        assert torch.equal(resumed.module.state_dict()[name], weights), name
    with pytest.raises(ValueError, match="made with another config"):
        tcsis.train_range(
            target, "tiny", steps=12, resume=True, beta=(0.2, 0.6), folder=tmp_path, progress=False
        )


def test_every_family_trains(family: Family) -> None:
    target, interval, member = family
    model = tcsis.train_range(target, "tiny", steps=150, progress=False, **interval)
    name, values = off_levels(interval)
    for value in values:
        draws = model.at(**{name: value}).sample(2_000, seed=1)
        assert draws.ess > 0.9
        assert draws.log_z == pytest.approx(exact.solve(member(value)).log_z, abs=0.05)


def test_a_function_and_known_sites_by_powers() -> None:
    """A black box that is no pairs' doing, and a target that is given something."""
    function = from_callable(
        lambda x: torch.sin(x.double() @ torch.arange(1.0, 6).double() ** 2).double(), 5, 2
    )
    for target in (function, Ising(3, 0.6).given({0: 1, 4: 0})):
        model = tcsis.train_range(target, "tiny", steps=60, power=(0.2, 1), progress=False)
        one = model.at(power=0.5)
        draws = one.sample(2_000, seed=1)
        truth = exact.solve(target.scaled(0.5)).log_z
        assert abs(draws.log_z - truth) < 4.5 * draws.log_z_error + 1e-4
        assert draws.ess > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": (0.1, 0.6), "preset": "paper"}, "preset is 'paper': expected fast or tiny"),
        ({"bta": (0.1, 0.6)}, "has no number 'bta': expected a range of beta, field, power"),
        ({}, "the range is one of nothing"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tcsis.train_range(Ising(3, 0.6), progress=False, **options)


def test_clusters_move_where_they_do_at_both_ends() -> None:
    cold, turned = Range(parameter="beta", low=0.1, high=0.6), Range.of({"beta": (-0.3, 0.4)})
    assert tcsis.presets.ranged(Ising(12, 0.6), cold).buffer.kernel == "swendsen-wang"
    assert tcsis.presets.ranged(Ising(12, 0.4), turned).buffer.kernel == "gibbs"


def test_a_range_from_no_couplings_at_all() -> None:
    """At β = 0 a glass has translations, which its model must not take for its own."""
    target, over = SpinGlass((2, 4), 1.0, seed=1), Range.of({"beta": (0, 1)})
    model = presets.ranged(target, over, "tiny").new_model(target, 0)
    assert len(model.law.network.row) == 8


def test_a_range_begins_with_a_model_of_another_one() -> None:
    """Of other ends and other levels; the correlations are those of its own states."""
    over = Range.of({"beta": (0.1, 0.3)})
    config = presets.ranged(Ising(3, 0.3), over, "tiny")
    before = config.new_model(Ising(3, 0.3), 1)
    longer = presets.ranged(Ising(3, 0.6), OVER, "tiny").changed(method={"levels": 5})
    run = Run(Ising(3, 0.6), longer, 0, first=lambda: before)
    run.begin()
    for weights, theirs in zip(run.model.parameters(), before.parameters(), strict=True):
        assert torch.equal(weights, theirs)
    assert run.model.covariances.shape == (5, 9, 9)
    assert float(run.model.covariances[4, 0, 1]) > 0.2  # that of neighbours at 0.6
    wide, high = Ising((2, 4), 0.6), Ising((4, 2), 0.6)
    run = Run(high, longer, 0, first=lambda: longer.new_model(wide, 0))
    with pytest.raises(ValueError, match=r"lattice \(2, 4\) where this is one of \(4, 2\)"):
        run.begin()


def test_a_function_that_is_recognised_is_loaded_at_a_value(tmp_path: Path) -> None:
    """With the symmetries that were found."""
    target = from_callable(Ising(3, 0.6).log_density, 9, 2)
    model = tcsis.train_range(target, "tiny", power=(0.1, 1), steps=3, progress=False)
    one = model.at(power=0.5)
    one.save(tmp_path)
    again = tcsis.load(tmp_path, target=target.scaled(0.5))
    assert torch.equal(again.sample(50, seed=1).x, one.sample(50, seed=1).x)
