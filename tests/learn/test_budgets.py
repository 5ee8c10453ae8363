"""A time budget covers all of training, says what it bought, and is refused where it buys none."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis.basics import clock as basics_clock
from tcsis.basics.clock import Budget, BudgetError
from tcsis.learn import budgets, presets, trainer
from tcsis.learn.buffers import FEWEST_REPLICAS, FEWEST_RUNGS, PopulationAnnealing
from tcsis.learn.ranged import Ranged
from tcsis.learn.training import Run
from tcsis.targets import Ising, Range, Target, from_callable
from tcsis.targets.base import counting

ISING = Ising(3, 0.4)


def apart(x: Tensor) -> Tensor:
    """A density that no pairs make up."""
    return torch.sin((x * torch.arange(1, x.shape[-1] + 1)).sum(-1).double() ** 2)


def ring(x: Tensor) -> Tensor:
    return (x != x.roll(1, -1)).double().sum(-1)


class Clock:
    """A clock that stands still but for what is said to take time, so that the speed of the machine
    does not matter."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def costly(
        self, seconds: float, num_sites: int, function: Callable = apart, *, spared: bool = False
    ) -> Target:
        """A target where every state takes so many seconds, and is spared where that is said."""

        def log_density(x: Tensor) -> Tensor:
            self.now += seconds * len(x)
            return function(x)

        return from_callable(log_density, num_sites, 2, costly=spared)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (basics_clock, budgets):
        monkeypatch.setattr(module, "time", made)
    return made


def test_a_costly_density_is_refused_at_once_with_what_it_needs(clock: Clock) -> None:
    """256 states, 10 rungs, 12 sites and 2 values at 1 ms are a minute of annealing."""
    target = clock.costly(1e-3, 12)
    clock.now = 0.0
    with pytest.raises(BudgetError, match=r"annealing as few as 256 states.* takes about") as error:
        tcsis.train(target, time_budget=10, progress=False)
    assert clock.now < 5
    least = FEWEST_REPLICAS * FEWEST_RUNGS * 12 * 2 * 1e-3
    assert error.value.needed == pytest.approx(2 * least, rel=0.1)
    assert isinstance(error.value, ValueError)


def test_a_costly_density_is_spared(clock: Clock) -> None:
    """The same one, trained in the time that was too short for ratios."""
    target = clock.costly(1e-3, 12, spared=True)
    clock.now = 0.0
    model = tcsis.train(target, steps=300, time_budget=10, progress=False)
    assert clock.now == pytest.approx(model.seconds)
    assert model.seconds < 10.5
    assert sum(model.evaluated.values()) * 1e-3 == pytest.approx(model.seconds, rel=0.05)


def test_the_time_is_kept_and_what_it_bought_is_said(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the first probe to the last evaluation."""
    target = clock.costly(5e-5, 8)
    clock.now = 0.0
    model = tcsis.train(target, "autoregressive", "tiny", steps=400, time_budget=20, progress=False)
    assert 18 < model.seconds < 21
    assert model.seconds == pytest.approx(clock.now)
    assert model.seconds == pytest.approx(sum(model.spent.values()))
    assert list(model.spent) == ["set-up", "annealing", "fitting", "evaluation", "training"]
    assert 0 < model.spent["annealing"] < 10
    assert 0 < model.spent["evaluation"] < 5
    assert budgets.FEWEST_STEPS <= model.steps == model.history[-1]["step"] < 400
    assert f"s training ({model.steps} of 400 steps, " in model.account
    assert model.history[-1]["learning_rate"] < 0.1 * model.config.optimisation.learning_rate
    assert ("budget of 20 s: " in capfd.readouterr().err) == (model.steps < 40)


def test_little_training_is_warned_about(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "FEW", 1.0)
    target = clock.costly(5e-5, 8)
    model = tcsis.train(target, "autoregressive", "tiny", steps=400, time_budget=20, progress=False)
    said = capfd.readouterr().err
    assert said.startswith(f"budget of 20 s: {model.account}; that is little training")


def test_a_run_that_ends_by_its_steps_is_not_warned_about(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tcsis.train(ISING, preset="tiny", steps=25, time_budget=100, progress=False)
    assert capfd.readouterr().err == ""


def test_a_budget_does_not_change_what_it_does_not_bind() -> None:
    """The same weights, bit by bit, as without one."""
    with_one, without = (
        tcsis.train(ISING, preset="tiny", steps=25, time_budget=seconds, progress=False)
        for seconds in (1_000, None)
    )
    for name, weights in with_one.module.state_dict().items():
        assert torch.equal(weights, without.module.state_dict()[name]), name


def test_annealing_is_cut_to_its_share(clock: Clock) -> None:
    """A state and sweep of 8 sites and 2 values at 20 µs take 0.32 ms, and 2,048 states and 80
    sweeps 52 s: of both there is time for a fifth in two seconds."""
    source = PopulationAnnealing(size=2_048, num_rungs=40, steps_per_rung=2, num_moved=256)
    smaller, seconds = source.within(clock.costly(2e-5, 8), 2.0)
    assert isinstance(smaller, PopulationAnnealing)
    assert smaller.size == pytest.approx(2_048 / 5, rel=0.05)
    assert smaller.num_rungs * smaller.steps_per_rung == pytest.approx(80 / 5, rel=0.1)
    assert smaller.num_moved == pytest.approx(256 / 26, rel=0.1)
    assert seconds == pytest.approx(2.0, rel=0.1)
    assert source.within(clock.costly(2e-5, 8), 60.0)[0] is source
    least, seconds = source.within(clock.costly(2e-5, 8), 0.1)
    assert (least.size, least.num_rungs, least.steps_per_rung) == (FEWEST_REPLICAS, FEWEST_RUNGS, 1)
    assert seconds == pytest.approx(FEWEST_REPLICAS * FEWEST_RUNGS * 0.32e-3, rel=0.01)


@pytest.mark.parametrize("seconds", [4.0, 20.0])
def test_all_levels_of_a_range_are_filled_within_its_share(clock: Clock, seconds: float) -> None:
    """The shorter one pays for little more than the fewest rungs and states, 3.4 s of them."""
    source = PopulationAnnealing(size=2_048, num_rungs=40, steps_per_rung=2)
    over = Range(parameter="power", low=0.1, high=1)
    buffer = Ranged(over=over).buffer(source, clock.costly(2e-5, 8))
    buffer.source, needed = buffer.within(seconds)
    began = clock.now
    buffer.start(torch.Generator().manual_seed(0))
    assert clock.now - began == pytest.approx(needed, rel=0.25)  # without weights
    assert needed <= seconds


def test_slow_steps_are_refused(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    target = clock.costly(1e-8, 6)
    run = Run(target, presets.tiny(target), seed=0, time_budget=Budget(6.0))
    loss = run.shards[0].loss

    def slow(*args):
        clock.now += 0.5
        return loss(*args)

    monkeypatch.setattr(run.shards[0], "loss", slow)
    with pytest.raises(BudgetError, match=r"a step of training takes 0\.5 s") as error:
        list(run.steps())
    assert run.step == budgets.NUM_TIMED
    assert error.value.needed == pytest.approx(2 * 0.5 * budgets.FEWEST_STEPS, rel=0.01)


def test_what_is_used_up_before_the_first_step_is_refused(clock: Clock) -> None:
    budget = Budget(1.0)
    budget.spent["set-up"] = 5.0
    with pytest.raises(BudgetError, match=r"before the first step took 5 s.*\(5.0 s set-up\)"):
        next(Run(ISING, presets.tiny(ISING), seed=0, time_budget=budget).steps())
    with pytest.raises(BudgetError, match=r"which is done once: expected at least"):
        budgets.check_begun(Budget(-1.0), 0.0)  # nothing of which can be told


def test_warm_up_fits_the_steps_that_will_be_made() -> None:
    run = Run(ISING, presets.tiny(ISING).changed(num_steps=10**6), seed=0, time_budget=Budget(10.0))
    run.config = run.config.changed(optimisation={"warmup": 100})
    run.step, run.budget.spent["training"] = 30, 3.0
    assert run.by_clock == pytest.approx(0.3)
    assert run.warmup == pytest.approx(10)  # of a hundred
    run.budget.limit = float("inf")
    assert run.warmup == 100


def test_densities_of_recognition_are_counted() -> None:
    calls = []

    def log_density(x: Tensor) -> Tensor:
        calls.append(len(x))
        return (x != x.roll(1, -1)).double().sum(-1)

    target = from_callable(log_density, 6, 2)
    calls.clear()
    with counting(target) as cost:
        assert isinstance(target.sketch, tcsis.targets.Pairwise)
    assert cost.densities == sum(calls) > 1_000
    other = from_callable(log_density, 6, 2)
    model = tcsis.train(other, preset="tiny", steps=2, progress=False)
    again = tcsis.train(other, preset="tiny", steps=2, progress=False)
    assert model.num_density_calls == again.num_density_calls + cost.densities


def test_recognition_is_left_out_where_it_would_take_too_long(clock: Clock) -> None:
    slow, given = clock.costly(1e-4, 12, ring), clock.costly(1e-4, 12, ring).given({0: 1})
    assert slow.sketched_within(100.0) is slow
    assert given.sketched_within(100.0) is given
    for target in (slow, given):
        unknown = target.sketched_within(0.1)
        assert unknown.free.sketch is unknown.free
        x = torch.zeros(1, 12, dtype=torch.long)
        assert unknown.log_density(x).equal(target.log_density(x))
    assert "sketch" not in vars(slow)  # which may still be probed for, given time
    assert ISING.sketched_within(0.0) is ISING
