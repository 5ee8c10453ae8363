"""DNFS against enumeration: its rates, its residual, its weights, training, files."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tcsis
from tcsis.peers import dnfs
from tcsis.peers.dnfs import DnfsConfig
from tcsis.peers.dnfs.model import EquivariantTransformer, make_model
from tcsis.peers.dnfs.training import Replay, residual
from tcsis.peers.drive import drive
from tcsis.peers.path import Point, Rates, Weigh, discrete_weights, log_jump, log_volume, look
from tcsis.targets import Ising, Pairwise, Potts, SherringtonKirkpatrick, Target, from_callable

F64 = {"dtype": torch.float64}
LEVELS = ("trusted", "trusted by weight", "unrefuted", "doubtful")
TARGETS: dict[str, Target] = {
    "ising": Ising(side=4, beta=0.4407, **F64),
    "potts": Potts(side=3, num_values=3, beta=0.8, **F64),
    "cold": Potts(side=3, num_values=3, beta=8.0, **F64),  # ratios beyond the largest drive
    "open": Ising(side=(3, 4), beta=0.5, field=0.2, boundary="open", **F64),
    "graph": SherringtonKirkpatrick(5, beta=1.0, seed=1, **F64),
}
SMALL: dict[str, Target] = {
    "ising": Ising(side=2, beta=0.4, field=0.3, **F64),
    "potts": Pairwise([[0, 1]], torch.eye(3)[None], torch.zeros(2, 3), **F64),
    "graph": SherringtonKirkpatrick(4, beta=0.7, seed=1, **F64),
}
QUICK = DnfsConfig(width=16, num_kept=2, num_paths=32, num_times=12, num_evaluations=0)
SHORT = QUICK.model_copy(update={"width": 8, "heads": 2, "depth": 1, "num_steps": 5})


def all_states(target: Target) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(target.num_values)] * target.num_sites)


def random_rates(target: Target, awake: Callable[..., nn.Module]) -> EquivariantTransformer:
    model = awake(make_model(DnfsConfig(width=8, heads=2), target, seed=0), scale=0.2)
    assert isinstance(model, EquivariantTransformer)
    return model.requires_grad_(False)


def look_everywhere(rates: Rates, target: Target, t: float, stir: float = 0.0) -> Point:
    x = all_states(target)
    return look(rates, target, x, torch.full((len(x),), t, **F64), stir)


def independent(num_values: int) -> Pairwise:
    generator = torch.Generator().manual_seed(0)
    fields = torch.randn(3, num_values, **F64, generator=generator)
    return Pairwise([], torch.zeros(0, num_values, num_values), fields, **F64)


# -- rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_undoing_a_change_costs_what_making_it_gained(
    name: str, awake: Callable[..., nn.Module]
) -> None:
    target = TARGETS[name]
    model = random_rates(target, awake)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(target.num_values, (4, target.num_sites), generator=generator)
    t = torch.tensor([0.0, 0.3, 0.8, 1.0], **F64)
    gain = look(model, target, x, t).g
    assert gain.abs().max() > 0.1
    assert (gain.gather(-1, x[..., None]) == 0).all()
    for i in range(target.num_sites):
        for v in range(target.num_values):
            changed = x.clone()
            changed[:, i] = v
            back = look(model, target, changed, t).g[:, i].gather(1, x[:, i : i + 1])
            torch.testing.assert_close(gain[:, i, v], -back.squeeze(1), rtol=0, atol=1e-6)


def test_features_read_every_site_but_their_own(awake: Callable[..., nn.Module]) -> None:
    target = TARGETS["graph"]
    model = random_rates(target, awake)
    d = target.num_sites
    z = torch.randn(1, d, 1, **F64, requires_grad=True)
    h = model.features(z, torch.tensor([0.4], **F64), torch.zeros(1, d, 2, **F64))
    for i in range(d):
        (read,) = torch.autograd.grad(h[0, i].square().sum(), z, retain_graph=True)
        assert (read.abs()[0, :, 0] > 0).tolist() == [j != i for j in range(d)]


# -- the residual ----------------------------------------------------------------------------------


def everywhere(target: Target, times: list[float]) -> tuple[Tensor, Tensor]:
    x = all_states(target)
    return x.expand(len(times), *x.shape), torch.tensor(times, **F64)


@pytest.mark.parametrize("num_values", [2, 3])
def test_the_residual_is_zero_where_the_rates_are_exact(num_values: int) -> None:
    """Independent sites, which the drive carries along; twice, half or turned it does not."""
    target = independent(num_values)
    batch = everywhere(target, [0.0, 0.4, 1.0])
    assert float(residual(drive, target, *batch)) < 1e-20
    for wrong in (2.0, 0.5, -1.0):
        scaled: Rates = lambda x, t, ratios, by=wrong: by * drive(x, t, ratios)  # noqa: E731
        assert float(residual(scaled, target, *batch)) > 0.05


def test_exact_rates_of_coupled_sites_solve_the_equation() -> None:
    """Two spins and a coupling: G is solved for from the linear equations of one-way flows, and the
    residual is zero with it and not with the drive."""
    target = Pairwise([[0, 1]], torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.zeros(2, 2), **F64)
    t = 0.6
    x = all_states(target)
    log_density = target.log_density(x)
    rho = (t * log_density).softmax(0)
    # by symmetry all flow goes from unequal to equal states, the same over each of the four edges
    flow = float(rho[0] * (log_density[0] - rho @ log_density)) / 2
    rate = flow / float(rho[1])

    def exact(x: Tensor, times: Tensor, ratios: Tensor) -> Tensor:
        # out of unequal states at ``rate``; G is minus that at the other end
        unequal = (x[:, 0] != x[:, 1])[:, None, None]
        moved = torch.nn.functional.one_hot(1 - x, 2).double()
        return torch.where(unequal, moved, -moved) * rate

    batch = x[None], torch.tensor([t], **F64)
    assert float(residual(exact, target, *batch)) < 1e-20
    assert float(residual(drive, target, *batch)) > 1e-3
    slope = look(exact, target, x, torch.full((4,), t, **F64)).slope
    assert float(slope[0]) == pytest.approx(float(rho @ log_density), abs=1e-12)


def test_the_control_variate_leaves_the_mean_and_takes_the_variance() -> None:
    """E[K] = d/dt log Z under ρ_t for any rates; its variance is zero for the exact ones."""
    target = independent(2)
    log_density = target.log_density(all_states(target))
    rho = (0.5 * log_density).softmax(0)
    truth = float(rho @ log_density)
    for by in (0.0, 0.7, 1.0):
        scaled: Rates = lambda x, t, ratios, by=by: by * drive(x, t, ratios)  # noqa: E731
        slope = look_everywhere(scaled, target, 0.5).slope
        assert float(rho @ slope) == pytest.approx(truth, abs=1e-12)
        variance = float(rho @ (slope - truth).square())
        assert variance < 1e-20 if by == 1.0 else variance > 0.01


def test_every_time_has_a_mean_of_its_own(awake: Callable[..., nn.Module]) -> None:
    target = SMALL["ising"]
    model = random_rates(target, awake)
    x, t = everywhere(target, [0.1, 0.9])
    slopes = [look_everywhere(model, target, float(one)).slope for one in t]
    expected = torch.stack([slope.var(unbiased=False) for slope in slopes]).mean()
    torch.testing.assert_close(residual(model, target, x, t), expected)
    pooled = torch.cat(slopes).var(unbiased=False)
    assert float(pooled - expected) > 0.01


def test_no_graph_hangs_on_the_mean() -> None:
    """K is a + by·b for rates of by·drive.  The first derivative of the residual by ``by`` is the
    same with c_t held fixed or not; the second is 2·mean(b²) with, and 2·var(b) without."""
    target = SMALL["ising"]
    x, t = everywhere(target, [0.5])

    def slope(by: Tensor) -> Tensor:
        scaled: Rates = lambda x, t, ratios: by * drive(x, t, ratios)  # noqa: E731
        return look_everywhere(scaled, target, 0.5).slope

    def second(loss: Callable[[Tensor], Tensor]) -> float:
        by = torch.tensor(0.7, **F64, requires_grad=True)
        (first,) = torch.autograd.grad(loss(by), by, create_graph=True)
        return float(torch.autograd.grad(first, by)[0])

    def fixed(by: Tensor) -> Tensor:
        return residual(lambda x, t, ratios: by * drive(x, t, ratios), target, x, t)

    b = slope(torch.tensor(1.0, **F64)) - slope(torch.tensor(0.0, **F64))
    held, hanging = 2 * float(b.square().mean()), 2 * float(b.var(unbiased=False))
    assert second(fixed) == pytest.approx(held)
    assert second(lambda by: slope(by).var(unbiased=False)) == pytest.approx(hanging)
    assert held > hanging + 0.01


def test_the_replay_keeps_paths_at_common_times(awake: Callable[..., nn.Module]) -> None:
    target = SMALL["ising"]
    model = random_rates(target, awake)
    replay = Replay(model, target, QUICK, torch.Generator().manual_seed(0))
    assert replay.x.shape == (1, 12, 32, 4)  # and grows
    assert ((replay.t > 0) & (replay.t < 1)).all()
    x, t = replay.choose()
    assert (x.shape, t.shape) == ((4, 32, 4), (4,))
    replay.renew(model)
    first, second = replay.x
    replay.renew(model)
    assert replay.x.shape == (2, 12, 32, 4)
    assert torch.equal(replay.x[0], second)  # the oldest is gone
    assert not torch.equal(replay.x[1], first)


# -- weights ---------------------------------------------------------------------------------------


def exact_mean_weight(
    rates: Rates, target: Target, num_steps: int, weigh: Weigh, stir: float
) -> tuple[float, Tensor]:
    """log E[w] of the discrete chain and its weighted law, by products of matrices."""
    points = [look_everywhere(rates, target, k / num_steps, stir) for k in range(num_steps + 1)]
    n = len(points[0].x)
    first, second = torch.arange(n).repeat_interleave(n), torch.arange(n).repeat(n)
    mass = torch.full((n,), 1 / n, **F64)
    for before, after in pairwise(points):
        here, there, dt = before[first], after[second], torch.full((n * n,), 1 / num_steps, **F64)
        log_q = log_jump(here.forward_rates, here.x, there.x, dt)
        mass = mass @ (log_q + weigh(here, there, dt)).exp().reshape(n, n)
    return float(mass.sum().log()) + log_volume(target), mass / mass.sum()


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_weight_of_its_draws_is_z(name: str, awake: Callable[..., nn.Module]) -> None:
    """For the weights and the stirring that ``sample`` has, at any number of steps."""
    target = SMALL[name]
    model, truth = random_rates(target, awake), tcsis.exact.solve(target).log_z
    assert (dnfs.Dnfs.weigh, dnfs.Dnfs.stir) == (discrete_weights, 1.0)
    for num_steps in (1, 4):
        log_z, mass = exact_mean_weight(model, target, num_steps, discrete_weights, 1.0)
        assert log_z == pytest.approx(truth, abs=1e-10)
        law = target.log_density(all_states(target)).softmax(0)
        torch.testing.assert_close(mass, law, rtol=0, atol=1e-10)

    def wrong(here: Point, there: Point, dt: Tensor) -> Tensor:
        return 2 * discrete_weights(here, there, dt)

    assert abs(exact_mean_weight(model, target, 4, wrong, 1.0)[0] - truth) > 0.1


@pytest.mark.statistical
def test_draws_are_weighed_so(awake: Callable[..., nn.Module]) -> None:
    """log Z within 4.5 standard errors (7e-6)."""
    target = SMALL["ising"]
    model = dnfs.Dnfs(target, QUICK, random_rates(target, awake))
    draws = model.sample(4_000, calls=4, seed=3)
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error)
    assert draws.ess < 0.95
    assert draws.num_network_calls == 4_000 * 5
    as_in_the_paper = model.sample(100, calls=4, stir=0, weigh=dnfs.continuous_weights)
    assert not torch.equal(as_in_the_paper.log_weight, draws.log_weight[:100])


# -- training --------------------------------------------------------------------------------------


def test_training_raises_the_effective_share() -> None:
    target = Ising(side=4, beta=0.4407)
    config = DnfsConfig(num_kept=4, num_evaluations=1, num_evaluated=100)
    untrained = dnfs.Dnfs(target, config, make_model(config, target, seed=0)).sample(1_000)
    model = dnfs.train(target, config=config, steps=150, progress=False)
    draws = model.sample(1_000)
    assert untrained.ess < 0.2
    assert draws.ess > 0.3
    assert draws.log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=0.15)
    assert [record["step"] for record in model.history] == [150]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target",
    [
        Potts(side=2, num_values=3, beta=0.4),
        from_callable(lambda x: 0.3 * x.float().sum(-1), 4, num_values=3),
        Ising(3, 0.3, field=0.2).given({0: 1, 1: 0, 5: 1}),
    ],
    ids=["potts", "function", "given"],
)
def test_every_kind_of_target_trains(target: Target) -> None:
    """log Z within 4.5 standard errors (7e-6)."""
    model = dnfs.train(target, config=SHORT, progress=False)
    draws = model.sample(1_000, calls=8)
    truth = tcsis.exact.solve(target).log_z
    assert draws.log_z == pytest.approx(truth, abs=4.5 * draws.log_z_error)


def test_same_seed_same_draws_and_another_another() -> None:
    target = Ising(side=3, beta=0.4)
    first, again, other = (
        dnfs.train(target, config=SHORT, seed=seed, progress=False) for seed in (1, 1, 2)
    )
    draws = first.sample(100, calls=8, seed=4)
    assert torch.equal(draws.log_weight, again.sample(100, calls=8, seed=4).log_weight)
    assert not torch.equal(draws.log_weight, other.sample(100, calls=8, seed=4).log_weight)
    assert not torch.equal(draws.x, first.sample(100, calls=8, seed=5).x)


def test_save_and_load(tmp_path: Path) -> None:
    target = Potts(side=2, num_values=3, beta=0.4)
    model = dnfs.train(target, config=SHORT, progress=False)
    model.save(tmp_path)
    again = dnfs.load(tmp_path)
    assert again.config == model.config
    draws, same = model.sample(50, seed=1), again.sample(50, seed=1)
    assert torch.equal(draws.log_weight, same.log_weight)
    with pytest.raises(ValueError, match="expected the target it was trained on"):
        dnfs.load(tmp_path, target=Potts(side=2, num_values=3, beta=0.5))
    with pytest.raises(ValueError, match="holds no model of LEAPS"):
        tcsis.peers.leaps.load(tmp_path)


def test_by_name_and_judged(tmp_path: Path) -> None:
    target = Ising(side=3, beta=0.4)
    found = tcsis.compare(target, ["dnfs"], n=300, steps=5, progress=False)
    draws = found.methods["dnfs"]
    assert draws.x.shape == (300, 9)
    assert tcsis.judge(draws, target).level in LEVELS
    found.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()


def test_bad_input() -> None:
    hard = from_callable(lambda x: torch.where(x.sum(-1) > 1, -torch.inf, 0.0), 4, num_values=2)
    with pytest.raises(ValueError, match="log density -inf at states of uniform noise"):
        dnfs.train(hard, config=SHORT, progress=False)
    with pytest.raises(ValueError, match="width is 10 for 4 heads"):
        dnfs.train(Ising(side=3, beta=0.4), config=DnfsConfig(width=10), progress=False)
    with pytest.raises(ValueError, match="states_a_time is wrong"):
        DnfsConfig(states_a_time=1)
    with pytest.raises(ValueError, match="states_a_time is 32: expected at most num_paths, 8"):
        DnfsConfig(num_paths=8)
