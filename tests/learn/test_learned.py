"""Trained models: the same after a file, with the target they belong to, and on other schedules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tcsis import reverse
from tcsis.exact import Enumeration
from tcsis.learn import checkpoint, presets
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.learned import Learned, load
from tcsis.learn.trainer import train
from tcsis.learn.training import Run
from tcsis.noise import LogLinear, UniformNoise
from tcsis.reverse import schedules
from tcsis.reverse.steps import euler, tweedie
from tcsis.targets import RBM, Ising, Pairwise, Potts, SpinGlass, Target, from_callable

METHODS = ["autoregressive", "any-time", "self-normalized", "unbiased"]
DIFFUSIONS = ["self-normalized", "unbiased"]


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def density(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x.double().cumsum(1)).sum(1)


TARGETS: dict[str, Target] = {
    "ising": Ising(3, 0.3),
    "potts": Potts((2, 3), 3, 0.5),
    "glass": SpinGlass(3, 0.5, seed=2),
    "pairwise": Pairwise([[0, 1], [1, 2], [2, 3]], normal(3, 2, 2, seed=0), normal(4, 2, seed=1)),
    "rbm": RBM(normal(4, 2, seed=2), normal(4, seed=3), normal(2, seed=4)),
    "callable": from_callable(density, 4, 3),
}


@pytest.fixture
def make(awake: Callable) -> Callable[..., Learned]:
    """A model of random weights, in the precision that it is saved in."""

    def making(target: Target, method: str, **changes: Any) -> Learned:
        few = {"num_calls": 6} if method in DIFFUSIONS else {}
        config = presets.tiny(target, method).changed(method={**few, **changes})
        module = awake(config.new_model(target, seed=0), scale=0.1)
        history = [{"step": 3, "ess": 0.5}]
        return Learned(target, config, module.float().eval(), history, 1.5, 700.0)

    return making


def test_a_model_is_shown_on_one_line(make: Callable) -> None:
    model = make(Ising(3, 0.3), "any-time")
    model.steps = 200
    assert repr(model) == "Learned(Ising(side=3, beta=0.3), any-time, 200 steps)"


# -- files -----------------------------------------------------------------------------------------


def test_what_a_file_does_not_say_is_the_default(make: Callable, tmp_path: Path) -> None:
    """A spec from before RBMs had a constant is that of an RBM without one."""
    target = TARGETS["rbm"]
    make(target, "autoregressive").save(tmp_path)
    tensors, data = checkpoint.load(tmp_path)
    assert data["target"].pop("constant") == 0
    checkpoint.save(tmp_path, tensors, data)
    assert load(tmp_path, target).target is target
    tensors["target/weights"] += 1
    checkpoint.save(tmp_path, tensors, data)
    with pytest.raises(ValueError, match="target has other weights than the saved model"):
        load(tmp_path, target)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_draws_the_same(
    method: str, name: str, make: Callable, tmp_path: Path
) -> None:
    target = TARGETS[name]
    model = make(target, method)
    model.save(tmp_path)
    again = load(tmp_path, target if name == "callable" else None)
    assert again.config == model.config
    assert (again.history, again.seconds, again.num_density_calls) == (
        model.history, model.seconds, model.num_density_calls,
    )  # fmt: skip
    here, there = model.sample(40, seed=1), again.sample(40, seed=1)
    assert torch.equal(here.x, there.x)
    assert torch.equal(here.log_weight, there.log_weight)
    assert here.num_density_calls == there.num_density_calls
    assert here.num_network_calls == there.num_network_calls > 0
    assert not torch.equal(here.x, model.sample(40, seed=2).x)


@pytest.mark.parametrize("method", DIFFUSIONS)
def test_what_a_run_is_averaged_to_counts_its_densities(method: str, tmp_path: Path) -> None:
    """The model in training and the same one from a file tell the same cost."""
    target = TARGETS["rbm"]
    run = Run(target, presets.tiny(target, method), seed=0, time_budget=None)
    model = run.learned()
    model.save(tmp_path)
    costs = [m.sample(10, calls=4).num_density_calls for m in (model, load(tmp_path))]
    assert costs[0] == costs[1] > 10


def test_a_function_has_to_be_passed_again(make: Callable, tmp_path: Path) -> None:
    make(TARGETS["callable"], "autoregressive").save(tmp_path)
    with pytest.raises(ValueError, match=r"pass the target, as in tcsis.load"):
        load(tmp_path)
    with pytest.raises(ValueError, match="num_sites = 5 and the saved model 4"):
        load(tmp_path, from_callable(density, 5, 3))
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        load(tmp_path, Ising(2, 0.3))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("ising", Ising(3, 0.31)),
        ("ising", Ising(4, 0.3)),
        ("ising", Potts(3, 2, 0.3)),
        ("glass", SpinGlass(3, 0.5, seed=3)),
        ("pairwise", TARGETS["pairwise"].scaled(1.1)),
        ("rbm", RBM(normal(4, 2, seed=2), normal(4, seed=3), normal(2, seed=5))),
    ],
)  # fmt: skip
def test_another_target_is_refused(
    name: str, other: Target, make: Callable, tmp_path: Path
) -> None:
    make(TARGETS[name], "autoregressive").save(tmp_path)
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        load(tmp_path, other)
    assert load(tmp_path, TARGETS[name]).target is TARGETS[name]


def test_what_is_no_model_is_refused(make: Callable, tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "other", {}, {"step": 3})
    with pytest.raises(CheckpointError, match="holds no model"):
        load(tmp_path / "other")
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        load(tmp_path / "nowhere")
    make(TARGETS["ising"], "autoregressive").save(tmp_path / "model")
    tensors, data = checkpoint.load(tmp_path / "model")
    del tensors["model/network.w1"]
    checkpoint.save(tmp_path / "model", tensors, data)
    with pytest.raises(CheckpointError, match="do not fit the model") as caught:
        load(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_older_methods_is_refused_in_one_sentence(
    make: Callable, tmp_path: Path
) -> None:
    make(TARGETS["ising"], "autoregressive").save(tmp_path)
    tensors, data = checkpoint.load(tmp_path)
    data["config"]["method"] = "self-normalized"  # as they were told apart before
    checkpoint.save(tmp_path, tensors, data)
    with pytest.raises(CheckpointError, match="whose methods went by other names") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


# -- draws -----------------------------------------------------------------------------------------


def test_the_autoregressive_method_has_one_schedule(make: Callable) -> None:
    model = make(TARGETS["ising"], "autoregressive")
    assert len(model.module.order) == 6
    assert model.sample(5).num_network_calls == 5 * 6
    assert torch.equal(model.schedule().times, model.module.schedule.times)
    parallel = schedules.parallel(9, [1.0, 0.5, 0.0])
    for options in ({"calls": 5}, {"calls": 6}, {"schedule": parallel}, {"step": euler}):
        with pytest.raises(ValueError, match="one call for each of its 6 sites: leave them out"):
            model.sample(5, **options)
    with pytest.raises(ValueError, match="n is 0"):
        model.sample(0)


@pytest.mark.parametrize("method", DIFFUSIONS)
def test_diffusions_take_as_many_calls_as_asked(method: str, make: Callable) -> None:
    model = make(TARGETS["ising"], method, step="tweedie")
    assert model.sample(10).num_network_calls == 10 * 6
    assert model.sample(10, calls=3).num_network_calls == 10 * 3
    assert model.sample(10, step=tweedie, calls=3, batch_size=4).x.shape == (10, 9)
    corrected = make(TARGETS["ising"], method, step="trapezoidal")
    assert corrected.sample(200, calls=24).num_network_calls == pytest.approx(200 * 24, rel=0.2)


SCORES = {"objective": "score-entropy", "noise_eps": 1e-3}
NO_CROWD = {"preconditioning": {"kind": "density"}}
SCHEDULES = {
    "parallel": schedules.parallel(9, [1.0, 0.6, 0.2, 0.0]),
    "sequential": schedules.sequential([4, 0, 8, 2, 6, 1, 3, 5, 7]),
    "blockwise": schedules.blockwise([[4], [0, 8], [2, 6], [1, 3, 5, 7]]),
    "coloured": schedules.coloured(TARGETS["ising"]),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "changes", "schedule"),
    [
        *(("self-normalized", {}, name) for name in SCHEDULES),
        # a score that is wrong near t = 1 leaves values out, so only where none is needed there
        ("self-normalized", {**SCORES, "network": {"kind": "lattice", "width": 8}}, "parallel"),
        # states of a crowd that has not been gathered make for weights of little use
        ("unbiased", {"scores": "assembled", **NO_CROWD}, "parallel"),
    ],
)
def test_diffusions_serve_any_schedule(
    method: str, changes: dict, schedule: str, make: Callable
) -> None:
    """E[w] = Z with random weights: log Z from 1,000 draws within 4.5 standard errors, 7e-6."""
    target = TARGETS["ising"]
    model = make(target, method, **changes)
    made = SCHEDULES[schedule]
    draws = model.sample(1_000, schedule=made, step=tweedie, seed=4, batch_size=1_000)
    assert 0.05 < draws.ess < 0.999
    assert abs(draws.log_z - Enumeration(target).log_z) < 4.5 * draws.log_z_error


@pytest.mark.statistical
def test_the_denoiser_serves_the_reverse_loop_with_other_noise(make: Callable) -> None:
    """The weights hold for whatever noise the loop uses: E[w] = Z within 4.5 standard errors."""
    model = make(TARGETS["ising"], "self-normalized")
    noise = UniformNoise(2, LogLinear(eps=0.2))
    grid = schedules.uniform_grid(noise, 6)
    draws = reverse.sample(
        model.target, model.denoiser, noise, schedules.parallel(9, grid), n=1_000, seed=0
    )
    assert abs(draws.log_z - Enumeration(model.target).log_z) < 4.5 * draws.log_z_error


def test_a_run_folder_loads_like_its_checkpoint(tmp_path: Path) -> None:
    model = train(TARGETS["ising"], preset="tiny", steps=2, folder=tmp_path / "run", progress=False)
    for folder in (tmp_path / "run", str(tmp_path / "run"), tmp_path / "run" / "checkpoint"):
        assert torch.equal(load(folder).sample(50, seed=1).x, model.sample(50, seed=1).x)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .*, or that of a run"):
        load(tmp_path)
