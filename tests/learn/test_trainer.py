"""Training: it helps, repeats, resumes bit for bit, and comes through whatever may go wrong."""

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tcsis.basics.locks import BusyError, sole_writer
from tcsis.exact import Enumeration
from tcsis.learn import checkpoint, presets
from tcsis.learn.autoregressive import Autoregressive
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.config import Config
from tcsis.learn.descent import DivergedError
from tcsis.learn.learned import Learned, load
from tcsis.learn.trainer import train
from tcsis.learn.training import Run
from tcsis.targets import RBM, Ising, Pairwise, Potts, Target, from_callable

ISING = Ising(4, 0.4407)
METHODS = ["autoregressive", "any-time", "self-normalized", "unbiased"]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


OTHERS: dict[str, Target] = {
    "potts": Potts(3, 3, 0.8),
    "graph": Pairwise(
        [[i, (i + k) % 8] for i in range(8) for k in (1, 3)], normal(16, 3, 3, seed=0),
        normal(8, 3, seed=1),
    ),
    "rbm": RBM(normal(8, 4, seed=2), normal(8, seed=3), normal(4, seed=4)),
    "callable": from_callable(lambda x: torch.sin(x.double().cumsum(1)).sum(1) * 2, 6, 3),
    "hard core": from_callable(
        lambda x: torch.where(x.unfold(1, 3, 1).all(-1).any(1), -torch.inf, 2.0 * x.sum(1)), 8, 2
    ),
}  # fmt: skip
CHAIN = from_callable(  # pairwise without cycles
    lambda x: torch.where((x[:, 1:] & x[:, :-1]).any(1), -torch.inf, 0.7 * x.sum(1)), 8, 2
)


def small(
    target: Target, method: str, of_method: dict[str, Any] | None = None, **changes: Any
) -> Config:
    """``tiny`` without evaluations, which take most of its time."""
    config = presets.tiny(target, method).changed(method=of_method or {})
    return config.changed(**{"num_evaluations": 0, "num_steps": 40, **changes})


def few_calls(method: str, num_calls: int) -> dict[str, Any]:
    """The setting of a method that has a number of calls."""
    return {"num_calls": num_calls} if method in ("self-normalized", "unbiased") else {}


def quiet(target: Target, **options: Any) -> Learned:
    return train(target, progress=False, **options)


def stop_at(
    monkeypatch: pytest.MonkeyPatch, step: int, inside: bool = False, times: int = 1
) -> None:
    """Press ctrl-C so often after a step, or in the middle of it, while the loss is computed."""
    make_step = Run.make_step

    def press() -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)

    def stopped(run: Run) -> Tensor:
        if run.step != step - 1:
            return make_step(run)
        loss = run.shards[0].loss

        def pressed(*given: Any) -> Any:
            press()
            return loss(*given)

        if inside:
            run.shards[0].loss = pressed
            return make_step(run)
        found = make_step(run)
        press()
        return found

    monkeypatch.setattr(Run, "make_step", stopped)


def check_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


# -- it works --------------------------------------------------------------------------------------


def untrained(target: Target, config: Config) -> Learned:
    return Learned(target, config, config.new_model(target, seed=0).eval())


def check_improved(target: Target, config: Config) -> None:
    """A better lower bound of log Z or a better ESS than before, and log Z in reach of both."""
    model = quiet(target, config=config)
    before, after = (m.sample(500, seed=3) for m in (untrained(target, config), model))
    log_z = Enumeration(target).log_z
    assert after.elbo > before.elbo + 0.02 or after.ess > before.ess + 0.02 > 0.02
    assert after.elbo < log_z + 5 * after.log_z_error
    assert abs(after.log_z - log_z) < 6 * after.log_z_error + 0.05


@pytest.mark.statistical
@pytest.mark.parametrize("method", METHODS)
def test_training_improves_the_model(method: str) -> None:
    """Sixty steps of ``tiny``; fixed seeds, gains of 0.1 and more where 0.02 is asked for."""
    check_improved(ISING, small(ISING, method, num_steps=60, of_method=few_calls(method, 8)))


@pytest.mark.statistical
@pytest.mark.parametrize("name", OTHERS)
def test_training_works_on_any_target(name: str) -> None:
    target = OTHERS[name]
    check_improved(target, small(target, "autoregressive", num_steps=60))


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_in_the_density_does_no_harm(method: str) -> None:
    """It moves log Z by as much: within 5 standard errors, false alarms 6e-7."""
    ising = Ising(3, 0.3)
    target = Pairwise(
        ising.edges, ising.couplings, ising.fields, constant=-40.0, lattice=ising.lattice
    )
    draws = quiet(target, config=small(target, method, num_steps=20)).sample(500)
    assert abs(draws.log_z - Enumeration(ising).log_z + 40) < 5 * draws.log_z_error


def test_a_method_may_be_a_value() -> None:
    model = quiet(ISING, method=Autoregressive(width=5), preset="tiny", steps=2)
    assert model.config.method == Autoregressive(width=5)
    assert model.config.buffer == presets.tiny(ISING).buffer


def test_a_config_stands_alone() -> None:
    config = small(ISING, "autoregressive", num_steps=2)
    for beside in ({"method": "unbiased"}, {"preset": "fast"}, {"method": Autoregressive()}):
        with pytest.raises(ValueError, match="config stands in for method and preset: expected"):
            quiet(ISING, config=config, **beside)
    # a copy that pydantic did not check is checked here
    unchecked = config.model_copy(update={"num_steps": -1})
    with pytest.raises(ValueError, match="num_steps is wrong"):
        quiet(ISING, config=unchecked)


def test_history_and_metrics(tmp_path: Path) -> None:
    model = quiet(ISING, preset="tiny", folder=tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == model.history
    assert [record["step"] for record in model.history] == [30, 60]
    for record in model.history:
        assert {"loss", "learning_rate", "ess", "elbo", "error", "floor"} <= record.keys()
    assert model.history[1]["ess"] > model.history[0]["ess"]
    assert 0 < model.seconds < 60
    assert model.num_density_calls > 60 * 64


def test_forbidden_states_do_not_stop_the_records(tmp_path: Path) -> None:
    """A draw of weight zero makes the ELBO -inf, which JSON does not know."""
    config = small(OTHERS["hard core"], "autoregressive", num_steps=10, num_evaluations=2)
    model = quiet(OTHERS["hard core"], config=config, folder=tmp_path)
    assert len(model.history) == 2

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    assert load(tmp_path / "checkpoint", OTHERS["hard core"]).history == model.history


def test_what_starts_exact_is_left_alone(tmp_path: Path) -> None:
    """On a target without cycles there is nothing to learn: one record and no step."""
    config = small(CHAIN, "autoregressive", num_steps=10, num_evaluations=2)
    model = quiet(CHAIN, config=config, folder=tmp_path)
    (record,) = model.history
    assert record["step"] == 0
    assert record["ess"] == pytest.approx(1)
    draws = model.sample(500)
    assert float(draws.log_weight.std()) < 1e-3
    assert model.num_density_calls >= 500  # that it is exact was seen at draws
    assert draws.log_z == pytest.approx(Enumeration(CHAIN).log_z, abs=1e-4)
    assert load(tmp_path / "checkpoint", CHAIN).history == model.history


def test_a_marginal_learns_what_is_recognised() -> None:
    """Its skip terms are those of the sketch, which is finite where the function is not."""
    assert isinstance(CHAIN.sketch, Pairwise)
    model = quiet(CHAIN, config=small(CHAIN, "unbiased", num_steps=5))
    draws = model.sample(200)
    assert draws.ess > 0.5
    assert abs(draws.log_z - Enumeration(CHAIN).log_z) < 5 * draws.log_z_error


def test_a_marginal_refuses_forbidden_states() -> None:
    config = small(OTHERS["hard core"], "unbiased", num_steps=2)
    with pytest.raises(ValueError, match=r"log p̄ is -inf at x = \[.*use the autoregressive"):
        quiet(OTHERS["hard core"], config=config)


@pytest.mark.parametrize("target", [ISING, OTHERS["graph"]], ids=["lattice", "graph"])
def test_guided_walkers_and_the_buffer_train(target: Target) -> None:
    """What is known without learning makes for a good sampler after a few steps already, with a
    network that has it as skip terms."""
    guided = {"kind": "joint_guided", "num_chains": 4, "num_rungs": 4}
    network = presets.site_network(target, width=8).model_dump()
    of_method = {"estimator": guided, "network": network}
    config = small(target, "unbiased", num_steps=5, of_method=of_method)
    assert quiet(target, config=config).sample(500).ess > 0.5


def test_time_budget_ends_training() -> None:
    begin = time.perf_counter()
    config = small(ISING, "autoregressive", num_steps=10**7)
    model = quiet(ISING, config=config, time_budget=3)
    assert 2.5 <= model.seconds < 10
    assert time.perf_counter() - begin < 15
    with pytest.raises(ValueError, match="time_budget is 0: expected seconds above 0"):
        quiet(ISING, config=config, time_budget=0)
    with pytest.raises(ValueError, match="steps is 0"):
        quiet(ISING, preset="tiny", steps=0)


# -- repeating and resuming ------------------------------------------------------------------------


def test_the_seed_decides() -> None:
    config = small(ISING, "autoregressive", num_steps=20)
    first, again, other = (quiet(ISING, config=config, seed=seed) for seed in (1, 1, 2))
    check_same(first.module.state_dict(), again.module.state_dict())
    assert torch.equal(first.sample(500, seed=1).x, again.sample(500, seed=1).x)
    assert not torch.equal(first.module.network.w1, other.module.network.w1)
    assert not torch.equal(first.sample(500, seed=1).x, other.sample(500, seed=1).x)


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_goes_on_bit_for_bit(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, average, optimiser, buffer and generator, through a refresh of the buffer from the
    model's own draws."""
    buffer = {"kind": "model_and_noise", "size": 64, "every": 7, "num_new": 8, "resample": True}
    config = small(ISING, method, num_steps=24, buffer=buffer, of_method=few_calls(method, 4))
    options = {"config": config}
    quiet(ISING, **options, folder=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 12)
        with pytest.raises(KeyboardInterrupt):
            quiet(ISING, **options, folder=tmp_path / "parts")
    assert checkpoint.load(tmp_path / "parts" / "checkpoint")[1]["step"] == 12
    quiet(ISING, **options, folder=tmp_path / "parts", resume=True)
    (whole, data), (parts, again) = (
        checkpoint.load(tmp_path / name / "checkpoint") for name in ("whole", "parts")
    )
    check_same(whole, parts)
    kinds = {name.split("/")[0] for name in whole}
    assert {"now", "model", "optimiser", "buffer", "generator"} <= kinds
    assert data["step"] == again["step"] == 24


@pytest.mark.parametrize(("times", "step"), [(1, 7), (2, 0)])
def test_ctrl_c_in_the_middle_of_a_step(
    times: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the end of the step; a second one does not, and what was saved before stays.
    Half a step is never saved, so that either way the run goes on bit for bit."""
    options = {"config": small(ISING, "autoregressive")}
    quiet(ISING, **options, folder=tmp_path / "whole")
    folder = tmp_path / "parts"
    with monkeypatch.context() as patch:
        stop_at(patch, 7, inside=True, times=times)
        with pytest.raises(KeyboardInterrupt):
            quiet(ISING, **options, folder=folder)
    assert checkpoint.load(folder / "checkpoint")[1]["step"] == step
    assert {path.name for path in folder.iterdir()} == {"checkpoint", "metrics.jsonl"}
    quiet(ISING, **options, folder=folder, resume=True)
    (whole, data), (parts, again) = (
        checkpoint.load(place / "checkpoint") for place in (tmp_path / "whole", folder)
    )
    check_same(whole, parts)
    assert data["step"] == again["step"] == 40
    assert data["num_density_calls"] == again["num_density_calls"]


def test_half_a_step_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above fails for a state that is saved in the middle of a step."""
    options = {"config": small(ISING, "autoregressive")}
    quiet(ISING, **options, folder=tmp_path / "whole")
    make_step = Run.make_step

    def save_halfway(run: Run) -> Tensor:
        if run.step == 6:
            run.shards[0].generator.manual_seed(3)  # as after some of the draws of a step
            checkpoint.save(tmp_path / "parts" / "checkpoint", *run.state())
            raise KeyboardInterrupt
        return make_step(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "make_step", save_halfway)
        with pytest.raises(KeyboardInterrupt):
            quiet(ISING, **options, folder=tmp_path / "parts")
    quiet(ISING, **options, folder=tmp_path / "parts", resume=True)
    whole, parts = (
        checkpoint.load(tmp_path / name / "checkpoint")[0] for name in ("whole", "parts")
    )
    with pytest.raises(AssertionError):
        check_same(whole, parts)


def test_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    config = small(ISING, "autoregressive", num_steps=2)
    with (
        sole_writer(tmp_path / "checkpoint"),
        pytest.raises(BusyError, match=f"is being written by process {os.getpid()} on"),
    ):
        quiet(ISING, config=config, folder=tmp_path)
    quiet(ISING, config=config, folder=tmp_path)


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    config = small(ISING, "autoregressive")
    quiet(ISING, config=config, steps=5, folder=tmp_path)
    quiet(ISING, config=config, steps=8, folder=tmp_path, resume=True)
    assert checkpoint.load(tmp_path / "checkpoint")[1]["step"] == 8


def test_only_the_same_run_can_be_resumed(tmp_path: Path) -> None:
    config = small(ISING, "autoregressive", num_steps=2)
    quiet(ISING, config=config, folder=tmp_path)
    for options in ({"seed": 1}, {"config": config.changed(method={"symmetric": False})}):
        with pytest.raises(ValueError, match="another config or seed"):
            quiet(ISING, **{"config": config, "folder": tmp_path, "resume": True, **options})
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        quiet(Ising(4, 0.3), config=config, folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="resume needs a folder"):
        quiet(ISING, config=config, resume=True)
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        quiet(ISING, config=config, folder=tmp_path / "nowhere", resume=True)


# -- what may go wrong -----------------------------------------------------------------------------


def break_steps(monkeypatch: pytest.MonkeyPatch, times: int, factor: float = torch.nan) -> list:
    """From step 5 on, the loss is NaN ``times`` times; the list fills with the rates after that."""
    make_step, rates = Run.make_step, []

    def broken(run: Run) -> Tensor:
        loss = run.shards[0].loss
        if run.step == 5 and len(rates) < times:
            run.shards[0].loss = lambda x, generator: tuple(
                part * factor if number == 0 else part
                for number, part in enumerate(loss(x, generator))
            )
            rates.append(run.rate)
        try:
            return make_step(run)
        finally:
            run.shards[0].loss = loss

    monkeypatch.setattr(Run, "make_step", broken)
    return rates


def test_divergence_goes_back_and_halves_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    rates = break_steps(monkeypatch, times=3)
    config = small(ISING, "autoregressive")
    model = quiet(ISING, config=config, folder=tmp_path)
    assert rates == [1, 0.5, 0.25]
    _, data = checkpoint.load(tmp_path / "checkpoint")
    assert (data["rate"], data["restarts"], data["step"]) == (0.125, 3, 40)
    assert all(bool(w.isfinite().all()) for w in model.module.parameters())
    said = capsys.readouterr().err
    assert said.count("back to step 0 at half the learning rate") == 3


def test_after_three_times_it_ends_and_keeps_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_steps(monkeypatch, times=9)
    config = small(ISING, "autoregressive")
    with pytest.raises(DivergedError, match=r"diverged 4 times, .*lower the learning rate"):
        quiet(ISING, config=config, folder=tmp_path)
    model = load(tmp_path / "checkpoint")
    assert all(bool(w.isfinite().all()) for w in model.module.parameters())


class BadSlope(torch.autograd.Function):
    """A number whose slope is not one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope * torch.nan


def test_weights_that_break_are_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is finite and its slope is not, at the last step."""
    make_step, broken = Run.make_step, []

    def breaking(run: Run) -> Tensor:
        loss = run.shards[0].loss
        if run.step == 9 and not broken:
            broken.append(True)
            run.shards[0].loss = lambda x, generator: (BadSlope.apply(loss(x, generator)[0]), x)
        try:
            return make_step(run)
        finally:
            run.shards[0].loss = loss

    monkeypatch.setattr(Run, "make_step", breaking)
    config = small(ISING, "autoregressive", num_steps=10)
    model = quiet(ISING, config=config)
    assert broken
    assert all(bool(w.isfinite().all()) for w in model.module.parameters())


def test_a_density_that_is_no_number_is_refused_before_training(tmp_path: Path) -> None:
    def density(x: Tensor) -> Tensor:
        return torch.where((x == 1).all(1), torch.nan, 3.0 * x.sum(1))

    target = from_callable(density, 6, 2)
    with pytest.raises(ValueError, match=r"nan at state \[1, 1, 1, 1, 1, 1\]"):
        quiet(target, preset="tiny", folder=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_a_damaged_checkpoint_is_refused_and_left_alone(damage: str, tmp_path: Path) -> None:
    config = small(ISING, "autoregressive", num_steps=2)
    quiet(ISING, config=config, folder=tmp_path)
    path = next((tmp_path / "checkpoint").glob("checkpoint-*")) / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content if damage == "flip" else content[:-9])
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        quiet(ISING, config=config, steps=5, folder=tmp_path, resume=True)
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """kill -9 at twenty moments of a run that saves at every step: what is there always loads, is
    never older than before, and is gone on from."""
    config = small(Ising(3, 0.3), "autoregressive", num_steps=1)
    quiet(Ising(3, 0.3), config=config, folder=tmp_path)
    options = {
        "config": config, "steps": 10**7, "folder": tmp_path, "resume": True,
        "checkpoint_every": 0, "progress": False,
    }  # fmt: skip
    fork = multiprocessing.get_context("fork")
    moments, steps = random.Random(0), [1]
    for _ in range(20):
        child = fork.Process(target=train, args=(Ising(3, 0.3),), kwargs=options)
        child.start()
        time.sleep(moments.uniform(0.05, 1.5))
        child.kill()
        child.join()
        assert child.exitcode == -9  # it was still at work
        tensors, data = checkpoint.load(tmp_path / "checkpoint")
        assert bool(tensors["now/network.w1"].isfinite().all())
        assert data["step"] >= steps[-1]
        steps.append(data["step"])
    assert steps[-1] > 50
    quiet(Ising(3, 0.3), config=config, steps=steps[-1] + 2, folder=tmp_path, resume=True)
    assert checkpoint.load(tmp_path / "checkpoint")[1]["step"] == steps[-1] + 2
