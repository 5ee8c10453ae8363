"""``tcsis.sweep``: a model for every target and seed, several processes side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcsis.app import executors
from tcsis.app.comparison import Comparison, gather
from tcsis.app.executors import Failure
from tcsis.app.methods import Entry
from tcsis.app.report.figures import main_error
from tcsis.app.tables import COLOURS, html_table, number
from tcsis.basics.checks import check_integer, check_seed
from tcsis.basics.progress import progress_bar
from tcsis.draws import Draws
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.learn.method import Method
from tcsis.learn.trainer import train
from tcsis.targets.base import Target

COLUMNS = ("target", "seed", "verdict", "ESS", "log Z", "error", "iid floor", "training s")


@dataclass(frozen=True)
class Row:
    """One model, by the name of its target and its seed, and its draws judged, as in a table of
    ``tcsis.compare``; or, in ``failure``, why there is none."""

    target: str
    seed: int
    failure: str = ""
    verdict: str = ""
    ess: float | None = None
    log_z: float | None = None
    log_z_error: float | None = None
    error: float | None = None
    floor: float | None = None
    training_seconds: float | None = None
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def model(self) -> Learned:
        """What was trained, as ``tcsis.train`` returns it."""
        (model,) = self.made.models.values()
        assert isinstance(model, Learned)
        return model

    @property
    def draws(self) -> Draws:
        (draws,) = self.made.methods.values()
        return draws

    @property
    def made(self) -> Comparison:
        if self.comparison is None:
            raise ValueError(f"{self.target}, seed {self.seed} has no model: {self.failure}")
        return self.comparison

    def entries(self) -> list[str]:
        """What tables show."""
        log_z = number(self.log_z, 4)
        if self.log_z_error is not None:
            log_z += f" ± {self.log_z_error:.1g}"
        return [
            self.target, str(self.seed), self.verdict or f"failed: {self.failure}",
            number(self.ess, 3), log_z, number(self.error, 5), number(self.floor, 5),
            number(self.training_seconds, 1),
        ]  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """The rows of ``tcsis.sweep``: target by target, seed by seed."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    @property
    def failures(self) -> list[str]:
        """A sentence for every model that could not be made."""
        return [f"{r.target}, seed {r.seed}: {r.failure}" for r in self.rows if r.failure]

    def table(self) -> Table:
        """A table for the terminal."""
        table = Table()
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in COLUMNS[:3] else "right")
        for row in self.rows:
            target, seed, verdict, *rest = map(Text, row.entries())
            verdict.stylize(COLOURS.get(row.verdict, "red"))
            table.add_row(target, seed, verdict, *rest)
        return table

    def to_markdown(self) -> str:
        lines = [COLUMNS, ["---"] * 3 + ["---:"] * (len(COLUMNS) - 3)]
        lines += [[entry.replace("|", r"\|") for entry in row.entries()] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def __str__(self) -> str:
        console = Console(width=140, highlight=False)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get()

    def _repr_html_(self) -> str:
        return html_table("", COLUMNS, [row.entries() for row in self.rows])


def sweep(
    targets: Target | Sequence[Target] | Mapping[str, Target],
    seeds: int | Iterable[int] = 3,
    *,
    n: int = 10_000,
    workers: int | None = None,
    executor: Executor | None = None,
    each: Callable[[Row], object] | None = None,
    progress: bool = True,
    method: str | Method | None = None,
    preset: str | None = None,
    config: Config | None = None,
    steps: int | None = None,
    time_budget: float | None = None,
) -> Sweep:
    """Train a model for every target and seed, make ``n`` draws with each and judge them.

    ``targets`` is one, several, or several by name; ``seeds`` are these, or so many from 0 on.
    ``workers`` processes of this machine do it, two where nothing is said, or any ``executor`` of
    ``concurrent.futures``: of loky, of a Dask client (``client.get_executor()``), of MPI.  A model
    is trained on one thread, and is the same wherever that is.  One that fails is a row that says
    why.  ``each`` is called in this process with every row as it is finished, to save its model for
    instance.  The rest is as for ``tcsis.train``.
    """
    if workers is not None and executor is not None:
        raise ValueError("workers and executor exclude each other: an executor has its own")
    settings = {
        "method": method, "preset": preset, "config": config, "steps": steps,
        "time_budget": time_budget,
    }  # fmt: skip
    check_integer("n", n)
    numbers = listed(seeds)
    pieces = [
        Piece(name, target, seed, n, settings)
        for name, target in named(targets)
        for seed in numbers
    ]
    place: AbstractContextManager[Executor] = (
        executors.choose(workers, None) if executor is None else nullcontext(executor)
    )
    rows: dict[Piece, Row] = {}
    with (
        place as where,
        progress_bar("models", len(pieces), progress) as show,
        closing(executors.run_all(run, pieces, where)) as results,
    ):
        for piece, outcome in results:
            rows[piece] = row = as_row(piece, outcome)
            show(len(rows))
            if each is not None:
                each(row)
    return Sweep(tuple(rows[piece] for piece in pieces))


# -- one model -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Piece:
    """A model that is to be made."""

    name: str
    target: Target
    seed: int
    n: int
    settings: dict[str, Any]

    def __str__(self) -> str:
        return f"target {self.name}"


def run(piece: Piece) -> Row:
    """In the process that does it: train, draw as ``tcsis train`` does, and judge."""
    model = train(piece.target, seed=piece.seed, progress=False, **piece.settings)
    draws = model.sample(piece.n, seed=piece.seed)
    made = gather(piece.target, {model.kind: Entry.of(model, draws)}, piece.seed, {})
    (found,) = made.result.methods
    seen = main_error(found)
    return Row(
        piece.name, piece.seed, verdict=found.verdict.level, ess=found.ess, log_z=found.log_z,
        log_z_error=found.log_z_error, error=None if seen is None else seen.error,
        floor=None if seen is None else seen.floor, training_seconds=found.training_seconds,
        comparison=made,
    )  # fmt: skip


def as_row(piece: Piece, outcome: Row | Failure) -> Row:
    if isinstance(outcome, Failure):
        return Row(piece.name, piece.seed, outcome.sentence)
    return outcome


def named(targets: Target | Sequence[Target] | Mapping[str, Target]) -> list[tuple[str, Target]]:
    if isinstance(targets, Target):
        targets = [targets]
    if not isinstance(targets, Iterable):
        raise ValueError(f"targets is {targets!r}: expected a Target, several, or several by name")
    pairs = targets.items() if isinstance(targets, Mapping) else ((repr(t), t) for t in targets)
    found = [(str(name), target) for name, target in pairs]
    for name, target in found:
        if not isinstance(target, Target):
            raise ValueError(f"target {name} is a {type(target).__name__}: expected a Target")
    if not found:
        raise ValueError("targets is empty: expected at least one")
    return found


def listed(seeds: int | Iterable[int]) -> list[int]:
    if not isinstance(seeds, Iterable):
        return list(range(check_integer("seeds", seeds)))
    found = [check_seed(seed) for seed in seeds]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds is {found}: expected at least one, and each once")
    return found
