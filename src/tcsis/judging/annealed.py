"""A second opinion where there are no exact answers: a population annealed for the purpose.

Draws know only what they have met.  A population annealed from uniform noise, which no network and
no chain of the draws had a part in, meets every mode in proportion as long as many of its first
states have descendants, and has a log Z of its own.  Modes that the draws miss, or hold in wrong
shares, show in the comparison; a mode that both miss does not.

A population may itself have been left behind: in the disordered phase where a transition of first
order has gone by.  Sweeps at the target lead any population nearer to it and leave one that is
there as it is, so one whose averages they move is swept on until they rest.

Replicas of one family are alike, so errors go by families f of sizes n_f:

    mean = Σ_i y_i/n,    error² = Σ_f (Σ_{i in f} (y_i - mean))²/n².
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from tcsis import mcmc
from tcsis.judging.beside import SMALL_GAP, observe_both
from tcsis.judging.chances import students
from tcsis.judging.findings import DOUBTFUL_CHANCE
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

SIZES = ((4_000, 50, 5), (500, 30, 1))
"""Replicas, rungs (more of a large target) and sweeps a rung: as many as ``MOST_SECONDS`` allow."""
MOST_SECONDS = 20.0
MOST_SECONDS_MORE, FIRST_SHARE = 40.0, 0.2
"""For a population that moves, which is swept on for this share of its annealing, and then twice as
long each time."""
COMPILED_SECONDS, NUM_TIMED, NUM_TRIES = 1e-8, 256, 3
"""A site of a compiled sweep, and how many states of a black box are timed, how often."""
MIN_FAMILIES = 50.0
"""Effective families from which on a population speaks for the target."""
SEED = 20_250_917


@dataclass(frozen=True)
class Annealed:
    """States ``x`` (n, d), their ``family`` (n,), log Z and its standard error, and whether sweeps
    leave their averages ``at_rest``.  One that had to be led to the target has no log Z."""

    x: Tensor
    family: Tensor
    log_z: float | None
    log_z_error: float
    at_rest: bool = False

    @property
    def num_families(self) -> float:
        """How many equal families would tell as much, 1/Σ_f (n_f/n)²."""
        return 1 / self.log_z_error**2

    @property
    def sound(self) -> bool:
        return self.num_families >= MIN_FAMILIES

    def moments(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return family_moments(y, self.family)


@lru_cache(maxsize=4)  # one target is judged again and again
def anneal(target: Target) -> Annealed | None:
    """A population for comparison, always the same one; None where even a small one would cost too
    much, or where uniform states are all forbidden."""
    seconds, d = seconds_per_site(target), target.num_sites
    for replicas, rungs, steps in SIZES:
        rungs = max(rungs, round(3 * math.sqrt(d)))
        sweep = replicas * d * seconds
        if rungs * steps * sweep <= MOST_SECONDS:
            found = population(target, replicas, rungs, steps)
            first = max(1, round(FIRST_SHARE * rungs * steps))
            if found is None or not found.sound:
                return found
            return settled(found, target, first, int(MOST_SECONDS_MORE / sweep))
    return None


def population(target: Target, replicas: int, rungs: int, steps: int) -> Annealed | None:
    try:
        found = mcmc.population_annealing(
            target, num_replicas=replicas, num_rungs=rungs, steps_per_rung=steps, seed=SEED
        )
    except ValueError:  # no state of the first population is allowed
        return None
    return Annealed(found.x[:, 0].long(), found.family, found.log_z, found.log_z_error)


def settled(found: Annealed, target: Target, sweeps: int, most: int) -> Annealed:
    """The population once ``sweeps``, and then twice as many each time, move it no more, or as far
    as ``most`` of them lead."""
    while sweeps <= most:
        later = swept(target, found.x, sweeps)
        if not moved(target, found, later):
            return replace(found, at_rest=True)
        found, most, sweeps = replace(found, x=later, log_z=None), most - sweeps, 2 * sweeps
    return found


def swept(target: Target, x: Tensor, n: int) -> Tensor:
    """States (k, d) after n sweeps, whose random numbers are those of no other n: states that
    these have led to once are not independent of them."""
    moving = mcmc.sample(
        target, "gibbs", num_chains=len(x), num_steps=n, burn_in=n - 1, init=x, seed=SEED + n,
        progress=False,
    )  # fmt: skip
    return moving.x[:, 0].long()


def moved(target: Target, found: Annealed, later: Tensor) -> bool:
    """Whether an average over replicas has moved, by more than chance and by enough to matter."""
    was, now = observe_both(target, found.x, later)
    shift, _, error = found.moments(now - was)
    z = torch.where(shift == 0, 0.0, shift.abs() / error)
    degrees = max(1, round(found.num_families) - 1)
    certain = students(z, degrees) * len(z) < DOUBTFUL_CHANCE
    return bool((certain & (shift.abs() >= SMALL_GAP * now.std(0).maximum(was.std(0)))).any())


def seconds_per_site(target: Target) -> float:
    """What it takes to move one site of one state: tried, where sweeps are not compiled."""
    if isinstance(target.free, Pairwise):
        return COMPILED_SECONDS
    x = torch.zeros(NUM_TIMED, target.num_sites, dtype=torch.long, device=target.device)
    taken = []
    for _ in range(NUM_TRIES):  # the first may compile or load, and others may be disturbed
        begin = time.process_time()
        target.log_ratios_at(x, x[:, 0])
        taken.append(time.process_time() - begin)
    return min(taken) / NUM_TIMED


def family_moments(y: Tensor, family: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, deviation of one state and standard error, (m,) each, of values y (n, m); see the head
    of this module."""
    mean, n = y.mean(0), len(y)
    sums = torch.zeros(int(family.max()) + 1, y.shape[1], dtype=y.dtype)
    sums.index_add_(0, family, y - mean)
    return mean, y.std(0), sums.square().sum(0).sqrt() / n
