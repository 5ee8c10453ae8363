"""The reverse process against enumeration: what a scheme draws from, computed without drawing.

On a small system the law p_θ(x_s|x_t) of a step is a matrix over all states.  Its product along a
schedule is the exact output distribution, from which the order of a scheme is read off; and the
same for the second moment of the path weight.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis import reverse
from tcsis.exact import Enumeration
from tcsis.judging.metrics import state_index
from tcsis.judging.weights import eubo
from tcsis.noise import LogLinear, UniformNoise
from tcsis.reverse import schedules, steps
from tcsis.reverse.calls import Answer, Calls, Carrier, State
from tcsis.reverse.compiled import CompiledTrapezoidal
from tcsis.reverse.steps import Factorised, Move, euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.targets import Ising, Pairwise, Target, from_callable

DOUBLE = {"dtype": torch.float64}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TARGETS = {
    "ising": Ising(2, 0.2, 0.1, **DOUBLE),
    "pairwise-3": Pairwise(
        [[0, 1], [1, 2]], normal(2, 3, 3, seed=0), normal(3, 3, seed=1), **DOUBLE
    ),
}
SMALL = TARGETS["ising"]
NOISE = UniformNoise(2)
STEPS = {
    "euler": lambda target: euler,
    "tweedie": lambda target: tweedie,
    "trapezoidal": Trapezoidal,
    "compiled trapezoidal": CompiledTrapezoidal,
}


def exact_denoiser(target: Target, noise: UniformNoise) -> steps.Denoiser:
    table = Enumeration(target)
    return lambda x, t: table.denoiser(noise, x, t)


def wrong_denoiser(target: Target, noise: UniformNoise) -> steps.Denoiser:
    """Flattened, and tilted in a way that depends on the whole state."""
    exact = exact_denoiser(target, noise)

    def denoiser(x: Tensor, t: Tensor) -> Tensor:
        tilt = 0.4 * torch.sin(x.double().sum(-1))[:, None, None] * torch.arange(target.num_values)
        return (0.6 * exact(x, t).clamp_min(-20) + tilt).log_softmax(-1)

    return denoiser


# -- exact laws ----------------------------------------------------------------------------------


class Chain:
    """A step's transition matrices on a target with all N states."""

    def __init__(self, target: Target, noise: UniformNoise, denoiser: steps.Denoiser):
        self.table = Enumeration(target)
        self.target, self.noise, self.denoiser = target, noise, denoiser
        self.x = self.table.states(torch.arange(self.table.num_states))

    def times(self, t: Tensor, rows: int) -> Tensor:
        return t.expand(rows, self.target.num_sites)

    def forward_kernel(self, t: Tensor, s: Tensor) -> Tensor:
        """k_{s→t}(x_t | x_s), (x_t, x_s)."""
        n = len(self.x)
        shape = (n, n, self.target.num_sites)
        x_t, x_s = self.x[:, None].expand(shape), self.x.expand(shape)
        return self.noise.log_prob(x_t, x_s, t.expand(shape), s.expand(shape)).exp()

    def factorised(self, step: Factorised, t: Tensor, s: Tensor) -> Tensor:
        """p_θ(x_s | x_t), (x_t, x_s)."""
        n = len(self.x)
        t, s = self.times(t, n), self.times(s, n)
        log_p = step.law(self.noise, self.denoiser(self.x, t), self.x, t, s)
        return torch.stack([steps.at(log_p, x_s.expand(n, -1)) for x_s in self.x], dim=1).exp()

    def trapezoidal(self, step: Trapezoidal, t: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q(x_m|x_t), M(x_s|x_m, x_t) and M'(x_m|x_s, x_t), indexed (x_t, x_m, x_s)."""
        n, v = len(self.x), self.noise.num_values
        t2, s2 = self.times(t, n * n), self.times(s, n * n)
        x_t, y = self.x.repeat_interleave(n, 0), self.x.repeat(n, 1)
        calls = Calls(self.denoiser, v)
        at_t = calls.ask(x_t, t2)
        log_q = steps.tweedie_law(self.noise, at_t.log_d, x_t, t2, s2)
        at_y = calls.ask(y, s2) if bool(s2.any()) else None
        log_c = step.conditionals(self.noise, log_q, y, at_y, at_t, s2)
        q = steps.at(log_q, y).exp().reshape(n, n)

        def matrix(log_rates: Tensor) -> Tensor:
            """(n², d·v + 1) changes of y -> (x_t, y, z)."""
            total = torch.zeros(n * n, n, dtype=torch.float64)
            for choice in range(log_rates.shape[1]):
                site, value = divmod(choice, v)
                z = y.clone()
                if choice < log_rates.shape[1] - 1:
                    z[:, site] = value
                total[torch.arange(n * n), state_index(z, v)] += log_rates[:, choice].exp()
            return total.reshape(n, n, n)

        there = matrix(step.corrections(log_q, log_c, y))
        back = matrix(step.corrections(log_c, log_q, y)).transpose(1, 2)
        return q, there, back

    def transition(self, step: steps.Step, t: Tensor, s: Tensor) -> Tensor:
        if isinstance(step, Factorised):
            return self.factorised(step, t, s)
        assert isinstance(step, Trapezoidal)
        q, there, _ = self.trapezoidal(step, t, s)
        return torch.einsum("tm,tms->ts", q, there)

    def second_moment(self, step: steps.Step, t: Tensor, s: Tensor) -> Tensor:
        """Σ over what happens in the step of (noise's probability)²/(sampler's), (x_t, x_s)."""
        kernel = self.forward_kernel(t, s)
        if isinstance(step, Factorised):
            return kernel.square() / self.factorised(step, t, s)
        assert isinstance(step, Trapezoidal)
        q, there, back = self.trapezoidal(step, t, s)
        ratio = torch.where(there > 0, back.square() / there, 0.0)
        return kernel.square() * torch.einsum("tms,tm->ts", ratio, 1 / q)

    def output(self, step: steps.Step, times: Tensor) -> Tensor:
        """The distribution of x_end, (N,)."""
        p = torch.full((len(self.x),), 1 / len(self.x), dtype=torch.float64)
        for t, s in itertools.pairwise(times):
            p = p @ self.transition(step, t, s)
        return p

    def ess(self, step: steps.Step, times: Tensor) -> float:
        """(E w)²/E w², exactly."""
        moment = torch.full((len(self.x),), float(len(self.x)), dtype=torch.float64)
        for t, s in itertools.pairwise(times):
            moment = moment @ self.second_moment(step, t, s)
        return 1 / float(moment @ self.table.p.square())


def order(errors: list[float]) -> float:
    """Slope of log error against log number of steps, which doubles, over the last two."""
    return math.log2(errors[-2] / errors[-1])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("step", "low", "high"), [("euler", 0.8, 1.3), ("tweedie", 0.8, 1.3), ("trapezoidal", 1.8, 2.3)]
)
def test_order_of_the_output_distribution(name: str, step: str, low: float, high: float) -> None:
    target = TARGETS[name]
    noise = UniformNoise(target.num_values)
    chain = Chain(target, noise, exact_denoiser(target, noise))
    errors = []
    for num_steps in (8, 16, 32):
        grid = schedules.uniform_grid(noise, num_steps)
        times = schedules.parallel(target.num_sites, grid).times
        output = chain.output(STEPS[step](target), times)
        assert float(output.sum()) == pytest.approx(1, abs=1e-12)
        errors.append(0.5 * float((output - chain.table.p).abs().sum()))
    assert low < order(errors) < high, errors


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("step", "low", "high"), [("tweedie", 0.8, 1.3), ("trapezoidal", 1.7, 2.3)]
)
def test_order_of_the_weights(name: str, step: str, low: float, high: float) -> None:
    """1 - ESS of the path weights falls with the first power of the steps, or with the second."""
    target = TARGETS[name]
    noise = UniformNoise(target.num_values)
    chain = Chain(target, noise, exact_denoiser(target, noise))
    losses = []
    for num_steps in (8, 16, 32):
        grid = schedules.uniform_grid(noise, num_steps)
        losses.append(
            1 - chain.ess(STEPS[step](target), schedules.parallel(target.num_sites, grid).times)
        )
    assert low < order(losses) < high, losses


@pytest.mark.parametrize("denoiser", [exact_denoiser, wrong_denoiser])
def test_corrections_are_possible_in_both_directions(denoiser: Callable) -> None:
    """M'(x_m|x_s) sums to one over what the sampler can draw: no part of Z is out of reach."""
    for target in TARGETS.values():
        noise = UniformNoise(target.num_values)
        chain = Chain(target, noise, denoiser(target, noise))
        t, s = torch.tensor([0.6]).double(), torch.tensor([0.3]).double()
        q, there, back = chain.trapezoidal(Trapezoidal(target), t, s)
        reached = torch.where(q[..., None] * there > 0, back, 0.0).sum(1)
        assert torch.allclose(reached, torch.ones_like(reached), atol=1e-12)


def test_tweedie_is_the_exact_law_of_each_site() -> None:
    """Against the bridge averaged over the denoiser, and per-site times with sites at both ends."""
    noise = UniformNoise(3)
    target = TARGETS["pairwise-3"]
    x_t = torch.tensor([[0, 2, 1], [1, 1, 0]])
    t = torch.tensor([[1.0, 0.7, 0.0], [0.9, 1.0, 0.4]]).double()
    s = torch.tensor([[1.0, 0.2, 0.0], [0.0, 0.5, 0.4]]).double()
    log_d = exact_denoiser(target, noise)(x_t, t)
    law = steps.tweedie_law(noise, log_d, x_t, t, s).exp()
    bridges = torch.stack(
        [noise.log_bridge(x_t, torch.full_like(x_t, u), s, t).exp() for u in range(3)], dim=-2
    )
    expected = (bridges.nan_to_num(0) * log_d.exp()[..., None]).sum(-2)
    moving = s < t
    assert torch.allclose(law[moving], expected[moving], atol=1e-12)
    assert torch.equal(law[~moving].argmax(-1), x_t[~moving])
    assert torch.equal(law[~moving].amax(-1), torch.ones(3).double())


# -- schedules without error ---------------------------------------------------------------------


def by_known_sites(target: Target, noise: UniformNoise) -> steps.Denoiser:
    """The exact denoiser for times 0 and 1 only, evaluated once for each pattern of known sites."""
    exact = exact_denoiser(target, noise)

    def denoiser(x: Tensor, t: Tensor) -> Tensor:
        known, inverse = torch.where(t == 0, x, 0).unique(dim=0, return_inverse=True)
        return exact(known, t[:1].expand(known.shape))[inverse]

    return denoiser


def test_coloured_schedule_gives_every_state_its_probability() -> None:
    """Side 4, eight calls: log p̄(x) - log p_θ(x) = log Z for all 65,536 states."""
    target = Ising(4, 0.4407, **DOUBLE)
    denoiser, table = by_known_sites(target, NOISE), Enumeration(target)
    schedule = schedules.coloured(target)
    assert schedule.num_calls == 8
    every = table.states(torch.arange(table.num_states))
    upper = eubo(target, denoiser, NOISE, schedule, tweedie, every)
    assert torch.allclose(upper.log_weight, torch.tensor(table.log_z).double(), atol=1e-8)
    draws = reverse.sample(target, denoiser, NOISE, schedule, tweedie, 2_000, seed=0)
    assert draws.ess == pytest.approx(1, abs=1e-6)
    assert draws.num_network_calls == 8 * 2_000
    assert draws.log_z == pytest.approx(table.log_z, abs=1e-8)


def test_sequential_schedule_gives_every_state_its_probability() -> None:
    target = Ising((4, 2), 0.4407, **DOUBLE)
    denoiser, table = by_known_sites(target, NOISE), Enumeration(target)
    schedule = schedules.sequential([3, 0, 7, 1, 2, 6, 5, 4])
    every = table.states(torch.arange(table.num_states))
    upper = eubo(target, denoiser, NOISE, schedule, tweedie, every)
    assert torch.allclose(upper.log_weight, torch.tensor(table.log_z).double(), atol=1e-8)


def test_last_class_may_be_half_noisy() -> None:
    """Sites of the class at t = 0.4 bring what they know: still exact, one call for the rest."""
    times = torch.ones(3, 4).double()
    times[1, :], times[2, :] = torch.tensor([0.4, 0.4, 0.4, 0.4]), torch.tensor([0.4, 0, 0, 0.4])
    last = schedules.last_class(SMALL)
    assert last.tolist() == [0, 3]
    schedule = schedules.Schedule(times, last)
    check_mean_weight(SMALL, wrong_denoiser(SMALL, NOISE), NOISE, schedule, tweedie)


# -- E[w] = Z ------------------------------------------------------------------------------------


def mean_weight_score(
    target: Target, denoiser: steps.Denoiser, noise: UniformNoise, schedule: schedules.Schedule,
    step: steps.Step,
) -> float:  # fmt: skip
    """(mean of w - Z) in standard errors, from 20 seeds of 400 draws."""
    log_z = Enumeration(target).log_z
    runs = [
        reverse.sample(target, denoiser, noise, schedule, step, 400, seed=seed).log_z
        for seed in range(20)
    ]
    ratio = (torch.tensor(runs).double() - log_z).exp()
    return float((ratio.mean() - 1) / (ratio.std() / math.sqrt(20)).clamp_min(1e-12))


def check_mean_weight(*args: object) -> None:
    """Within 4 standard errors; false alarms about 8e-4 (Student's t, 19 degrees of freedom)."""
    assert abs(mean_weight_score(*args)) < 4


def per_site(num_sites: int) -> schedules.Schedule:
    """Every site on its own way from 1 to 0."""
    generator = torch.Generator().manual_seed(1)
    times = torch.rand(5, num_sites, generator=generator).double().sort(0, descending=True).values
    times[0], times[-1] = 1, 0
    times[1, 0], times[3, 1] = 1, 0
    return schedules.Schedule(times)


@pytest.mark.statistical
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("schedule", ["parallel", "blockwise", "per-site"])
def test_mean_weight_is_z_with_a_wrong_denoiser(name: str, step: str, schedule: str) -> None:
    target = TARGETS[name]
    noise = UniformNoise(target.num_values)
    made = {
        "parallel": schedules.parallel(target.num_sites, [1, 0.7, 0.3, 0]),
        "blockwise": schedules.blockwise([[0], list(range(1, target.num_sites))]),
        "per-site": per_site(target.num_sites),
    }[schedule]
    check_mean_weight(target, wrong_denoiser(target, noise), noise, made, STEPS[step](target))


@pytest.mark.statistical
def test_mean_weight_is_z_for_noise_that_never_becomes_uniform() -> None:
    """α = 0.2 at t = 1; the weights know."""
    noise = UniformNoise(2, LogLinear(eps=0.2))
    times = schedules.parallel(4, schedules.uniform_grid(noise, 3))
    check_mean_weight(SMALL, exact_denoiser(SMALL, noise), noise, times, tweedie)


@pytest.mark.statistical
def test_wrong_weights_are_found_out() -> None:
    """The same check refuses a ratio with its sign turned, and weights without the start."""

    class Turned(Factorised):
        def reverse(self, *args):
            move = super().reverse(*args)
            return Move(move.x, -move.log_ratio)

    class Unstarted(Factorised):
        def reverse(self, calls, noise, at_t, s, generator):
            move = super().reverse(calls, noise, at_t, s, generator)
            start = (at_t.t == 1).sum(-1) * math.log(noise.num_values)
            return Move(move.x, move.log_ratio - start)

    made = schedules.parallel(4, [1, 0.5, 0])
    for law in (Turned(steps.tweedie_law), Unstarted(steps.tweedie_law)):
        score = mean_weight_score(SMALL, exact_denoiser(SMALL, NOISE), NOISE, made, law)
        assert abs(score) > 8


# -- denoisers that carry a state ----------------------------------------------------------------


class Leaning(Carrier):
    """An exact denoiser pulled towards the state that it was asked about before."""

    def __init__(self, target: Target, noise: UniformNoise):
        self.exact, self.num_values = exact_denoiser(target, noise), noise.num_values

    def follow(self, x: Tensor, t: Tensor, before: Answer | None) -> tuple[Tensor, State]:
        log_d = self.exact(x, t).clamp_min(-20)
        if before is not None:
            assert torch.equal(before.state[0], before.x + 1)  # rows have stayed together
            log_d = log_d + 1.5 * one_hot(before.x, self.num_values)
        return log_d.log_softmax(-1), (x + 1,)


CARRIED = {
    "tweedie": tweedie,
    "trapezoidal": Trapezoidal(SMALL),
    "compiled trapezoidal": CompiledTrapezoidal(SMALL),
}


@pytest.mark.statistical
@pytest.mark.parametrize("step", CARRIED)
def test_mean_weight_is_z_with_what_is_carried_along(step: str) -> None:
    """Parallel, and with times of their own for the sites; 6 cases, 5e-3 false alarms in all."""
    for made in (schedules.parallel(4, [1, 0.7, 0.4, 0]), per_site(4)):
        check_mean_weight(SMALL, Leaning(SMALL, NOISE), NOISE, made, CARRIED[step])


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", ["followed from x_m", "stale"])
@pytest.mark.parametrize("step", [Trapezoidal(SMALL), CompiledTrapezoidal(SMALL)])
def test_wrong_answers_at_the_end_of_a_step_are_found_out(
    step: steps.Step, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D(x_s, s) may not follow from the draw x_m that M' is to make, nor be that of x_m."""
    ask_changed = Calls.ask_changed

    def ask(self: Calls, x: Tensor, beside: Answer, before: Answer | None = None) -> Answer:
        stale = replace(beside, x=x, state=(x + 1,))
        return stale if wrong == "stale" else ask_changed(self, x, beside, beside)

    monkeypatch.setattr(Calls, "ask_changed", ask)
    made = schedules.parallel(4, [1, 0.7, 0.4, 0])
    score = mean_weight_score(SMALL, Leaning(SMALL, NOISE), NOISE, made, step)
    assert abs(score) > 8


# -- compiled loops ------------------------------------------------------------------------------


class Noted(CompiledTrapezoidal):
    """A compiled step that notes the states x_m which it went through."""

    noted: ClassVar[list[Tensor]] = []

    def compiled_conditionals(self, step, noise, q, x, at_x, at_t):
        self.noted.append(torch.from_numpy(x.copy()))
        return super().compiled_conditionals(step, noise, q, x, at_x, at_t)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("times", [(0.8, 0.5), (0.4, 0.0), "per site", "per state"])
def test_compiled_paths_have_the_weights_of_the_formulas(name: str, times: object) -> None:
    """On the path x_t, x_m, x_s that a compiled step took, whatever its times."""
    target = TARGETS[name]
    noise, d = UniformNoise(target.num_values), target.num_sites
    x_t = Enumeration(target).states(torch.arange(2**d)).repeat(8, 1)
    shared = times if isinstance(times, tuple) else (0.8, 0.5)
    t, s = (torch.full((1, d), time, **DOUBLE) for time in shared)
    if not isinstance(times, tuple):
        s[:, 0], t[:, 1], s[:, 1] = 0.0, 0.5, 0.5  # one site is known after, and one stays
    if times == "per state":
        t, s = t.repeat(len(x_t), 1), s.repeat(len(x_t), 1)
    calls, step = Calls(wrong_denoiser(target, noise), target.num_values), Noted(target)
    at_t = calls.ask(x_t, t)
    step.noted.clear()
    move = step.reverse(calls, noise, at_t, s, torch.Generator().manual_seed(0))
    x_m, x_s, plain = step.noted[0], move.x, Trapezoidal(target)
    assert bool((x_m != x_s).any())
    assert bool((x_s != x_t)[:, 2].any())
    q = steps.tweedie_law(noise, at_t.log_d, x_t, t, s)
    at_m, at_s = (calls.ask(x, s) if bool(s.any()) else None for x in (x_m, x_s))
    there = plain.corrections(q, plain.conditionals(noise, q, x_m, at_m, at_t, s), x_m)
    back = plain.corrections(plain.conditionals(noise, q, x_s, at_s, at_t, s), q, x_s)
    expected = plain.log_ratio(noise, q, there, back, at_t, x_m, x_s, s)
    torch.testing.assert_close(move.log_ratio, expected, rtol=0, atol=1e-9)


# -- batches and errors --------------------------------------------------------------------------


def test_batches_and_counts() -> None:
    made = schedules.parallel(4, [1, 0.6, 0.3, 0])
    denoiser = exact_denoiser(SMALL, NOISE)
    draws = reverse.sample(SMALL, denoiser, NOISE, made, tweedie, 70, seed=0, batch_size=32)
    assert draws.x.shape == (70, 4)
    assert draws.x.dtype == torch.uint8
    assert draws.num_network_calls == 70 * 3
    assert draws.num_density_calls == 70
    again = reverse.sample(SMALL, denoiser, NOISE, made, tweedie, 70, seed=0, batch_size=32)
    assert torch.equal(draws.x, again.x)
    second = reverse.sample(SMALL, denoiser, NOISE, made, Trapezoidal(SMALL), 70, seed=0)
    assert 70 * 3 <= second.num_network_calls < 70 * 4


def returns(value: object) -> steps.Denoiser:
    return lambda x, t: value


@pytest.mark.parametrize(
    ("denoiser", "message"),
    [
        (returns(torch.zeros(5, 4)), r"\(5, 4\)"),
        (returns("no"), "str"),
        (returns(torch.full((5, 4, 2), torch.nan)), "nan at the state"),
        (returns(torch.zeros(5, 4, 2)), "sum to 2"),
    ],
)
def test_bad_denoisers_are_named(denoiser: steps.Denoiser, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reverse.sample(SMALL, denoiser, NOISE, schedules.parallel(4, [1, 0]), tweedie, 5)


class Broken(Ising):
    def _log_density(self, x: Tensor) -> Tensor:
        return super()._log_density(x).where(x[..., 0] == 0, torch.nan)


def test_bad_densities_and_sizes_are_named() -> None:
    broken = Broken(2, 0.2, 0.1, **DOUBLE)
    flat = returns(torch.full((5, 4, 2), math.log(0.5)))
    made = schedules.parallel(4, [1, 0])
    with pytest.raises(ValueError, match=r"nan at the state \[1, "):
        reverse.sample(broken, flat, NOISE, made, tweedie, 5)
    forbidding = from_callable(lambda x: torch.where(x[:, 0] == 1, -torch.inf, 0.0), 4, 2)
    draws = reverse.sample(forbidding, flat, NOISE, made, tweedie, 5)
    assert torch.equal(draws.log_weight.isneginf(), draws.x[:, 0] == 1)
    with pytest.raises(ValueError, match="n is 0"):
        reverse.sample(SMALL, flat, NOISE, made, tweedie, 0)
    with pytest.raises(ValueError, match="3 sites and the target 4"):
        reverse.sample(SMALL, flat, NOISE, schedules.parallel(3, [1, 0]), tweedie, 5)
    with pytest.raises(ValueError, match="noise has 3 values"):
        reverse.sample(SMALL, flat, UniformNoise(3), made, tweedie, 5)
    t, s = torch.tensor([[0.2, 0.5, 0.5, 0.5]]), torch.tensor([[0.3, 0.1, 0.1, 0.1]])
    calls, x = Calls(exact_denoiser(SMALL, NOISE), 2), torch.zeros(1, 4).long()
    at_t = calls.ask(x, t)
    with pytest.raises(ValueError, match="s <= t"):
        tweedie.reverse(calls, NOISE, at_t, s, None)
    with pytest.raises(ValueError, match="0 <= t <= 1"):
        tweedie.reverse(calls, NOISE, replace(at_t, t=t + 1), s, None)
