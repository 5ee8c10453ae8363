"""The command that judges anybody's draws."""

from __future__ import annotations

import sys
from pathlib import Path

from tcsis.app import experiment, runs
from tcsis.app.cli.failures import FINE, GATE
from tcsis.app.cli.gates import check_options, check_target, failures
from tcsis.app.cli.options import GateOptions, PrintOptions, TargetOptions
from tcsis.app.cli.printing import Printer, as_data
from tcsis.app.cli.running import target_table
from tcsis.app.many import load_judged
from tcsis.app.sources import make_target
from tcsis.app.summaries import compare_results
from tcsis.judging.evaluation import evaluate
from tcsis.learn.learned import Learned
from tcsis.targets.base import Target
from tcsis.targets.ranges import parse_value


def judge(
    path: str,
    options: TargetOptions,
    run: str | None,
    at: str | None,
    weighted: bool,
    gates: GateOptions,
    printing: PrintOptions,
) -> int:
    """``weighted`` holds for the table and the gate; the verdict uses weights where it can."""
    printer = Printer(printing)
    check_options(gates)
    model = load_run(run, at)
    target = choose_target(options, model)
    check_target(gates, target)
    draws, whole = load_judged(path, target)
    evaluation = evaluate(draws, target, weighted=weighted)
    name = Path(path).name
    of_all = {} if whole is None else {name: whole}
    result = compare_results(target, {name: draws}, model=model, whole=of_all)
    method = result.methods[0]
    missed = failures(method, gates, weighted=weighted and method.weighted)
    code = GATE if missed else FINE
    printer.show(evaluation.table(), str(method.verdict))
    printer.data({"draws": path, **as_data(result), "missed": missed, "exit_code": code})
    for sentence in missed:
        print(f"error: {sentence}", file=sys.stderr)
    return code


def load_run(run: str | None, at: str | None) -> Learned | None:
    """The model of a run, if one is named, at one value of its range, if that is said."""
    if run is None:
        if at is not None:
            raise ValueError("at is given without model: expected the run of a range, --model RUN")
        return None
    model = experiment.load_model(Path(run), runs.read_config(Path(run)), "cpu")
    return model if at is None else model.at(**parse_value(at))


def choose_target(options: TargetOptions, model: Learned | None) -> Target:
    """The target that is named, or that of the model."""
    table = target_table(options)
    if table:
        if "name" not in table:
            raise ValueError("target is missing: expected a name, such as ising; see tcsis targets")
        return make_target(table)
    if model is None:
        raise ValueError(
            "target is missing: expected what the draws are of, such as ising --side 4 --beta 0.44"
        )
    return model.target
