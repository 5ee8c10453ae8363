"""Training that grows a lattice: what is learned on a small one holds on a larger one.

Where sites share their weights by displacement, a law of a small periodic lattice is one of any
larger lattice too: weights of displacements that it does not have are zero.  What is near is
learned where steps cost least, and what is left for the large lattice is what only it has.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from tcsis.basics.clock import Budget, BudgetError
from tcsis.basics.ranks import Ranks
from tcsis.learn.config import Config
from tcsis.learn.training import Run
from tcsis.targets.base import Target, counting
from tcsis.targets.resized import on_lattice

SHARE = 0.15
"""Of the steps that each smaller lattice is trained for, and of the time that it may take."""


def grown(
    target: Target, config: Config, seed: int, budget: Budget, ranks: Ranks
) -> nn.Module | None:
    """The model of the last of the smaller lattices of a config, each trained from the one before;
    None where there is no time for any."""
    model, known = None, target.free.sketch
    for shape in config.grows:
        small = on_lattice(known, shape)
        share = Budget(ranks.told(lambda: SHARE * budget.left))
        steps = max(1, round(SHARE * config.num_steps))
        shorter = config.changed(grows=(), num_steps=steps, num_evaluations=0)
        run = Run(small, shorter, seed, share, partial(as_it_is, model), ranks)
        try:
            with counting(small) as cost:
                for _ in run.steps():
                    pass
        except BudgetError:  # of all ranks
            break
        finally:  # evaluations like those of the target, if of fewer sites
            target.count(cost.densities)
        model = run.average
    return model


def as_it_is(model: nn.Module | None) -> nn.Module | None:
    return model
