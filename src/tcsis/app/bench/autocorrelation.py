"""How many steps of chains make one independent draw, and when nobody can tell.

The integrated autocorrelation time of a series is τ = ½ + Σ_k ρ_k, in steps, and n steps are worth
n/2τ independent draws.  ρ is taken about the mean of all chains, so that chains which stay at
different places have a τ as long as the run, and not a short one each about a mean of its own.
The sum ends at a few τ, where noise begins, and so leaves out what is slow and rare: a valley that
a chain enters seldom and stays in for long.  The means of halves of chains scatter by that too,
with a variance of 2τ/length, and their τ is taken where it is the longer one beyond chance.

An estimate is refused where an observable never changed, where the run is shorter than
``FEWEST_TIMES`` τ, where chains disagree, or where their energy is not the exact one.  What is left
then is a lower bound: the whole run where chains say something wrong, and 2τ as far as the run has
shown it where they are merely too slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

FEWEST_TIMES = 50.0
"""τ that a run must be long."""
MAX_R_HAT = 1.1
"""Halves of chains of 50 τ, each worth a dozen draws, exceed it by chance about never."""
MAX_SIGMAS = 5.0
"""Standard errors that an energy may be off."""
WINDOW = 6.0
"""Of the sum over k, in τ: what comes later is noise (Madras and Sokal 1988)."""
BEYOND = 2.0
"""Standard errors by which the scatter of means must say more than the sum."""
BURN_IN = 0.2
"""Share of a run that is left out."""
ROUNDING = 1e-6
"""Of an energy, as a share of it."""


@dataclass(frozen=True)
class Time:
    """τ in records, and its standard error as a share of it."""

    tau: float
    relative_error: float


def integrated_time(series: np.ndarray) -> Time:
    """τ of a series (chain, record); infinite for one that never changes."""
    summed, scattered = by_sum(series), by_means(series)
    surely = scattered.tau * (1 - BEYOND * scattered.relative_error)
    return scattered if surely > summed.tau else summed


def by_sum(series: np.ndarray) -> Time:
    """τ as the sum of ρ up to a window."""
    num_chains, n = series.shape
    centred = series - series.mean()
    power = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    rho = np.fft.irfft(power.mean(0))[:n] / (n - np.arange(n))
    if not rho[0] > 0 or n < 2:
        return Time(math.inf, math.inf)
    times = 0.5 + np.cumsum(rho[1:] / rho[0])
    inside = np.arange(1, n) >= WINDOW * times
    window = int(np.argmax(inside)) if inside.any() else int(np.argmax(times))
    tau = max(0.5, float(times[window]))
    return Time(tau, math.sqrt((4 * window + 6) / (num_chains * n)))


def by_means(series: np.ndarray) -> Time:
    """τ from the variance of the means of halves of chains; none where there is nothing to tell."""
    length = series.shape[1] // 2
    if length < 2 or not series.var() > 0:
        return Time(0.0, 0.0)
    means = halves_of(series).mean(1)
    tau = length * float(means.var(ddof=1) / series.var()) / 2
    return Time(tau, math.sqrt(2 / (len(means) - 1)))


def halves_of(series: np.ndarray) -> np.ndarray:
    """(chain, record) -> (2·chain, record)."""
    length = series.shape[1] // 2
    return series[:, : 2 * length].reshape(-1, length)


def split_r_hat(series: np.ndarray) -> float:
    """R-hat of the halves of the chains, (chain, record)."""
    length = series.shape[1] // 2
    if length < 2:
        return math.inf
    halves = halves_of(series)
    within, between = halves.var(1, ddof=1).mean(), halves.mean(1).var(ddof=1)
    if within == 0:
        return math.inf
    return math.sqrt((length - 1) / length + between / within)


@dataclass(frozen=True)
class Judged:
    """What chains are worth.  ``draw`` is the number of steps that one independent draw takes, at
    least, where ``refused`` says why no more is known; ``slowest`` is the observable that decides,
    ``times`` how many of its τ the run has."""

    draw: float
    relative_error: float | None
    slowest: str
    times: float
    r_hat: float
    energy: float
    energy_error: float
    refused: str | None


def judge(
    series: Mapping[str, np.ndarray],
    thin: int,
    exact_energy: float | None,
    energy_spread: float = 0.0,
) -> Judged:
    """Judge observables (chain, record), recorded every ``thin`` steps, "energy" among them, of
    which the exact mean and standard deviation may be known."""
    kept = {name: values[:, round(BURN_IN * values.shape[1]) :] for name, values in series.items()}
    found = {name: integrated_time(values) for name, values in kept.items()}
    slowest = max(found, key=lambda name: found[name].tau)
    time, (num_chains, length) = found[slowest], kept[slowest].shape
    r_hats = {name: split_r_hat(values) for name, values in kept.items()}
    apart = max(r_hats, key=lambda name: r_hats[name])
    energies, times = kept["energy"], length / time.tau
    worth = max(1.0, energies.size / (2 * found["energy"].tau))
    energy, error = float(energies.mean()), error_of(float(energies.std()), energy_spread, worth)
    run = float(length * thin)
    draw, refused = 2 * time.tau * thin, None
    if math.isinf(time.tau):
        draw, refused = run, f"stuck: the {slowest} never changed in any of {num_chains} chains"
    elif times < FEWEST_TIMES:
        draw = min(draw, run)
        refused = (
            f"the run has {times:.2g} autocorrelation times of the {slowest}, "
            f"{FEWEST_TIMES:.0f} are wanted"
        )
        if r_hats[apart] > MAX_R_HAT:
            refused += f", and chains disagree about the {apart}, R-hat {shown(r_hats[apart])}"
    elif r_hats[apart] > MAX_R_HAT:
        draw, refused = run, f"chains disagree about the {apart}, R-hat {shown(r_hats[apart])}"
    elif exact_energy is not None and off(energy, error, exact_energy) > MAX_SIGMAS:
        draw = run
        refused = f"the energy is {off(energy, error, exact_energy):.1f} standard errors off"
    return Judged(
        draw, None if refused else time.relative_error, slowest, times, r_hats[apart], energy,
        error, refused,
    )  # fmt: skip


def error_of(found: float, exact: float, worth: float) -> float:
    """The standard error of the mean of so many draws, from the larger of the standard deviations,
    the one that was found and the exact one, which alone knows of what is rare and was not met."""
    return max(found, exact) / math.sqrt(worth)


def off(estimate: float, error: float, exact: float) -> float:
    """|estimate - exact| in standard errors."""
    return abs(estimate - exact) / math.hypot(error, ROUNDING * (1 + abs(exact)))


def shown(r_hat: float) -> str:
    return f"{r_hat:.2f}" if r_hat < 100 else "above 100"
