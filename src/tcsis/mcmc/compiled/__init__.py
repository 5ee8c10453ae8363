"""Pairwise targets on the CPU, compiled: many chains at once, each with its own random stream.

numba keeps machine code beside the sources, and makes it anew when the file of a function changes,
but not when a file it imports does: after a change to ``lanes`` or ``random``, delete ``*.nb?`` in
``__pycache__``.
"""

from tcsis.mcmc.compiled.arrays import PairwiseArrays
from tcsis.mcmc.compiled.kernels import COMPILED, CompiledKernel
from tcsis.mcmc.compiled.moves import energies, step, sweep, swendsen_wang, wolff
from tcsis.mcmc.compiled.random import make_streams

__all__ = [
    "COMPILED",
    "CompiledKernel",
    "PairwiseArrays",
    "energies",
    "make_streams",
    "step",
    "sweep",
    "swendsen_wang",
    "wolff",
]
