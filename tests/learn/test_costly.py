"""Costly densities: what training asks for, counted by the function itself."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn

import tcsis
from tcsis.draws import NUM_WITNESSES
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.learn import presets
from tcsis.learn.asks import DENSITIES, RATIOS, Asks
from tcsis.learn.autoregressive import Autoregressive, by_conditionals
from tcsis.learn.buffers import Buffer, PopulationAnnealing, Uniform
from tcsis.learn.learned import Learned
from tcsis.learn.models.causal_law import CausalLaw
from tcsis.learn.warming import Warming
from tcsis.targets import Ising, Target, from_callable
from tcsis.targets.base import counting
from tcsis.targets.remembered import Remembered

BATCH, STEPS = 64, 24


class Counted(nn.Module):
    """A small network, log p̄ = Σ tanh(W·one-hot), which counts the states that it is asked for."""

    def __init__(self, d: int, v: int):
        super().__init__()
        generator = torch.Generator().manual_seed(d + v)
        self.w = nn.Parameter(torch.randn(d * v, 8, generator=generator, dtype=torch.float64))
        self.v, self.num_states = v, 0

    def forward(self, x: Tensor) -> Tensor:
        self.num_states += len(x)
        z = nn.functional.one_hot(x, self.v).double().flatten(1)
        return torch.tanh(z @ self.w / 2).sum(1)


def trained(d: int, v: int, method: str = "autoregressive", **options: bool) -> Learned:
    """A short run on a network, which was asked for as many states as were counted."""
    network = Counted(d, v)
    target = from_callable(network, d, v, **options)
    network.num_states = 0
    config = presets.fast(target, method).changed(
        method={"width": 8}, optimisation={"batch_size": BATCH}, num_steps=STEPS,
        num_evaluations=1, num_evaluated=100, buffer={"size": 256},
    )  # fmt: skip
    before = network.num_states
    model = tcsis.train(target, config=config, progress=False)
    left_out = network.num_states - before - model.num_density_calls
    # those that sign the draws of the evaluation, and the population where one is annealed
    assert left_out == NUM_WITNESSES * (2 if config.method.asks is RATIOS else 1)
    return model


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["autoregressive", "any-time"])
def test_calls_a_state_grow_neither_with_sites_nor_with_values(method: str) -> None:
    sizes = [(8, 2), (16, 2), (32, 2), (16, 5)]
    calls = [trained(d, v, method, costly=True).evaluated for d, v in sizes]
    parts = ("annealing", "fitting", "training", "evaluation")
    of_steps = [one["training"] / (STEPS * BATCH) for one in calls]
    moves = Warming().num_moved / (Warming().every * BATCH)
    # a draw beside every state, or three beside every second one where evidence is given
    assert max(of_steps) <= moves + (1.0 if method == "autoregressive" else 1.5)
    assert min(of_steps[1:]) > 0.9
    whole = [sum(one[part] for part in parts) for one in calls]
    assert max(whole) < 1.1 * min(whole[1:])  # 8 sites have 256 states, most of them remembered
    assert max(one["set-up"] for one in calls) < 2_000  # recognition: a few times d·V, once


def test_ratios_cost_in_proportion() -> None:
    """The control: what is not costly is asked for all neighbours."""
    few, many = (trained(d, 2, costly=False) for d in (8, 16))
    assert few.config.method.asks is RATIOS
    assert many.evaluated["training"] > 1.5 * few.evaluated["training"] > 8 * STEPS * BATCH


def test_the_account_shows_densities() -> None:
    model = trained(8, 2, costly=True)
    assert f"{model.evaluated['training']:,.0f} densities" in model.account
    assert model.account.endswith(f"{model.calls_per_state:.3g} densities a state")
    assert model.calls_per_state == model.num_density_calls / (STEPS * BATCH)
    assert sum(model.evaluated.values()) == model.num_density_calls


def test_recognition_is_counted() -> None:
    num_states = 0

    def log_density(x: Tensor) -> Tensor:
        nonlocal num_states
        num_states += len(x)
        return (x[:, 1:] * x[:, :-1]).sum(1).double()

    for evidence in ({}, {0: 1}):
        target = from_callable(log_density, 9, 2)
        target = target.given(evidence) if evidence else target
        num_states = 0
        model = tcsis.train(target, preset="tiny", steps=2, progress=False)
        assert model.evaluated["set-up"] >= 9 * 8 / 2
        assert num_states - model.num_density_calls == NUM_WITNESSES


# -- who is costly ---------------------------------------------------------------------------------


def test_a_slow_function_is_costly_and_a_quick_one_is_not() -> None:
    def slow(x: Tensor) -> Tensor:
        time.sleep(1e-4 * len(x))
        return x.sum(1).double()

    def quick(x: Tensor) -> Tensor:
        return x.sum(1).double()

    assert from_callable(slow, 4, 2).costly
    assert not from_callable(quick, 4, 2).costly
    assert not from_callable(slow, 4, 2, costly=False).costly
    assert from_callable(quick, 4, 2, costly=True).costly
    assert from_callable(quick, 4, 2, costly=True).given({0: 1}).free.costly


def test_presets_go_by_it() -> None:
    network = Counted(10, 2)
    costly, cheap = (from_callable(network, 10, 2, costly=said) for said in (True, False))
    for method in ("autoregressive", "any-time"):
        config = presets.fast(costly, method)
        assert config.method.asks is DENSITIES and isinstance(config.buffer, Warming)
        assert config.changed() == config  # through plain data and back
        config = presets.fast(cheap, method)
        assert config.method.asks is RATIOS and isinstance(config.buffer, PopulationAnnealing)
    pairs = from_callable(lambda x: (x[:, 1:] * x[:, :-1]).sum(1).double(), 6, 2, costly=True)
    assert isinstance(presets.fast(pairs).buffer, PopulationAnnealing)  # for it is recognised
    assert isinstance(presets.tiny(costly).buffer, Warming)


# -- what is compared ------------------------------------------------------------------------------


class Shifted(Asks):
    """A wrong one: the value that is there, counted d times as a site picked at random would be."""

    asked, last, num_compared = DENSITIES.asked, DENSITIES.last, DENSITIES.num_compared

    def laws(self, target: Target, x: Tensor, sites: Tensor) -> Tensor:
        return DENSITIES.laws(target, x, sites) + torch.tensor(3.0).log()


def mean_slope(asks: Asks, target: Target, model: CausalLaw, p: Tensor) -> Tensor:
    """∇ Σ_x weight(x)·C(x) in all weights, (n,)."""
    table = Enumeration(target)
    x = table.states(torch.arange(table.num_states))
    buffer = Buffer(Uniform(), target)
    parts = [by_conditionals(model, asks, buffer, row[None], torch.Generator())[0] for row in x]
    slopes = torch.autograd.grad((p * torch.stack(parts)).sum(), list(model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes])


@pytest.mark.parametrize("v", [2, 3])
def test_values_and_ratios_have_the_same_mean_slope(v: int, awake: Callable) -> None:
    """Under p, by enumeration; with a wrong factor, or under another law, they differ."""
    target = from_callable(Counted(4, v), 4, v)
    model = awake(Autoregressive(width=4, asks=DENSITIES).model(target)).double()
    assert model.last is None
    p = Enumeration(target).p
    by_ratios = mean_slope(RATIOS, target, model, p)
    torch.testing.assert_close(mean_slope(DENSITIES, target, model, p), by_ratios)
    assert float((mean_slope(Shifted(), target, model, p) - by_ratios).abs().max()) > 1e-2
    even = torch.full_like(p, 1 / len(p))
    apart = mean_slope(DENSITIES, target, model, even) - mean_slope(RATIOS, target, model, even)
    assert float(apart.abs().max()) > 1e-2


# -- memory ----------------------------------------------------------------------------------------


def test_no_state_is_evaluated_twice_while_it_is_remembered() -> None:
    network = Counted(6, 3)
    target = from_callable(network, 6, 3)
    memory = Remembered(target, capacity=50)
    x = torch.randint(3, (40, 6), generator=torch.Generator().manual_seed(0))
    num = len(x.unique(dim=0))
    network.num_states = 0
    with counting(target) as cost, counting(memory) as own:
        first = memory.log_density(x)
        assert torch.equal(first, memory.log_density(x.flip(0)).flip(0))
        half = memory.scaled(0.5).log_density(x.reshape(4, 10, 6))
    assert cost.densities == own.densities == network.num_states == num
    torch.testing.assert_close(first, target.log_density(x))
    torch.testing.assert_close(half.flatten(), first / 2)
    torch.testing.assert_close(memory.log_ratios(x), target.log_ratios(x))
    network.num_states = 0
    assert len(memory.values) == 50  # and the neighbours took the places of the states
    memory.log_density(x)
    assert 0 < network.num_states <= num


def test_forbidden_states_are_remembered_too() -> None:
    def log_density(x: Tensor) -> Tensor:
        return torch.where(x.sum(1) == 2, -torch.inf, x[:, 0].double())

    target = from_callable(log_density, 4, 2)
    x = Enumeration(target).states(torch.arange(16))
    memory = Remembered(target, 100)
    for _ in range(2):
        assert torch.equal(memory.log_density(x), target.log_density(x))
    assert torch.equal(memory.log_ratios(x), target.log_ratios(x))


# -- warming ---------------------------------------------------------------------------------------

LATTICE = Ising(3, 0.4, 0.2, dtype=torch.float64)
TABLE = Enumeration(LATTICE)


def distance(x: Tensor, scale: float) -> float:
    """χ² of states x to p̄^scale, over the bound of false alarms at 1e-5."""
    log_p = scale * LATTICE.log_density(TABLE.states(torch.arange(512)))
    expected = len(x) * log_p.softmax(0)
    counts = torch.bincount(state_index(x, 2), minlength=512).double()
    return float(((counts - expected).square() / expected).sum() / chi2.isf(1e-5, 511))


@pytest.mark.statistical
def test_states_are_resampled_to_the_scale() -> None:
    """From noise along twenty rungs, with moves between; false alarms 1e-5.  A population that is
    resampled by p̄^scale at every rung, and not by what is added, must fail."""
    generator = torch.Generator().manual_seed(0)
    source = Warming(size=50_000, num_moved=50_000, num_steps=20, warm=1.0, every=1)
    buffer = Buffer(source, LATTICE)
    buffer.start(generator)
    assert buffer.scale == 0
    for step in range(1, 11):
        buffer.refresh(step, step / 20, None, generator)
    assert buffer.scale == 0.5 and distance(buffer.all, 0.5) < 1
    assert distance(buffer.all, 0.6) > 1
    wrong = Buffer(source, LATTICE, buffer.all.clone())
    for step in range(1, 6):
        wrong.scale = 0.0
        wrong.warm_to(step / 10, generator)
    assert distance(wrong.all, 0.5) > 1


def test_the_scale_rises_and_stays() -> None:
    source = Warming(warm=0.25)
    assert [source.scale(p) for p in (0.0, 0.1, 0.25, 0.7, 1.0)] == [0.0, 0.4, 1.0, 1.0, 1.0]
    assert PopulationAnnealing().scale(0.0) == 1.0
    with pytest.raises(ValueError, match="warm"):
        Warming(warm=0.0)


def test_a_run_that_is_resumed_ends_the_same(tmp_path: Path) -> None:
    """Also where it is stopped half-way up, at a scale of its own."""

    class StopError(Exception):
        pass

    target = from_callable(Counted(14, 2), 14, 2, costly=True)
    config = presets.tiny(target).changed(num_steps=20)
    whole = tcsis.train(target, config=config, progress=False)
    asked, network = 0, target.function

    def stopping(x: Tensor) -> Tensor:
        nonlocal asked
        asked += 1
        if asked == 30:
            raise StopError
        return network(x)

    target.function = stopping
    with pytest.raises(StopError):
        tcsis.train(target, config=config, folder=tmp_path, checkpoint_every=0, progress=False)
    target.function = network
    again = tcsis.train(target, config=config, folder=tmp_path, resume=True, progress=False)
    assert again.steps == whole.steps == 20
    for one, other in zip(whole.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, other)


# -- all of it -------------------------------------------------------------------------------------


def test_a_network_is_learned() -> None:
    """Twelve sites, exact log Z, a call or so a state."""
    target = from_callable(Counted(12, 2), 12, 2, costly=True)
    config = presets.fast(target).changed(num_steps=400, num_evaluations=0)
    model = tcsis.train(target, config=config, progress=False)
    draws = model.sample(4_000, seed=1)
    assert draws.ess > 0.9
    assert abs(draws.log_z - Enumeration(target).log_z) < 5 * draws.log_z_error
    assert model.calls_per_state < 1.3
