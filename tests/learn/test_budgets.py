"""A time budget covers all of training, says what it bought, and is refused where it buys none."""

import time

import pytest
import torch
from torch import Tensor

import tcsis
from tcsis.basics.clock import Budget, BudgetError
from tcsis.learn import budgets, presets, trainer
from tcsis.learn.buffers import FEWEST_REPLICAS, FEWEST_RUNGS, PopulationAnnealing
from tcsis.learn.training import Run
from tcsis.targets import Ising, Target, from_callable

ISING = Ising(3, 0.4)


def costly(seconds: float, num_sites: int = 12) -> Target:
    """No pairs make it up, and every state takes its time."""

    def log_density(x: Tensor) -> Tensor:
        time.sleep(seconds * len(x))
        return torch.sin((x * torch.arange(1, num_sites + 1)).sum(-1).double() ** 2)

    return from_callable(log_density, num_sites, 2)


def test_a_costly_density_is_refused_at_once_with_what_it_needs() -> None:
    """256 states, 10 rungs, 12 sites and 2 values at 1 ms are a minute of annealing."""
    target, began = costly(1e-3), time.perf_counter()
    with pytest.raises(BudgetError, match=r"annealing as few as 256 states.* takes about") as error:
        tcsis.train(target, time_budget=20, progress=False)
    assert time.perf_counter() - began < 15
    assert error.value.needed > 2 * FEWEST_REPLICAS * FEWEST_RUNGS * 12 * 2 * 1e-3
    assert isinstance(error.value, ValueError)


def test_what_is_bought_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    """And the time is kept, from the first probe to the last evaluation."""
    target, began = costly(2e-6, num_sites=8), time.perf_counter()
    model = tcsis.train(target, time_budget=6, progress=False)
    took = time.perf_counter() - began
    assert 5 < model.seconds <= took < 8
    assert model.seconds == pytest.approx(sum(model.spent.values()))
    assert list(model.spent) == ["set-up", "annealing", "fitting", "evaluation", "training"]
    assert model.spent["annealing"] < 0.6 * 6
    assert model.steps == model.history[-1]["step"] >= budgets.FEWEST_STEPS
    assert f"s training ({model.steps:,} of 3,000 steps)" in model.account
    assert model.history[-1]["learning_rate"] < 0.1 * model.config.optimisation.learning_rate
    said = capfd.readouterr().err
    few = model.steps < 0.1 * 3_000
    assert ("budget of 6 s: " in said) == few


def test_little_training_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "FEW", 1.0)
    config = presets.tiny(ISING).changed(num_steps=10**6)
    model = tcsis.train(ISING, config=config, time_budget=3, progress=False)
    said = capfd.readouterr().err
    assert said.startswith(f"budget of 3 s: {model.account}; that is little training")


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


def test_annealing_is_cut_to_its_share() -> None:
    """A state and sweep of 8 sites and 2 values at 20 µs take 0.3 ms: of 2,048 states and 80 sweeps
    there is time for a thirtieth in two seconds."""
    source = PopulationAnnealing(size=2_048, num_rungs=40, steps_per_rung=2, num_moved=256)
    smaller, seconds = source.within(costly(2e-5, num_sites=8), 2.0)
    assert isinstance(smaller, PopulationAnnealing)
    assert FEWEST_REPLICAS <= smaller.size < 1_024
    assert FEWEST_RUNGS <= smaller.num_rungs * smaller.steps_per_rung < 40
    assert 1 <= smaller.num_moved < 64
    assert 0.2 < seconds <= 2.0
    assert source.within(ISING, 1_000.0)[0] is source


def test_slow_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(ISING, presets.tiny(ISING), seed=0, time_budget=Budget(6.0))
    monkeypatch.setattr(run, "loss", slowed(run.loss))
    with pytest.raises(BudgetError, match=r"a step of training takes 0\.\d") as error:
        list(run.steps())
    assert run.step <= budgets.NUM_TIMED
    assert error.value.needed > 0.5 * budgets.FEWEST_STEPS


def slowed(loss):
    def slow(*args):
        time.sleep(0.5)
        return loss(*args)

    return slow


def test_what_is_used_up_before_the_first_step_is_refused() -> None:
    budget = Budget(1.0)
    budget.spent["set-up"] = 5.0
    with pytest.raises(BudgetError, match=r"before the first step took 5 s.*\(5.0 s set-up\)"):
        next(Run(ISING, presets.tiny(ISING), seed=0, time_budget=budget).steps())


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
    model = tcsis.train(target, preset="tiny", steps=2, progress=False)
    assert isinstance(target.sketch, tcsis.targets.Pairwise)
    assert model.num_density_calls == sum(calls)


def test_recognition_is_left_out_where_it_would_take_too_long() -> None:
    def ring(x: Tensor) -> Tensor:
        time.sleep(1e-4 * len(x))
        return (x != x.roll(1, -1)).double().sum(-1)

    slow, given = from_callable(ring, 12, 2), from_callable(ring, 12, 2).given({0: 1})
    assert slow.sketched_within(100.0) is slow
    assert given.sketched_within(100.0) is given
    for target in (slow, given):
        unknown = target.sketched_within(0.05)
        assert unknown.free.sketch is unknown.free
        x = torch.zeros(1, 12, dtype=torch.long)
        assert unknown.log_density(x).equal(target.log_density(x))
    assert "sketch" not in vars(slow)  # which may still be probed for, given time
    assert ISING.sketched_within(0.0) is ISING
