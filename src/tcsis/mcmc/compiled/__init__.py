"""Pairs and factors on the CPU, compiled: many chains at once, each with its own random stream.

Machine code is kept beside the sources and made anew when any of them changes (``cache``).
"""

from tcsis.mcmc.compiled.arrays import PairwiseArrays
from tcsis.mcmc.compiled.densities import log_densities
from tcsis.mcmc.compiled.factors import FactorArrays
from tcsis.mcmc.compiled.kernels import (
    COMPILED,
    CompiledKernel,
    arrays_of,
    attracts,
    compiles,
)
from tcsis.mcmc.compiled.moves import step, sweep, swendsen_wang, wolff
from tcsis.mcmc.compiled.random import make_streams
from tcsis.mcmc.compiled.swaps import swap_neighbours

__all__ = [
    "COMPILED",
    "CompiledKernel",
    "FactorArrays",
    "PairwiseArrays",
    "arrays_of",
    "attracts",
    "compiles",
    "log_densities",
    "make_streams",
    "step",
    "swap_neighbours",
    "sweep",
    "swendsen_wang",
    "wolff",
]
