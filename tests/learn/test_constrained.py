"""From a function to trained draws in seconds: constraints, strong fields and many values."""

import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.learn import checkpoint, presets
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import train
from tcsis.learn.training import Run
from tcsis.targets import Ising, Pairwise, Target, from_callable

EDGES = torch.tensor([[i, (i + k) % 10] for i in range(10) for k in (1, 4)])


def independent(x: Tensor) -> Tensor:
    both = (x[:, EDGES] == 1).all(-1).any(1)
    return torch.where(both, -torch.inf, 0.5 * x.sum(1).double())


def hot(x: Tensor) -> Tensor:
    fields = 0.3 * torch.arange(8)
    return torch.where(x.sum(1) == 3, (fields * x).sum(1).double(), -torch.inf)


def many_values(edges: list[list[int]]) -> Pairwise:
    """Four sites of 12 values."""
    generator = torch.Generator().manual_seed(0)
    tables = 0.5 * torch.randn(len(edges), 12, 12, generator=generator)
    return Pairwise(edges, tables, 0.5 * torch.randn(4, 12, generator=generator))


TARGETS: dict[str, tuple[Target, float]] = {  # with the ESS that is asked for
    "independent sets": (from_callable(independent, 10, 2), 0.93),
    "3 of 8 hot": (from_callable(hot, 8, 2), 0.85),
    "strong field": (Ising(3, 0.4, field=1.0), 0.98),
    "ring of 12 values": (many_values([[0, 1], [1, 2], [2, 3], [3, 0]]), 0.95),
    "chain of 12 values": (many_values([[0, 1], [1, 2], [2, 3]]), 0.999),
}


def config_of(target: Target, **changes: object) -> Config:
    return presets.tiny(target).changed(**changes)


def quiet(target: Target, config: Config, **options: object) -> Learned:
    return train(target, config=config, progress=False, **options)


@pytest.mark.statistical
@pytest.mark.parametrize("name", TARGETS)
def test_a_tiny_run_is_enough(name: str) -> None:
    """Fixed seeds; log Z within 5 standard errors, false alarms 6e-7."""
    target, least = TARGETS[name]
    model = quiet(target, config_of(target))
    draws = model.sample(2_000, seed=1)
    assert draws.log_weight is not None
    assert draws.ess > least
    assert float(draws.log_weight.isneginf().double().mean()) < 0.05
    log_z = Enumeration(target).log_z
    assert abs(draws.log_z - log_z) < 5 * draws.log_z_error + 1e-6
    for record in model.history:
        assert 0 <= record["leak"] < 0.2
        assert 0 <= record["missed"] < 0.2


def test_constraints_are_recognised_or_not() -> None:
    """So that both ways are tried above."""
    assert isinstance(TARGETS["independent sets"][0].sketch, Pairwise)
    black_box = TARGETS["3 of 8 hot"][0]
    assert black_box.sketch is black_box


@pytest.mark.parametrize("name", ["independent sets", "3 of 8 hot"])
def test_a_constrained_run_goes_on_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS[name][0]
    config = config_of(target, num_steps=16, num_evaluations=0)
    quiet(target, config, folder=tmp_path / "whole")
    make_step = Run.make_step

    def stopped(run: Run) -> Tensor:
        if run.step == 9:  # heard when the step is made
            signal.raise_signal(signal.SIGINT)
        return make_step(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "make_step", stopped)
        with pytest.raises(KeyboardInterrupt):
            quiet(target, config, folder=tmp_path / "parts")
    assert checkpoint.load(tmp_path / "parts" / "checkpoint")[1]["step"] == 10
    quiet(target, config, folder=tmp_path / "parts", resume=True)
    (whole, data), (parts, again) = (
        checkpoint.load(tmp_path / part / "checkpoint") for part in ("whole", "parts")
    )
    assert data["step"] == again["step"] == 16
    assert whole.keys() == parts.keys()
    for key in whole:
        assert torch.equal(whole[key], parts[key]), key
    assert torch.isfinite(target.log_density(whole["buffer"].long())).all()
