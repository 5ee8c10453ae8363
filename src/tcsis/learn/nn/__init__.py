"""Networks in plain torch: trunks of one contract, (z, alpha) -> features, and heads on them."""

from tcsis.learn.nn.dit import DiT, chain_dit, graph_dit, lattice_dit, set_dit
from tcsis.learn.nn.equivariant import Hollow, LocallyEquivariant, antisymmetric
from tcsis.learn.nn.features import periodic_angles, rotary_angles, rotate, time_features
from tcsis.learn.nn.heads import PooledHead, SiteHead

__all__ = [
    "DiT",
    "Hollow",
    "LocallyEquivariant",
    "PooledHead",
    "SiteHead",
    "antisymmetric",
    "chain_dit",
    "graph_dit",
    "lattice_dit",
    "periodic_angles",
    "rotary_angles",
    "rotate",
    "set_dit",
    "time_features",
]
