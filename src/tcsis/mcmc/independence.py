"""Independence Metropolis: chains whose proposals are the weighted draws of any sampler.

A sampler draws paths ω that end at x, with probability q(ω) and weight w(ω) = π̄(ω)/q(ω), where the
law of paths π ∝ π̄ has p for the law of its ends.  A chain at ω goes to a fresh draw ω' with
probability

    min(1, w(ω')/w(ω)),

which leaves π as it is, and so p, however poor the sampler.  An autoregressive law has no paths:
there ω is x itself.

Between two proposals a ``kernel`` that leaves p as it is may move x.  The path to the old x is void
then, and with it its weight: a path to the new x is drawn from π(ω | x), a Gibbs step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tcsis.basics.checks import check_counts, check_integer, derive_seed, make_generator
from tcsis.draws import Draws, Sampler
from tcsis.mcmc.kernel import decide, log_acceptance
from tcsis.mcmc.langevin import DiscreteULA
from tcsis.mcmc.runner import AnyKernel, find_kernel, start_chains
from tcsis.mcmc.tempering import ParallelTempering
from tcsis.targets.base import Target, counting

Weigh = Callable[[Tensor, torch.Generator], Tensor]
"""States (b, d), of the free sites, -> log weights (b,) of paths to them, from π(ω | x)."""

BATCH_SIZE = 16_384
"""Proposals drawn together: they do not depend on where the chains are."""
NUM_STARTS = 10
"""Batches, each twice as large as the one before, in which chains look for a start."""


@torch.no_grad()
def independence_chains(
    sampler: Sampler,
    target: Target,
    num_draws: int,
    *,
    num_chains: int = 10,
    kernel: AnyKernel | None = None,
    weigh: Weigh | None = None,
    burn_in: int = 100,
    thin: int = 1,
    seed: int = 0,
) -> Draws:
    """Chains that take the weighted draws of ``sampler`` as proposals; see
    ``tcsis.mcmc.independence``.

    ``x`` is (num_chains, num_draws, d), without weights.  The chains are exact if the draws are
    independent and E[w·f(x)] = Z·E_p[f] holds for each of them; a poor sampler makes them slow.
    They start at draws of weight above zero, drop ``burn_in`` steps, and keep every ``thin``-th
    state after them.  With a ``kernel`` every proposal comes after one step of it and a
    ``weigh``, which counts as many network calls a state as a draw; that goes step by step, so many
    chains cost little more than few.  ``acceptance`` is the share of proposals accepted after
    burn-in.
    """
    check_counts(num_draws=num_draws, num_chains=num_chains, thin=thin)
    check_integer("burn_in", burn_in, least=0)
    check_kernel(kernel, weigh)
    begin = time.perf_counter()
    proposals = Proposals(sampler, target, num_chains, seed)
    here = proposals.start()
    costs: list[Proposals | LocalMoves] = [proposals]
    local = None
    if kernel is not None and weigh is not None:
        local = LocalMoves(target.free, kernel, weigh, here.x, proposals.calls_a_draw, seed)
        costs.append(local)
    kept = torch.empty(num_draws, *here.x.shape, dtype=torch.uint8)
    accepted = 0.0
    steps = walk(here, proposals.rounds(burn_in + thin * num_draws), local, seed)
    for step, (x, share) in enumerate(steps, start=1 - burn_in):
        if step >= 1:
            accepted += share
            if step % thin == 0:
                kept[step // thin - 1] = x
    return Draws(
        kept.transpose(0, 1).contiguous(),
        seconds=time.perf_counter() - begin,
        num_density_calls=sum(part.num_density_calls for part in costs),
        num_network_calls=sum(part.num_network_calls for part in costs),
        acceptance=accepted / (thin * num_draws),
    ).completed(target)


def check_kernel(kernel: AnyKernel | None, weigh: Weigh | None) -> None:
    if kernel is None:
        return
    if isinstance(find_kernel(kernel), ParallelTempering | DiscreteULA):
        raise ValueError(
            f"kernel is {kernel!r}: expected one that leaves the target as it is, at one scale, "
            'such as "gibbs"'
        )
    if weigh is None:
        raise ValueError(
            f"kernel is {kernel!r} and weigh is missing: expected the function that weighs the "
            "states that the kernel moves to; a trained model has it as model.sampler.weigh"
        )


@dataclass(frozen=True)
class Paths:
    """Paths by their ends ``x`` uint8 (n, d), of the free sites, and their ``log_weight`` float64
    (n,)."""

    x: Tensor
    log_weight: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: slice | Tensor) -> Paths:
        return Paths(self.x[index], self.log_weight[index])


def walk(
    here: Paths, proposals: Iterable[Paths], local: LocalMoves | None, seed: int
) -> Iterator[tuple[Tensor, float]]:
    """The states of all chains after every step, (chain, d), and the share of the chains that went
    to their proposal."""
    generator = make_generator(seed, "acceptance", here.x.device)
    for proposed in proposals:
        if local is not None:
            here = local.move(here)
        here, accepted = choose(here, proposed, generator)
        yield here.x, float(accepted.double().mean())


def choose(here: Paths, proposed: Paths, generator: torch.Generator) -> tuple[Paths, Tensor]:
    """The path that each chain goes on with, and whether it is the proposed one, (n,)."""
    log_probability = log_acceptance(here.log_weight, proposed.log_weight, 0.0, 0.0)
    accepted = decide(log_probability, generator)
    x = torch.where(accepted[:, None], proposed.x, here.x)
    return Paths(x, torch.where(accepted, proposed.log_weight, here.log_weight)), accepted


class Proposals:
    """Draws of a sampler, one for every chain and step, and what they cost."""

    def __init__(self, sampler: Sampler, target: Target, num_chains: int, seed: int):
        self.sampler, self.target, self.num_chains, self.seed = sampler, target, num_chains, seed
        self.num_batches = self.num_drawn = 0
        self.num_density_calls = self.num_network_calls = 0.0

    @property
    def calls_a_draw(self) -> float:
        return self.num_network_calls / self.num_drawn

    def rounds(self, num_rounds: int) -> Iterator[Paths]:
        """A path for every chain, ``num_rounds`` times."""
        for some in torch.arange(num_rounds).split(max(1, BATCH_SIZE // self.num_chains)):
            drawn = self.draw(len(some) * self.num_chains)
            for first in range(0, len(drawn), self.num_chains):
                yield drawn[first : first + self.num_chains]

    def start(self) -> Paths:
        """For every chain a draw of weight above zero; where these are rare chains share them."""
        found: list[Paths] = []
        for doublings in range(NUM_STARTS):
            drawn = self.draw(self.num_chains << doublings)
            found.append(drawn[drawn.log_weight.isfinite()])
            if sum(map(len, found)) >= self.num_chains:
                break
        x = torch.cat([paths.x for paths in found])
        if not len(x):
            raise ValueError(
                f"all {self.num_drawn:,} first draws of the sampler have weight zero: expected one "
                "above zero for the chains to start at; train longer or take another sampler"
            )
        turn = torch.arange(self.num_chains, device=x.device) % len(x)
        return Paths(x[turn], torch.cat([paths.log_weight for paths in found])[turn])

    def draw(self, n: int) -> Paths:
        """n independent paths, of a seed of their own."""
        draws = self.sampler.sample(n, seed=derive_seed(self.seed, f"batch {self.num_batches}"))
        if draws.log_weight is None:
            raise ValueError(
                f"{type(self.sampler).__name__} gives draws without log_weight: expected a sampler "
                "of weighted draws"
            )
        if draws.x.shape != (n, self.target.num_sites):
            raise ValueError(
                f"{type(self.sampler).__name__} gives draws of shape {tuple(draws.x.shape)}: "
                f"expected {(n, self.target.num_sites)}, those of the target"
            )
        self.num_batches += 1
        self.num_drawn += n
        self.num_density_calls += draws.num_density_calls
        self.num_network_calls += draws.num_network_calls
        device = self.target.device
        x = draws.x[:, self.target.free_sites]
        return Paths(x.to(device), draws.log_weight.to(device).double())


class LocalMoves:
    """One step of a kernel, the weights of paths to where it leads, and what both cost."""

    def __init__(
        self, target: Target, kernel: AnyKernel, weigh: Weigh, x: Tensor, calls_a_draw: float,
        seed: int,
    ):  # fmt: skip
        self.target, self.weigh, self.calls_a_draw = target, weigh, calls_a_draw
        self.chains = start_chains(target, kernel, x, seed)
        self.generator = make_generator(seed, "paths", target.device)
        self.num_density_calls = self.num_network_calls = 0.0

    def move(self, here: Paths) -> Paths:
        """Paths to states one step of the kernel away."""
        with counting(self.target) as cost:
            self.chains.place(here.x)
            self.chains.advance(1)
            x = self.chains.x.to(self.target.device)
            log_weight = self.weigh(x.long(), self.generator).double()
        self.num_density_calls += cost.densities
        self.num_network_calls += len(x) * self.calls_a_draw
        return Paths(x.to(torch.uint8), log_weight)
