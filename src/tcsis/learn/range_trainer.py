"""``tcsis.train_range``: one model for all targets of a range."""

from __future__ import annotations

from pathlib import Path

from tcsis.learn import presets
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import train
from tcsis.targets.base import Target
from tcsis.targets.ranges import Range


def train_range(
    target: Target,
    preset: str = "fast",
    *,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = True,
    **interval: tuple[float, float],
) -> Learned:
    """Train one model for a range of targets: ``train_range(Ising(10, 0.6), beta=(0.1, 0.6))``.

    The range is of an argument of the target, ``beta`` or ``field``, or of any target's ``power``,
    p̄^0.2 to p̄ by ``power=(0.2, 1)``.  ``model.at(beta=0.37)`` is a model of the any-time method at
    one value, with draws, weights and evidence, for ``tcsis.evaluate``, ``judge`` and ``compare``;
    ``model.sample`` draws at the upper end.  ``preset`` is "fast" or "tiny", and everything else is
    as for ``tcsis.train``, whose configs hold the same as ``presets.ranged(target, range)``.
    """
    over = Range.of(interval)
    return train(
        over.end(target), config=presets.ranged(target, over, preset), seed=seed, steps=steps,
        time_budget=time_budget, folder=folder, resume=resume, checkpoint_every=checkpoint_every,
        progress=progress,
    )  # fmt: skip
