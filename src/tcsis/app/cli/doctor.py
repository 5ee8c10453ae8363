"""``tcsis doctor``: what is installed, what there is to compute on, and whether it works."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from rich.table import Table

from tcsis import exact, mcmc
from tcsis.app import runs
from tcsis.app.cli.failures import FAULT, FINE
from tcsis.app.cli.options import PrintOptions
from tcsis.app.cli.printer import Printer
from tcsis.exact import kaufman
from tcsis.learn.trainer import train
from tcsis.mcmc.compiled import COMPILED
from tcsis.mcmc.compiling import compiling_said
from tcsis.targets.physics import Ising, Potts

TARGET = Ising(side=3, beta=0.4)
LARGE_ERROR = 0.25


def doctor(printing: PrintOptions) -> int:
    printer = Printer(printing)
    environment = runs.environment() | {"devices": ", ".join(devices())}
    with compiling_said(printer.lively):
        tests = {name: try_out(test) for name, test in TESTS.items()}
    table = Table("what", "found", title="tcsis doctor", title_justify="left")
    for name, value in environment.items():
        table.add_row(name.replace("_", " "), value)
    for name, (fault, seconds) in tests.items():
        table.add_row(name, f"{fault or 'works'} ({seconds:.1f} s)")
    printer.show(table)
    faults = {name: fault for name, (fault, _) in tests.items() if fault}
    printer.data({"environment": environment, "faults": faults})
    return FAULT if faults else FINE


def devices() -> list[str]:
    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def try_out(test: Callable[[], bool]) -> tuple[str, float]:
    """What went wrong, nothing if it works, and how long it took."""
    begin = time.perf_counter()
    try:
        fault = "" if test() else "gives wrong numbers"
    except Exception as error:  # a broken installation may raise anything
        fault = f"fails with {type(error).__name__}: {error}"
    return fault, time.perf_counter() - begin


def solves() -> bool:
    truth = exact.solve(TARGET)
    return abs(truth.log_z - kaufman.log_z((3, 3), TARGET.beta)) < 1e-6


def compiles_chains() -> bool:
    """What most chains are made of: compiled here, if it was not before, and kept on disk."""
    for target in (Ising(side=3, beta=0.4, field=0.1), Potts(side=3, num_values=3, beta=1.0)):
        mcmc.sample(target, num_chains=128, num_steps=1, progress=False)
    mcmc.sample(TARGET, "tempering", num_chains=128, num_steps=1, progress=False)
    for kernel in COMPILED:
        mcmc.sample(TARGET, kernel, num_chains=128, num_steps=1, progress=False)
    return True


def runs_chains() -> bool:
    draws = mcmc.sample(TARGET, num_chains=100, num_steps=200, burn_in=50, progress=False)
    energy = -float(TARGET.log_density(draws.x.long()).double().mean())
    return abs(energy - exact.solve(TARGET).mean_energy) < LARGE_ERROR


def trains() -> bool:
    draws = train(TARGET, preset="tiny", progress=False).sample(2_000, seed=1)
    assert draws.log_z is not None
    return abs(draws.log_z - exact.solve(TARGET).log_z) < LARGE_ERROR


TESTS = {
    "exact answers": solves, "chains compiled": compiles_chains, "chains": runs_chains,
    "training": trains,
}  # fmt: skip
