"""How every method of the study is run, and the settings that it is run with.

The draws of a trained model have the seed 100 + that of its training, so that no two are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tcsis import exact, mcmc
from tcsis.app.methods import Entry
from tcsis.app.study.plan import Setting, Task
from tcsis.learn import presets
from tcsis.learn.config import Config, Optimisation
from tcsis.learn.trainer import train
from tcsis.peers import leaps
from tcsis.targets.base import Target

DRAWING_SEED = 100
MANY_STEPS = 1_000_000
"""More than any time budget pays for."""
PAPER_BATCH = {4: 64, 10: 16}
"""States a step for the paper's estimator, which takes N densities for each of them: the paper's
64 at side 10 would leave time for a hundred steps only."""
LEAPS = leaps.LeapsConfig(num_evaluations=0)


def run(task: Task, target: Target) -> Entry:
    """Train where there is something to train, and draw."""
    makers: dict[str, Callable[[Task, Target], Entry]] = {
        "leaps": by_leaps, "gwg": by_chains, "glauber": by_chains, "exact": exactly,
    }  # fmt: skip
    return makers.get(task.method.name, by_training)(task, target)


def describe(task: Task, target: Target) -> dict[str, Any]:
    """The settings of the method, as plain data; part of what a cell is known by."""
    name = task.method.name
    if name in CONFIGS:
        return CONFIGS[name](target, task.setting).model_dump(mode="json")
    if name == "leaps":
        return LEAPS.model_dump(mode="json", exclude={"kind"})
    if name in ("gwg", "glauber"):
        return {"kernel": name, "num_steps": chain_steps(task)}
    return {}


# -- TCSIS ---------------------------------------------------------------------------------------


def by_training(task: Task, target: Target) -> Entry:
    model = train(
        target, config=CONFIGS[task.method.name](target, task.setting), seed=task.seed,
        steps=task.training_steps, time_budget=task.training_seconds, progress=False,
    )  # fmt: skip
    draws = model.sample(task.num_draws, seed=DRAWING_SEED + task.seed)
    return Entry.of(model, draws)


def autoregressive(target: Target, setting: Setting) -> Config:
    """What ``tcsis.train`` does by default on lattices of these sizes."""
    return presets.fast(target, "autoregressive").changed(**UNOBSERVED)


def self_normalized(target: Target, setting: Setting) -> Config:
    return on_the_papers_process(target, setting, "self-normalized")


def unbiased(target: Target, setting: Setting) -> Config:
    return on_the_papers_process(target, setting, "unbiased")


def on_the_papers_process(target: Target, setting: Setting, method: str) -> Config:
    """All sites at one time, in the paper's number of calls, with this library's estimates."""
    calls = {"num_calls": setting.num_calls}
    return presets.fast(target, method).changed(method=calls, **UNOBSERVED)


def as_in_the_paper(target: Target, setting: Setting) -> Config:
    """The paper's process, objective, proposal and Euler steps, with a network and a rate that
    minutes are enough for.  The estimator has the form of its Appendix A.2, in which all ratios of
    a state share N draws: with N draws for each ratio, a step at side 10 would take minutes."""
    paper = presets.paper(target).model_dump()
    num_samples = paper["method"]["estimator"]["num_samples"]
    return presets.paper(target).changed(
        method={
            "network": presets.site_network(target, width=16).model_dump(),
            "estimator": {"kind": "shared", "num_samples": num_samples},
            "num_calls": setting.num_calls,
        },
        optimisation=Optimisation(batch_size=PAPER_BATCH[setting.side]).model_dump(),
        num_steps=MANY_STEPS,
        **UNOBSERVED,
    )


UNOBSERVED = {"num_evaluations": 0}
"""No evaluations on the way, whose time would be taken from training."""

CONFIGS: dict[str, Callable[[Target, Setting], Config]] = {
    "autoregressive": autoregressive, "self-normalized": self_normalized, "unbiased": unbiased,
    "paper": as_in_the_paper,
}  # fmt: skip


# -- the others ----------------------------------------------------------------------------------


def by_leaps(task: Task, target: Target) -> Entry:
    model = leaps.train(
        target, config=LEAPS, seed=task.seed, steps=task.training_steps,
        time_budget=task.training_seconds, progress=False,
    )  # fmt: skip
    draws = model.sample(
        task.num_draws, calls=task.setting.num_calls, seed=DRAWING_SEED + task.seed
    )
    return Entry.of(model, draws)


def by_chains(task: Task, target: Target) -> Entry:
    """The last state of every chain, each from its own noise, so that draws are independent."""
    steps = chain_steps(task)
    draws = mcmc.sample(
        target, task.method.name, num_chains=task.num_draws, num_steps=steps, burn_in=steps - 1,
        seed=task.seed, progress=False,
    )  # fmt: skip
    return Entry(draws.flat)


def chain_steps(task: Task) -> int:
    """GWG as in the paper's appendix, as many steps as a sampler has calls; Glauber until long
    after it has mixed, where it mixes."""
    return {"gwg": task.setting.num_calls, "glauber": task.num_chain_steps}[task.method.name]


def exactly(task: Task, target: Target) -> Entry:
    """Exact draws, whose weights are all the same and say nothing."""
    draws = exact.draw(target, task.num_draws, seed=DRAWING_SEED + task.seed)
    return Entry(replace(draws, log_weight=None))
