"""Shares of modes that buffer and model have, against shares that are known."""

import pytest
import torch
from torch import Tensor

from tcsis.draws import Draws
from tcsis.learn import modes, presets
from tcsis.learn.training import Run
from tcsis.targets import from_callable


def two_wells(n: int, share: float, seed: int, num_values: int = 2) -> Tensor:
    """States (n, 12) near all 0, and a given share of them near all 1."""
    generator = torch.Generator().manual_seed(seed)
    first = (torch.arange(n) < share * n)[:, None].long()
    noise = torch.rand(n, 12, generator=generator) < 0.1
    return torch.where(noise, torch.randint(num_values, (n, 12), generator=generator), first)


@pytest.mark.parametrize("num_values", [2, 4])
def test_shares_are_those_of_the_wells(num_values: int) -> None:
    buffer = two_wells(2_000, 0.3, 0, num_values)
    draws = Draws(two_wells(2_000, 0.3, 1, num_values).to(torch.uint8), torch.zeros(2_000))
    found = modes.shares(buffer, draws, num_values)
    assert found is not None
    assert min(found[0], 1 - found[0]) == pytest.approx(0.3, abs=0.01)
    assert found[1] == pytest.approx(found[0], abs=0.01)
    assert modes.warning(*found) is None


def test_weights_count() -> None:
    """Half of the draws in each well, with weights that make it 0.9 and 0.1."""
    x = two_wells(4_000, 0.5, 1)
    log_weight = torch.where(x.sum(1) > 6, 0.9, 0.1).double().log()
    found = modes.shares(two_wells(2_000, 0.5, 0), Draws(x.to(torch.uint8), log_weight), 2)
    assert found is not None
    assert abs(found[1] - found[0]) == pytest.approx(0.4, abs=0.02)
    said = modes.warning(*found)
    assert said is not None and "a mode may be lost or overrated" in said


def test_a_mode_that_the_buffer_has_lost_shows() -> None:
    draws = Draws(two_wells(2_000, 0.3, 1).to(torch.uint8), torch.zeros(2_000))
    found = modes.shares(two_wells(2_000, 0.0, 0), draws, 2)
    assert found is not None and modes.warning(*found) is not None


def test_few_draws_say_nothing() -> None:
    draws = Draws(two_wells(100, 0.3, 1).to(torch.uint8), torch.zeros(100))
    assert modes.shares(two_wells(2_000, 0.0, 0), draws, 2) is None
    assert modes.shares(two_wells(2_000, 0.0, 0), Draws(draws.x), 2) is None


def test_training_warns(capsys: pytest.CaptureFixture[str]) -> None:
    """A run whose buffer is put into one well at the end says so, and keeps both shares."""

    def log_density(x: Tensor) -> Tensor:
        ones = x.double().sum(1)
        return torch.logaddexp(-3 * ones, -3 * (6 - ones))

    target = from_callable(log_density, 6, 2)
    config = presets.tiny(target).changed(num_evaluated=2_000, num_steps=30)
    run = Run(target, config, seed=0, time_budget=None)
    for step in run.steps():
        if step == 29:
            run.buffer.states = torch.zeros_like(run.buffer.all)
            run.shards[0].loss = lambda x, generator: (run.model.network.bias.sum() * 0.0, x)
    assert abs(run.history[-1]["buffer_share"] - run.history[-1]["model_share"]) > 0.3
    assert "buffer and model disagree" in capsys.readouterr().err.replace("\n", " ")
