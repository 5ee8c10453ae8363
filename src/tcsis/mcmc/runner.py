"""The one way to run chains: names to kernels, a seed to states, and states to draws."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts, check_integer, make_generator
from tcsis.basics.memory import check_fits
from tcsis.basics.progress import progress_bar
from tcsis.draws import Draws
from tcsis.mcmc import annealing
from tcsis.mcmc.allowed import uniform_states
from tcsis.mcmc.annealing import Population
from tcsis.mcmc.balanced import LocallyBalanced, barker, exact_difference
from tcsis.mcmc.chains import Chains, CompiledChains, Copies, TorchChains
from tcsis.mcmc.compiled import COMPILED, CompiledKernel, compiles
from tcsis.mcmc.compiling import compiling_said
from tcsis.mcmc.gibbs import PairGibbs, RandomScanGibbs, SweepGibbs
from tcsis.mcmc.kernel import Kernel
from tcsis.mcmc.langevin import DiscreteMALA, DiscreteULA
from tcsis.mcmc.metropolis import Metropolis, WholeMetropolis
from tcsis.mcmc.path import PathAuxiliary
from tcsis.mcmc.tempering import ParallelTempering, TemperedChains
from tcsis.targets.base import Target, counting
from tcsis.targets.pairwise import as_parameter

PATIENCE = 5.0
"""Seconds of a run before it has a progress bar."""

AnyKernel: TypeAlias = str | Kernel | CompiledKernel | ParallelTempering

KERNELS: dict[str, Kernel | CompiledKernel | ParallelTempering] = {
    "metropolis": Metropolis(),
    "whole-metropolis": WholeMetropolis(),
    "glauber": RandomScanGibbs(),
    "gibbs": SweepGibbs(),
    "pair-gibbs": PairGibbs(),
    "gwg": LocallyBalanced(),
    "gwg-multi": LocallyBalanced(num_flips=4),
    "balanced-sqrt": LocallyBalanced(exact_difference),
    "balanced-barker": LocallyBalanced(exact_difference, barker),
    "dula": DiscreteULA(),
    "dmala": DiscreteMALA(),
    "pas": PathAuxiliary(),
    "wolff": COMPILED["wolff"],
    "swendsen-wang": COMPILED["swendsen-wang"],
    "tempering": ParallelTempering(),
}
"""Kernels by name, with default settings; a kernel value may stand wherever a name may."""

COMPILED_FORMS: dict[type, CompiledKernel] = {
    Metropolis: COMPILED["metropolis"],
    RandomScanGibbs: COMPILED["glauber"],
    SweepGibbs: COMPILED["gibbs"],
}
"""Kernels that run compiled on pairs and factors on the CPU."""


def sample(
    target: Target,
    kernel: AnyKernel = "gibbs",
    *,
    num_chains: int = 100,
    num_steps: int = 1_000,
    burn_in: int = 0,
    thin: int = 1,
    seed: int = 0,
    init: Tensor | None = None,
    progress: bool = True,
) -> Draws:
    """Run ``num_chains`` independent chains for ``num_steps`` steps each.

    The first ``burn_in`` steps are dropped, and of the rest every ``thin``-th state is kept: ``x``
    is (chain, draw, site) with (num_steps - burn_in) // thin draws.  Chains start from uniform
    noise or from ``init`` (num_chains, d), whose free sites alone are read where the target is
    given others.  A step of "glauber" or "metropolis" updates one site, one of "gibbs" sweeps over
    all of them.
    """
    check_counts(num_chains=num_chains, num_steps=num_steps, thin=thin)
    if check_integer("burn_in", burn_in, least=0) >= num_steps:
        raise ValueError(f"burn_in is {burn_in}: expected 0 <= burn_in < num_steps = {num_steps}")
    num_draws = (num_steps - burn_in) // thin
    if not num_draws:
        raise ValueError(
            f"thin is {thin}: expected at most the {num_steps - burn_in} steps after burn-in"
        )
    what = f" draws of {target.num_sites} sites"
    check_fits("num_chains times the draws kept", num_chains * num_draws, target.num_sites, what)
    x = initial_states(target, num_chains, seed, init)
    kept = torch.empty(num_draws, *x.shape, dtype=torch.uint8)
    accepted = 0.0
    begin = time.perf_counter()
    bar = progress_bar("chains", num_draws, progress, PATIENCE)
    with counting(target) as cost, compiling_said(progress), bar as show:
        chains = start_chains(target.free, kernel, x, seed)
        if burn_in:
            chains.advance(burn_in)
        for number, row in enumerate(kept, start=1):
            accepted += chains.advance(thin)
            row.copy_(chains.x)
            show(number)
    return Draws(
        kept.transpose(0, 1).contiguous(),
        seconds=time.perf_counter() - begin,
        num_density_calls=cost.densities,
        acceptance=accepted / num_draws,
    ).completed(target)


def population_annealing(
    target: Target,
    kernel: AnyKernel = "gibbs",
    *,
    num_replicas: int = 4_096,
    num_rungs: int = 50,
    steps_per_rung: int = 10,
    num_draws: int = 1,
    ladder: Tensor | Sequence[float] | None = None,
    init: Tensor | None = None,
    seed: int = 0,
) -> Population:
    """Draws, log Z and its error by population annealing; see ``tcsis.mcmc.annealing``.

    ``ladder`` holds the scales from 0 to 1, evenly spaced in ``num_rungs`` rungs by default.  Once
    there, each replica is observed ``num_draws`` times, ``steps_per_rung`` steps apart.  Replicas
    start from uniform noise, or from allowed states ``init`` (num_replicas, d), of whose number
    nothing is known: then log Z is not a number.
    """
    check_counts(num_replicas=num_replicas, num_draws=num_draws)
    ladder, x, start = prepare_annealing(
        target, kernel, num_replicas, num_rungs, steps_per_rung, ladder, seed, init
    )
    generator = make_generator(seed, "resampling")
    log_volume = annealing.log_num_states(target.free) if init is None else math.nan
    population = annealing.population_annealing(
        target.free, ladder, steps_per_rung, x, start, generator, num_draws, log_volume
    )
    return population.completed(target)


def annealed_importance_sampling(
    target: Target,
    kernel: AnyKernel = "gibbs",
    *,
    num_chains: int = 1_000,
    num_rungs: int = 100,
    steps_per_rung: int = 1,
    ladder: Tensor | Sequence[float] | None = None,
    seed: int = 0,
) -> Draws:
    """Independent weighted draws with E[w] = Z; see ``tcsis.mcmc.annealing``."""
    ladder, x, start = prepare_annealing(
        target, kernel, num_chains, num_rungs, steps_per_rung, ladder, seed
    )
    draws = annealing.annealed_importance_sampling(target.free, ladder, steps_per_rung, x, start)
    return draws.completed(target)


def prepare_annealing(
    target: Target,
    kernel: AnyKernel,
    num_chains: int,
    num_rungs: int,
    steps_per_rung: int,
    ladder: Tensor | Sequence[float] | None,
    seed: int,
    init: Tensor | None = None,
) -> tuple[Tensor, Tensor, Callable[[Tensor], Chains]]:
    """The ladder, first states and a way to start chains at them, all of the free sites."""
    check_counts(num_chains=num_chains, num_rungs=num_rungs, steps_per_rung=steps_per_rung)
    if ladder is None:
        ladder = torch.linspace(0, 1, num_rungs + 1, dtype=torch.float64)
    ladder = as_parameter("ladder", ladder)
    ends_right = ladder.ndim == 1 and len(ladder) > 1 and ladder[0] == 0 and ladder[-1] == 1
    if not ends_right or not bool((ladder.diff() > 0).all()):
        raise ValueError(f"ladder is {ladder.tolist()}: expected rising numbers from 0 to 1")
    if isinstance(find_kernel(kernel), ParallelTempering):
        raise ValueError("kernel is parallel tempering: expected a kernel that runs at one scale")
    x = initial_states(target, num_chains, seed, init)
    return ladder, x, lambda states: start_chains(target.free, kernel, states, seed)


def start_chains(target: Target, kernel: AnyKernel, x: Tensor, seed: int) -> Chains:
    """Chains of ``kernel`` at x (n, d), compiled where there is a compiled form for the target."""
    chosen = find_kernel(kernel)
    if not isinstance(chosen, ParallelTempering):
        return start_copies(target, chosen, x, seed)
    inner = find_kernel(chosen.kernel)
    assert not isinstance(inner, ParallelTempering)
    return TemperedChains(
        chosen.scales, x, seed, lambda copies: start_copies(target, inner, copies, seed),
        chosen.steps_per_swap,
    )  # fmt: skip


def start_copies(target: Target, kernel: Kernel | CompiledKernel, x: Tensor, seed: int) -> Copies:
    """Chains of a kernel that runs at one scale, or at one for each chain."""
    if compiles(target):
        kernel = COMPILED_FORMS.get(type(kernel), kernel)
    if not isinstance(kernel, CompiledKernel):
        return TorchChains(target, kernel, x, seed)
    if not kernel.serves(target):
        raise ValueError(f"{target} is not pairwise: kernel {kernel.name!r} needs pair couplings")
    return CompiledChains(target, kernel, x, seed)


def find_kernel(kernel: AnyKernel) -> Kernel | CompiledKernel | ParallelTempering:
    if not isinstance(kernel, str):
        if isinstance(kernel, type) or not isinstance(
            kernel, CompiledKernel | ParallelTempering | Kernel
        ):
            raise ValueError(f"kernel is {kernel!r}: expected a name or a kernel value")
        return kernel
    if kernel not in KERNELS:
        near = difflib.get_close_matches(kernel.lower(), KERNELS, n=1, cutoff=0)
        raise ValueError(
            f"kernel is {kernel!r}: expected one of {', '.join(KERNELS)}; did you mean {near[0]!r}?"
        )
    return KERNELS[kernel]


def initial_states(target: Target, num_chains: int, seed: int, init: Tensor | None) -> Tensor:
    """Uniform states or those of ``init``, of the free sites, (num_chains, d_free), on the
    target's device."""
    if init is None:
        generator = make_generator(seed, "initial states")
        return uniform_states(target.free, num_chains, generator).to(target.device)
    x = target.check(init)
    if x.shape != (num_chains, target.num_sites):
        raise ValueError(
            f"init has shape {tuple(init.shape)}: "
            f"expected (num_chains, num_sites) = {(num_chains, target.num_sites)}"
        )
    return x[:, target.free_sites]
