"""A run from its settings to its folder: make the draws, judge them, write everything down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tcsis import exact, mcmc
from tcsis.app import runs
from tcsis.app.comparison import Comparison, compare, gather
from tcsis.app.many import read_judged
from tcsis.app.methods import Entry
from tcsis.app.report import write_report
from tcsis.app.settings import Compare, Document, Exact, Mcmc, Sample, Settings, Train, TrainRun
from tcsis.app.sources import check_digest, find_device, make_target
from tcsis.app.target_file import write_target
from tcsis.basics.frozen import parse
from tcsis.basics.ranks import ALONE, Ranks
from tcsis.basics.seals import digest
from tcsis.draws.shards import MOST_AT_ONCE, Plan, Shards, shard_size
from tcsis.draws.storage import Attribute, write_draws
from tcsis.learn import checkpoint
from tcsis.learn.checkpoint import CheckpointError
from tcsis.learn.conditional import Conditional
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned, draw_shard, from_checkpoint
from tcsis.learn.learned import load as load_learned
from tcsis.learn.trainer import CHECKPOINT, train
from tcsis.learn.training import check_own
from tcsis.targets.base import Target


@dataclass(frozen=True)
class Job:
    """What is to be run on which target, with which model where one is there already, the ``key``
    by which that is known again, where its state goes while it runs, and on which ranks."""

    settings: Settings
    target: Target
    model: Learned | Conditional | None = None
    folder: Path | None = None
    resume: bool = False
    progress: bool = True
    commands: Sequence[str] = ()
    key: str = ""
    ranks: Ranks = ALONE

    @property
    def goes_on(self) -> bool:
        """Whether there is a state to go on from."""
        saved = self.folder is not None and checkpoint.exists(self.folder / CHECKPOINT)
        return self.resume and saved

    def about(self) -> dict[str, Any]:
        """What a report says beside its numbers."""
        return {
            "config": self.settings.to_toml(),
            "commands": self.commands,
            "environment": runs.environment(),
        }


def run(job: Job) -> Comparison:
    """Run what the settings ask for.  A ``folder``, as ``runs.open_folder`` gave it, keeps all."""
    set_threads(job.settings.run.threads)
    if job.folder is not None:
        check_state(job, job.folder)  # while the config beside it is still its own
        runs.write_start(job.folder, job.settings)
        if "file" in job.settings.target:
            write_target(job.folder / runs.TARGET, job.target)
    if is_large(job):
        comparison = run_large(job)
    else:
        comparison = perform(job)
        if job.folder is not None:
            name, draws = next(iter(comparison.methods.items()))
            attrs = attributes(job.settings, name)
            write_draws(job.folder / runs.DRAWS, draws, comparison.target, attrs)
    if job.folder is not None:
        comparison.result.save(job.folder / runs.RESULT)
        write_report(comparison.result, job.folder / runs.REPORT)
    return comparison


def check_state(job: Job, folder: Path) -> None:
    """Refuse to go on from a state that was saved with other settings."""
    config = job.settings.train if isinstance(job.settings, Train | Compare) else None
    if job.goes_on and config is not None:
        tensors, data = checkpoint.load(folder / CHECKPOINT)
        check_own(tensors, data, job.target, config, job.settings.run.seed)


def attributes(chosen: Settings, method: str) -> dict[str, Attribute]:
    """What draws say of the run that made them."""
    key = digest(chosen.to_toml().encode())
    return {"method": method, "seed": chosen.run.seed, runs.CONFIG_DIGEST: key}


def assist(job: Job) -> None:
    """What is left to any rank but 0: its share of the training."""
    set_threads(job.settings.run.threads)
    assert isinstance(job.settings, Train)
    train_model(job, job.settings.run, job.settings.train)


def set_threads(threads: int | None) -> None:
    if threads is None:
        return
    torch.set_num_threads(threads)


# -- commands ------------------------------------------------------------------------------------


def perform(job: Job) -> Comparison:
    """What the command of the settings does, without files of its own."""
    match job.settings:
        case Train(run=run, train=config):
            return run_train(job, run, config)
        case Compare() as settings:
            return run_compare(job, settings)
        case Mcmc(run=run, mcmc=chains):
            draws = mcmc.sample(
                job.target, **chains.model_dump(), seed=run.seed, progress=job.progress
            )
            return finish(job, chains.kernel, Entry(draws))
        case Exact(run=run):
            draws = exact.draw(job.target, run.n, seed=run.seed)
            return finish(job, "exact", Entry(draws))
        case Sample(run=run):
            assert job.model is not None
            draws = job.model.sample(run.n, calls=run.calls, seed=run.seed)
            return finish(job, job.model.kind, Entry.of(job.model, draws))
    raise AssertionError(f"no command runs {job.settings}")


def is_large(job: Job) -> bool:
    """Whether draws are too many to hold at once."""
    return isinstance(job.settings, Sample) and job.settings.run.n > MOST_AT_ONCE


def run_large(job: Job) -> Comparison:
    """Draws that go to their file in shards, and are judged by the first of them."""
    assert job.folder is not None and job.model is not None
    path = job.folder / runs.DRAWS
    shards_for(job).write(path, progress=job.progress)
    read = read_judged(path)
    assert read.whole is not None
    name = job.model.kind
    about = {**job.about(), "whole": {name: read.whole}}
    entries = {name: Entry.of(job.model, read.draws)}
    return gather(job.target, entries, job.settings.run.seed, about)


def help_out(job: Job, folders: Sequence[Path]) -> None:
    """Make shards for the process that leads in one of the folders; fewer draws need no help."""
    set_threads(job.settings.run.threads)
    if is_large(job):
        shards_for(job).help_with([folder / runs.DRAWS for folder in folders])


def shards_for(job: Job) -> Shards:
    assert isinstance(job.settings, Sample) and job.model is not None
    run, attrs = job.settings.run, attributes(job.settings, job.model.kind)
    size, key = shard_size(job.target.num_sites), f"{job.key} {attrs[runs.CONFIG_DIGEST]}"
    draw = partial(draw_shard, job.model, run.calls)
    return Shards(draw, job.target, Plan(run.n, run.seed, size, key), attrs)


def run_train(job: Job, run: TrainRun, config: Config) -> Comparison:
    model = train_model(job, run, config)
    draws = model.sample(run.n, seed=run.seed)
    return finish(job, config.method.kind, Entry.of(model, draws))


def find_start(job: Job, run: TrainRun) -> Learned | None:
    """The model whose weights a training begins with, that of the run named; one that goes on needs
    it no more."""
    if run.start is None or job.goes_on:
        return None
    return load_learned(Path(run.start) / CHECKPOINT)


def train_model(job: Job, run: TrainRun, config: Config) -> Learned:
    return train(
        job.target, config=config, start=find_start(job, run), seed=run.seed,
        time_budget=run.time_budget, folder=job.folder, resume=job.goes_on,
        checkpoint_every=run.checkpoint_every, progress=job.progress, ranks=job.ranks,
    )  # fmt: skip


def run_compare(job: Job, settings: Compare) -> Comparison:
    run, compared = settings.run, settings.compare
    return compare(
        job.target, compared.methods, run.n, seed=run.seed, equal=compared.equal,
        preset=run.preset, config=settings.train, steps=run.steps, time_budget=run.time_budget,
        folder=None if settings.train is None else job.folder, resume=job.goes_on,
        checkpoint_every=run.checkpoint_every, progress=job.progress, about=job.about(),
    )  # fmt: skip


def finish(job: Job, name: str, entry: Entry) -> Comparison:
    return gather(job.target, {name: entry}, job.settings.run.seed, job.about())


def load_model(folder: Path, document: Document, device: str = "cpu") -> Learned:
    """The model of a run folder with its config.  The target of a function is made again, that of
    a file comes from the checkpoint, and all others must be those of the config."""
    tensors, data = checkpoint.load(folder / CHECKPOINT)
    spec, run = document["target"], document["run"]
    if "file" in spec:
        target = from_checkpoint(tensors, data, None).target.to(find_device(device))
        check_digest(target, spec, f"the checkpoint in {folder} is of another target")
    else:
        target = make_target(spec, device)
    model = from_checkpoint(tensors, data, target)
    config = parse(Config, document.get("train", {}), f"{folder / runs.CONFIG}: train")
    same = model.config.changed(num_steps=1) == config.changed(num_steps=1)
    if not same or data.get("seed", run["seed"]) != run["seed"]:
        raise CheckpointError(
            f"the checkpoint in {folder} was made with other settings than {runs.CONFIG} has: "
            "expected that of the run; restore it from a copy or train again"
        )
    return model
