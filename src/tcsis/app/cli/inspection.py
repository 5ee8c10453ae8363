"""The commands that look at what is there: targets, exact, evaluate, report, show."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from tcsis import exact as exact_answers
from tcsis.app import experiment, runs, settings
from tcsis.app.cli import running
from tcsis.app.cli.failures import FINE, GATE
from tcsis.app.cli.gates import check_options, check_target, failures
from tcsis.app.cli.options import (
    FolderOptions,
    GateOptions,
    PrintOptions,
    RunOptions,
    TargetOptions,
)
from tcsis.app.cli.printing import Printer, as_data, print_result
from tcsis.app.report import write_report
from tcsis.app.results import Result
from tcsis.app.sources import make_target
from tcsis.app.summaries import compare_results
from tcsis.app.target_file import read_target
from tcsis.basics.frozen import merge
from tcsis.draws.storage import read_draws
from tcsis.formats.files import FORMATS
from tcsis.judging.evaluation import evaluate as evaluate_draws
from tcsis.learn import checkpoint
from tcsis.learn.learned import load
from tcsis.learn.trainer import CHECKPOINT
from tcsis.targets.base import Target
from tcsis.targets.spec import KINDS

EXAMPLES = {
    "ising": "ising --side 4 --beta 0.4407",
    "potts": "potts --side 6 --num-values 3 --beta 1.005",
    "spin-glass": "spin-glass --side 8 --beta 1.0 --disorder bimodal --disorder-seed 3",
    "sherrington-kirkpatrick": "sherrington-kirkpatrick --num-sites 20 --beta 0.5",
    "pairwise": "pairwise couplings.npz",
    "rbm": "rbm weights.npz",
    "bqm": "problem.bqm --beta 2",
    "dqm": "problem.dqm",
    "coo": "problem.coo",
    "qubo": "problem.qubo",
    "gset": "gset G1 --beta 0.5",
    "dimacs": "graph.dimacs --as colouring --num-values 3",
    "cnf": "formula.cnf",
    "wcnf": "formula.wcnf --beta 2",
    "bif": "alarm.bif --given smoking=yes",
    "uai": "network.uai",
    "fasta": "family.fasta",
    "dca": "dca parameters.dat",
    "your own": "density.py:log_density --num-sites 12 --num-values 3",
}


SPELLED = {
    "beta": "--beta", "problem": "--as", "fugacity": "--fugacity", "num_values": "--num-values",
    "coupling_penalty": "--set target.coupling_penalty=",
    "field_penalty": "--set target.field_penalty=",
}  # fmt: skip
"""The settings of formats as options."""


def targets(printing: PrintOptions) -> int:
    printer = Printer(printing)
    table = Table(title="What can be sampled from", title_justify="left")
    for name in ("target", "needs", "may have", "for example"):
        table.add_column(name)
    described = []
    for name, example in EXAMPLES.items():
        needs, may_have = arguments(name)
        described.append({"name": name, "needs": needs, "may_have": may_have, "example": example})
        table.add_row(name, " ".join(needs), " ".join(may_have), example)
    printer.show(table)
    printer.data({"targets": described})
    return FINE


def arguments(name: str) -> tuple[list[str], list[str]]:
    """What a target needs, and what it may have, as options."""
    if name in FORMATS:
        return ["FILE"], [SPELLED[setting] for setting in FORMATS[name].settings]
    if name not in KINDS:
        return ["--num-sites", "--num-values"], ["--side", "--boundary"]
    kind = KINDS[name]
    if kind.tensors:
        return ["FILE"], []
    spelled = {"seed": "disorder_seed"}

    def options(names: tuple[str, ...]) -> list[str]:
        return ["--" + spelled.get(name, name).replace("_", "-") for name in names]

    return options(kind.required), options(kind.optional)


def exact(
    target: TargetOptions, run: RunOptions, folder: FolderOptions, printing: PrintOptions
) -> int:
    if folder.out is not None:
        return running.run("exact", target, run, folder, GateOptions(), printing, {})
    printer = Printer(printing)
    over = {"target": running.target_table(target), "run": running.run_table(run)}
    document = merge(running.read_base(run, folder), over)
    chosen, made = settings.resolve(running.with_assignments(document, run), "exact")
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


def evaluate(run: str, weighted: bool, gates: GateOptions, printing: PrintOptions) -> int:
    """``weighted`` holds for the table and the gate; the verdict uses weights where it can."""
    printer, folder = Printer(printing), Path(run)
    check_options(gates)
    target = load_target(folder)
    check_target(gates, target)
    draws, attributes = read_draws(folder / runs.DRAWS)
    evaluation = evaluate_draws(draws, target, weighted=weighted)
    result = compare_results(target, {str(attributes.get("method", "draws")): draws})
    method = result.methods[0]
    missed = failures(method, gates, weighted=weighted and method.weighted)
    code = GATE if missed else FINE
    printer.show(evaluation.table(), str(method.verdict))
    printer.data({"folder": run, **as_data(result), "missed": missed, "exit_code": code})
    for sentence in missed:
        print(f"error: {sentence}", file=sys.stderr)
    return code


def load_target(folder: Path) -> Target:
    """The target of a run; one that came from a file is kept in the folder, or in the checkpoint
    of the model that was drawn from."""
    document = runs.read_config(folder)
    if (folder / runs.TARGET).is_file():
        return read_target(folder / runs.TARGET)
    trained = Path(document["run"].get("model", folder))
    if "file" in document["target"] and checkpoint.exists(trained / CHECKPOINT):
        return load(trained / CHECKPOINT).target
    return make_target(document["target"])


def report(run: str, printing: PrintOptions) -> int:
    printer, folder = Printer(printing), Path(run)
    write_report(load_result(folder), folder / runs.REPORT)
    printer.show(f"report: {folder / runs.REPORT}")
    printer.data({"report": str(folder / runs.REPORT)})
    return FINE


def load_result(folder: Path) -> Result:
    document = runs.read_config(folder)
    if not (folder / runs.RESULT).is_file():
        raise ValueError(f"{folder} has no {runs.RESULT}: {how_to_finish(document, folder)}")
    return Result.load(folder / runs.RESULT)


def how_to_finish(document: settings.Document, folder: Path) -> str:
    command = document["run"].get("command")
    if command not in settings.TRAINED:
        return "the run in it did not end; run it again with --overwrite"
    line = shlex.join(["tcsis", command, "--resume", "--out", str(folder)])
    return f"the run in it did not end; go on with: {line}"


def show(run: str, printing: PrintOptions) -> int:
    printer, folder = Printer(printing), Path(run)
    document = runs.read_config(folder)
    files = sorted(path.name for path in folder.iterdir())
    chosen = {name: document["run"].get(name) for name in ("command", "seed", "n", "preset")}
    printer.show(as_pairs(str(folder), {**document["target"], **chosen, "files": " ".join(files)}))
    data: dict[str, Any] = {"folder": run, "config": document, "files": files}
    data["environment"] = read_environment(folder)
    if (folder / runs.RESULT).is_file():
        result = load_result(folder)
        print_result(printer, result, folder)
        data |= as_data(result)
    else:
        printer.show(how_to_finish(document, folder))
    printer.data(data)
    return FINE


def read_environment(folder: Path) -> dict[str, str] | None:
    try:
        return json.loads((folder / runs.ENVIRONMENT).read_text())
    except (OSError, ValueError):
        return None
