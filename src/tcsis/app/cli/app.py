"""Every command with its options.  The work is done by modules that load when they are called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import tcsis
from tcsis.app.cli.environment import set_environment
from tcsis.app.cli.failures import (
    FINE,
    INTERRUPTED,
    RunInterruptedError,
    explain,
)
from tcsis.app.cli.options import (
    DrawOptions,
    FolderOptions,
    GateOptions,
    PrintOptions,
    RunOptions,
    TargetOptions,
    TrustOptions,
    grouped,
)
from tcsis.basics.launch import started_together
from tcsis.basics.signals import handled_by, ignore, stoppable

TOGETHER, APART = ("train",), ("sample",)
"""Commands that many ranks work on: in step, or each by itself, with files alone in common."""

app = typer.Typer(
    help="Independent samples, log Z and an honest verdict for unnormalised discrete "
    "distributions.",
    add_completion=False,
)
RunFolder = Annotated[str, Argument(metavar="RUN", help="the folder of a run")]
Weighted = Annotated[bool, Option("--weighted", help="use the weights of the draws")]
At = Annotated[str | None, Option(help="one value of the range that the run is for: beta=0.37")]


def command(function: Callable[..., int]) -> Callable[..., int]:
    """A command of its name, with groups of options as its parameters."""
    return app.command()(grouped(function))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.  Of several ranks that fail the first tells why,
    while the others cannot see yet that it goes."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    set_environment(given)
    signals: list[int] = []
    with ExitStack() as stack:
        if started_together():  # torchrun asks all to end when one does, and may cut that short
            stack.enter_context(handled_by(ignore))
        try:
            with stoppable() as signals, join(given[0], stack):
                code = app(given, prog_name="tcsis", standalone_mode=False) or FINE
                if code == INTERRUPTED:  # outside of a run
                    raise RunInterruptedError("interrupted")
                return code
        except KeyboardInterrupt:  # before or after all else
            return explain(RunInterruptedError("interrupted"), given, signals)
        except Exception as error:
            return explain(error, given, signals)


def join(name: str, stack: ExitStack) -> AbstractContextManager[None]:
    """Be one of the ranks that torchrun has started, if it has, until the stack is left; that they
    are all there is watched inside of what is returned."""
    if not started_together() or name in APART:
        return nullcontext()
    from tcsis.basics.ranks import all_ranks

    ranks = stack.enter_context(all_ranks())
    if name not in TOGETHER and not name.startswith("-"):
        raise ValueError(
            f"{name} was started on {ranks.size} ranks: expected one process, as the work of "
            f"{' and '.join(TOGETHER + APART)} alone is shared out among ranks"
        )
    return ranks.watching()


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcsis {tcsis.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


@command
def doctor(printing: PrintOptions) -> int:
    """What is installed, cores, devices, and a self-test that compiles what is not yet."""
    from tcsis.app.cli import doctor as module

    return module.doctor(printing)


@command
def targets(printing: PrintOptions) -> int:
    """What can be sampled from, and how it is named."""
    from tcsis.app.cli import catalogue

    return catalogue.targets(printing)


@command
def exact(
    target: TargetOptions,
    run: DrawOptions,
    folder: FolderOptions,
    trust: TrustOptions,
    printing: PrintOptions,
) -> int:
    """Exact answers; with --out also exact draws and their report."""
    from tcsis.app.cli import inspection

    return inspection.exact(target, run, folder, trust, printing)


@command
def train(
    target: TargetOptions,
    run: DrawOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trust: TrustOptions,
    printing: PrintOptions,
    method: Annotated[
        str | None, Option(help="autoregressive, any-time, self-normalized or unbiased (by target)")
    ] = None,
    preset: Annotated[str | None, Option(help="fast, paper or tiny")] = None,
    steps: Annotated[int | None, Option(help="training steps")] = None,
    time_budget: Annotated[float | None, Option(help="most seconds of training")] = None,
    start: Annotated[
        str | None, Option(metavar="RUN", help="a trained run to begin with the weights of")
    ] = None,
    interval: Annotated[
        str | None, Option("--range", help="one model for a range of targets: beta=0.1:0.6")
    ] = None,
) -> int:
    """Train a sampler, draw from it, judge the draws and write the report."""
    from tcsis.app.cli import running

    over = {
        "run": {
            "method": method,
            "preset": preset,
            "time_budget": time_budget,
            "range": interval,
            "start": None if start is None else str(Path(start).absolute()),
        },
        "train": {"num_steps": steps},
    }
    return running.run("train", target, run, folder, gates, trust, printing, over)


@command
def sample(
    run: DrawOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trust: TrustOptions,
    printing: PrintOptions,
    model: Annotated[str, Argument(metavar="RUN", help="the folder of a trained run")],
    calls: Annotated[int | None, Option(help="network calls a draw may take")] = None,
    given: Annotated[
        str | None, Option(help="values of more sites, 3=1,17=0, for a run of method any-time")
    ] = None,
    at: At = None,
) -> int:
    """Draw from a trained run."""
    from tcsis.app.cli import running

    return running.sample(model, calls, given, at, run, folder, gates, trust, printing)


@command
def mcmc(
    target: TargetOptions,
    run: RunOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trust: TrustOptions,
    printing: PrintOptions,
    kernel: Annotated[str | None, Option(help="gibbs, glauber, gwg, wolff, ... (gibbs)")] = None,
    chains: Annotated[int | None, Option(help="number of chains (100)")] = None,
    steps: Annotated[int | None, Option(help="steps of every chain (1000)")] = None,
    burn_in: Annotated[int | None, Option(help="steps to drop (100)")] = None,
    thin: Annotated[int | None, Option(help="keep every thin-th state (1)")] = None,
) -> int:
    """Run Markov chains."""
    from tcsis.app.cli import running

    chosen = {
        "kernel": kernel, "num_chains": chains, "num_steps": steps, "burn_in": burn_in,
        "thin": thin,
    }  # fmt: skip
    return running.run("mcmc", target, run, folder, gates, trust, printing, {"mcmc": chosen})


@command
def compare(
    target: TargetOptions,
    run: DrawOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trust: TrustOptions,
    printing: PrintOptions,
    methods: Annotated[
        str | None, Option(help="names with commas between, the first is the reference")
    ] = None,
    equal: Annotated[str | None, Option(help="equal in seconds or densities (seconds)")] = None,
    preset: Annotated[str | None, Option(help="fast, paper or tiny")] = None,
    steps: Annotated[int | None, Option(help="training steps of every learned one")] = None,
    time_budget: Annotated[float | None, Option(help="most seconds of training")] = None,
) -> int:
    """Several methods on one target at equal cost."""
    from tcsis.app.cli import running

    names = None if methods is None else [name.strip() for name in methods.split(",")]
    over = {
        "run": {"preset": preset, "steps": steps, "time_budget": time_budget},
        "compare": {"methods": names, "equal": equal},
    }
    return running.run("compare", target, run, folder, gates, trust, printing, over)


@command
def evaluate(
    run: RunFolder,
    gates: GateOptions,
    trust: TrustOptions,
    printing: PrintOptions,
    weighted: Weighted = False,
) -> int:
    """Compare the draws of a run with exact answers, and judge them."""
    from tcsis.app.cli import inspection

    return inspection.evaluate(run, weighted, gates, trust, printing)


@command
def judge(
    draws: Annotated[
        str,
        Argument(metavar="DRAWS", help="a file of anybody's draws: .csv, .npy, .npz, .nc, .json"),
    ],
    target: TargetOptions,
    gates: GateOptions,
    printing: PrintOptions,
    model: Annotated[
        str | None, Option(help="the folder of a trained run, for a second opinion")
    ] = None,
    at: At = None,
    weighted: Weighted = False,
) -> int:
    """Judge anybody's draws: tcsis judge samples.csv ising --side 4 --beta 0.44."""
    from tcsis.app.cli import judging

    return judging.judge(draws, target, model, at, weighted, gates, printing)


@command
def report(run: RunFolder, printing: PrintOptions) -> int:
    """Write the report of a run again, from its results."""
    from tcsis.app.cli import inspection

    return inspection.report(run, printing)


@command
def show(run: RunFolder, printing: PrintOptions) -> int:
    """What is in the folder of a run."""
    from tcsis.app.cli import inspection

    return inspection.show(run, printing)


@command
def paper(
    printing: PrintOptions,
    quick: Annotated[
        bool, Option("--quick", help="side 4 only, short trainings: a minute or two")
    ] = False,
    out: Annotated[
        str | None, Option(help="folder of the study (runs/paper, or runs/paper-quick)")
    ] = None,
    workers: Annotated[
        int | None, Option(help="processes side by side, one core each (2, or all cores if fewer)")
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="the address of a Dask cluster, tcp://host:port, to run on instead")
    ] = None,
) -> int:
    """The study of the paper with exact truth; goes on where it was stopped."""
    from tcsis.app.cli import paper as module

    return module.paper(quick, out, workers, scheduler, printing)


@command
def bench(
    printing: PrintOptions,
    quick: Annotated[
        bool, Option("--quick", help="tiny sides, short trainings: a minute or two")
    ] = False,
    out: Annotated[
        str | None, Option(help="folder of the benchmark (runs/bench, or runs/bench-quick)")
    ] = None,
    workers: Annotated[
        int | None, Option(help="processes side by side, one core each (2, or all cores if fewer)")
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="address of a Dask cluster to run the cells on, tcp://host:8786")
    ] = None,
    check: Annotated[
        str | None,
        Option(help="run a few cells again and compare their ratios with those of this folder"),
    ] = None,
) -> int:
    """What an independent draw costs, and when training pays; goes on where it was stopped."""
    from tcsis.app.cli import bench as module

    return module.bench(quick, out, workers, scheduler, check, printing)
