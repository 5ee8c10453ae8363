"""A run from its settings to its folder: make the draws, judge them, write everything down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import torch

from tcsis import exact, mcmc
from tcsis.app import runs
from tcsis.app.comparison import Comparison, compare, gather
from tcsis.app.methods import LEARNED, Entry, Plan, Spent
from tcsis.app.report import write_report
from tcsis.app.settings import Settings
from tcsis.app.sources import find_device, is_function, make_target
from tcsis.app.storage import write_draws
from tcsis.learn import checkpoint
from tcsis.learn.learned import Learned, load
from tcsis.learn.trainer import CHECKPOINT
from tcsis.targets.base import Target


@dataclass(frozen=True)
class Job:
    """What is to be run, and where its state goes while it runs."""

    settings: Settings
    folder: Path | None
    resume: bool
    progress: bool
    about: dict[str, Any]


def run(
    settings: Settings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: bool = True,
    commands: Sequence[str] = (),
) -> Comparison:
    """Run what the settings ask for.  A ``folder``, as ``runs.open_folder`` gave it, keeps all."""
    set_threads(settings.run.threads)
    if folder is not None:
        runs.write_start(folder, settings)
    about = {
        "config": settings.to_toml(),
        "commands": commands,
        "environment": runs.environment(),
    }
    job = Job(settings, folder, resume, progress, about)
    comparison = RUNNERS[settings.run.command](job)
    if folder is not None:
        write_end(folder, comparison, settings.run.seed)
    return comparison


def write_end(folder: Path, comparison: Comparison, seed: int) -> None:
    """The draws of the first method, the result and the report."""
    name, draws = next(iter(comparison.methods.items()))
    target = comparison.target
    write_draws(folder / runs.DRAWS, draws, target, {"method": name, "seed": seed})
    comparison.result.save(folder / runs.RESULT)
    write_report(comparison.result, folder / runs.REPORT)


def set_threads(threads: int | None) -> None:
    if threads is None:
        return
    torch.set_num_threads(threads)
    # numba sets its options at run time, where no checker sees them
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))


# -- commands ------------------------------------------------------------------------------------


def run_train(job: Job) -> Comparison:
    config = job.settings.train
    assert config is not None
    name = next(name for name, method in LEARNED.items() if method == config.method)
    return run_methods(job, [name])


def run_compare(job: Job) -> Comparison:
    assert job.settings.compare is not None
    return run_methods(job, job.settings.compare.methods, equal=job.settings.compare.equal)


def run_methods(job: Job, methods: Sequence[str], **options: Any) -> Comparison:
    run = job.settings.run
    saved = job.folder is not None and checkpoint.exists(job.folder / CHECKPOINT)
    return compare(
        job.settings.make_target(), methods, run.n, seed=run.seed, config=job.settings.train,
        preset=run.preset, schedule=run.schedule, time_budget=run.time_budget,
        folder=job.folder, resume=job.resume and saved,
        checkpoint_every=run.checkpoint_every, progress=job.progress,
        about=job.about, **options,
    )  # fmt: skip


def run_mcmc(job: Job) -> Comparison:
    chains = job.settings.mcmc
    assert chains is not None
    target, seed = job.settings.make_target(), job.settings.run.seed
    draws = mcmc.sample(target, **chains.model_dump(), seed=seed, progress=job.progress)
    return finish(job, target, chains.kernel, Entry(draws))


def run_exact(job: Job) -> Comparison:
    target = job.settings.make_target()
    draws = exact.draw(target, job.settings.run.n, seed=job.settings.run.seed)
    return finish(job, target, "exact", Entry(draws))


def run_sample(job: Job) -> Comparison:
    run = job.settings.run
    assert run.model is not None
    model = load_model(Path(run.model), job.settings.target, run.device)
    draws = model.sample(run.n, steps=run.calls, seed=run.seed)
    spent = Spent(model.seconds, model.num_density_calls)
    return finish(job, model.target, "tcsis", Entry(draws, spent, model))


def finish(job: Job, target: Target, name: str, entry: Entry) -> Comparison:
    run = job.settings.run
    plan = Plan(target, run.n, run.seed, "seconds", job.progress, {})
    return gather(plan, {name: entry}, job.about)


RUNNERS: dict[str, Callable[[Job], Comparison]] = {
    "train": run_train,
    "compare": run_compare,
    "mcmc": run_mcmc,
    "exact": run_exact,
    "sample": run_sample,
}


def load_model(folder: Path, target: dict[str, Any], device: str) -> Learned:
    """The model of a run folder.  Its target comes from the checkpoint, where it can."""
    if is_function(target):
        return load(folder / CHECKPOINT, make_target(target, device))
    model = load(folder / CHECKPOINT)
    if device == "cpu":
        return model
    return load(folder / CHECKPOINT, model.target.to(find_device(device)))
