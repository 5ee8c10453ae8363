"""Speed of the chains against installed peers, on one core each, in one run.

    python benchmarks/chains.py           # needs the bench extra: mcising, dwave-samplers

Ratios within the run are what counts: seconds differ from machine to machine and hour to hour.
"""

import time
from collections.abc import Callable

import dimod
import mcising
import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler
from rich.console import Console
from rich.table import Table

import tcsis
from tcsis import mcmc
from tcsis.mcmc.compiled import PairwiseArrays, make_streams, step, sweep
from tcsis.targets import Ising, Pairwise, Potts, SpinGlass

CRITICAL = 0.4407
NUM_CHAINS = 256


def rate(work: Callable[[], float], least: float = 2.0) -> float:
    """Units of work a second, the best of several calls over at least ``least`` seconds."""
    work()
    best, begin = 0.0, time.perf_counter()
    while time.perf_counter() - begin < least:
        start = time.perf_counter()
        units = work()
        best = max(best, units / (time.perf_counter() - start))
    return best


def compiled_updates(target: Pairwise, move: Callable, steps: int, **options: str) -> float:
    """Single-site updates a second: ``move`` is a sweep over d sites or a step of one."""
    d = target.num_sites
    arrays, streams = PairwiseArrays.of(target), make_streams(0, NUM_CHAINS)
    x = np.random.default_rng(0).integers(target.num_values, size=(NUM_CHAINS, d), dtype=np.uint8)
    updates = steps * NUM_CHAINS * (d if move is sweep else 1)

    def work() -> float:
        move(arrays, x, streams, steps, **options)
        return updates

    return rate(work)


def mcising_updates(side: int, algorithm: str) -> float:
    simulation = mcising.IsingSimulation(side, 1.0, 0.0, 0.0, 0.0, 1, algorithm)

    def work() -> float:
        simulation.sweep(100, temperature=1 / CRITICAL)
        return 100 * side * side

    return rate(work)


def dwave_updates(target: Pairwise, num_sweeps: int = 200) -> float:
    couplings, fields, _ = target.spin_form
    model = dimod.BinaryQuadraticModel("SPIN")
    model.add_linear_from((i, -h) for i, h in enumerate(fields.tolist()))
    model.add_quadratic_from(
        (i, j, -b) for (i, j), b in zip(target.edges.tolist(), couplings.tolist(), strict=True)
    )
    sampler, reads = SimulatedAnnealingSampler(), 16

    def work() -> float:
        # betas constant at 1: sweeps of the same kind as ours, at the target's own temperature
        sampler.sample(
            model, num_reads=reads, num_sweeps=num_sweeps, beta_schedule_type="custom",
            beta_schedule=[1.0] * num_sweeps, num_sweeps_per_beta=1, seed=1,
        )  # fmt: skip
        return reads * num_sweeps * target.num_sites

    return rate(work)


def updates_table() -> Table:
    table = Table(title="single-site updates a second a core, millions", title_justify="left")
    for name in ("target", "how", "tcsis", "peer", "ratio"):
        table.add_column(name, justify="right" if name in ("tcsis", "peer", "ratio") else "left")
    ising, glass = Ising(64, CRITICAL), SpinGlass(64, 1.0, "gaussian")
    metropolis = mcising_updates(64, "metropolis")
    annealing, annealing_glass = dwave_updates(ising), dwave_updates(glass)
    potts = Potts(64, 3, 1.0)
    fast = {rule: compiled_updates(ising, sweep, 20, rule=rule) for rule in ("metropolis", "gibbs")}
    on_glass = compiled_updates(glass, sweep, 10, rule="metropolis")
    rows: list[tuple[Pairwise, str, float, float | None]] = [
        (ising, "Metropolis sweeps / mcising", fast["metropolis"], metropolis),
        (ising, "heat-bath sweeps / mcising Metropolis", fast["gibbs"], metropolis),
        (ising, "Metropolis sweeps / dwave annealing", fast["metropolis"], annealing),
        (glass, "Metropolis sweeps / dwave annealing", on_glass, annealing_glass),
        (ising, "heat bath, random sites", compiled_updates(ising, step, 20_000), None),
        (potts, "heat-bath sweeps", compiled_updates(potts, sweep, 4), None),
    ]
    for target, how, ours, peer in rows:
        table.add_row(
            repr(target), how, f"{ours / 1e6:.0f}",
            "" if peer is None else f"{peer / 1e6:.0f}",
            "" if peer is None else f"{ours / peer:.1f}",
        )  # fmt: skip
    return table


def autocorrelation_time(series: np.ndarray) -> float:
    """Integrated autocorrelation time ½ + Σ ρ_k of (chain, draw), window 6 times itself."""
    centred = series - series.mean()
    n = series.shape[1]
    power = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    rho = np.fft.irfft(power.mean(0))[:n] / (n - np.arange(n))
    rho /= rho[0]
    times = 0.5 + np.cumsum(rho[1:])
    window = int(np.argmax(np.arange(1, n) >= 6 * times))
    return float(times[window])


def cluster_table() -> Table:
    table = Table(
        title="independent samples a second a core: updates/s ÷ 2τ of m²", title_justify="left"
    )
    for name in ("target", "kernel", "updates/s", "τ", "independent/s"):
        table.add_column(name, justify="left" if name in ("target", "kernel") else "right")
    for side in (10, 32):
        target = Ising(side, CRITICAL)
        for kernel in ("wolff", "swendsen-wang", "gibbs"):
            run = {"num_chains": 64, "num_steps": 2_000, "burn_in": 200, "progress": False}
            x = mcmc.sample(target, kernel, **run).x
            tau = autocorrelation_time(((x.double().mean(-1) * 2 - 1) ** 2).numpy())
            chains = mcmc.start_chains(target, kernel, x[:, -1].long(), seed=1)

            def work(chains: mcmc.Chains = chains) -> float:
                chains.advance(200)
                return 64 * 200

            speed = rate(work)
            table.add_row(
                repr(target), kernel, f"{speed:,.0f}", f"{tau:.2f}", f"{speed / (2 * tau):,.0f}"
            )
    return table


def gwg_table() -> Table:
    """Gibbs-with-gradients as in the paper's appendix: few steps from uniform noise."""
    table = Table(title="Gibbs-with-gradients, 10,000 chains from noise", title_justify="left")
    for name in ("side", "β", "steps", "G(r) error", "iid floor", "error/floor"):
        table.add_column(name, justify="right")
    for side, beta in ((4, 0.28), (4, 0.4407), (4, 0.6), (10, 0.28), (10, 0.4407)):
        steps = 24 if side == 4 else 64
        target = Ising(side, beta)
        draws = mcmc.sample(
            target, "gwg", num_chains=10_000, num_steps=steps, burn_in=steps - 1, seed=0
        )
        row = tcsis.evaluate(draws, target)["correlation"]
        table.add_row(
            str(side), str(beta), str(steps), f"{row.error:.4f}", f"{row.floor:.5f}",
            f"{row.error / row.floor:.0f}",
        )  # fmt: skip
    return table


def annealing_table() -> Table:
    title = "population annealing, 4,096 replicas, 50 rungs × 20 sweeps, 16 draws each"
    table = Table(title=title, title_justify="left")
    columns = ("seed", "seconds", "log Z - exact", "its error", "G(r) error", "floor", "ratio")
    for name in columns:
        table.add_column(name, justify="right")
    target = Ising(10, CRITICAL)
    exact = tcsis.exact.solve(target)
    for seed in range(4):
        population = mcmc.population_annealing(
            target, num_replicas=4_096, steps_per_rung=20, num_draws=16, seed=seed
        )
        evaluation = tcsis.evaluate(population.draws, target)
        row = evaluation["correlation"]
        floor = row.floor * (evaluation.num_draws / 10_000) ** 0.5
        table.add_row(
            str(seed), f"{population.draws.seconds:.2f}", f"{population.log_z - exact.log_z:+.4f}",
            f"{population.log_z_error:.4f}", f"{row.error:.5f}", f"{floor:.5f}",
            f"{row.error / floor:.1f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    console = Console(width=130)
    for make in (updates_table, cluster_table, annealing_table, gwg_table):
        console.print(make())
