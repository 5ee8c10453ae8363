"""The commands that make draws: train, sample, mcmc, compare, and exact with a folder."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tcsis.app import experiment, runs, settings
from tcsis.app.cli.failures import FINE, GATE, RunInterruptedError
from tcsis.app.cli.gates import check_options, check_target, failures
from tcsis.app.cli.options import (
    FolderOptions,
    GateOptions,
    PrintOptions,
    RunOptions,
    TargetOptions,
)
from tcsis.app.cli.printing import Printer, as_data, print_result
from tcsis.app.experiment import Job
from tcsis.app.methods import name_methods
from tcsis.app.settings import Command, Document, Settings
from tcsis.app.sources import name_file
from tcsis.app.target_file import read_target
from tcsis.basics.frozen import merge
from tcsis.learn import checkpoint
from tcsis.learn.trainer import CHECKPOINT
from tcsis.mcmc.runner import find_kernel
from tcsis.targets.known import add_known, parse_known

RUNS = Path("runs")
CHOOSING = ("method", "preset")


def run(
    command: Command,
    target: TargetOptions,
    run: RunOptions,
    folder: FolderOptions,
    gates: GateOptions,
    printing: PrintOptions,
    over: Document,
) -> int:
    """Resolve the settings, run them, print and keep the outcome."""
    printer = Printer(printing)
    check_options(gates)
    refuse_resuming(command, folder)
    base = read_base(run, folder)
    over = without_nothing(merge(over, {"target": target_table(target), "run": run_table(run)}))
    if "train" in base and any(name in over.get("run", {}) for name in CHOOSING):
        printer.note("note: another method or preset is chosen, so [train] of the file is not used")
        del base["train"]
    named = over.get("target", {}).get("name")
    if named is not None and named != base.get("target", {}).get("name"):
        base.pop("target", None)
    kept = Path(folder.out or "") / runs.TARGET
    goes_on = folder.resume and "target" not in over and kept.is_file()
    before = read_target(kept) if goes_on else None
    chosen, made = settings.resolve(with_assignments(merge(base, over), run), command, before)
    check_names(chosen)
    check_target(gates, made)  # before a folder is made
    place = make_folder(chosen, folder)
    return perform(Job(chosen, made, folder=place, resume=folder.resume), gates, printer)


def sample(
    model: str,
    calls: int | None,
    given: str | None,
    run: RunOptions,
    folder: FolderOptions,
    gates: GateOptions,
    printing: PrintOptions,
) -> int:
    """Draw from the model in a folder, on the target of its config, which more may be given."""
    printer = Printer(printing)
    check_options(gates)
    refuse_resuming("sample", folder)
    trained, base = Path(model), with_assignments(read_base(run, folder), run)
    target = runs.read_config(trained)["target"]
    before = target.get("given", "")
    more = base.get("target", {}).get("given", "") if given is None else given
    known = add_known(before, more)
    own = run_table(run) | {"calls": calls, "model": str(trained.absolute())}
    document = without_nothing({"target": target | {"given": known or None}, "run": own})
    chosen = settings.resolve_sample(merge(base, document))
    loaded = experiment.load_model(trained, target, chosen.run.device)
    adds = known != add_known(before, "") or given is not None
    sampler = loaded.given(parse_known(known)) if adds else loaded
    check_target(gates, sampler.target)  # before a folder is made
    place = make_folder(chosen, folder)
    return perform(Job(chosen, sampler.target, sampler, place), gates, printer)


def perform(job: Job, gates: GateOptions, printer: Printer) -> int:
    commands = [] if job.folder is None else repeat_commands(job.settings, job.folder)
    job = replace(job, progress=printer.lively, commands=commands)
    try:
        result = experiment.run(job).result
    except KeyboardInterrupt:
        raise RunInterruptedError(how_to_go_on(job.settings, job.folder)) from None
    except ValueError:
        if job.folder is not None and not job.resume:
            runs.discard(job.folder)
        raise
    print_result(printer, result, job.folder)
    missed = failures(result.methods[0], gates)
    code = GATE if missed else FINE
    where = None if job.folder is None else str(job.folder)
    printer.data({"folder": where, **as_data(result), "missed": missed, "exit_code": code})
    for sentence in missed:
        print(f"error: {sentence}", file=sys.stderr)
    return code


# -- settings from options -----------------------------------------------------------------------


def read_base(run: RunOptions, folder: FolderOptions) -> Document:
    """The file that options are laid over: that of the run to resume, or the user's."""
    if folder.resume:
        if folder.out is None:
            raise ValueError("resume needs --out: expected the folder of the run to go on with")
        if run.config is not None:
            raise ValueError("config and resume exclude each other: a run goes on with its own")
        return runs.read_config(Path(folder.out))
    return {} if run.config is None else settings.read(run.config)


def with_assignments(document: Document, run: RunOptions) -> Document:
    for text in run.set or ():
        document = merge(document, settings.assignment(text))
    return document


def target_table(options: TargetOptions) -> Document:
    name, file = options.target, options.file
    if name is not None and file is None and (named := name_file(name)) is not None:
        name, file = named, name
    given = {
        "name": name, "file": file, "problem": options.problem, "fugacity": options.fugacity,
        "side": parse_side(options.side),
        "beta": options.beta, "num_values": options.num_values, "num_sites": options.num_sites,
        "field": options.field, "boundary": options.boundary, "disorder": options.disorder,
        "seed": options.disorder_seed, "given": options.given,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def parse_side(text: str | None) -> int | list[int] | None:
    """4, or 4x6 for a box."""
    if text is None:
        return None
    try:
        sides = [int(part) for part in text.lower().split("x")]
    except ValueError:
        raise ValueError(f"side is {text!r}: expected an integer, or a box such as 4x6") from None
    return sides[0] if len(sides) == 1 else sides


def run_table(options: RunOptions) -> Document:
    given = asdict(options)
    del given["config"], given["set"]
    return settings.without_none(given)


def without_nothing(document: Document) -> Document:
    """Without entries that are None, and without tables that are empty then."""
    kept = {section: settings.without_none(table) for section, table in document.items()}
    return {section: table for section, table in kept.items() if table}


def check_names(chosen: Settings) -> None:
    """Refuse unknown methods and kernels before anything is run."""
    if isinstance(chosen, settings.Compare):
        name_methods(chosen.compare.methods)
    if isinstance(chosen, settings.Mcmc):
        find_kernel(chosen.mcmc.kernel)


# -- folders -------------------------------------------------------------------------------------


def make_folder(chosen: Settings, options: FolderOptions) -> Path | None:
    """The folder that was asked for; a new one under runs for training, which always keeps."""
    if options.out is not None:
        return runs.open_folder(options.out, resume=options.resume, overwrite=options.overwrite)
    if options.overwrite:
        raise ValueError("overwrite needs --out: expected the folder to replace")
    if chosen.run.command != "train":
        return None
    name = Path(chosen.target["name"].split(":")[0]).stem
    return runs.open_folder(runs.free_folder(RUNS, name))


def repeat_commands(chosen: Settings, folder: Path) -> list[str]:
    """Commands that repeat the run, or go on from it."""
    config = str(folder / runs.CONFIG)
    commands: list[list[Any]] = [
        ["tcsis", chosen.run.command, "--config", config, "--out", f"{folder}-again"]
    ]
    if isinstance(chosen, settings.Sample):
        commands[0].insert(2, chosen.run.model)
    if chosen.run.command in settings.TRAINED:
        commands.append(["tcsis", "sample", str(folder), "--seed", str(chosen.run.seed + 1)])
    commands.append(["tcsis", "evaluate", str(folder)])
    return [shlex.join(command) for command in commands]


def refuse_resuming(command: Command, options: FolderOptions) -> None:
    if options.resume and command not in settings.TRAINED:
        raise ValueError(f"resume is for training: {command} starts afresh, with --overwrite")


def how_to_go_on(chosen: Settings, folder: Path | None) -> str:
    if folder is None or not checkpoint.exists(folder / CHECKPOINT):
        return "interrupted before there was anything to save"
    command = shlex.join(["tcsis", chosen.run.command, "--resume", "--out", str(folder)])
    return f"interrupted: the state is saved in {folder}; go on with: {command}"
