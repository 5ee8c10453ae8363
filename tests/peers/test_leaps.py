"""LEAPS against enumeration: rates, slopes, weights, training, files."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

import tcsis
from tcsis.basics.frozen import parse
from tcsis.learn.training import DivergedError
from tcsis.peers import leaps
from tcsis.peers.drive import drive
from tcsis.peers.leaps.model import FreeEnergy, LeapsConfig, LeapsModel, make_model
from tcsis.peers.leaps.training import LeapsLoss
from tcsis.peers.path import (
    Point,
    Weigh,
    continuous_weights,
    discrete_weights,
    jump,
    log_jump,
    log_volume,
    look,
)
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick, Target

F64 = {"dtype": torch.float64}
TARGETS: dict[str, Target] = {
    "ising": Ising(side=4, beta=0.4407, **F64),
    "large": Ising(side=10, beta=0.4407, **F64),
    "potts": Potts(side=3, num_values=3, beta=0.8, **F64),
    "open": Ising(side=(3, 4), beta=0.5, field=0.2, boundary="open", **F64),
    "graph": SherringtonKirkpatrick(5, beta=1.0, seed=1, **F64),
}
SMALL: dict[str, Target] = {
    "ising": Ising(side=(2, 3), beta=0.4, field=0.3, **F64),
    "potts": Potts(side=2, num_values=3, beta=0.4, **F64),
    "graph": SherringtonKirkpatrick(5, beta=0.7, seed=1, **F64),
}
QUICK = LeapsConfig(num_walkers=512, learning_rate=0.01, num_steps=150, num_evaluations=0)


def random_rates(target: Target, awake: Callable[..., nn.Module], scale: float = 0.1) -> LeapsModel:
    model = awake(make_model(LeapsConfig(width=8), target, seed=0), scale=scale)
    assert isinstance(model, LeapsModel)
    return model.requires_grad_(False)


def all_states(target: Target) -> Tensor:
    values = torch.arange(target.num_values)
    return torch.cartesian_prod(*[values] * target.num_sites)


def look_everywhere(model: LeapsModel, target: Target, t: float, stir: float = 0.0) -> Point:
    x = all_states(target)
    return look(model.rates, target, x, torch.full((len(x),), t, dtype=torch.float64), stir)


# -- rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_undoing_a_change_costs_what_making_it_gained(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    target = TARGETS[name]
    model = random_rates(target, awake)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(target.num_values, (4, target.num_sites), generator=generator)
    t = torch.tensor([0.0, 0.3, 0.8, 1.0], dtype=torch.float64)
    gain = look(model.rates, target, x, t).g
    assert gain.abs().max() > 0.1
    assert (gain.gather(-1, x[..., None]) == 0).all()
    for i in range(target.num_sites):
        for v in range(target.num_values):
            changed = x.clone()
            changed[:, i] = v
            back = look(model.rates, target, changed, t).g[:, i].gather(1, x[:, i : i + 1])
            torch.testing.assert_close(gain[:, i, v], -back.squeeze(1), rtol=0, atol=1e-6)


def test_time_matters_at_both_ends(awake: Callable[..., nn.Module]) -> None:
    target = TARGETS["ising"]
    model = random_rates(target, awake)
    x = torch.zeros(3, 16, dtype=torch.long)
    g = model.rates(x, torch.tensor([0.0, 0.5, 1.0]), torch.zeros(3, 16, 2))
    assert (g[0] - g[1]).abs().max() > 1e-2
    assert (g[1] - g[2]).abs().max() > 1e-2


def test_the_drive_carries_independent_sites_exactly() -> None:
    """With G = drive the slope K_t is the same at all states, for two values and for three."""
    generator = torch.Generator().manual_seed(0)
    for num_values in (2, 3):
        fields = torch.randn(3, num_values, dtype=torch.float64, generator=generator)
        target = tcsis.targets.Pairwise([], torch.zeros(0, num_values, num_values), fields, **F64)
        for t in (0.0, 0.4, 1.0):
            x = all_states(target)
            times = torch.full((len(x),), t, dtype=torch.float64)
            k = look(drive, target, x, times).slope
            torch.testing.assert_close(k, k[:1].expand_as(k), rtol=0, atol=1e-12)


def test_half_the_drive_is_exact_at_the_start_for_couplings_of_two() -> None:
    target = Ising(side=3, beta=0.5, **F64)
    k = look_everywhere(make_model(QUICK, target, seed=0).double(), target, 0.0).slope
    torch.testing.assert_close(k, k[:1].expand_as(k), rtol=0, atol=1e-12)


# -- the slope K_t ---------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", SMALL)
def test_the_slope_against_the_whole_generator(
    name: str, t: float, awake: Callable[..., nn.Module]
) -> None:
    """K = log p̄ + Σ_y Q(y|x) - Σ_y Q(x|y)·ρ(y)/ρ(x), each rate looked up where it starts."""
    target = SMALL[name]
    point = look_everywhere(random_rates(target, awake), target, t)
    index = {tuple(x): number for number, x in enumerate(point.x.tolist())}
    rates = torch.zeros(len(index), len(index), dtype=torch.float64)  # from row to column
    for here, x in enumerate(point.x.tolist()):
        for i in range(target.num_sites):
            for v in range(target.num_values):
                there = index[(*x[:i], v, *x[i + 1 :])]
                if there != here:
                    rates[here, there] = max(0.0, float(point.g[here, i, v]))
    assert rates.max() > 0.1
    log_rho = t * target.log_density(point.x)
    inflow = (log_rho.exp() @ rates) / log_rho.exp()
    expected = target.log_density(point.x) + rates.sum(1) - inflow
    torch.testing.assert_close(point.slope, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("t", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", SMALL)
def test_the_mean_slope_is_that_of_log_z_whatever_the_rates(
    name: str, t: float, awake: Callable[..., nn.Module]
) -> None:
    target = SMALL[name]
    point = look_everywhere(random_rates(target, awake), target, t)
    log_density = target.log_density(point.x)
    rho = (t * log_density).softmax(0)
    assert (point.slope - log_density).abs().max() > 0.5
    assert float(rho @ point.slope) == pytest.approx(float(rho @ log_density), abs=1e-10)


# -- the loss --------------------------------------------------------------------------------------


class TwoSpins(nn.Module):
    """Two spins with log p̄ = 1 where they agree, else 0, in closed form: Z_t = 2·(e^t + 1), and all
    flow goes from unequal to equal states, at a rate of sigmoid(t)/2 a spin.

    ``factor`` is that of the rates and ``offset`` that of the slope, 1 and 0 where they are right.
    """

    target = Pairwise([[0, 1]], torch.eye(2)[None], torch.zeros(2, 2), **F64)

    def __init__(self, factor: float = 1.0, offset: float = 0.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor, **F64))
        self.offset = nn.Parameter(torch.tensor(offset, **F64))
        self.slope = Slope(self.offset)

    def rates(self, x: Tensor, t: Tensor, ratios: Tensor) -> Tensor:
        moved = one_hot(1 - x, 2).double()
        unequal = (x[:, 0] != x[:, 1])[:, None, None]
        return torch.where(unequal, moved, -moved) * self.factor * t.sigmoid()[:, None, None] / 2


class Slope(nn.Module):
    """d/dt log Z_t = sigmoid(t), which needs no fit."""

    def __init__(self, offset: nn.Parameter) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, t: Tensor) -> Tensor:
        return t.sigmoid() + self.offset

    def fit(self, t: Tensor, values: Tensor) -> None:
        """Nothing."""


def loss_of(model: TwoSpins) -> LeapsLoss:
    config = LeapsConfig(num_walkers=64, num_times=4, refresh_every=1, num_sweeps=1)
    return LeapsLoss(model, model.target, config, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("step", [0, 1])
def test_the_loss_is_zero_at_the_exact_solution(step: int) -> None:
    """On any walkers, first or renewed, and so is its gradient.  With the slope off by a tenth the
    loss is a hundredth; other rates, none and turned ones have a loss as well."""
    model = TwoSpins()
    loss = loss_of(model)(step, 0.0)
    assert float(loss.detach()) < 1e-20
    for part in torch.autograd.grad(loss, [model.factor, model.offset]):
        assert abs(float(part)) < 1e-10
    assert float(loss_of(TwoSpins(offset=0.1))(step, 0.0).detach()) == pytest.approx(0.01)
    assert float(loss_of(TwoSpins(factor=0.0))(step, 0.0).detach()) > 1e-3
    for factor in (0.9, 1.1, -1.0):
        wrong = TwoSpins(factor)
        loss = loss_of(wrong)(step, 0.0)
        assert float(loss.detach()) > 1e-3
        (slope,) = torch.autograd.grad(loss, wrong.factor)
        assert float(slope) * (factor - 1) > 1e-3  # downhill lies the solution


def test_the_slope_starts_from_the_mean_of_k() -> None:
    """At the exact rates a polynomial fitted to it leaves 1e-10 of the loss; without the fit all of
    it is left."""
    model = TwoSpins()
    model.slope = FreeEnergy().double()
    loss = loss_of(model)
    t = torch.linspace(0, 1, 11, **F64)
    torch.testing.assert_close(model.slope(t).detach(), t.sigmoid(), rtol=0, atol=1e-5)
    assert float(loss(0, 0.0).detach()) < 1e-10
    model.slope.level.zero_()
    assert float(loss(0, 0.0).detach()) > 0.1


# -- steps and weights -----------------------------------------------------------------------------


def expand_pairs(here: Point, there: Point) -> tuple[Point, Point]:
    """All pairs of states, first ones in rows."""
    n = len(here.x)
    return here[torch.arange(n).repeat_interleave(n)], there[torch.arange(n).repeat(n)]


def exact_mean_weight(
    model: LeapsModel, target: Target, num_steps: int, weigh: Weigh, stir: float = 0.0
) -> tuple[float, Tensor]:
    """log E[w] of the discrete chain and its weighted law, by products of matrices."""
    times = [k / num_steps for k in range(num_steps + 1)]
    points = [look_everywhere(model, target, t, stir) for t in times]
    n = len(points[0].x)
    mass = torch.full((n,), 1 / n, dtype=torch.float64)
    for before, after in pairwise(points):
        here, there = expand_pairs(before, after)
        dt = torch.full((n * n,), 1 / num_steps, dtype=torch.float64)
        log_q = log_jump(here.forward_rates, here.x, there.x, dt)
        log_step = torch.where(log_q.isneginf(), log_q, log_q + weigh(here, there, dt))
        mass = mass @ log_step.exp().reshape(n, n)
    return float(mass.sum().log()) + log_volume(target), mass / mass.sum()


@pytest.mark.parametrize("weigh", [continuous_weights, discrete_weights])
@pytest.mark.parametrize("name", ["ising", "graph"])
def test_mean_weight_tends_to_z(name: str, weigh: Weigh, awake: Callable[..., nn.Module]) -> None:
    """Without any noise, for rates that were never trained."""
    target = SMALL[name]
    model = random_rates(target, awake)
    truth = tcsis.exact.solve(target).log_z
    law = target.log_density(all_states(target)).softmax(0)
    found = [exact_mean_weight(model, target, n, weigh) for n in (8, 32, 128)]
    biases = [abs(log_z - truth) for log_z, _ in found]
    distances = [float((mass - law).abs().sum()) / 2 for _, mass in found]
    assert biases[0] > 2 * biases[1] > 4 * biases[2]
    assert distances[0] > 2 * distances[1] > 4 * distances[2]
    assert biases[2] < 0.02
    assert distances[2] < 0.02


def test_a_jump_that_cannot_be_has_no_probability() -> None:
    """Also where the site may leave, but not for that value."""
    rates = torch.tensor([[[0.0, 2.0, 0.0]]], dtype=torch.float64)
    x, dt = torch.tensor([[0]]), torch.tensor([0.5], dtype=torch.float64)
    found = [log_jump(rates, x, torch.tensor([[v]]), dt).exp().item() for v in range(3)]
    assert found == pytest.approx([math.exp(-1), 1 - math.exp(-1), 0])
    assert log_jump(rates, x, torch.tensor([[2]]), dt).isneginf().all()


def test_ratios_beyond_all_numbers_count_only_where_the_chain_arrives() -> None:
    """Leaving a penalty of 1,000 has a ratio of e^1000, and no way back at this rate."""
    tilted = torch.tensor([[[0.0, 1000.0]]])
    point = Point(torch.zeros(1, 1, dtype=torch.long), torch.ones(1), torch.tensor([[[0.0, 3.0]]]),
                  tilted, torch.zeros(1))  # fmt: skip
    assert point.slope.item() == 3
    assert point.backward_rates.sum().item() == 0


@pytest.mark.parametrize("name", SMALL)
def test_discrete_weights_with_stirring_are_exact_at_any_number_of_steps(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    target = SMALL[name]
    model = random_rates(target, awake)
    law = target.log_density(all_states(target)).softmax(0)
    for num_steps in (1, 5):
        log_z, mass = exact_mean_weight(model, target, num_steps, discrete_weights, stir=0.5)
        assert log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=1e-10)
        torch.testing.assert_close(mass, law, rtol=0, atol=1e-10)


def test_stirring_leaves_the_path_as_it_is(awake: Callable[..., nn.Module]) -> None:
    """Stirring alone is in detailed balance with ρ_t: it is the same forth and back."""
    target = SMALL["ising"]
    model = random_rates(target, awake)
    still, stirred = (look_everywhere(model, target, 0.6, stir) for stir in (0.0, 2.0))
    assert torch.equal(stirred.slope, still.slope)
    log_rho = 0.6 * target.log_density(still.x)
    for i in range(target.num_sites):
        forth, back = flows(target, stirred.stirring, log_rho, i)
        torch.testing.assert_close(forth, back)
        assert forth.min() > 0


def test_backward_rates_carry_the_same_flow_as_forward_rates(
    awake: Callable[..., nn.Module],
) -> None:
    """ρ(x)·forward(x to y) = ρ(y)·backward(y to x)."""
    target = SMALL["ising"]
    point = look_everywhere(random_rates(target, awake), target, 0.6, stir=0.3)
    log_rho = 0.6 * target.log_density(point.x)
    for i in range(target.num_sites):
        forth, _ = flows(target, point.forward_rates, log_rho, i)
        _, back = flows(target, point.backward_rates, log_rho, i)
        torch.testing.assert_close(forth, back)


def flows(target: Target, rates: Tensor, log_rho: Tensor, i: int) -> tuple[Tensor, Tensor]:
    """ρ(x)·rate(x to y) and ρ(y)·rate(y to x) of all states x of spins, y with spin i turned."""
    x = all_states(target)
    turned = x.clone()
    turned[:, i] = 1 - x[:, i]
    flow = log_rho.exp() * rates[:, i].gather(1, turned[:, i : i + 1]).squeeze(1)
    place = 2 ** torch.arange(target.num_sites - 1, -1, -1)
    return flow, flow[(turned * place).sum(1)]


@pytest.mark.parametrize("name", SMALL)
def test_the_law_of_a_jump_is_normalised(name: str, awake: Callable[..., nn.Module]) -> None:
    target = SMALL[name]
    point = look_everywhere(random_rates(target, awake), target, 0.5)
    here, there = expand_pairs(point, point)
    for dt in (0.01, 0.3, 50.0):
        steps = torch.full((len(here.x),), dt, dtype=torch.float64)
        for rates in (here.forward_rates, here.backward_rates):
            total = log_jump(rates, here.x, there.x, steps).exp().reshape(len(point.x), -1).sum(1)
            torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["ising", "potts"])
def test_jumps_follow_their_law(name: str, awake: Callable[..., nn.Module]) -> None:
    """Frequencies of 50,000 jumps from one state; the bound is five standard errors of the most
    likely state and about 1e-6 a state."""
    target = SMALL[name]
    everywhere = look_everywhere(random_rates(target, awake), target, 0.5)
    n = 50_000
    start = everywhere[torch.full((1,), 5)]
    crowd, dt = start[torch.zeros(n, dtype=torch.long)], torch.full((n,), 0.7, dtype=torch.float64)
    y = jump(crowd, dt, torch.Generator().manual_seed(0))
    place = target.num_values ** torch.arange(target.num_sites - 1, -1, -1)
    seen = torch.bincount((y * place).sum(1), minlength=len(everywhere.x)) / n
    others = start[torch.zeros(len(everywhere.x), dtype=torch.long)]
    law = log_jump(others.forward_rates, others.x, everywhere.x, dt[: len(everywhere.x)]).exp()
    assert ((seen - law).abs() < 5 * (law / n).sqrt() + 1e-4).all()
    assert (law > 0.01).sum() > 5


@pytest.mark.statistical
def test_weighted_means_and_log_z_of_draws(awake: Callable[..., nn.Module]) -> None:
    """Within four standard errors (6e-5) of the truth, and a bias of 0.01 by 64 steps."""
    target = SMALL["ising"]
    model = leaps.Leaps(target, QUICK, random_rates(target, awake))
    draws = model.sample(4_000, calls=64, seed=3)
    truth = tcsis.exact.solve(target)
    assert draws.ess < 0.95
    assert abs(draws.log_z - truth.log_z) < 4 * draws.log_z_error + 0.01
    found = draws.weights @ target.log_density(draws.x)
    plain = float(target.log_density(draws.x).mean())
    assert abs(float(found) + truth.mean_energy) < 0.06
    assert abs(plain + truth.mean_energy) > 0.2


def test_costs_are_counted() -> None:
    target = Ising(side=3, beta=0.4)
    draws = leaps.Leaps(target, QUICK, make_model(QUICK, target, seed=0)).sample(50, calls=6)
    assert draws.x.dtype == torch.uint8
    assert draws.num_network_calls == 50 * 7
    assert draws.num_density_calls == 50 * 7 * 2
    assert draws.seconds > 0


# -- training --------------------------------------------------------------------------------------


def test_training_raises_the_effective_share() -> None:
    target = Ising(side=4, beta=0.4407)
    untrained = leaps.Leaps(target, QUICK, make_model(QUICK, target, seed=0)).sample(1_000)
    model = leaps.train(target, config=QUICK, seed=0, progress=False)
    draws = model.sample(1_000)
    truth = tcsis.exact.solve(target).log_z
    assert untrained.ess < 0.3
    assert draws.ess > 0.85
    assert draws.log_z == pytest.approx(truth, abs=0.05)
    assert model.free_energy_log_z == pytest.approx(truth, abs=0.1)
    assert model.seconds > 0
    assert model.num_density_calls > QUICK.num_steps * QUICK.batch_size


@pytest.mark.parametrize("name", ["potts", "graph", "open"])
def test_every_kind_of_target_trains(name: str) -> None:
    target = TARGETS[name].to(dtype=torch.float32)
    config = QUICK.model_copy(update={"num_evaluations": 2, "num_evaluated": 100, "batch_size": 64})
    model = leaps.train(target, config=config, steps=40, progress=False)
    untrained = leaps.Leaps(target, config, make_model(config, target, seed=0))
    before, after = (m.sample(400, calls=12) for m in (untrained, model))
    assert 1 - after.ess < 0.85 * (1 - before.ess)
    assert abs(after.log_z - tcsis.exact.solve(target).log_z) < 0.15
    assert [record["step"] for record in model.history] == [20, 40]


def test_a_function_of_the_users_own_trains() -> None:
    target = tcsis.targets.from_callable(lambda x: 0.3 * x.float().sum(-1), 4, num_values=3)
    model = leaps.train(target, config=QUICK, steps=3, progress=False)
    assert model.sample(20, calls=4).log_weight.isfinite().all()


def test_same_seed_same_draws_and_another_another() -> None:
    target = Ising(side=3, beta=0.4)
    first, again, other = (
        leaps.train(target, config=QUICK, seed=seed, steps=5, progress=False) for seed in (1, 1, 2)
    )
    draws = first.sample(100, calls=8, seed=4)
    assert torch.equal(draws.log_weight, again.sample(100, calls=8, seed=4).log_weight)
    assert not torch.equal(draws.log_weight, other.sample(100, calls=8, seed=4).log_weight)
    assert not torch.equal(draws.x, first.sample(100, calls=8, seed=5).x)


def test_a_time_budget_is_kept() -> None:
    target = Ising(side=3, beta=0.4)
    model = leaps.train(target, time_budget=2.0, progress=False)
    assert 2.0 <= model.seconds < 6.0
    assert model.history[-1]["learning_rate"] < 1e-3


def test_save_and_load(tmp_path: Path) -> None:
    target = Potts(side=2, num_values=3, beta=0.4)
    config = QUICK.model_copy(update={"kernel_sizes": (3, 5), "num_evaluations": 1})
    model = leaps.train(target, config=config, steps=5, progress=False)
    model.save(tmp_path)
    again = leaps.load(tmp_path)
    assert again.config == model.config
    assert again.config.kernel_sizes == (3, 5)
    assert (again.history, again.seconds) == (model.history, model.seconds)
    draws, same = model.sample(50, seed=1), again.sample(50, seed=1)
    assert torch.equal(draws.x, same.x)
    assert torch.equal(draws.log_weight, same.log_weight)
    assert again.free_energy_log_z == model.free_energy_log_z
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        leaps.load(tmp_path, target=Potts(side=2, num_values=3, beta=0.5))
    with pytest.raises(ValueError, match="holds no model"):
        tcsis.load(tmp_path)


def test_by_name_beside_other_methods() -> None:
    target = Ising(side=3, beta=0.4)
    found = tcsis.compare(target, ["gibbs", "leaps"], n=200, progress=False)
    assert found.methods["leaps"].x.shape == (200, 9)
    assert found.result.methods[1].training_seconds < found.methods["gibbs"].seconds + 2


# -- refusals --------------------------------------------------------------------------------------


def test_forbidden_noise_is_refused() -> None:
    def hard(x: Tensor) -> Tensor:
        return torch.where(x.sum(-1) > 1, -torch.inf, 0.0)

    target = tcsis.targets.from_callable(hard, 4, num_values=2)
    with pytest.raises(ValueError, match="log density -inf at states of uniform noise"):
        leaps.train(target, config=QUICK, progress=False)


def test_divergence_is_said() -> None:
    config = QUICK.model_copy(update={"learning_rate": 1e12})
    with pytest.raises(DivergedError, match="lower learning_rate"):
        leaps.train(Ising(side=3, beta=0.4), config=config, progress=False)


def test_bad_input() -> None:
    target = Ising(side=3, beta=0.4)
    model = leaps.Leaps(target, QUICK, make_model(QUICK, target, seed=0))
    with pytest.raises(ValueError, match="calls is 0: expected an integer"):
        model.sample(10, calls=0)
    with pytest.raises(ValueError, match="n is 0"):
        model.sample(0)
    with pytest.raises(ValueError, match="stir is -1: expected a rate"):
        model.sample(10, stir=-1)
    with pytest.raises(ValueError, match="time_budget is -1"):
        leaps.train(target, time_budget=-1, progress=False)
    with pytest.raises(ValueError, match=r"config\.width is wrong"):
        parse(LeapsConfig, {"width": 0})


@pytest.mark.statistical
def test_given_some_sites(tmp_path: Path) -> None:
    """log Z within 4.5 standard errors (7e-6), by weights that hold for any number of steps."""
    target = Ising(3, 0.3, field=0.2).given({0: 1, 1: 0, 5: 1})
    model = leaps.train(target, config=LeapsConfig(num_walkers=64), steps=5, progress=False)
    draws = model.sample(1_000, calls=8, stir=1.0, weigh=discrete_weights)
    assert not target.known.contradicted(draws.x).any()
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error)
    model.save(tmp_path)
    assert torch.equal(leaps.load(tmp_path).sample(20, calls=8).x, model.sample(20, calls=8).x)
