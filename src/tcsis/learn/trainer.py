"""``tcsis.train``: from a target to a sampler.

The same seed on the same machine gives the same weights, and a run that was stopped and resumed
ends at exactly the same ones, as long as it stops by steps and not by the clock.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor, nn

from tcsis.basics.checks import check_integer
from tcsis.basics.clock import Budget
from tcsis.basics.files import write_whole
from tcsis.basics.frozen import parse
from tcsis.basics.locks import sole_writer
from tcsis.basics.progress import progress_bar
from tcsis.basics.ranks import ALONE, RankEndedError, Ranks, current
from tcsis.basics.signals import StopError, deferred
from tcsis.learn import checkpoint, presets
from tcsis.learn.budgets import FEW, RECOGNISED, new_budget
from tcsis.learn.checkpoint import CHECKPOINT
from tcsis.learn.config import Config
from tcsis.learn.growth import grown
from tcsis.learn.learned import Learned
from tcsis.learn.method import Method
from tcsis.learn.training import Run
from tcsis.mcmc.compiling import compiling_said
from tcsis.targets.base import Target, counting

METRICS = "metrics.jsonl"

State = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and plain data of a checkpoint."""


def train(
    target: Target,
    method: str | Method | None = None,
    preset: str | None = None,
    *,
    config: Config | None = None,
    start: Learned | None = None,
    seed: int = 0,
    steps: int | None = None,
    time_budget: float | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = True,
    shards: int | None = None,
    ranks: Ranks | None = None,
) -> Learned:
    """Train a sampler for ``target``.

    ``method`` is "autoregressive", "any-time", "self-normalized" or "unbiased", by default what
    ``tcsis.presets.default_method`` says of the target (autoregressive for most), or a value such
    as ``SelfNormalized(...)`` that stands in for the preset's; ``preset`` is "fast" (the
    default), "paper" or "tiny"; ``config`` stands in for both.  ``start`` is a trained model to
    begin from, of the same method on a target of the same size, such as another temperature, or
    with "any-time" on a smaller periodic lattice.  Training ends after ``steps`` steps
    or ``time_budget`` seconds, whichever comes first.  The budget covers all that training does,
    from probing a black box to the last evaluation; ``account`` of the model says what it bought,
    and one that pays for no training is refused.  With a ``folder``, metrics go to
    ``metrics.jsonl`` and the whole state to ``checkpoint`` every ``checkpoint_every`` seconds, from
    where ``resume`` goes on.  Ctrl-C, SIGTERM and SIGHUP then wait until the step is made and the
    state is saved; a second one does not.

    Batch and buffer are cut into ``shards``, by default those of the config, or one for each rank.
    The ``ranks`` are by default those of torch's default group, such as ``tcsis.all_ranks`` makes;
    all of them call this, share the work of one run, and return the same model, but rank 0 decides
    and writes.
    """
    ranks = current() if ranks is None else ranks
    with telling(folder), ranks.watching():
        seed, time_budget, folder, resume = ranks.told(lambda: (seed, time_budget, folder, resume))
        budget = new_budget(time_budget)
        with counting(target) as trial:
            target = sketched(target, RECOGNISED * budget.limit, ranks)
        aloud = progress and ranks.leads
        bar = progress_bar("training", 1.0, aloud)
        with counting(target) as cost, compiling_said(aloud), bar as show:
            budget.meter = lambda: trial.densities + cost.densities
            config = parse(
                Config,
                ranks.told(lambda: choose_config(target, method, preset, config).model_dump()),
            )
            if steps is not None:
                config = config.changed(num_steps=check_integer("steps", steps))
            keeper = Keeper(None if folder is None else Path(folder), checkpoint_every, ranks)
            with keeper.sole():
                saved = keeper.load() if resume else None
                config = share_out(config, shards, saved, ranks)
                first = beginning(target, config, start, seed, budget, ranks)
                run = Run(target, config, seed, budget, first, ranks)
                if saved is not None:
                    run.restore(*saved)
                show(0.0, "growing" if config.grows and start is None else "annealing")
                run.start()
                make_steps(run, keeper, show)
    learned = run.learned()
    if time_budget is not None and ranks.leads:
        say(learned, time_budget, few=run.progress * FEW > run.by_steps, aloud=progress)
    return learned


def beginning(
    target: Target, config: Config, start: Learned | None, seed: int, budget: Budget, ranks: Ranks
) -> Callable[[], nn.Module | None]:
    """What makes the model whose weights a run begins with: one that is given, or that of smaller
    lattices."""
    if start is None:
        return partial(grown, target, config, seed, budget, ranks)
    if not isinstance(start, Learned):
        raise ValueError(f"start is a {type(start).__name__}: expected what tcsis.train returned")
    kind = config.method.kind
    if start.kind != kind:
        raise ValueError(
            f"start is a model of the method {start.kind}, and one of the method {kind} is to be "
            "trained: expected the same; --method, or method=, says what is trained"
        )
    return lambda: start.module


def make_steps(run: Run, keeper: Keeper, show: Callable[..., None]) -> None:
    """To the end, or until a signal comes to any rank.  What is saved is the state between two
    steps, from where all goes on as it would have."""
    ranks, stop = run.ranks, 0.0
    with keeper.whole_steps() as stopped:
        keeper.save(run)
        for _ in run.steps():
            show(run.progress, said(run.last_loss, run.history))
            stop, save = ranks.summed(stopped(), keeper.overdue())
            if stop:
                break
            if save:
                keeper.save(run)
        keeper.save(run)
        ranks.meet()  # none leaves before the state is written
        elsewhere = stop and not stopped()
    if elsewhere:
        raise StopError(signal.SIGTERM)


def sketched(target: Target, seconds: float, ranks: Ranks) -> Target:
    """With a sketch, or without one where that takes longer, as rank 0 finds."""
    found = target.sketched_within(seconds if ranks.leads else math.inf)
    whole = ranks.told(lambda: found is target)
    return found if ranks.leads or whole else target.sketched_within(0.0)


def share_out(config: Config, shards: int | None, saved: State | None, ranks: Ranks) -> Config:
    """The config with its shards: as many as are asked for, as the run has that goes on, or one for
    each rank."""
    if shards is None and config.shards == 1:
        shards = ranks.size if saved is None else saved[1].get("config", {}).get("shards", 1)
    return config if shards is None else config.changed(shards=check_integer("shards", shards))


@contextmanager
def telling(folder: str | Path | None) -> Iterator[None]:
    """Where another rank ends, what is left of the run is told."""
    try:
        yield
    except RankEndedError as error:
        left = "nothing is saved, as there was no folder"
        if folder is not None:
            left = f"the last checkpoint is in {Path(folder) / CHECKPOINT}: go on with resume=True"
        raise RankEndedError(f"{error}; {left}") from error


def say(model: Learned, time_budget: float, few: bool, aloud: bool) -> None:
    """What a time budget has bought, and a warning, in any case, where that is little."""
    bought = f"budget of {time_budget:.3g} s: {model.account}"
    if few:
        bought += "; that is little training: look at the ess, and give it more time"
    if few or aloud:
        Console(stderr=True, highlight=False, soft_wrap=True).print(bought)


def choose_config(
    target: Target, method: str | Method | None, preset: str | None, config: Config | None
) -> Config:
    """The config that is given, or the preset that method and preset name."""
    if config is not None:
        if method is not None or preset is not None:
            raise ValueError(
                "config stands in for method and preset: expected config alone, or the other two"
            )
        if not isinstance(config, Config):
            raise ValueError(f"config is a {type(config).__name__}: expected a Config")
        return config.changed()  # copies that were not checked are refused here
    if not isinstance(method, str | Method | None):
        raise ValueError(
            f"method is a {type(method).__name__}: expected a name or a method value; a Config is "
            "passed as config"
        )
    if isinstance(method, Method):
        base = presets.choose(target, method.kind, preset or "fast")
        return base.changed(method=method.model_dump())
    return presets.choose(target, method, preset or "fast")


@dataclass
class Keeper:
    """Writes the state of a run to its folder, if it has one; of several ranks, rank 0 does."""

    folder: Path | None
    every: float
    ranks: Ranks = ALONE
    last: float = field(default_factory=time.monotonic)

    def sole(self) -> AbstractContextManager[Any]:
        """The checkpoints for this process alone."""
        if self.folder is None or not self.ranks.leads:
            return nullcontext()
        return sole_writer(self.folder / CHECKPOINT)

    def whole_steps(self) -> AbstractContextManager[Callable[[], bool]]:
        """Signals wait for the end of a step, if there is a folder for the state to go to."""
        return nullcontext(lambda: False) if self.folder is None else deferred()

    def overdue(self) -> bool:
        """Whether it is time to save, by the clock of rank 0."""
        return self.ranks.leads and time.monotonic() - self.last > self.every

    def save(self, run: Run) -> None:
        if self.folder is None:
            return
        tensors, data = run.state()
        if self.ranks.leads:
            checkpoint.save(self.folder / CHECKPOINT, tensors, data)
            lines = [json.dumps(record) + "\n" for record in run.history]
            write_whole(self.folder / METRICS, "".join(lines))
        self.last = time.monotonic()

    def load(self) -> State:
        """What was saved last, of all shards."""
        folder = self.folder
        if folder is None:
            raise ValueError("resume needs a folder: pass the one the run was started with")
        return self.ranks.told(lambda: checkpoint.load(folder / CHECKPOINT))


def said(loss: float, history: Sequence[dict[str, float]]) -> str:
    """The loss now and the last error and ESS."""
    last = history[-1] if history else {}
    parts = [f"loss {loss:.4f}"]
    parts += [f"{name} {last[name]:.4f}" for name in ("error", "ess") if last.get(name) is not None]
    return "  ".join(parts)
