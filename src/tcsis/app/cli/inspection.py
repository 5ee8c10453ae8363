"""The commands that look at what is there: exact, evaluate, report, show."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from tcsis import exact as exact_answers
from tcsis.app import experiment, folders, runs, settings, trust
from tcsis.app.cli import running
from tcsis.app.cli.failures import FINE, GATE
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
from tcsis.app.limits import check_limits
from tcsis.app.many import read_judged
from tcsis.app.report import write_report
from tcsis.app.results import Result
from tcsis.app.sources import check_digest, make_target
from tcsis.app.summaries import compare_results
from tcsis.app.target_file import read_target
from tcsis.basics.frozen import merge
from tcsis.basics.locks import NAME, find_writer
from tcsis.draws.shards import count_shards
from tcsis.judging.evaluation import evaluate as evaluate_draws
from tcsis.learn import checkpoint
from tcsis.learn.trainer import CHECKPOINT
from tcsis.targets.base import Target


def exact(
    target: TargetOptions,
    run: RunOptions,
    folder: FolderOptions,
    trusting: TrustOptions,
    printing: PrintOptions,
) -> int:
    if folder.out is not None:
        return running.run("exact", target, run, folder, GateOptions(), trusting, printing, {})
    printer = Printer(printing)
    base, origin = running.read_base(run, folder)
    over = {"target": running.target_table(target), "run": running.run_table(run)}
    document = running.with_assignments(merge(base, over), run)
    running.check_code(document, base, origin, trusting)
    chosen, made = settings.resolve(document, "exact")
    check_limits(chosen, made)
    experiment.set_threads(chosen.run.threads)
    truth = exact_answers.solve(made)
    data = describe_exact(truth)
    printer.show(as_pairs(f"{truth.target}, exact by {truth.method}", data))
    marginals = name_marginals(truth)
    if marginals:
        printer.show(as_shares(marginals))
        data["marginals"] = marginals
    printer.data({"target": chosen.target, **data})
    return FINE


def describe_exact(truth: exact_answers.Exact) -> dict[str, Any]:
    g, m = truth.correlation, truth.magnetisation
    return {
        "method": truth.method,
        "log_z": truth.log_z,
        "mean_energy": truth.mean_energy,
        "correlation": None if g is None else g.tolist(),
        "magnetisation_squared": None if m is None else m.moment(2),
    }


def name_marginals(truth: exact_answers.Exact) -> dict[str, dict[str, float]]:
    """The probability of every value of a free site, where the target has names."""
    target, marginals = truth.target, truth.site_marginals
    if marginals is None or not target.names:
        return {}
    return {
        target.names.show(site): {
            target.names.show_value(site, value): float(marginals[site, value])
            for value in range(target.value_counts[site])
        }
        for site in target.free_sites.tolist()
    }


def as_shares(marginals: dict[str, dict[str, float]]) -> Table:
    table = Table("site", "probabilities", title="Marginals", title_justify="left")
    for site, shares in marginals.items():
        table.add_row(site, "  ".join(f"{value} {share:.4f}" for value, share in shares.items()))
    return table


def as_pairs(title: str, data: dict[str, Any]) -> Table:
    table = Table("quantity", "value", title=title, title_justify="left")
    for name, value in data.items():
        if value is not None:
            table.add_row(name.replace("_", " ").replace("log z", "log Z"), spelled(value))
    return table


def spelled(value: Any) -> str:
    if isinstance(value, list):
        return "  ".join(spelled(entry) for entry in value)
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def evaluate(
    run: str, weighted: bool, gates: GateOptions, trusting: TrustOptions, printing: PrintOptions
) -> int:
    """``weighted`` holds for the table and the gate; the verdict uses weights where it can."""
    printer = Printer(printing)
    folder = running.find_run(run, printer)
    check_options(gates)
    target = load_target(folder, trusting)
    check_target(gates, target)
    if not (folder / runs.DRAWS).is_file():
        raise ValueError(
            f"{folder} has no {runs.DRAWS}: {how_to_finish(runs.read_config(folder), folder)}"
        )
    read = read_judged(folder / runs.DRAWS)
    draws, attributes = read.draws, read.attrs
    settings_of_run = runs.config_digest(folder)
    if attributes.get(runs.CONFIG_DIGEST, settings_of_run) != settings_of_run:
        raise ValueError(of_other_settings(folder, runs.DRAWS))
    evaluation = evaluate_draws(draws, target, weighted=weighted)
    name = str(attributes.get("method", "draws"))
    whole = {} if read.whole is None else {name: read.whole}
    result = compare_results(target, {name: draws}, whole=whole)
    method = result.methods[0]
    missed = failures(method, gates, weighted=weighted and method.weighted)
    code = GATE if missed else FINE
    printer.show(evaluation.table(), str(method.verdict))
    printer.data({"folder": run, **as_data(result), "missed": missed, "exit_code": code})
    for sentence in missed:
        print(f"error: {sentence}", file=sys.stderr)
    return code


def load_target(folder: Path, trusting: TrustOptions) -> Target:
    """The target of a run; one that came from a file is kept in the folder, or in the checkpoint
    of the model that was drawn from."""
    document = runs.read_config(folder)
    if (folder / runs.TARGET).is_file():
        target = read_target(folder / runs.TARGET)
        check_digest(target, document["target"], f"{folder / runs.TARGET} is of another run")
        return target
    trained = Path(document["run"].get("model", folder))
    if "file" in document["target"] and checkpoint.exists(trained / CHECKPOINT):
        return experiment.load_model(trained, runs.read_config(trained)).target
    trust.require(folder, document["target"], trusting.trust_code)
    return make_target(document["target"])


def report(run: str, printing: PrintOptions) -> int:
    printer = Printer(printing)
    folder = running.find_run(run, printer)
    write_report(load_result(folder), folder / runs.REPORT)
    printer.show(f"report: {folder / runs.REPORT}")
    printer.data({"report": str(folder / runs.REPORT)})
    return FINE


def load_result(folder: Path) -> Result:
    document = runs.read_config(folder)
    if not (folder / runs.RESULT).is_file():
        raise ValueError(f"{folder} has no {runs.RESULT}: {how_to_finish(document, folder)}")
    result = Result.load(folder / runs.RESULT)
    if result.config.encode() != runs.config_text(folder):
        raise ValueError(of_other_settings(folder, runs.RESULT))
    return result


def of_other_settings(folder: Path, name: str) -> str:
    how = how_to_finish(runs.read_config(folder), folder)
    return f"{folder / name} was made with other settings than {runs.CONFIG} has: {how}"


def how_to_finish(document: settings.Document, folder: Path) -> str:
    command, model = document["run"].get("command"), document["run"].get("model")
    if command not in settings.TRAINED and not count_shards(folder / runs.DRAWS):
        return "the run in it did not end; run it again with --overwrite"
    models = [] if model is None else [model]
    line = shlex.join(["tcsis", command, *models, "--resume", "--out", str(folder)])
    return f"the run in it did not end; go on with: {line}"


def show(run: str, printing: PrintOptions) -> int:
    printer = Printer(printing)
    folder = running.find_run(run, printer)
    document, writer = runs.read_config(folder), find_writer(folder)
    files = sorted(path.name for path in folder.iterdir() if path.name != NAME)
    chosen = {name: document["run"].get(name) for name in ("command", "seed", "n", "preset")}
    printer.show(as_pairs(str(folder), {**document["target"], **chosen, "files": " ".join(files)}))
    data: dict[str, Any] = {"folder": run, "config": document, "files": files, "writer": writer}
    data["environment"] = runs.read_environment(folder)
    if writer is not None:
        printer.show(f"it is being written by {writer}")
    elif folders.find_unfinished(folder) != folder:
        printer.show(f"its replacement is not finished: {folders.find_unfinished(folder)}")
    if (folder / runs.RESULT).is_file() and (writer is None or is_finished(folder)):
        result = load_result(folder)
        print_result(printer, result, folder)
        data |= as_data(result)
    else:
        printer.show(how_to_finish(document, folder))
    printer.data(data)
    return FINE


def is_finished(folder: Path) -> bool:
    """Whether the result is that of the config: while a run goes on it may be one before."""
    try:
        load_result(folder)
    except ValueError:
        return False
    return True
