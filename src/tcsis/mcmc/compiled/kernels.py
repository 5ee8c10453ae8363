"""The compiled moves as kernels with a name, which is how the runner asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcsis.mcmc.compiled.arrays import Bytes, Doubles, PairwiseArrays, Words
from tcsis.mcmc.compiled.moves import step, sweep, swendsen_wang, wolff
from tcsis.mcmc.compiled.random import make_streams
from tcsis.targets.pairwise import Pairwise

Move = Callable[[PairwiseArrays, Bytes, Words, int, Doubles], float]
Run = Callable[[Bytes, Doubles, int], float]


@dataclass(frozen=True)
class CompiledKernel:
    """``move`` changes chains by a number of steps and returns the share of proposals accepted.
    A step goes over the ``whole`` state, which costs about a density, or over one site."""

    name: str
    move: Move
    whole: bool = False

    def cost(self, target: Pairwise) -> float:
        """What one step of one chain costs, in densities."""
        return 1.0 if self.whole else target.site_cost

    def prepare(self, target: Pairwise, num_chains: int, seed: int) -> Run:
        """A function of x (chains, d), scale (chains,) and the number of steps, that changes x."""
        model, streams = PairwiseArrays.of(target), make_streams(seed, num_chains)

        def run(x: Bytes, scale: Doubles, num_steps: int) -> float:
            return self.move(model, x, streams, num_steps, scale)

        return run


def metropolis(
    model: PairwiseArrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles
) -> float:
    accepted = step(model, x, streams, num_steps, "metropolis", scale)
    return float(accepted.mean() / num_steps)


def glauber(
    model: PairwiseArrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles
) -> float:
    step(model, x, streams, num_steps, "gibbs", scale)
    return 1.0


def gibbs(model: PairwiseArrays, x: Bytes, streams: Words, num_steps: int, scale: Doubles) -> float:
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
        CompiledKernel("wolff", turn_cluster, whole=True),
        CompiledKernel("swendsen-wang", draw_clusters, whole=True),
    )
}
