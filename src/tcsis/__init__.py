"""Independent samples, log Z and an honest verdict for unnormalised discrete distributions.

Names are imported when they are first used, so that the command line answers before torch loads.
No function bears the name of a module: importing the module would take the function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcsis import (
        exact,
        identity,
        mcmc,
        metrics,
        models,
        noise,
        presets,
        proposals,
        report,
        reverse,
        schedules,
        targets,
        weights,
    )
    from tcsis.checkpoint import CheckpointError
    from tcsis.comparison import Comparison, compare
    from tcsis.config import Config
    from tcsis.draws import Draws, concatenate
    from tcsis.evaluation import Evaluation, evaluate
    from tcsis.learned import Learned, load
    from tcsis.trainer import train
    from tcsis.training import DivergedError
    from tcsis.unlearned import learning_free
    from tcsis.verdict import Verdict, judge

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "Comparison",
    "Config",
    "DivergedError",
    "Draws",
    "Evaluation",
    "Learned",
    "Verdict",
    "compare",
    "concatenate",
    "evaluate",
    "exact",
    "identity",
    "judge",
    "learning_free",
    "load",
    "mcmc",
    "metrics",
    "models",
    "noise",
    "presets",
    "proposals",
    "report",
    "reverse",
    "schedules",
    "targets",
    "train",
    "weights",
]

MEMBERS = {
    "CheckpointError": "checkpoint",
    "Comparison": "comparison",
    "Config": "config",
    "DivergedError": "training",
    "Draws": "draws",
    "Evaluation": "evaluation",
    "Learned": "learned",
    "Verdict": "verdict",
    "compare": "comparison",
    "concatenate": "draws",
    "evaluate": "evaluation",
    "judge": "verdict",
    "learning_free": "unlearned",
    "load": "learned",
    "train": "trainer",
}
"""Where the functions and classes are defined; every other public name is a module."""


def __getattr__(name: str) -> Any:
    if name in MEMBERS:
        value = getattr(import_module(f"tcsis.{MEMBERS[name]}"), name)
    elif name in __all__:
        value = import_module(f"tcsis.{name}")
    else:
        raise AttributeError(f"module 'tcsis' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
