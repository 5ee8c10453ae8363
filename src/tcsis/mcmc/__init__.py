"""Markov chains: the methods a user would otherwise pick."""

from tcsis.mcmc.annealing import Population
from tcsis.mcmc.balanced import (
    LocallyBalanced,
    barker,
    exact_difference,
    square_root,
    taylor_difference,
)
from tcsis.mcmc.chains import Chains
from tcsis.mcmc.diagnostics import Diagnosis, diagnose
from tcsis.mcmc.gibbs import RandomScanGibbs, SweepGibbs
from tcsis.mcmc.independence import independence_chains
from tcsis.mcmc.kernel import Kernel, State
from tcsis.mcmc.langevin import DiscreteMALA, DiscreteULA
from tcsis.mcmc.metropolis import Metropolis
from tcsis.mcmc.path import PathAuxiliary
from tcsis.mcmc.runner import (
    KERNELS,
    annealed_importance_sampling,
    population_annealing,
    sample,
    start_chains,
)
from tcsis.mcmc.sampler import ChainSampler
from tcsis.mcmc.tempering import ParallelTempering

__all__ = [
    "KERNELS",
    "ChainSampler",
    "Chains",
    "Diagnosis",
    "DiscreteMALA",
    "DiscreteULA",
    "Kernel",
    "LocallyBalanced",
    "Metropolis",
    "ParallelTempering",
    "PathAuxiliary",
    "Population",
    "RandomScanGibbs",
    "State",
    "SweepGibbs",
    "annealed_importance_sampling",
    "barker",
    "diagnose",
    "exact_difference",
    "independence_chains",
    "population_annealing",
    "sample",
    "square_root",
    "start_chains",
    "taylor_difference",
]
