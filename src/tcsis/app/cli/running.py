"""The commands that make draws: train, sample, mcmc, compare, and exact with a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from tcsis.app import experiment, folders, runs, settings, trust
from tcsis.app.cli.failures import FINE, GATE, RunInterruptedError
from tcsis.app.cli.gates import check_options, check_target, failures
from tcsis.app.cli.options import (
    FolderOptions,
    GateOptions,
    PrintOptions,
    RunOptions,
    TargetOptions,
    TrustOptions,
)
from tcsis.app.cli.printer import Printer
from tcsis.app.cli.printing import as_data, print_result
from tcsis.app.experiment import Job
from tcsis.app.folders import Place
from tcsis.app.limits import check_limits
from tcsis.app.methods import name_methods
from tcsis.app.settings import Command, Document, Settings
from tcsis.app.sources import name_file
from tcsis.app.target_file import read_target
from tcsis.basics.checks import MAX_SEED
from tcsis.basics.files import WriteError
from tcsis.basics.frozen import merge
from tcsis.basics.launch import this_rank
from tcsis.basics.ranks import RankEndedError, Ranks, current
from tcsis.basics.signals import ignore_all
from tcsis.draws.shards import StalledError, count_shards
from tcsis.learn import checkpoint, shards
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import CHECKPOINT
from tcsis.mcmc.runner import find_kernel
from tcsis.targets.known import add_known, parse_known
from tcsis.targets.ranges import POWER, parse_value

T = TypeVar("T")

RUNS = Path("runs")
CHOOSING = ("method", "preset")
NOWHERE = Place(Path(), Path())


def run(
    command: Command,
    target: TargetOptions,
    run: RunOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trusting: TrustOptions,
    printing: PrintOptions,
    over: Document,
) -> int:
    """Resolve the settings, run them, print and keep the outcome."""
    ranks = current()
    printer = Printer(printing if ranks.leads else PrintOptions(quiet=True))
    check_options(gates)
    refuse_resuming(command, folder)
    base, origin = read_base(run, folder)
    over = without_nothing(merge(over, {"target": target_table(target), "run": run_table(run)}))
    if "train" in base and any(name in over.get("run", {}) for name in CHOOSING):
        printer.note("note: another method or preset is chosen, so [train] of the file is not used")
        del base["train"]
    named = over.get("target", {}).get("name")
    if named is not None and named != base.get("target", {}).get("name"):
        base.pop("target", None)
    if "file" in over.get("target", {}):
        base.get("target", {}).pop("sha256", None)  # which is that of another file
    document = with_assignments(merge(base, over), run)
    check_code(document, base, origin, trusting)
    kept = origin / runs.TARGET
    goes_on = folder.resume and "target" not in over and kept.is_file()
    chosen, made = settings.resolve(document, command, read_target(kept) if goes_on else None)
    check_names(chosen)
    check_limits(chosen, made)
    check_target(gates, made)  # before a folder is made
    if isinstance(chosen, settings.Train):
        chosen = share_out(chosen, ranks, folder.resume)
    job = Job(chosen, made, resume=folder.resume, ranks=ranks)
    ranks.meet()  # before rank 0 changes what others may still have to read
    if not ranks.leads:
        return assist(job)
    return perform(job, open_folder(chosen, folder), gates, printer)


def share_out(chosen: settings.Train, ranks: Ranks, resume: bool) -> settings.Train:
    """On so many ranks; a run that is resumed keeps its shards."""
    config = chosen.train if resume else chosen.train.over(ranks.size)
    shards.numbers(config.shards, ranks)  # or they are refused
    return chosen.model_copy(update={"train": config})


def assist(job: Job) -> int:
    """The part of a rank that is told by rank 0 where the run is."""
    place = job.ranks.told(lambda: NOWHERE)
    run_in(place, replace(job, progress=False), experiment.assist)
    return FINE


def sample(
    model: str,
    calls: int | None,
    given: str | None,
    at: str | None,
    run: RunOptions,
    folder: FolderOptions,
    gates: GateOptions,
    trusting: TrustOptions,
    printing: PrintOptions,
) -> int:
    """Draw from the model in a folder, on the target of its config, which more may be given, or at
    one value of its range."""
    printer = Printer(printing)
    check_options(gates)
    rank = this_rank()
    if rank.world > 1 and folder.out is None:
        raise ValueError("several processes share the draws: expected --out, one folder for all")
    kept = read_base(run, folder)[0]
    refuse_others(kept, folder)
    trained, base = find_run(model, printer), with_assignments(kept, run)
    refuse_own_folder(trained, folder)
    config = runs.read_config(trained)
    if config["run"].get("command") == "sample":
        raise ValueError(f"{model} holds draws: expected their model, {config['run']['model']}")
    target = config["target"]
    trust.require(trained, target, trusting.trust_code)
    before = target.get("given", "")
    more = base.get("target", {}).get("given", "") if given is None else given
    known = add_known(before, more)
    at = base.get("run", {}).get("at") if at is None else at
    values = {} if at is None else parse_value(at)
    if POWER in values:
        raise ValueError(
            "at is a power, and a run holds targets as they are: ask in Python, by "
            "tcsis.load(folder).at(power=...)"
        )
    own = run_table(run) | {"calls": calls, "at": at, "model": str(trained.absolute())}
    table = target | values | {"given": known or None}
    document = without_nothing({"target": table, "run": own})
    chosen = settings.resolve_sample(merge(base, document))
    loaded = experiment.load_model(trained, config, chosen.run.device)
    loaded = loaded.at(**values) if values else loaded
    adds = known != add_known(before, "") or given is not None
    sampler = loaded.given(parse_known(known)) if adds else loaded
    check_limits(chosen, sampler.target)
    check_target(gates, sampler.target)  # before a folder is made
    job = Job(chosen, sampler.target, sampler, resume=folder.resume, key=loaded.digest())
    if folder.resume and chosen != settings.resolve_sample(kept):
        raise ValueError(
            f"{folder.out} was begun with other settings: expected the same, or none but --out; "
            "--overwrite starts afresh"
        )
    if rank.leads:
        return perform(job, open_folder(chosen, folder), gates, printer)
    assert folder.out is not None
    place = Path(folder.out)
    experiment.help_out(job, [place, folders.replacement_of(place)])
    return FINE


def perform(
    job: Job, opened: AbstractContextManager[Place | None], gates: GateOptions, printer: Printer
) -> int:
    job = replace(job, progress=printer.lively)
    with opened as place:
        job.ranks.told(lambda: place)
        comparison = experiment.run(job) if place is None else run_in(place, job, experiment.run)
    result, folder = comparison.result, None if place is None else place.folder
    print_result(printer, result, folder)
    learned = {name: m for name, m in comparison.models.items() if isinstance(m, Learned)}
    if job.settings.run.command in settings.TRAINED:
        for said in filter(None, (model.last_look for model in learned.values())):
            printer.note(said)
    budget = getattr(job.settings.run, "time_budget", None)
    if budget is not None and not job.progress:  # with a progress bar it has been said
        for name, model in learned.items():
            printer.note(f"{name}: budget of {budget:g} s: {model.account}")
    missed = failures(result.methods[0], gates)
    code = GATE if missed else FINE
    where = None if folder is None else str(folder)
    printer.data({"folder": where, **as_data(result), "missed": missed, "exit_code": code})
    for sentence in missed:
        print(f"error: {sentence}", file=sys.stderr)
    return code


def run_in(place: Place, job: Job, work: Callable[[Job], T]) -> T:
    """Run in a folder; what ends a run early is told with what is left of it."""
    commands = repeat_commands(job.settings, place.folder)
    try:
        return work(replace(job, folder=place.work, commands=commands))
    except KeyboardInterrupt:
        ignore_all()
        raise RunInterruptedError(f"interrupted{how_to_go_on(job, place)}") from None
    except StalledError as error:
        raise StalledError(f"{error}; {how_to_repeat(job, place)}") from None
    except RankEndedError as error:
        ignore_all()  # for torchrun asks all to end when one has
        ended = "another rank has ended, so that this one ends too"
        raise RankEndedError(f"{ended}{how_to_go_on(job, place)}") from error
    except WriteError as error:
        raise WriteError(f"{error}; then {how_to_repeat(job, place)}") from error
    except ValueError:
        if job.ranks.leads and not job.resume:
            folders.discard(place.work)
        raise


# -- settings from options -----------------------------------------------------------------------


def read_base(run: RunOptions, folder: FolderOptions) -> tuple[Document, Path]:
    """The file that options are laid over, that of the run to resume or the user's, and the folder
    that it is in."""
    if folder.resume:
        if folder.out is None:
            raise ValueError("resume needs --out: expected the folder of the run to go on with")
        if run.config is not None:
            raise ValueError("config and resume exclude each other: a run goes on with its own")
        unfinished = folders.find_unfinished(Path(folder.out))
        return runs.read_config(unfinished), unfinished
    if run.config is None:
        return {}, Path()
    return settings.read(run.config), Path(run.config).parent


def check_code(document: Document, base: Document, origin: Path, trusting: TrustOptions) -> None:
    """Refuse a function that a file names, unless the code is known; what is named on the command
    line is the user's own wish."""
    target, before = (settings.table(one, "target") for one in (document, base))
    if "name" in before and target.get("name") == before["name"]:
        trust.require(origin, settings.absolute(target), trusting.trust_code)


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


def open_folder(chosen: Settings, options: FolderOptions) -> AbstractContextManager[Place | None]:
    """The folder that was asked for; a new one under runs for training and for draws
    of a model, which are always kept."""
    if options.out is not None:
        how = {"resume": options.resume, "overwrite": options.overwrite}
        return folders.open_place(options.out, **how)
    if options.overwrite:
        raise ValueError("overwrite needs --out: expected the folder to replace")
    if isinstance(chosen, settings.Sample):
        return folders.open_place(runs.free_folder(RUNS, f"{Path(chosen.run.model).name}-sample"))
    if chosen.run.command != "train":
        return nullcontext()
    name = Path(chosen.target["name"].split(":")[0]).stem
    return folders.open_place(runs.free_folder(RUNS, name))


def find_run(path: str, printer: Printer) -> Path:
    """The folder of a run to read."""
    folder = Path(path)
    found = folders.find(folder)
    if found != folder:
        printer.note(
            f"note: {folder} was being replaced when its process ended; the run is in {found}, and "
            f"whoever writes to {folder} next puts it there"
        )
    return found


def repeat_commands(chosen: Settings, folder: Path) -> list[str]:
    """Commands that repeat the run, or go on from it."""
    config = str(folder / runs.CONFIG)
    commands: list[list[Any]] = [
        ["tcsis", chosen.run.command, "--config", config, "--out", f"{folder}-again"]
    ]
    if isinstance(chosen, settings.Sample):
        commands[0].insert(2, chosen.run.model)
    if chosen.run.command in settings.TRAINED:
        seed = (chosen.run.seed + 1) % (MAX_SEED + 1)
        commands.append(["tcsis", "sample", str(folder), "--seed", str(seed)])
    commands.append(["tcsis", "evaluate", str(folder)])
    return [shlex.join(command) for command in commands]


def refuse_resuming(command: Command, options: FolderOptions) -> None:
    if options.resume and command not in settings.TRAINED:
        raise ValueError(
            f"resume is for training and for draws of a model: {command} starts afresh, with "
            "--overwrite"
        )


def refuse_others(kept: Document, folder: FolderOptions) -> None:
    """Refuse to go on with draws in the folder of a run that has another command."""
    command = settings.table(kept, "run").get("command", "sample")
    if folder.resume and command != "sample":
        raise ValueError(
            f"resume goes on with draws, and {folder.out} is a run of tcsis {command}: expected "
            "the folder that tcsis sample was interrupted in"
        )


def refuse_own_folder(trained: Path, folder: FolderOptions) -> None:
    """Refuse to put draws in the place of the model that they are drawn from."""
    if folder.out is not None and Path(folder.out).resolve() == trained.resolve():
        raise ValueError(
            f"{folder.out} is the run of the model itself, which draws in its place would end: "
            "expected another folder"
        )


def how_to_go_on(job: Job, place: Place) -> str:
    """What is left of a run that was ended early, after what is said of that."""
    drawn = count_shards(place.work / runs.DRAWS)
    if drawn:
        return f": {drawn} shards of draws are kept in {place.work}; {how_to_repeat(job, place)}"
    if not checkpoint.exists(place.work / CHECKPOINT):
        return f" before there was anything to save; {how_to_repeat(job, place)}"
    return f": the state is saved in {place.work}; {how_to_repeat(job, place)}"


def how_to_repeat(job: Job, place: Place) -> str:
    """What takes a run to its end that was ended early."""
    command = job.settings.run.command
    if command not in settings.TRAINED and not count_shards(place.work / runs.DRAWS):
        return f"run it again with --overwrite --out {shlex.quote(str(place.folder))}"
    start = ["tcsis"]
    if job.ranks.size > 1:
        start = ["torchrun", "--nproc-per-node", str(job.ranks.size), "-m", "tcsis"]
    model = [job.settings.run.model] if isinstance(job.settings, settings.Sample) else []
    again = [*start, command, *model, "--resume", "--out", str(place.folder)]
    return f"go on with: {shlex.join(again)}"
