"""The compiled moves as kernels with a name, which is how the runner asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, PairwiseArrays, Words
from tcsis.mcmc.compiled.factors import FactorArrays
from tcsis.mcmc.compiled.moves import Arrays, step, sweep, swendsen_wang, wolff
from tcsis.mcmc.compiled.random import make_streams
from tcsis.targets.base import Target
from tcsis.targets.factors import Factors
from tcsis.targets.pairwise import Pairwise

Move = Callable[[Any, Bytes, Words, int, Doubles], float]
Run = Callable[[Bytes, Doubles, int], float]


def compiles(target: Target) -> bool:
    """Whether sweeps of the target have a compiled form: pairs and factors on the CPU."""
    return isinstance(target, Pairwise | Factors) and target.device.type == "cpu"


def attracts(target: Target) -> bool:
    """Whether all pairs of a target favour equal values and no site prefers one: clusters then turn
    freely, and moves of them mix where single sites hardly do."""
    if not isinstance(target, Pairwise) or not compiles(target):
        return False
    arrays = arrays_of(target)
    assert isinstance(arrays, PairwiseArrays)
    bound = arrays.agreement is not None and bool((arrays.agreement >= 0).all())
    return bound and target.symmetries.value_permutation


@lru_cache(maxsize=8)
def arrays_of(target: Target) -> Arrays:
    """A target as plain arrays, kept for those that ask again."""
    if isinstance(target, Factors):
        return FactorArrays.of(target)
    assert isinstance(target, Pairwise)
    return PairwiseArrays.of(target)


@dataclass(frozen=True)
class CompiledKernel:
    """``move`` changes chains by a number of steps and returns the share of proposals accepted.
    A step goes over the ``whole`` state, which costs about as much as its ratios, or over one
    site.  Moves of ``clusters`` need pairs."""

    name: str
    move: Move
    whole: bool = False
    clusters: bool = False

    def cost(self, target: Target) -> float:
        """What one step of one chain costs, in densities."""
        return target.ratios_cost if self.whole else target.site_cost

    def serves(self, target: Target) -> bool:
        return isinstance(target, Pairwise if self.clusters else Pairwise | Factors)

    def prepare(self, target: Target, num_chains: int, seed: int) -> Run:
        """A function of x (chains, d), scale (chains,) and the number of steps, that changes x."""
        model, streams = arrays_of(target), make_streams(seed, num_chains)

        def run(x: Bytes, scale: Doubles, num_steps: int) -> float:
            return self.move(model, x, streams, num_steps, scale)

        return run


def metropolis(model: Arrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles) -> float:
    accepted = step(model, x, streams, num_steps, "metropolis", scale)
    return float(accepted.mean() / num_steps)


def glauber(model: Arrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles) -> float:
    step(model, x, streams, num_steps, "gibbs", scale)
    return 1.0


def gibbs(model: Arrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles) -> float:
    sweep(model, x, streams, num_steps, "gibbs", scale)
    return 1.0


def turn_cluster(
    model: PairwiseArrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles
) -> float:
    turned, _ = wolff(model, x, streams, num_steps, scale)
    return float(turned.mean() / num_steps)


def draw_clusters(
    model: PairwiseArrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles
) -> float:
    swendsen_wang(model, x, streams, num_steps, scale)
    return 1.0


COMPILED = {
    kernel.name: kernel
    for kernel in (
        CompiledKernel("metropolis", metropolis),
        CompiledKernel("glauber", glauber),
        CompiledKernel("gibbs", gibbs, whole=True),
        CompiledKernel("wolff", turn_cluster, whole=True, clusters=True),
        CompiledKernel("swendsen-wang", draw_clusters, whole=True, clusters=True),
    )
}
