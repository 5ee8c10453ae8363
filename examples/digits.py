"""How good is a restricted Boltzmann machine?  Its log Z three ways beside the exact one, and
digits drawn and completed.

python examples/digits.py [FOLDER]

The machine is trained by scikit-learn on its own 8×8 digits.  Seconds are of the processor.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.special import expit, logsumexp
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM
from torch import Tensor

import tcsis

SIDE, NUM_HIDDEN = 8, 16
NUM_HELD_OUT, NUM_DRAWS = 297, 10_000
COMPLETED, NUM_SHOWN = (0, 7, 11, 15), 4
GREY = 0.5


def fit(num_hidden: int, num_epochs: int) -> tuple[BernoulliRBM, Tensor]:
    """A machine, and digits (n, d) that it was not fitted on."""
    pixels = (load_digits().data >= 8).astype(int)
    pixels = pixels[np.random.default_rng(0).permutation(len(pixels))]
    machine = BernoulliRBM(
        num_hidden, learning_rate=0.02, batch_size=20, n_iter=num_epochs, random_state=0
    )
    machine.fit(pixels[NUM_HELD_OUT:])
    return machine, torch.from_numpy(pixels[:NUM_HELD_OUT])


def by_hand(
    machine: BernoulliRBM, x: Tensor | None = None, mask: Tensor | None = None
) -> tuple[float, np.ndarray]:
    """log Z, and P(pixel on) (d,), by a sum over all states of the hidden units, in numpy alone;
    given the pixels of x (d,) where the mask is set, if there is one.

        log Z = log Σ_h exp(c·h + Σ_known x_i·a_i(h) + Σ_free log(1 + exp a_i(h))),  a = b + h·W
    """
    weights, b = machine.components_, machine.intercept_visible_
    num_hidden = len(weights)
    h = (np.arange(2**num_hidden)[:, None] >> np.arange(num_hidden)) & 1
    a = b + h @ weights
    terms, on = np.logaddexp(0, a), expit(a)
    if x is not None and mask is not None:
        known, value = mask.numpy(), x.numpy()
        terms = np.where(known, value * a, terms)
        on = np.where(known, value, on)
    log_p = h @ machine.intercept_hidden_ + terms.sum(1)
    log_z = float(logsumexp(log_p))
    return log_z, np.exp(log_p - log_z) @ on


# -- log Z -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """Of log Z, with its standard error; ``ess`` is that of weighted draws."""

    name: str
    log_z: float
    error: float
    ess: float | None
    seconds: float


def annealed(target: tcsis.targets.RBM, num_rungs: int) -> tuple[Estimate, tcsis.Draws]:
    """Annealed importance sampling, a sweep a rung."""
    begin = time.process_time()
    draws = tcsis.mcmc.annealed_importance_sampling(target, num_chains=1_000, num_rungs=num_rungs)
    seconds = time.process_time() - begin
    assert draws.log_z is not None and draws.log_z_error is not None
    name = f"AIS, {num_rungs} rungs"
    return Estimate(name, draws.log_z, draws.log_z_error, draws.ess, seconds), draws


def of_population(target: tcsis.targets.RBM) -> Estimate:
    begin = time.process_time()
    found = tcsis.mcmc.population_annealing(target, num_replicas=1_000, steps_per_rung=4)
    seconds = time.process_time() - begin
    return Estimate("population annealing", found.log_z, found.log_z_error, None, seconds)


def of_model(model: tcsis.Learned, reference: tcsis.Draws) -> list[Estimate]:
    """By weight, and from both sides: ELBO <= log Z <= EUBO, the upper one by draws that the model
    had no part in."""
    begin = time.process_time()
    draws = model.sample(NUM_DRAWS, seed=1)
    seconds = time.process_time() - begin
    chosen = reference.resample(seed=2)
    upper = tcsis.weights.upper_bound(model, chosen.x)
    assert draws.log_z is not None and draws.log_z_error is not None and draws.elbo is not None
    assert draws.log_weight is not None and chosen.worth is not None
    below = float(draws.log_weight.std()) / len(draws) ** 0.5
    above = upper.error * (len(chosen) / chosen.worth) ** 0.5  # some were chosen twice
    return [
        Estimate("learned, by weight", draws.log_z, draws.log_z_error, draws.ess, seconds),
        Estimate("learned, ELBO", draws.elbo, below, None, seconds),
        Estimate("learned, EUBO", upper.value, above, None, seconds),
    ]


# -- completing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Completed:
    """A digit, what is known of it, and what the rest may be: draws (n, d), P(pixel on) of the
    model and exact, (d,), and log P(what is known) with its error beside the exact one."""

    digit: Tensor
    mask: Tensor
    draws: Tensor
    on: Tensor
    exact_on: np.ndarray
    log_p: float
    error: float
    exact_log_p: float
    ess: float


def complete(model: tcsis.Learned, machine: BernoulliRBM, digit: Tensor) -> Completed:
    mask = torch.arange(SIDE**2) < SIDE**2 // 2  # the upper half
    given = model.given(digit, mask)
    draws = given.sample(NUM_DRAWS, seed=3)
    found = given.log_evidence(NUM_DRAWS, seed=4)
    log_z, exact_on = by_hand(machine, digit, mask)
    assert draws.weights is not None and draws.ess is not None
    on = draws.weights @ draws.x.double()
    return Completed(
        digit, mask, draws.resample(NUM_SHOWN, seed=5).x, on, exact_on,
        found.log_p, found.error, log_z - by_hand(machine)[0], draws.ess,
    )  # fmt: skip


# -- picture ---------------------------------------------------------------------------------------


def show(place: plt.Axes, picture: Tensor | np.ndarray) -> None:
    place.imshow(np.asarray(picture, float).reshape(SIDE, SIDE), cmap="Greys", vmin=0, vmax=1)
    place.set(xticks=[], yticks=[])


def draw(
    digits: Tensor, drawn: Tensor, parts: list[Completed], estimates: list[Estimate], log_z: float,
    path: Path,
) -> None:  # fmt: skip
    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.35, 1])
    columns = NUM_SHOWN + 4
    cells = left.subplots(4 + len(parts), columns)
    for k in range(2 * columns):
        show(cells[k // columns, k % columns], digits[k])
        show(cells[2 + k // columns, k % columns], drawn[k])
    for row, part in zip(cells[4:], parts, strict=True):
        known = part.digit.double().where(part.mask, GREY)
        for place, picture in zip(
            row, [part.digit, known, *part.draws, part.on, part.exact_on], strict=True
        ):
            show(place, picture)
    cells[0, 0].set_ylabel("held out", fontsize=9)
    cells[2, 0].set_ylabel("drawn", fontsize=9)
    titles = ["digit", "known", *["drawn"] * NUM_SHOWN, "P(on)", "exact"]
    for place, title in zip(cells[4], titles, strict=True):
        place.set_title(title, fontsize=8)
    axes = right.subplots()
    for height, estimate in enumerate(estimates):
        gap, bar = estimate.log_z - log_z, 2 * estimate.error
        axes.errorbar(gap, height, xerr=bar, fmt="o", color="#2a5d9f", capsize=3)
    axes.axvline(0, color="#c1440e", lw=1, label=f"exact, {log_z:.4f}")
    axes.set_yticks(range(len(estimates)), [estimate.name for estimate in estimates], fontsize=9)
    axes.invert_yaxis()
    axes.set(xlabel="log Z - exact, ± 2 standard errors")
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    machine, held_out = fit(NUM_HIDDEN, num_epochs=200)
    target = tcsis.formats.from_sklearn(machine)
    log_z, on = by_hand(machine)
    truth = tcsis.exact.solve(target.joint)
    assert truth.site_marginals is not None
    apart = float((truth.site_marginals[: SIDE**2, 1] - torch.from_numpy(on)).abs().max())
    print(f"log Z by hand {log_z:.6f}, by elimination {truth.log_z - log_z:+.0e}")
    print(f"P(pixel on): at most {apart:.0e} apart")

    begin = time.process_time()
    model = tcsis.train(target, "any-time", steps=1_500, progress=False)
    print(f"training: {time.process_time() - begin:.0f} s")
    coarse, _ = annealed(target, 20)
    fine, reference = annealed(target, 300)
    estimates = [coarse, fine, of_population(target), *of_model(model, reference)]
    mean = float(target.log_density(held_out).double().mean())
    print(f"log likelihood of a held-out digit, exact: {mean - log_z:.4f}")
    print("| log Z | - exact | standard error | ESS | log likelihood | s |")
    print("|---|---:|---:|---:|---:|---:|")
    for estimate in estimates:
        ess = "" if estimate.ess is None else f"{estimate.ess:.3f}"
        print(
            f"| {estimate.name} | {estimate.log_z - log_z:+.4f} | {estimate.error:.4f} | {ess} "
            f"| {mean - estimate.log_z:.4f} | {estimate.seconds:.1f} |"
        )
    draws = model.sample(NUM_DRAWS, seed=1)
    print(f"draws: {tcsis.judge(draws, target)}")

    parts = [complete(model, machine, digit) for digit in held_out[list(COMPLETED)]]
    for part in parts:
        gap = float(np.abs(part.on.numpy() - part.exact_on).max())
        print(
            f"upper half: log P {part.log_p:.4f} ± {part.error:.4f}, exact {part.exact_log_p:.4f}; "
            f"ESS {part.ess:.3f}, P(on) at most {gap:.4f} off"
        )
    drawn = draws.resample(2 * (NUM_SHOWN + 4), seed=6).x
    draw(held_out, drawn, parts, estimates, log_z, folder / "digits.png")
    print(f"processor: {time.process_time():.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
