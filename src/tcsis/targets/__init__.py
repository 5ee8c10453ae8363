"""What we sample from: unnormalised log densities on discrete states."""

from tcsis.targets.base import Cost, Symmetries, Target, counting
from tcsis.targets.callable import from_callable
from tcsis.targets.factors import Factors
from tcsis.targets.given import Given
from tcsis.targets.lattice import Lattice
from tcsis.targets.pairwise import Pairwise
from tcsis.targets.physics import Ising, Potts, SherringtonKirkpatrick, SpinGlass
from tcsis.targets.ranges import Range
from tcsis.targets.rbm import RBM
from tcsis.targets.transformed import Scaled, Tilted

__all__ = [
    "RBM",
    "Cost",
    "Factors",
    "Given",
    "Ising",
    "Lattice",
    "Pairwise",
    "Potts",
    "Range",
    "Scaled",
    "SherringtonKirkpatrick",
    "SpinGlass",
    "Symmetries",
    "Target",
    "Tilted",
    "counting",
    "from_callable",
]
