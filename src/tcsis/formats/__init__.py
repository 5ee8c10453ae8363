"""Problems as other tools have them, to targets: objects of Python, and files.

read(path)                          any file below by its extension, or by ``format``
from_bqm, from_dqm, from_qubo       dimod and QUBOs; ``to_bqm`` back
ising, max_cut, independent_set, colouring      networkx graphs; ``to_max_cut`` back
from_pgmpy, from_sklearn            Bayesian and Markov networks; BernoulliRBM
read_alignment, fit_potts           sequences, and a Potts model of them
"""

from tcsis.formats.alignments import Alignment, fit_potts, read_alignment
from tcsis.formats.bayes import from_pgmpy
from tcsis.formats.dimod import from_bqm, from_dqm, from_qubo, to_bqm
from tcsis.formats.files import FORMATS, Format, find_format, read
from tcsis.formats.graphs import (
    colouring,
    independent_set,
    ising,
    max_cut,
    to_max_cut,
    write_gset,
)
from tcsis.formats.sklearn import from_sklearn

__all__ = [
    "FORMATS",
    "Alignment",
    "Format",
    "colouring",
    "find_format",
    "fit_potts",
    "from_bqm",
    "from_dqm",
    "from_pgmpy",
    "from_qubo",
    "from_sklearn",
    "independent_set",
    "ising",
    "max_cut",
    "read",
    "read_alignment",
    "to_bqm",
    "to_max_cut",
    "write_gset",
]
