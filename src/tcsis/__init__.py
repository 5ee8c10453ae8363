"""Independent samples, log Z and an honest verdict for unnormalised discrete distributions.

Names are imported when they are first used, so that the command line answers before torch loads.
No function bears the name of a module: importing the module would take the function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcsis import exact, formats, identity, mcmc, noise, peers, reverse, targets
    from tcsis.app import report
    from tcsis.app.comparison import Comparison, compare
    from tcsis.app.dimod_sampler import TCSISSampler as TCSISSampler
    from tcsis.app.sweeps import Sweep, sweep
    from tcsis.basics.ranks import all_ranks
    from tcsis.distribution import Distribution
    from tcsis.draws import Draws, concatenate
    from tcsis.draws.files import load_draws
    from tcsis.draws.reading import as_draws
    from tcsis.judging import metrics, weights
    from tcsis.judging.evaluation import Evaluation, evaluate
    from tcsis.judging.verdict import Verdict, judge
    from tcsis.learn import buffers, models, presets
    from tcsis.learn import buffers as proposals
    from tcsis.learn.any_time import AnyTime
    from tcsis.learn.autoregressive import Autoregressive
    from tcsis.learn.checkpoint import CheckpointError
    from tcsis.learn.config import Config
    from tcsis.learn.descent import DivergedError
    from tcsis.learn.learned import Learned, load
    from tcsis.learn.range_trainer import train_range
    from tcsis.learn.ranged import Ranged
    from tcsis.learn.self_normalized import SelfNormalized
    from tcsis.learn.trainer import train
    from tcsis.learn.unbiased import Unbiased
    from tcsis.reverse import schedules, steps
    from tcsis.reverse.unlearned import learning_free

__version__ = "0.2.0"

__all__ = [
    "AnyTime",
    "Autoregressive",
    "CheckpointError",
    "Comparison",
    "Config",
    "Distribution",
    "DivergedError",
    "Draws",
    "Evaluation",
    "Learned",
    "Ranged",
    "SelfNormalized",
    "Sweep",
    "Unbiased",
    "Verdict",
    "all_ranks",
    "as_draws",
    "buffers",
    "compare",
    "concatenate",
    "evaluate",
    "exact",
    "formats",
    "identity",
    "judge",
    "learning_free",
    "load",
    "load_draws",
    "mcmc",
    "metrics",
    "models",
    "noise",
    "peers",
    "presets",
    "proposals",
    "report",
    "reverse",
    "schedules",
    "steps",
    "sweep",
    "targets",
    "train",
    "train_range",
    "weights",
]

MODULES = {
    "buffers": "learn.buffers",
    "exact": "exact",
    "formats": "formats",
    "identity": "identity",
    "mcmc": "mcmc",
    "metrics": "judging.metrics",
    "models": "learn.models",
    "noise": "noise",
    "peers": "peers",
    "presets": "learn.presets",
    "proposals": "learn.buffers",
    "report": "app.report",
    "reverse": "reverse",
    "schedules": "reverse.schedules",
    "steps": "reverse.steps",
    "targets": "targets",
    "weights": "judging.weights",
}
"""Where the public modules stand."""

MEMBERS = {
    "AnyTime": "learn.any_time",
    "Autoregressive": "learn.autoregressive",
    "CheckpointError": "learn.checkpoint",
    "Comparison": "app.comparison",
    "Config": "learn.config",
    "Distribution": "distribution",
    "DivergedError": "learn.descent",
    "Draws": "draws",
    "Evaluation": "judging.evaluation",
    "Learned": "learn.learned",
    "Ranged": "learn.ranged",
    "SelfNormalized": "learn.self_normalized",
    "Sweep": "app.sweeps",
    "TCSISSampler": "app.dimod_sampler",
    "Unbiased": "learn.unbiased",
    "Verdict": "judging.verdict",
    "all_ranks": "basics.ranks",
    "as_draws": "draws.reading",
    "compare": "app.comparison",
    "concatenate": "draws",
    "evaluate": "judging.evaluation",
    "judge": "judging.verdict",
    "learning_free": "reverse.unlearned",
    "load": "learn.learned",
    "load_draws": "draws.files",
    "sweep": "app.sweeps",
    "train": "learn.trainer",
    "train_range": "learn.range_trainer",
}
"""Where the public functions and classes are defined.  ``TCSISSampler`` is not in ``__all__``, for
it needs dimod, which not everybody has."""


def __getattr__(name: str) -> Any:
    if name in MEMBERS:
        value = getattr(import_module(f"tcsis.{MEMBERS[name]}"), name)
    elif name in MODULES:
        value = import_module(f"tcsis.{MODULES[name]}")
    else:
        raise AttributeError(f"module 'tcsis' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
