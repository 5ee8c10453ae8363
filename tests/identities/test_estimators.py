"""Every estimator against enumeration: it converges, at the right rate, to the right thing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from tcsis import identity
from tcsis.exact import Enumeration
from tcsis.identity import walkers
from tcsis.judging.metrics import state_index
from tcsis.noise import UniformNoise
from tcsis.targets import (
    RBM,
    Ising,
    Pairwise,
    Potts,
    SherringtonKirkpatrick,
    Target,
    Tilted,
    counting,
    from_callable,
)

DOUBLE = {"dtype": torch.float64}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def chain(num_sites: int, v: int, **options) -> Pairwise:
    """A random pairwise model on an open chain."""
    edges = torch.arange(num_sites - 1)[:, None] + torch.arange(2)
    couplings = 0.7 * normal(num_sites - 1, v, v, seed=v)
    return Pairwise(edges, couplings, 0.5 * normal(num_sites, v, seed=v + 1), **options)


def hard_core(x: Tensor) -> Tensor:
    """A ring of sites that like token 1, but not beside another one."""
    clash = ((x == 1) & (x.roll(1, -1) == 1)).any(-1)
    return torch.where(clash, -torch.inf, 1.1 * (x == 1).sum(-1).double())


SYSTEMS = {
    "ising": Ising((2, 3), 0.3, 0.1, **DOUBLE),
    "potts-3": Potts((2, 3), 3, 0.4, **DOUBLE),
    "chain-5": chain(4, 5, **DOUBLE),
}
ESTIMATORS: dict[str, Callable[..., Tensor]] = {
    "naive": identity.naive,
    "shared": identity.shared,
    "marginalised": identity.marginalised,
    "coloured": identity.coloured,
}


def annealed(*args, num_samples: int, **options) -> Tensor:
    return identity.annealed(*args, num_chains=num_samples, num_rungs=2, **options)


def times(n: int, d: int, per_site: bool) -> Tensor:
    if per_site:
        return 0.2 + 0.6 * torch.rand(n, d, generator=seeded(d), dtype=torch.float64)
    return torch.linspace(0.3, 0.7, n, dtype=torch.float64)


def noised(target: Target, n: int, per_site: bool = False) -> tuple[UniformNoise, Tensor, Tensor]:
    """Some x_t from p_t, (n, d), and their times."""
    noise, t = UniformNoise(target.num_values), times(n, target.num_sites, per_site)
    x_0 = Enumeration(target).draw(n, seeded(1)).long()
    return noise, noise.draw(x_0, t, generator=seeded(2)), t


NUM_SAMPLES = [50, 300, 1800]


def slope_of_error(estimate: Callable[..., Tensor], target: Target, per_site: bool) -> float:
    """The power of k with which the RMS error of the probabilities falls."""
    noise, x_t, t = noised(target, 64, per_site)
    truth = Enumeration(target).denoiser(noise, x_t, t).exp()
    errors = [
        (estimate(target, noise, x_t, t, num_samples=k, generator=seeded(k)).exp() - truth)
        for k in NUM_SAMPLES
    ]
    return slope(errors)


def slope(errors: list[Tensor]) -> float:
    """Slope over log k of the log of a state's RMS error, averaged over the states."""
    log_rms = torch.stack([e.square().flatten(1).mean(1).log().mean() / 2 for e in errors])
    log_k = torch.tensor(NUM_SAMPLES).double().log()
    log_k -= log_k.mean()
    return float((log_k * log_rms).sum() / log_k.square().sum())


@pytest.mark.statistical
@pytest.mark.parametrize("per_site", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("estimate", [*list(ESTIMATORS.values())[1:], annealed])
def test_convergence(estimate: Callable[..., Tensor], system: str, per_site: bool) -> None:
    """The error falls as k^-1/2, which an estimator with any bias does not manage.

    The slope has a standard error of 0.01 to 0.03: less than 1e-4 false alarms a case."""
    assert -0.65 < slope_of_error(estimate, SYSTEMS[system], per_site) < -0.35


@pytest.mark.statistical
@pytest.mark.parametrize("per_site", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_convergence_of_the_naive_score(system: str, per_site: bool) -> None:
    """As above for Eq. (5), on the score itself: far from t = 0 its denoiser, a small difference
    of large terms, is cut off at zero for all but the largest k."""
    target = SYSTEMS[system]
    noise, x_t, t = noised(target, 16, per_site)
    truth = Enumeration(target).log_score(noise, x_t, t)
    options = [{"num_samples": k, "generator": seeded(k)} for k in NUM_SAMPLES]
    errors = [identity.naive_log_score(target, noise, x_t, t, **o) - truth for o in options]
    assert -0.65 < slope(errors) < -0.35
    denoiser = identity.naive(target, noise, x_t, t, num_samples=9, generator=seeded(0))
    score = identity.naive_log_score(target, noise, x_t, t, num_samples=9, generator=seeded(0))
    torch.testing.assert_close(denoiser, noise.denoiser_from_log_score(score, x_t, t))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(from_callable(hard_core, 5, 2), id="hard-core"),
        pytest.param(
            RBM(normal(5, 3, seed=0), normal(5, seed=1), normal(3, seed=2), **DOUBLE), id="rbm"
        ),
    ],
)
def test_convergence_without_structure(target: Target) -> None:
    """As above, for densities with zeros and without a colouring."""
    for estimate in (identity.shared, identity.marginalised, annealed):
        assert -0.65 < slope_of_error(estimate, target, False) < -0.35


@pytest.mark.statistical
def test_accuracy_on_the_critical_lattice() -> None:
    """Side 4 at β_c, α = 0.9: RMSE of the log score of 100 marginalised draws and of the paper's
    17,000.  Six other seeds gave 0.12 to 0.20 and 0.29 to 0.51, one in six beyond each of the
    first two bounds, and ratios from 0.34 to 0.59, none near the last one."""
    target, n = Ising(4, 0.4407), 60
    table, noise = Enumeration(target), UniformNoise(2)
    t = torch.full((n,), 0.1, dtype=torch.float64)
    x_t = noise.draw(table.draw(n, seeded(0)).long(), t, generator=seeded(1))
    truth = table.log_score(noise, x_t, t)
    other = torch.nn.functional.one_hot(x_t, 2) == 0

    def rmse(log_score: Tensor) -> float:
        return float((log_score - truth)[other].square().mean().sqrt())

    denoiser = identity.marginalised(target, noise, x_t, t, num_samples=100, generator=seeded(2))
    marginalised = rmse(noise.log_score_from_denoiser(denoiser.double(), x_t, t))
    naive = rmse(
        identity.naive_log_score(target, noise, x_t, t, num_samples=1000, generator=seeded(3))
    )
    assert marginalised < 0.2
    assert naive > 0.3
    assert marginalised < 0.75 * naive


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_site", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("estimate", [identity.marginalised, identity.coloured])
def test_exact_without_noise(estimate: Callable[..., Tensor], system: str, per_site: bool) -> None:
    target = SYSTEMS[system]
    noise, x_t, t = noised(target, 8, per_site)
    hat = estimate(target, noise, x_t, 1e-9 * t, num_samples=5, generator=seeded(0))
    truth = Enumeration(target).denoiser(noise, x_t, 1e-9 * t)
    torch.testing.assert_close(hat, truth, rtol=0, atol=1e-6)


@pytest.mark.parametrize("estimate", [*list(ESTIMATORS.values())[1:], annealed])
def test_known_sites_are_known(estimate: Callable[..., Tensor]) -> None:
    """Sites at t = 0 keep their value beside others at t = 1, which are pure noise."""
    target = Ising(3, 0.3)
    noise, x_t = UniformNoise(2), torch.tensor([[0, 1, 1, 0, 1, 0, 1, 1, 0]])
    t = torch.tensor([[0.0] * 6 + [1.0] * 3])
    hat = estimate(target, noise, x_t, t, num_samples=20_000, generator=seeded(0))
    truth = Enumeration(target).denoiser(noise, x_t, t)
    torch.testing.assert_close(hat.double().exp(), truth.exp(), rtol=0, atol=0.02)
    assert torch.equal(hat[0, :6].argmax(-1), x_t[0, :6])
    assert bool((hat[0, :6].amin(-1) == -torch.inf).all())


def test_a_class_is_summed_out() -> None:
    """With only one colour class unknown, a single draw gives the exact denoiser and marginal."""
    target = chain(5, 3, **DOUBLE)  # classes 0, 2, 4 and 1, 3
    noise, x_t, _ = noised(target, 8)
    t = torch.tensor([0.8, 0.0, 0.6, 0.0, 1.0], dtype=torch.float64).expand(8, -1)
    table, options = Enumeration(target), {"num_samples": 1, "generator": seeded(0)}
    hat = identity.coloured(target, noise, x_t, t, **options)
    torch.testing.assert_close(hat, table.denoiser(noise, x_t, t), rtol=0, atol=1e-10)
    log_hat = identity.log_marginal_coloured(target, noise, x_t, t, **options)
    truth = table.log_marginal(noise, x_t, t) + table.log_z
    torch.testing.assert_close(log_hat, truth, rtol=0, atol=1e-10)


# -- log marginals -----------------------------------------------------------------------------


def relative_estimates(log_hat: Tensor, log_truth: Tensor) -> tuple[float, float]:
    """Mean and standard error of p̂_t/p̄_t, whose expectation is 1."""
    ratio = (log_hat - log_truth).exp()
    return float(ratio.mean()), float(ratio.std()) / len(ratio) ** 0.5


MARGINALS = {
    "one-shot": partial(identity.log_marginal, num_samples=2),
    "coloured": partial(identity.log_marginal_coloured, num_samples=2),
    "annealed": partial(identity.log_marginal_annealed, num_chains=4, num_rungs=3),
}
DRAWS = {"one-shot": 2, "coloured": 2, "annealed": 4}


@pytest.mark.statistical
@pytest.mark.parametrize("per_site", [False, True])
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SYSTEMS["ising"], id="ising"),
        pytest.param(Potts((2, 2), 3, 0.5, **DOUBLE), id="potts-3"),
        pytest.param(SYSTEMS["chain-5"], id="chain-5"),
    ],
)
@pytest.mark.parametrize("name", MARGINALS)
def test_marginals_are_unbiased(name: str, target: Target, per_site: bool) -> None:
    """The mean over 100,000 draws within 4 standard errors: 6e-5 false alarms a case."""
    n = 100_000 // DRAWS[name]
    noise, x_t, t = noised(target, 1, per_site)
    truth = Enumeration(target)
    log_p = truth.log_marginal(noise, x_t, t) + truth.log_z
    log_hat = MARGINALS[name](
        target, noise, x_t.expand(n, -1), t.expand(n, *t.shape[1:]), generator=seeded(3)
    )
    mean, error = relative_estimates(log_hat, log_p)
    assert error < 0.02
    assert abs(mean - 1) < 4 * error


def guided(target: Target, noise: UniformNoise, x_t: Tensor, t: Tensor, **options: Any) -> Tensor:
    """Walkers from laws that have little to do with the target."""
    shape = (1, target.num_sites, target.num_values)
    log_start = torch.randn(shape, generator=seeded(11), **DOUBLE).log_softmax(-1)
    log_start = log_start.expand(len(x_t), -1, -1)
    return identity.joint_guided(target, noise, x_t, t, log_start, **options)


JOINTS = {
    "coloured": (identity.joint_coloured, {"num_samples": 2}),
    "annealed": (identity.joint_annealed, {"num_chains": 4, "num_rungs": 3}),
    "guided": (guided, {"num_chains": 4, "num_rungs": 3}),
}


@pytest.mark.statistical
@pytest.mark.parametrize("per_site", [False, True])
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SYSTEMS["ising"], id="ising"),
        pytest.param(Potts((2, 2), 3, 0.5, **DOUBLE), id="potts-3"),
    ],
)
@pytest.mark.parametrize("name", JOINTS)
def test_joints_are_unbiased(name: str, target: Target, per_site: bool) -> None:
    """p̂(x_t, x_0^i = u) against marginal times denoiser, at every site and value: the largest of
    up to 12 deviations within 5 standard errors, 7e-6 false alarms a case."""
    n = 50_000
    noise, x_t, t = noised(target, 1, per_site)
    truth = Enumeration(target)
    log_p = truth.log_marginal(noise, x_t, t) + truth.log_z
    log_joint = log_p[:, None, None] + truth.denoiser(noise, x_t, t)
    estimate, options = JOINTS[name]
    log_hat = estimate(
        target, noise, x_t.expand(n, -1), t.expand(n, *t.shape[1:]), generator=seeded(3), **options
    )
    ratio = (log_hat - log_joint).exp()
    error = ratio.std(0) / n**0.5
    assert float(error.max()) < 0.05
    assert float(((ratio.mean(0) - 1).abs() / error).max()) < 5


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SYSTEMS["ising"], id="ising"),
        pytest.param(Potts((2, 2), 3, 0.5, **DOUBLE), id="potts-3"),
    ],
)
def test_populations_are_unbiased(target: Target) -> None:
    """The same over 400 populations, which hold the state that x_t came from besides 30 draws.
    Were it not left out, the first mean would be off by six standard errors."""
    noise, truth, num = UniformNoise(target.num_values), Enumeration(target), 400
    x_0 = truth.draw(1, seeded(1)).long()
    t = torch.full((1, target.num_sites), 0.4, **DOUBLE)
    x_t = x_0.clone()  # likely, and the more so from x_0
    log_p = truth.log_marginal(noise, x_t, t) + truth.log_z
    log_joint = log_p[:, None, None] + truth.denoiser(noise, x_t, t)
    states = truth.draw(30 * num, seeded(4)).long().reshape(num, 30, -1)
    ratios = []
    for number, others in enumerate(states):
        log_hat = identity.joint_from_population(
            target, noise, x_t, t, torch.cat([x_0, others]), truth.log_z, x_0,
            num_chains=4, num_rungs=3, generator=seeded(number),
        )  # fmt: skip
        ratios.append((log_hat - log_joint).exp())
    ratio = torch.cat(ratios)
    error = ratio.std(0) / num**0.5
    assert float(error.max()) < 0.1
    assert float(((ratio.mean(0) - 1).abs() / error).max()) < 5


def test_populations_of_one_and_sites_without_noise_are_refused() -> None:
    target = SYSTEMS["ising"]
    noise, x_t, t = noised(target, 2)
    options = {"num_chains": 2, "num_rungs": 2, "generator": seeded(0)}
    with pytest.raises(ValueError, match="population has 1 states: expected at least 2"):
        identity.joint_from_population(target, noise, x_t, t, x_t[:1], 0.0, x_t, **options)
    with pytest.raises(ValueError, match=r"t gives α = 1 at some site of x_t = .*expected noise"):
        identity.joint_from_population(target, noise, x_t, 0 * t, x_t, 0.0, x_t, **options)


def test_a_perfect_guide_leaves_no_noise() -> None:
    """Without couplings the denoiser is a product, and walkers that start there weigh alike."""
    target = Ising(3, 0.0, 0.4, **DOUBLE)
    noise, x_t, t = noised(target, 20)
    truth = Enumeration(target)
    log_d = truth.denoiser(noise, x_t, t)
    joint = identity.joint_guided(
        target, noise, x_t, t, log_d, num_chains=2, num_rungs=2, generator=seeded(0)
    )
    log_p = truth.log_marginal(noise, x_t, t) + truth.log_z
    torch.testing.assert_close(joint, log_p[:, None, None] + log_d, rtol=0, atol=1e-5)


@pytest.mark.statistical
def test_resampling_keeps_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above with walkers resampled at every rung, which changes the estimates but not their
    mean: 6e-5 false alarms."""
    target, n = SYSTEMS["chain-5"], 25_000
    noise, x_t, t = noised(target, 1)
    truth = Enumeration(target)
    log_p = truth.log_marginal(noise, x_t, t) + truth.log_z
    options = {"num_chains": 4, "num_rungs": 3}
    log_hat = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(walkers, "LEAST_SHARE", share)
        log_hat.append(
            identity.log_marginal_annealed(
                target, noise, x_t.expand(n, -1), t.expand(n), generator=seeded(0), **options
            )
        )
    assert (log_hat[0] != log_hat[1]).double().mean() > 0.9
    mean, error = relative_estimates(log_hat[1], log_p)
    assert error < 0.01
    assert abs(mean - 1) < 4 * error


# -- warm --------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    "target", [Ising(2, 0.4, 0.3), chain(4, 3), from_callable(hard_core, 5, 2)]
)
@pytest.mark.parametrize("num_walkers", [None, 2])
def test_warm_stays_at_the_posterior(target: Target, num_walkers: int | None) -> None:
    """From exact posterior draws the mean denoiser is exact, within 5 standard errors for each of
    at most 12 entries, and the moved x_0 follow the posterior, χ² at 1e-4: 2e-4 in all."""
    n = 20_000
    noise, x_t, t = noised(target, 1, per_site=True)
    posterior = Enumeration(Tilted(target, noise.log_kernel(x_t, t)[0]))
    x_0 = posterior.draw(n * (num_walkers or 1), seeded(4))
    shape = (n, target.num_sites) if num_walkers is None else (n, num_walkers, target.num_sites)
    denoiser, moved = identity.warm(
        target, noise, x_t.expand(n, -1), t.expand(n, -1), x_0.reshape(shape),
        num_sweeps=2, generator=seeded(5),
    )  # fmt: skip
    p = denoiser.double().exp()
    truth = Enumeration(target).denoiser(noise, x_t, t)[0].exp()
    assert bool(((p.mean(0) - truth).abs() <= 5 * p.std(0) / n**0.5 + 1e-6).all())

    assert moved.shape == shape
    assert moved.dtype == torch.uint8
    index = state_index(moved.reshape(-1, target.num_sites).long(), target.num_values)
    count = torch.bincount(index, minlength=posterior.num_states).double()
    expected = posterior.p * len(index)
    assert bool((count[expected == 0] == 0).all())
    count, expected = count[expected > 0], expected[expected > 0]
    statistic = float(((count - expected).square() / expected).sum())
    assert chi2.sf(statistic, len(count) - 1) > 1e-4
    assert bool((moved.reshape(x_0.shape) != x_0).any())


# -- numerics ----------------------------------------------------------------------------------

DENOISERS = {
    **ESTIMATORS,
    "annealed": annealed,
    "warm": lambda target, noise, x_t, t, num_samples, generator: identity.warm(
        target, noise, x_t, t, x_t, num_sweeps=num_samples, generator=generator
    )[0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [1e4, -1e4])
@pytest.mark.parametrize("name", DENOISERS)
def test_offset_of_the_density(name: str, offset: float, dtype: torch.dtype) -> None:
    here, there = (chain(4, 3, constant=constant, dtype=dtype) for constant in (0.0, offset))
    noise, x_t, t = noised(here, 16)
    before, after = (
        DENOISERS[name](target, noise, x_t, t, num_samples=20, generator=seeded(0))
        for target in (here, there)
    )
    assert before.dtype == dtype
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    torch.testing.assert_close(before.logsumexp(-1).exp(), torch.ones(16, 4, dtype=dtype))


@pytest.mark.parametrize("offset", [1e4, -1e4])
@pytest.mark.parametrize("name", MARGINALS)
def test_offset_of_the_marginal(name: str, offset: float) -> None:
    here, there = (chain(4, 3, constant=constant) for constant in (0.0, offset))
    noise, x_t, t = noised(here, 16)
    before, after = (
        MARGINALS[name](target, noise, x_t, t, generator=seeded(0)) for target in (here, there)
    )
    torch.testing.assert_close(after - offset, before, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("estimate", "num_states"),
    [
        *((estimate, 70) for estimate in list(ESTIMATORS.values())[1:]),
        (identity.naive_log_score, 10),  # 170 with their neighbours
        (identity.log_marginal, 70),
        (identity.log_marginal_coloured, 70),
        (identity.joint_coloured, 70),
    ],
)
def test_chunks_do_not_matter(estimate: Callable[..., Tensor], num_states: int) -> None:
    """Several blocks of states, evaluated whole, in pieces, and one state at a time."""
    target = SYSTEMS["chain-5"]
    noise, x_t, t = noised(target, num_states, per_site=True)
    num_samples = 1000  # 20,000 entries a state, 52 states a block
    whole, pieces, single = (
        estimate(
            target, noise, x_t, t, num_samples=num_samples, generator=seeded(0), max_entries=bound
        )
        for bound in (2**30, 10 * 20_000 + 1, 1)
    )
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(single, whole, rtol=0, atol=1e-12)


def test_blocks_are_independent() -> None:
    """The same state in another block gets other draws."""
    target = SYSTEMS["chain-5"]
    noise, x_t, _ = noised(target, 1)
    log_p = identity.log_marginal(
        target, noise, x_t.expand(120, -1), 0.5, num_samples=1000, generator=seeded(0)
    )
    assert len(log_p.unique()) == 120


@pytest.mark.parametrize("name", DENOISERS)
def test_reproducible_and_independent(name: str) -> None:
    """The same seed gives the same numbers; equal states of a batch get different ones."""
    target = chain(4, 3)
    noise, x_t, _ = noised(target, 1)
    x_t = x_t.expand(3, -1)
    first, again, other = (
        DENOISERS[name](target, noise, x_t, 0.5, num_samples=7, generator=seeded(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize(
    ("name", "densities"),
    [("naive", 7 * 9), ("shared", 7), ("marginalised", 14), ("coloured", 14),
     ("annealed", 7 * (2 + 2 + 1)), ("warm", 1 + 7 * 2)],
)  # fmt: skip
def test_costs(name: str, densities: float) -> None:
    """Densities a state as documented; a compiled sweep costs as much as one."""
    target = chain(4, 3)
    noise, x_t, t = noised(target, 5)
    with counting(target) as cost:
        DENOISERS[name](target, noise, x_t, t, num_samples=7, generator=seeded(0))
    assert cost.densities == 5 * densities


# -- refusals ----------------------------------------------------------------------------------


def only_zero(x: Tensor) -> Tensor:
    return torch.where((x == 0).all(-1), 0.0, -torch.inf)


@pytest.mark.parametrize(
    "estimate",
    [identity.shared, identity.marginalised, identity.log_marginal, annealed],
)
def test_forbidden_draws(estimate: Callable[..., Tensor]) -> None:
    """No draw from x_t = 1111 has a density: the message names the state."""
    target = from_callable(only_zero, 4, 2)
    x_t = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
    with pytest.raises(ValueError, match=r"\[1, 1, 1, 1\]"):
        estimate(target, UniformNoise(2), x_t, 1e-6, num_samples=10, generator=seeded(0))


def test_refusals() -> None:
    dense, lattice = SherringtonKirkpatrick(6, 1.0), Ising(2, 0.4)
    black_box = from_callable(hard_core, 5, 2)
    half_forbidden = Tilted(Ising((2, 3), 0.4), torch.tensor([[0, -torch.inf]]).repeat(6, 1))
    clash = torch.tensor([[1, 1, 0, 0, 0]])
    noise, g = UniformNoise(2), seeded(0)
    x = torch.zeros(2, 6, dtype=torch.long)
    one = {"num_samples": 1, "generator": g}
    for estimate in (identity.coloured, identity.log_marginal_coloured):
        with pytest.raises(ValueError, match=r"no colouring.*use marginalised"):
            estimate(dense, noise, x, 0.5, **one)
        with pytest.raises(ValueError, match="forbids the draw"):
            estimate(half_forbidden, noise, x, 1.0, num_samples=50, generator=g)
    with pytest.raises(ValueError, match=r"t ranges from 1\.5"):
        identity.shared(dense, noise, x, 1.5, **one)
    with pytest.raises(ValueError, match="noise has 3 values"):
        identity.shared(dense, UniformNoise(3), x, 0.5, **one)
    with pytest.raises(ValueError, match=r"expected \(b, d\)"):
        identity.shared(dense, noise, x[0], 0.5, **one)
    with pytest.raises(ValueError, match="b at least 1"):
        identity.shared(dense, noise, x[:0], 0.5, **one)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="num_samples is"):
            identity.marginalised(dense, noise, x, 0.5, num_samples=bad, generator=g)
        with pytest.raises(ValueError, match="num_rungs is"):
            identity.annealed(dense, noise, x, 0.5, num_chains=1, num_rungs=bad, generator=g)
        with pytest.raises(ValueError, match="num_sweeps is"):
            identity.warm(dense, noise, x, 0.5, x, num_sweeps=bad, generator=g)
    with pytest.raises(ValueError, match=r"expected \(b, d\) or \(b, k, d\)"):
        identity.warm(dense, noise, x, 0.5, x[:1], num_sweeps=1, generator=g)
    state = torch.tensor([[0, 0, 0, 1]])
    with pytest.raises(ValueError, match=r"x_0 = \[0, 0, 0, 1\] is forbidden"):
        identity.warm(lattice, noise, 1 - state, 0.0, state, num_sweeps=1, generator=g)
    with pytest.raises(ValueError, match=r"x_0 = \[1, 1, 0, 0, 0\] is forbidden"):
        identity.warm(black_box, noise, clash, 0.5, clash, num_sweeps=1, generator=g)
