"""The runner on both engines: right distributions, right shapes, right counts, clear refusals."""

import re

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

import tcsis
from tcsis import mcmc
from tcsis.exact import Enumeration
from tcsis.mcmc.balanced import LocallyBalanced
from tcsis.mcmc.chains import CompiledChains, TorchChains
from tcsis.mcmc.runner import KERNELS, start_chains
from tcsis.mcmc.tempering import ParallelTempering
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass, Target, from_callable

SEEDS = range(20)
LEVEL = 1e-5
"""Of one χ² test.  Over 20 seeds a case gives a false alarm in 1 of 5,000 choices of the seeds."""


def energy_statistic(target: Target, x: Tensor) -> tuple[float, int]:
    """χ² of the energies of independent draws against enumeration, levels under 5 pooled."""
    table = Enumeration(target)
    levels, level = (table.log_density * 1e6).round().unique(return_inverse=True)
    expected = torch.zeros(len(levels), dtype=torch.float64).index_add(0, level, table.p) * len(x)
    seen = level[tcsis.metrics.state_index(x, target.num_values)]
    counts = torch.bincount(seen, minlength=len(levels)).double()
    rare = expected < 5
    if rare.any():
        expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
        counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    return float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1


def check_energies(target: Target, x: Tensor) -> None:
    statistic, freedom = energy_statistic(target, x)
    assert statistic < chi2.isf(LEVEL, freedom)


FIELDS = torch.linspace(-0.5, 0.7, 9, dtype=torch.float64)
FERROMAGNETS = {
    "ising": Ising(3, 0.35),
    "ising-field": Ising(3, 0.3, 0.25),
    "potts": Potts((3, 2), 3, 0.8),
    "disordered": Pairwise(
        Ising(3, 1.0).edges,
        torch.linspace(0.1, 0.9, 18)[:, None, None] * Ising(3, 1.0).couplings,
        FIELDS[:, None] * torch.tensor([-1.0, 1.0]),
    ),
    "potts-fields": Pairwise(
        Potts((3, 2), 3, 1.0).edges,
        0.7 * Potts((3, 2), 3, 1.0).couplings,
        torch.randn(6, 3, generator=torch.Generator().manual_seed(0)),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("target", FERROMAGNETS)
@pytest.mark.parametrize("kernel", ["wolff", "swendsen-wang"])
def test_cluster_moves(kernel: str, target: str) -> None:
    system = FERROMAGNETS[target]
    for seed in SEEDS:
        draws = mcmc.sample(system, kernel, num_chains=2_000, num_steps=60, burn_in=59, seed=seed)
        check_energies(system, draws.x[:, -1])


GLASS = SpinGlass(3, 1.0, "gaussian", seed=1)
SMALL = {"glass": GLASS, "potts": Potts((3, 2), 3, 1.2)}
LADDER = (0.1, 0.3, 0.6, 1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("target", SMALL)
def test_parallel_tempering(target: str) -> None:
    """Cold chains from one and the same frozen state: only swaps bring them to equilibrium so
    soon."""
    system = SMALL[target]
    for seed in SEEDS:
        draws = mcmc.sample(
            system, ParallelTempering("glauber", LADDER),
            num_chains=1_000, num_steps=150, burn_in=149, seed=seed,
        )  # fmt: skip
        check_energies(system, draws.x[:, -1])
        assert 0.1 < draws.acceptance < 1


@pytest.mark.statistical
def test_several_steps_between_swaps() -> None:
    """Every step of every copy is made and paid for, and a swap besides."""
    kernel = ParallelTempering("gibbs", LADDER, steps_per_swap=5)
    draws = mcmc.sample(GLASS, kernel, num_chains=1_000, num_steps=60, burn_in=59, seed=0)
    check_energies(GLASS, draws.x[:, -1])
    assert draws.num_density_calls == 60 * 1_000 * len(LADDER) * (5 + 1)


@pytest.mark.statistical
def test_parallel_tempering_in_torch() -> None:
    draws = mcmc.sample(
        RING, ParallelTempering("gibbs", LADDER), num_chains=2_000, num_steps=40, burn_in=39, seed=0
    )
    check_energies(RING, draws.x[:, -1])


@pytest.mark.statistical
@pytest.mark.parametrize("target", SMALL)
def test_population_annealing(target: str) -> None:
    """Energies by χ² (50 sweeps a rung make replicas independent), and log Z within 4.5 of its own
    standard errors of the truth for every seed."""
    system = SMALL[target]
    log_z = tcsis.exact.solve(system).log_z
    for seed in SEEDS:
        population = mcmc.population_annealing(
            system, num_replicas=1_000, num_rungs=10, steps_per_rung=50, seed=seed
        )
        check_energies(system, population.draws.x[:, 0])
        assert abs(population.log_z - log_z) < 4.5 * population.log_z_error
        assert 1 < population.num_families <= 1_000


@pytest.mark.statistical
def test_population_annealing_at_the_critical_point() -> None:
    """Side 10, 4,096 replicas: log Z within 0.05, and G(r) within twice the floor of 10,000
    independent draws on the average of three seeds."""
    target = Ising(10, 0.4407)
    errors = []
    for seed in range(3):
        population = mcmc.population_annealing(
            target, num_replicas=4_096, steps_per_rung=20, num_draws=16, seed=seed
        )
        assert population.log_z == pytest.approx(93.612250, abs=0.05)
        errors.append(tcsis.evaluate(population.draws, target)["correlation"].error)
    assert sum(errors) / 3 < 2 * 0.00175


@pytest.mark.statistical
def test_annealed_importance_sampling() -> None:
    """E[w] = Z however short the ladder: log Z of 20 seeds within 4.5 standard errors, and the
    weights repair the energies of chains that are far from equilibrium."""
    truth = tcsis.exact.solve(GLASS)
    for seed in SEEDS:
        draws = mcmc.annealed_importance_sampling(
            GLASS, num_chains=4_000, num_rungs=8, steps_per_rung=1, seed=seed
        )
        assert draws.log_z == pytest.approx(truth.log_z, abs=4.5 * draws.log_z_error)
        assert draws.ess < 0.97
    energy = tcsis.evaluate(draws, GLASS, weighted=True)["energy"]
    assert energy.error < 5 * energy.floor / draws.ess**0.5


def ring_density(x: Tensor) -> Tensor:
    """A frustrated ring of three values: neighbours like to differ by one."""
    step = (x - x.roll(1, -1)) % 3
    return 0.8 * (step == 1).double().sum(-1) + 0.3 * (x[..., 0] == 2).double()


RING = from_callable(ring_density, 5, 3)
GENERAL = {
    "ring": RING,
    "asymmetric": Pairwise(
        [[0, 1], [1, 2], [2, 3], [0, 3]],
        torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(1)),
        torch.randn(4, 3, generator=torch.Generator().manual_seed(2)),
    ),
    "glass": SpinGlass(3, 0.7, seed=2),
}
ADJUSTED = ["metropolis", "glauber", "gibbs", "balanced-sqrt", "balanced-barker", "pas"]
INFORMED = ["gwg", "gwg-multi", "dmala"]


CASES = [
    (kernel, name)
    for kernel in ADJUSTED + INFORMED
    for name, target in GENERAL.items()
    if target.differentiable or kernel in ADJUSTED
]


@pytest.mark.statistical
@pytest.mark.parametrize(("kernel", "target"), CASES)
def test_every_kernel_reaches_the_target(kernel: str, target: str) -> None:
    """Through the front door, engine as it comes; 2,000 chains and their last states."""
    system = GENERAL[target]
    steps = 50 if kernel in ("gibbs", "gwg-multi", "pas") else 200  # the others move site by site
    draws = mcmc.sample(
        system, kernel, num_chains=2_000, num_steps=steps, burn_in=steps - 1, seed=5
    )
    check_energies(system, draws.x[:, -1])


@pytest.mark.statistical
@pytest.mark.parametrize("target", ["asymmetric", "glass"])
@pytest.mark.parametrize(("kernel", "steps"), [("metropolis", 3), ("glauber", 3), ("gibbs", 20)])
def test_engines_agree(kernel: str, steps: int, target: str) -> None:
    """Far from equilibrium too: after 3 steps from one state both engines have the same energies,
    by a two-sample χ² at level 1e-5 over 6 cases.  Sweeps visit the sites in another order on each
    engine, so they are compared after many."""
    system, n = GENERAL[target], 10_000
    x = torch.zeros(n, system.num_sites, dtype=torch.long)
    compiled, plain = start_chains(system, kernel, x, 0), TorchChains(system, KERNELS[kernel], x, 0)
    assert isinstance(compiled, CompiledChains)
    histograms = []
    for chains in (compiled, plain):
        chains.advance(steps)
        energies = (system.log_density(chains.x) * 1e3).round()
        histograms.append(energies)
    levels, index = torch.cat(histograms).unique(return_inverse=True)
    a, b = (torch.bincount(part, minlength=len(levels)).double() for part in index.split(n))
    common = a + b >= 20
    statistic = float(((a - b) ** 2 / (a + b))[common].sum())
    assert statistic < chi2.isf(1e-5, int(common.sum()))


@pytest.mark.statistical
def test_a_wrong_target_is_caught() -> None:
    """The negative control of every χ² above: chains at another temperature do not pass."""
    draws = mcmc.sample(Ising(3, 0.38), "gibbs", num_chains=2_000, num_steps=60, burn_in=59)
    statistic, freedom = energy_statistic(FERROMAGNETS["ising"], draws.x[:, -1])
    assert statistic > chi2.isf(LEVEL, freedom)


def test_shapes_seeds_and_costs() -> None:
    target = Ising(4, 0.4)
    run = {"num_chains": 6, "num_steps": 50, "burn_in": 10, "thin": 3}
    draws = mcmc.sample(target, "gibbs", **run, seed=1)
    assert draws.x.shape == (6, 13, 16)
    assert draws.x.dtype == torch.uint8
    assert draws.num_density_calls == 6 * (10 + 39)
    assert draws.seconds > 0
    assert torch.equal(draws.x, mcmc.sample(target, "gibbs", **run, seed=1).x)
    assert not torch.equal(draws.x, mcmc.sample(target, "gibbs", **run, seed=2).x)
    glauber = mcmc.sample(target, "glauber", **run)
    assert glauber.num_density_calls == pytest.approx(6 * 49 / 16)
    gwg = mcmc.sample(target, LocallyBalanced(), **run)
    assert gwg.num_density_calls == 6 * (1 + 49) * 3  # a density and a gradient (two) a step
    assert torch.equal(gwg.x, mcmc.sample(target, "gwg", **run).x)
    assert 0 < gwg.acceptance < 1


def test_chains_start_where_they_are_put() -> None:
    target = Ising(4, 0.4)
    init = torch.ones(3, 16, dtype=torch.long)
    draws = mcmc.sample(target, "glauber", num_chains=3, num_steps=1, init=init)
    assert ((draws.x[:, 0] != init).sum(-1) <= 1).all()
    assert init.eq(1).all()


def test_one_step_at_a_time() -> None:
    """The way training code uses chains: any engine, moved on bit by bit, tempered at will."""
    target = SpinGlass(4, 1.0)
    x = torch.zeros(8, 16, dtype=torch.long)
    for kernel in ("gibbs", "gwg"):
        chains = start_chains(target, kernel, x, seed=0)
        chains.advance(2)
        chains.place(chains.x, torch.linspace(0, 1, 8, dtype=torch.float64))
        share = chains.advance(3)
        assert chains.x.shape == (8, 16)
        assert 0 <= share <= 1


BLACK_BOX = from_callable(lambda x: x.sum(-1).double(), 4, 2)
ISING = Ising(4, 0.4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcmc.sample(ISING, "gibs"), "did you mean 'gibbs'?"),
        (lambda: mcmc.sample(ISING, "hmc"), "kernel is 'hmc': expected one of metropolis, "),
        (lambda: mcmc.sample(Ising(4, -0.4), "wolff"), "antiferromagnetic"),
        (lambda: mcmc.sample(SpinGlass(4, 1.0), "swendsen-wang"), "antiferromagnetic"),
        (lambda: mcmc.sample(GENERAL["asymmetric"], "wolff"), "a + b·[u = v]"),
        (lambda: mcmc.sample(BLACK_BOX, "wolff"), "is not pairwise"),
        (lambda: mcmc.sample(BLACK_BOX, "gwg"), "has no gradient"),
        (lambda: mcmc.sample(BLACK_BOX, "dmala"), "has no gradient"),
        (lambda: mcmc.sample(ISING, num_chains=0), "num_chains is 0: expected an integer"),
        (lambda: mcmc.sample(ISING, num_steps=0), "num_steps is 0"),
        (lambda: mcmc.sample(ISING, num_steps=10, burn_in=10), "burn_in is 10: expected 0 <= "),
        (lambda: mcmc.sample(ISING, num_steps=10, burn_in=-1), "burn_in is -1"),
        (lambda: mcmc.sample(ISING, num_steps=10, burn_in=5, thin=6), "thin is 6: expected"),
        (lambda: mcmc.sample(ISING, init=torch.zeros(3, 16, dtype=torch.long)), "init has shape"),
        (lambda: mcmc.sample(ISING, init=torch.zeros(100, 16)), "x has dtype torch.float32"),
        (lambda: ParallelTempering(scales=(0.5, 0.2, 1.0)), "scales is [0.5, 0.2, 1.0]"),
        (lambda: ParallelTempering(scales=(0.5, 0.9)), "to 1"),
        (lambda: ParallelTempering(steps_per_swap=0), "steps_per_swap is 0: expected an integer"),
        (lambda: LocallyBalanced(num_flips=0), "num_flips is 0"),
        (lambda: mcmc.sample(ISING, mcmc.Metropolis), "expected a name or a kernel value"),
        (lambda: mcmc.sample(ISING, 5), "kernel is 5"),
        (lambda: mcmc.sample(ISING, burn_in="a"), "burn_in is 'a'"),
        (lambda: mcmc.sample(ISING, seed="a"), "seed is 'a': expected an integer"),
        (lambda: ParallelTempering("tempering"), "kernel is parallel tempering itself"),
        (lambda: mcmc.population_annealing(ISING, ladder=[0, float("nan"), 1]), "ladder has nan"),
        (lambda: mcmc.DiscreteMALA(step_size=0.0), "step_size is 0.0"),
        (lambda: mcmc.PathAuxiliary(length=0), "length is 0"),
        (lambda: mcmc.population_annealing(ISING, num_replicas=0), "num_replicas is 0"),
        (
            lambda: mcmc.population_annealing(ISING, ladder=torch.tensor([0.0, 0.5])),
            "ladder is [0.0, 0.5]: expected rising numbers from 0 to 1",
        ),
        (lambda: mcmc.population_annealing(ISING, "tempering"), "kernel is parallel tempering"),
    ],
)  # fmt: skip
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["metropolis", "glauber"])
def test_one_seed_makes_independent_streams(kernel: str) -> None:
    """Initial states and moves from one seed must not know of each other: with one chain a seed,
    the mean weight over 800 seeds is Z within 4.5 standard errors."""
    target = from_callable(lambda x: 1.5 * x.double().sum(-1), 2, 2)
    log_z = tcsis.exact.solve(target).log_z
    run = {"num_chains": 1, "num_rungs": 2}
    log_weight = [
        mcmc.annealed_importance_sampling(target, kernel, **run, seed=seed).log_weight
        for seed in range(800)
    ]
    weight = (torch.cat(log_weight) - log_z).exp()
    assert abs(float(weight.mean()) - 1) < 4.5 * float(weight.std()) / 800**0.5


def test_forbidden_populations_are_named() -> None:
    target = from_callable(lambda x: torch.where(x.sum(-1) == 12, 0.0, -torch.inf), 12, 2)
    with pytest.raises(ValueError, match="forbids all 5 states of the population"):
        mcmc.population_annealing(target, num_replicas=5)
    with pytest.raises(ValueError, match="forbids all 5 states of the population"):
        mcmc.annealed_importance_sampling(target, num_chains=5)


def test_short_runs_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    mcmc.sample(ISING, num_chains=2, num_steps=3)
    assert capfd.readouterr() == ("", "")


def test_small_systems_take_every_kernel() -> None:
    target = Potts((2,), 3, 0.7)
    for kernel in KERNELS:
        assert mcmc.sample(target, kernel, num_chains=3, num_steps=4).x.shape == (3, 4, 2)
