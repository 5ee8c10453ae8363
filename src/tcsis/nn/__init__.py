"""Networks in plain torch: trunks of one contract, (z, alpha) -> features, and heads on them."""

from tcsis.nn.dit import DiT, chain_dit, graph_dit, lattice_dit, set_dit
from tcsis.nn.equivariant import Hollow, LocallyEquivariant, antisymmetric
from tcsis.nn.features import periodic_angles, rotary_angles, rotate, time_features
from tcsis.nn.heads import PooledHead, SiteHead

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
