"""q(x_0): where training states come from, kept in a buffer that is moved on as training goes.

    uniform             noise, new at every step
    model_and_noise     the model's own draws, resampled by their path weights or as they are,
                        with a share of noise
    mcmc                chains that start from noise, a part of the buffer new at each refresh
    population_annealing  an annealed population, moved on by sweeps of the target

The paper uses the first three; any q with full support has the same minimiser, and the closer it
is to the target, the more of the training is spent where draws will be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts
from tcsis.draws import Draws, systematic_resample
from tcsis.mcmc import population_annealing as anneal
from tcsis.mcmc import sample as run_chains
from tcsis.mcmc.runner import AnyKernel, start_chains
from tcsis.targets.base import Target

SampleModel = Callable[[int, torch.Generator], Draws]
"""n draws of the model as it is now."""


@dataclass(frozen=True)
class Proposal:
    """``start`` fills a buffer (size, d); ``refresh`` moves it on, every ``every`` steps."""

    start: Callable[[torch.Generator], Tensor]
    refresh: Callable[[Tensor, SampleModel, torch.Generator], Tensor]
    every: int = 1

    def __post_init__(self) -> None:
        check_counts(every=self.every)


def uniform(target: Target, *, size: int = 4_096) -> Proposal:
    """Uniform noise, all of it new every time."""

    def start(generator: torch.Generator) -> Tensor:
        return noise(target, size, generator)

    return Proposal(start, lambda x, model, generator: start(generator))


def mcmc(
    target: Target,
    *,
    kernel: AnyKernel = "gwg",
    num_steps: int = 1_000,
    size: int = 4_096,
    num_chains: int = 64,
    every: int = 50,
) -> Proposal:
    """A replay buffer of chain ends: each refresh runs ``num_chains`` new chains from noise, which
    take the places of random old ones."""
    check_counts(num_chains=num_chains, num_steps=num_steps, size=size)

    def run(n: int, generator: torch.Generator) -> Tensor:
        draws = run_chains(
            target, kernel, num_chains=n, num_steps=num_steps, burn_in=num_steps - 1,
            seed=new_seed(generator), progress=False,
        )  # fmt: skip
        return draws.x[:, -1].long().to(target.device)

    def start(generator: torch.Generator) -> Tensor:
        return run(size, generator)

    def refresh(x: Tensor, model: SampleModel, generator: torch.Generator) -> Tensor:
        return replaced(x, run(min(num_chains, len(x)), generator), generator)

    return Proposal(start, refresh, every)


def model_and_noise(
    target: Target,
    *,
    noise_share: float = 0.1,
    resample: bool = False,
    size: int = 4_096,
    num_new: int = 256,
    every: int = 50,
) -> Proposal:
    """A replay buffer of the model's own draws, of which ``noise_share`` are uniform noise.

    With ``resample`` the draws are chosen by their path weights, so the buffer follows the target
    and not what the model takes for it.
    """
    if not 0 <= noise_share <= 1:
        raise ValueError(f"noise_share is {noise_share}: expected 0 <= noise_share <= 1")
    check_counts(size=size, num_new=num_new)
    choose = by_weight if resample else as_drawn

    def start(generator: torch.Generator) -> Tensor:
        return noise(target, size, generator)

    def refresh(x: Tensor, model: SampleModel, generator: torch.Generator) -> Tensor:
        new = choose(model(min(num_new, len(x)), generator), generator).to(target.device)
        random = torch.rand(len(new), 1, device=new.device, generator=generator) < noise_share
        new = torch.where(random, noise(target, len(new), generator), new)
        return replaced(x, new, generator)

    return Proposal(start, refresh, every)


def population_annealing(
    target: Target,
    *,
    size: int = 4_096,
    num_rungs: int = 50,
    steps_per_rung: int = 10,
    every: int = 4,
    num_moved: int | None = None,
) -> Proposal:
    """A population annealed to the target, then moved on by Gibbs sweeps: one sweep of
    ``num_moved`` random states, all by default, at each refresh."""
    check_counts(size=size, num_rungs=num_rungs, steps_per_rung=steps_per_rung)

    def start(generator: torch.Generator) -> Tensor:
        population = anneal(
            target, num_replicas=size, num_rungs=num_rungs, steps_per_rung=steps_per_rung,
            seed=new_seed(generator),
        )  # fmt: skip
        return population.draws.x[:, 0].long().to(target.device)

    def refresh(x: Tensor, model: SampleModel, generator: torch.Generator) -> Tensor:
        moved = some(len(x), min(num_moved or len(x), len(x)), generator)
        chains = start_chains(target, "gibbs", x[moved], new_seed(generator))
        chains.advance(1)
        return x.index_copy(0, moved, chains.x.to(x))

    return Proposal(start, refresh, every)


# -- the buffer -----------------------------------------------------------------------------------


def noise(target: Target, n: int, generator: torch.Generator) -> Tensor:
    shape = (n, target.num_sites)
    return torch.randint(target.num_values, shape, device=target.device, generator=generator)


def replaced(x: Tensor, new: Tensor, generator: torch.Generator) -> Tensor:
    """The buffer with random states replaced by new ones."""
    return x.index_copy(0, some(len(x), len(new), generator), new)


def some(n: int, k: int, generator: torch.Generator) -> Tensor:
    """k different numbers below n, (k,)."""
    return torch.randperm(n, device=generator.device, generator=generator)[:k]


def as_drawn(draws: Draws, generator: torch.Generator) -> Tensor:
    return draws.x.long()


def by_weight(draws: Draws, generator: torch.Generator) -> Tensor:
    assert draws.log_weight is not None
    return draws.x[systematic_resample(draws.log_weight, generator)].long()


def new_seed(generator: torch.Generator) -> int:
    """A seed for what makes its own generators."""
    return int(torch.randint(2**62, (), device=generator.device, generator=generator))
