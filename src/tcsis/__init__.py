"""Independent samples, log Z and an honest verdict for unnormalised discrete distributions."""

from tcsis import exact, mcmc, metrics, noise, targets
from tcsis.draws import Draws, concatenate
from tcsis.evaluate import Evaluation, evaluate

__version__ = "0.1.0"

__all__ = [
    "Draws",
    "Evaluation",
    "concatenate",
    "evaluate",
    "exact",
    "mcmc",
    "metrics",
    "noise",
    "targets",
]
