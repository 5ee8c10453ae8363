"""``tcsis.compare``: several methods on one target at equal cost.

The first method is the reference: it runs as it is, and what it spent, training included, is the
budget of the others; see ``tcsis.app.methods``.  Trials, machines and clocks are never exact, so
every row states what its method really used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tcsis.app.methods import (
    LEARNED,
    PEERS,
    Entry,
    Equal,
    Named,
    Plan,
    Training,
    check_equal,
    name_methods,
)
from tcsis.app.report import write_report
from tcsis.app.results import Result, TrainingPoint
from tcsis.app.summaries import compare_results
from tcsis.app.tables import as_html, as_table
from tcsis.app.trajectory import film, score_pairs
from tcsis.basics.checks import check_integer
from tcsis.draws import Draws
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.peers.peer import Peer
from tcsis.targets.base import Target


@dataclass(frozen=True)
class Comparison:
    """Draws of every method by name, and the ``result`` that tables and reports are made of."""

    target: Target
    methods: dict[str, Draws]
    result: Result
    models: dict[str, Learned | Peer] = field(default_factory=dict)

    def table(self) -> Table:
        """A table for the terminal."""
        return as_table(self.result)

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML page."""
        write_report(self.result, path)

    def __str__(self) -> str:
        console = Console(width=140, highlight=False)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get()

    def _repr_html_(self) -> str:
        return as_html(self.result)


def compare(
    target: Target,
    methods: Sequence[Named] = ("autoregressive", "glauber"),
    n: int = 10_000,
    *,
    seed: int = 0,
    equal: Equal = "seconds",
    preset: str | None = None,
    config: Config | None = None,
    steps: int | None = None,
    time_budget: float | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    progress: bool = True,
    about: Mapping[str, Any] | None = None,
) -> Comparison:
    """Run ``methods`` on ``target`` at equal cost; see the head of this module.

    A method is "autoregressive", "any-time", "self-normalized", "unbiased", "leaps", "dnfs",
    "mdns", "sdds", "van", "learning-free", "population-annealing", "exact", the name of a kernel of
    ``tcsis.mcmc``, any sampler (a trained model, one of ``tcsis.peers``, ``tcsis.learning_free``,
    ``tcsis.exact.sampler``, ``tcsis.mcmc.ChainSampler``), or a pair of a name and a sampler or
    ready draws.
    ``equal`` says in what the cost is equal: "seconds" of wall time or "densities", evaluations of
    log p̄.  ``preset`` to ``checkpoint_every`` are those of ``tcsis.train``; a ``config`` is for the
    method of its kind, and the ``folder`` keeps the first method that is trained.  ``about`` holds
    ``config``, ``commands`` and ``environment`` for the report.
    """
    makers, keeps = name_methods(methods), next((m for m in methods if m in LEARNED), None)
    if config is not None and config.method.kind not in methods:
        raise ValueError(
            f"config is one of the method {config.method.kind}: expected it among the methods"
        )
    own, any_trained = LEARNED, (*LEARNED, *PEERS)
    refuse_unread(
        methods, preset=(preset, own), steps=(steps, any_trained),
        time_budget=(time_budget, any_trained), folder=(folder, own), resume=(resume or None, own),
    )  # fmt: skip
    training = Training(
        preset, config, steps, time_budget, folder, resume, checkpoint_every, keeps
    )  # fmt: skip
    plan = Plan(target, check_integer("n", n), seed, check_equal(equal), progress, training)
    entries: dict[str, Entry] = {}
    for name, make in makers.items():
        if len(methods) > 1:
            plan.note(f"{name} ...")
        reference = next(iter(entries.values()), None)
        entries[name] = make(plan, None if reference is None else reference.total)
    return gather(target, entries, seed, about or {})


def refuse_unread(methods: Sequence[Named], **asked: tuple[Any, Sequence[str]]) -> None:
    """Refuse what is asked for, told with the methods that read it, and none of these is there."""
    unread = [
        name
        for name, (value, readers) in asked.items()
        if value is not None and not any(method in readers for method in methods)
    ]
    if unread:
        raise ValueError(f"no method reads {', '.join(unread)}: leave out {', '.join(unread)}")


def gather(
    target: Target, entries: dict[str, Entry], seed: int, about: Mapping[str, Any]
) -> Comparison:
    """``about`` may hold the ``whole`` of draws that are only the first of many, by name."""
    models = {name: entry.model for name, entry in entries.items() if entry.model is not None}
    first = next((model for model in models.values() if isinstance(model, Learned)), None)
    # densities are counted with those of training, as the price of a method is
    paid = {
        name: replace(entry.draws, num_density_calls=entry.total.densities)
        for name, entry in entries.items()
    }
    seconds = {name: entry.training.seconds for name, entry in entries.items()}
    result = compare_results(
        target, paid, training_seconds=seconds, **pictures_of(first, seed), **about
    )
    draws = {name: entry.draws for name, entry in entries.items()}
    return Comparison(target, draws, result, models)


def pictures_of(model: Learned | None, seed: int) -> dict[str, Any]:
    """What a report shows of a trained model beside its draws."""
    if model is None:
        return {}
    history = [
        {name: value for name, value in record.items() if name in TrainingPoint.model_fields}
        for record in model.history
    ]
    return {"film": film(model, seed), "scores": score_pairs(model, seed), "history": history}
