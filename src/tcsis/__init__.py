"""Independent samples, log Z and an honest verdict for unnormalised discrete distributions."""

from tcsis import exact, identity, mcmc, metrics, noise, reverse, schedules, targets
from tcsis.draws import Draws, concatenate
from tcsis.evaluate import Evaluation, evaluate
from tcsis.learning_free import learning_free

__version__ = "0.1.0"

__all__ = [
    "Draws",
    "Evaluation",
    "concatenate",
    "evaluate",
    "exact",
    "identity",
    "learning_free",
    "mcmc",
    "metrics",
    "noise",
    "reverse",
    "schedules",
    "targets",
]
