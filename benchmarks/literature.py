"""What others print about lattices that are solved exactly, beside the exact answers.

    python benchmarks/literature.py          writes docs/results/literature/literature.md

Every printed figure stands below with its place; everything else is computed here, in well under a
minute on one core, from Kaufman's formula, the transfer matrix and enumeration.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import tcsis
from tcsis import exact, mcmc
from tcsis.exact import kaufman
from tcsis.judging.metrics import total_variation_floor
from tcsis.targets import Ising

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "literature"
CRITICAL = math.log(1 + math.sqrt(2)) / 2
BETAS = (0.28, 0.4407, 0.6)
SEEDS = (0, 1, 2)
NUM_CHAINS = 10_000
NUM_STEPS = 10_000


class Observables(NamedTuple):
    """Per site: free energy -log Z/β, internal energy -Σ s_i s_j, entropy β·(U - F)."""

    free_energy: float
    internal_energy: float
    entropy: float


class Printed(NamedTuple):
    """A row of a published table."""

    name: str
    observables: Observables
    ess: float | None = None


# arXiv 2505.17741, Table 2: 10×10 by its σ, bonds counted twice.
DNFS = {
    0.1: (
        Printed("optimal value", Observables(-3.6727, -0.4282, 0.6489)),
        Printed("LEAPS", Observables(-3.6709, -0.4262, 0.6489), 0.9956),
        Printed("DNFS", Observables(-3.6709, -0.4271, 0.6488), 0.9985),
    ),
    0.22305: (
        Printed("optimal value", Observables(-2.1242, -1.4763, 0.2855)),
        Printed("LEAPS", Observables(-2.1011, -1.4493, 0.2873), 0.3631),
        Printed("DNFS", Observables(-2.1120, -1.4743, 0.2811), 0.9685),
    ),
}
ROUNDING = 5e-5
"""Half a unit of the last figure of that table."""

# arXiv 2502.08696, Table 4: 24×24, β = 0.4407.
SDDS_OPTIMUM = Observables(-2.11215, -1.44025, 0.29611)

# arXiv 2508.10684, 4×4 with field 0.1 at β = 0.28, as a reading note gives it: TV, KL, χ².
MDNS = {
    "RERF": (0.0799, 0.0380, 0.0845),
    "LV": (0.0748, 0.0348, 0.0714),
    "CE": (0.0833, 0.0393, 0.0903),
    "WDCE": (0.0799, 0.0382, 0.0868),
    "Metropolis–Hastings": (0.0667, 0.0325, 0.0628),
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = page()
    (FOLDER / "literature.md").write_text(text)
    print(text)


def page() -> str:
    parts = (
        HEAD, label(), printed_beta(), free_energy(), right(), bonds(), boundaries(),
        zeros_and_ones(), algorithm(), glauber(), noise(),
    )  # fmt: skip
    return "\n".join(parts)


HEAD = """# Printed figures, computed again

`python benchmarks/literature.py`. What others print about lattices that are solved exactly, beside
the exact answers. What it means is [here](../../published.md#errors-found-in-the-literature).
"""


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    names = head.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# -- DNFS --------------------------------------------------------------------------------------


def observables(side: int, beta: float) -> Observables:
    """The exact ones of the periodic lattice, by Kaufman's formula."""
    num_sites = side * side
    free = -kaufman.log_z((side, side), beta) / (beta * num_sites)
    internal = kaufman.mean_energy((side, side), beta) / (beta * num_sites)
    return Observables(free, internal, beta * (internal - free))


def numbers(found: Observables, places: int = 4) -> tuple[str, ...]:
    return tuple(f"{value:.{places}f}" for value in found)


def label() -> str:
    sigma = 0.22305
    readings = {
        "printed as optimal at σ = 0.22305": DNFS[sigma][0].observables,
        f"exact, β = 2σ = {2 * sigma:.4f}": observables(10, 2 * sigma),
        f"exact, β = σ = {sigma}": observables(10, sigma),
        "exact, β = 0.4407 = 2·0.22035": observables(10, 0.4407),
        "printed as optimal at σ = 0.1": DNFS[0.1][0].observables,
        "exact, β = 2σ = 0.2": observables(10, 0.2),
    }
    rows = [(name, *numbers(found)) for name, found in readings.items()]
    return f"""## DNFS, Table 2: which temperature

10×10, per site. The critical σ is log(1+√2)/4 = {CRITICAL / 2:.5f}.

{table("what | F | U | S", rows)}"""


def implied_beta(found: Observables) -> tuple[float, float]:
    """The least and the largest β with S = β·(U - F) that rounding leaves open."""
    width = found.internal_energy - found.free_energy
    return (
        (found.entropy - ROUNDING) / (width + 2 * ROUNDING),
        (found.entropy + ROUNDING) / (width - 2 * ROUNDING),
    )


def printed_beta() -> str:
    rows = []
    for sigma, printed in DNFS.items():
        for row in printed:
            low, high = implied_beta(row.observables)
            within = low <= 2 * sigma <= high
            rows.append(
                (f"{sigma}", row.name, f"{low:.4f} to {high:.4f}", f"{2 * sigma:.4f}",
                 "yes" if within else "no")
            )  # fmt: skip
    return f"""The table defines S = 2σ·(E - F), so that every row tells its own 2σ, up to rounding.

{table("σ as printed | row | 2σ = S/(U - F) | twice the printed σ | agrees", rows)}"""


def left_sum_error(side: int, beta: float, num_steps: int) -> float:
    """What perfect rates on the path t·log p̄ lose in log Z when d/dt log Z_t is summed at the left
    end of every step: Σ_k f(k/N)/N - log Z + d·log 2, with f(t) = E_t[log p̄]."""
    shape = (side, side)

    def slope(t: float) -> float:
        return -kaufman.mean_energy(shape, beta * t) / t if t else 0.0

    total = sum(slope(k / num_steps) for k in range(num_steps)) / num_steps
    return total + side * side * math.log(2) - kaufman.log_z(shape, beta)


def free_energy() -> str:
    rows = []
    for sigma, beta in ((0.1, 0.2), (0.22305, 0.4407)):
        truth = observables(10, beta).free_energy
        sums = [f"{-left_sum_error(10, beta, n):.3f}" for n in (63, 125)]
        for row in DNFS[sigma][1:]:
            assert row.ess is not None
            gap = (row.observables.free_energy - truth) * beta * 100
            allowed = -math.log(row.ess) / 2
            rows.append(
                (f"{sigma}", row.name, f"{row.observables.free_energy:.4f}", f"{truth:.4f}",
                 f"{gap:.3f}", f"{row.ess}", f"{allowed:.3f}", *sums)
            )  # fmt: skip
    head = (
        "σ as printed | row | F printed | F exact | log Z low by | ESS printed | ESS explains"
        " | left sum, 63 steps | 125 steps"
    )
    return f"""## DNFS, Table 2: the free energy

F is printed as -E[log w]/β. Weights that are log-normal with this ESS have E[log w] low by
-log(ESS)/2. The last two columns are what perfect rates lose when the slope of log Z_t is summed at
the left end of every step, as in the code: 64 points in time are 63 steps.

{table(head, rows)}"""


def right() -> str:
    rows = [
        ("printed", *numbers(SDDS_OPTIMUM, 5)),
        ("exact, β = 0.4407", *numbers(observables(24, 0.4407), 5)),
    ]
    return f"""## SDDS, Table 4: the optimal values

24×24, per site: they are right.

{table("what | F | U | S", rows)}"""


# -- conventions -------------------------------------------------------------------------------


def twice_counted(x: torch.Tensor, side: int, sigma: float) -> torch.Tensor:
    """sᵀ(σA)s with the symmetric adjacency A of the torus, as GWG, DMALA and DNFS write it."""
    spins = 2.0 * x.double().reshape(-1, side, side) - 1
    turns = ((1, 1), (-1, 1), (1, 2), (-1, 2))
    around = sum(spins.roll(step, axis) for step, axis in turns)
    return sigma * (spins * around).flatten(1).sum(1)


def bonds() -> str:
    side, rows = 10, []
    states = torch.randint(2, (1_000, side * side), generator=torch.Generator().manual_seed(0))
    for sigma in (0.1, 0.15, 0.22035):
        theirs = twice_counted(states, side, sigma)
        off = []
        for beta in (sigma, 2 * sigma):
            ours = Ising(side, beta, dtype=torch.float64).log_density(states)
            off.append(f"{float((theirs - ours).abs().max()):.1e}")
        logs = [f"{kaufman.log_z((side, side), beta):.4f}" for beta in (sigma, 2 * sigma)]
        rows.append((f"{sigma}", *off, *logs))
    head = "σ | off by, β = σ | off by, β = 2σ | log Z, β = σ | log Z, β = 2σ"
    return f"""## Bonds counted twice

sᵀ(σA)s against our log p̄ on 1,000 random states of the 10×10 torus, largest difference.

{table(head, rows)}"""


def boundaries() -> str:
    rows = []
    for boundary in ("periodic", "open"):
        found = exact.solve(Ising(10, 0.4407, boundary=boundary, dtype=torch.float64))
        assert found.correlation is not None
        internal = found.mean_energy / (0.4407 * 100)
        correlation = (f"{found.correlation[r]:.4f}" for r in (1, 5))
        rows.append((boundary, f"{found.log_z:.4f}", f"{internal:.4f}", *correlation))
    return f"""## Boundaries

10×10, β = 0.4407, by the transfer matrix.

{table("boundary | log Z | U | G(1) | G(5)", rows)}"""


def of_zeros_and_ones(side: int, beta: float) -> Ising:
    """β·Σ x_i x_j over x in {0, 1} on the torus, up to a constant: ±1 spins coupled by β/4, in a
    field of β, for 4·x_i x_j = 1 + s_i + s_j + s_i s_j and every site has four bonds."""
    return Ising(side, beta / 4, field=4.0, dtype=torch.float64)


def zeros_and_ones() -> str:
    rows = []
    for side in (4, 10):
        for beta in BETAS:
            for name, target in (
                ("±1", Ising(side, beta, dtype=torch.float64)),
                ("{0, 1}", of_zeros_and_ones(side, beta)),
            ):
                found = exact.solve(target)
                assert found.correlation is not None and found.site_marginals is not None
                share = float(found.site_marginals[:, 1].mean())
                rows.append(
                    (f"{side}", f"{beta}", name, f"{share:.4f}", f"{found.correlation[1]:.4f}",
                     f"{found.correlation[side // 2]:.5f}")
                )  # fmt: skip
    return f"""## x in {{0, 1}} or ±1

p(x) ∝ exp(β·Σ x_i x_j), exactly. G is the connected correlation of ±1 spins.

{table("side | β | x in | share of ones | G(1) | G(side/2)", rows)}"""


# -- the TCSIS paper ---------------------------------------------------------------------------


def scores(side: int, beta: float, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p_t of all states, and log p̄_t by Equation (5) and by the last line of Algorithm 1, with
    infinitely many draws and the sign of E mended: the mean over k_t(·|x) of p̄, and of p̄·k_t."""
    num_sites = side * side
    states = np.arange(2**num_sites)
    x = torch.from_numpy(states[:, None] >> np.arange(num_sites)[None] & 1)
    log_density = Ising(side, beta, dtype=torch.float64).log_density(x).numpy()
    site = np.array([[1 + alpha, 1 - alpha], [1 - alpha, 1 + alpha]]) / 2
    kernel = np.ones((1, 1))
    for _ in range(num_sites):
        kernel = np.kron(site, kernel)
    density = np.exp(log_density - log_density.max())
    right, as_written = kernel @ density, kernel**2 @ density
    return right / right.sum(), np.log(right), np.log(as_written)


def score_error(side: int, beta: float, alpha: float) -> tuple[float, float]:
    """Mean of |log score| under p_t, and by how much Algorithm 1 is off."""
    p_t, log_right, log_written = scores(side, beta, alpha)
    states = np.arange(len(p_t))
    size = off = 0.0
    for site in range(side * side):
        other = states ^ (1 << site)
        truth = log_right[other] - log_right
        size += float(p_t @ np.abs(truth))
        off += float(p_t @ np.abs(log_written[other] - log_written - truth))
    return size / side**2, off / side**2


def algorithm() -> str:
    rows = []
    for alpha in (0.9, 0.5, 0.1):
        size, off = score_error(3, 0.4407, alpha)
        rows.append((f"{alpha}", f"{size:.3f}", f"{off:.3f}"))
    return f"""## Algorithm 1 of the TCSIS paper

Critical 3×3 lattice, all 512 states, no noise of sampling: the log score by Equation (5), and what
the line T^E + T^noise changes in it, both as means of absolute values under p_t. α is what is left
of x_0.

{table("α | log score | off by", rows)}"""


def glauber() -> str:
    rows = []
    for side in (4, 10):
        for beta in BETAS:
            target = Ising(side, beta)
            ratios = []
            for seed in SEEDS:
                draws = mcmc.sample(
                    target, "glauber", num_chains=NUM_CHAINS, num_steps=NUM_STEPS,
                    burn_in=NUM_STEPS - 1, seed=seed, progress=False,
                )  # fmt: skip
                row = tcsis.evaluate(draws, target)["correlation"]
                ratios.append(row.error / row.floor)
            sweeps = NUM_STEPS // side**2
            listed = ", ".join(f"{ratio:.1f}" for ratio in ratios)
            rows.append((f"{side}", f"{beta}", f"{sweeps}", listed, f"{row.floor:.4f}"))
    return f"""## Glauber for 10,000 steps

{NUM_CHAINS:,} chains from noise, their last states: the mean error of G(r) over the error of as
many perfect draws, for {len(SEEDS)} seeds.

{table("side | β | sweeps | error over floor | floor", rows)}"""


# -- noise of a histogram ----------------------------------------------------------------------


def noise() -> str:
    found = exact.solve(Ising(4, 0.28, field=0.1, dtype=torch.float64)).enumeration
    assert found is not None
    p = found.p
    rows = [
        (f"{n:,} perfect draws", f"{total_variation_floor(p, n):.4f}", f"{(len(p) - 1) / n:.4f}")
        for n in (2**14, 2**18, 2**20)
    ]
    rows += [(f"printed: {name}", f"{tv:.4f}", f"{chi:.4f}") for name, (tv, _, chi) in MDNS.items()]
    return f"""## Total variation of a histogram

4×4 in a field of 0.1 at β = 0.28, {len(p):,} states: what perfect draws show on average, exactly.

{table("draws | TV | χ²", rows)}"""


if __name__ == "__main__":
    main()
