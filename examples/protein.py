"""A protein family: a Potts model of its alignment, and new sequences drawn from that model.

python examples/protein.py [FOLDER]
"""

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.nn.functional import one_hot

import tcsis
from tcsis.formats.alignments import Alignment

ALIGNMENT = Path(__file__).parent / "data" / "ww_domain.fasta"
MOST_GAPS = 0.3
STEPS, NUM_DRAWS = 1_500, 10_000


def family() -> Alignment:
    """The alignment without the columns in which many sequences have a gap."""
    whole = tcsis.formats.read_alignment(ALIGNMENT)
    return whole.columns(whole.frequencies()[:, 0] < MOST_GAPS)


# -- frequencies ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frequencies:
    """P(x_i = a) of all sites, (d, v), and C_ij(a, b) = P(x_i = a, x_j = b) - P(x_i = a)·P(x_j = b)
    of all pairs of sites, (pairs, v, v), from sequences worth ``worth`` independent ones."""

    one: Tensor
    two: Tensor
    worth: float


def frequencies(x: Tensor, v: int, weights: Tensor, worth: float) -> Frequencies:
    """Of sequences (n, d) with weights (n,) that sum to one."""
    d = x.shape[1]
    z = one_hot(x.long(), v).double().flatten(1)
    mean = weights @ z
    covariance = (z * weights[:, None]).T @ z - torch.outer(mean, mean)
    i, j = torch.combinations(torch.arange(d)).T
    return Frequencies(mean.reshape(d, v), covariance.reshape(d, v, d, v)[i, :, j], worth)


def difference(a: Frequencies, b: Frequencies) -> dict[str, tuple[float, float]]:
    """The mean distance of both kinds, and the floor: that of independent sequences of one law, as
    many as each is worth.  The variance of C_ij(a, b) is taken for p_i(1 - p_i)·p_j(1 - p_j), which
    it is where sites do not depend on each other."""
    p = b.one * (1 - b.one)
    i, j = torch.combinations(torch.arange(len(p))).T
    n = 1 / (1 / a.worth + 1 / b.worth)
    variances = {"one": p, "two": p[i][:, :, None] * p[j][:, None]}
    return {
        name: (
            float((getattr(a, name) - getattr(b, name)).abs().mean()),
            math.sqrt(2 / (math.pi * n)) * float(variance.sqrt().mean()),
        )
        for name, variance in variances.items()
    }


def nearest(x: Tensor, among: Tensor, v: int) -> Tensor:
    """The share of sites at which each of x (n, d) agrees with the nearest of others that is not
    the same sequence, (n,)."""
    there = one_hot(among, v).float().flatten(1)
    agree = torch.cat([one_hot(part, v).float().flatten(1) @ there.T for part in x.split(1_024)])
    return agree.where(agree < x.shape[1], 0.0).amax(1) / x.shape[1]


# -- checks ---------------------------------------------------------------------------------------


def farthest(target: tcsis.targets.Pairwise, x: Tensor) -> float:
    """How far log p̄ of sequences is from a sum over sites and pairs in plain Python."""
    fields, edges = target.fields.tolist(), target.edges.tolist()
    tables = target.couplings.tolist()
    plain = [
        sum(fields[i][a] for i, a in enumerate(row))
        + sum(tables[e][row[i]][row[j]] for e, (i, j) in enumerate(edges))
        for row in x.tolist()
    ]
    return float((target.log_density(x).double() - torch.tensor(plain).double()).abs().max())


def every_sequence(target: tcsis.targets.Pairwise) -> tuple[float, np.ndarray]:
    """log Z and P(x_i = a) of a model of few sites, from an array of all V^d sequences."""
    d, v = target.num_sites, target.num_values
    log_p = np.zeros((v,) * d)
    for i, field in enumerate(target.fields.double().numpy()):
        log_p += field.reshape([v if k == i else 1 for k in range(d)])
    for (i, j), table in zip(target.edges.tolist(), target.couplings.double().numpy(), strict=True):
        log_p += table.reshape([v if k in (i, j) else 1 for k in range(d)])
    top = log_p.max()
    p = np.exp(log_p - top)
    z = p.sum()
    one = [p.sum(tuple(k for k in range(d) if k != i)) / z for i in range(d)]
    return top + math.log(z), np.array(one)


def strongest(target: tcsis.targets.Pairwise, num_sites: int) -> Tensor:
    """The sites with the largest couplings, one after the other from the strongest pair on."""
    strength = torch.zeros(target.num_sites, target.num_sites, dtype=torch.float64)
    centred = target.couplings.double()
    centred = centred - centred.mean(1, keepdim=True) - centred.mean(2, keepdim=True)
    centred = centred + target.couplings.double().mean((1, 2), keepdim=True)
    i, j = target.edges.T
    strength[i, j] = strength[j, i] = centred.square().sum((1, 2)).sqrt()
    sites = [int(strength.amax(1).argmax())]
    while len(sites) < num_sites:
        towards = strength[sites].sum(0)
        towards[sites] = -1.0
        sites.append(int(towards.argmax()))
    return torch.tensor(sorted(sites))


# -- figures and picture --------------------------------------------------------------------------


def say(what: str, found: dict[str, tuple[float, float]]) -> None:
    (one, one_floor), (two, two_floor) = found["one"], found["two"]
    print(f"{what}: one site {one:.5f} (floor {one_floor:.5f}), two {two:.6f} ({two_floor:.6f})")


def draw_against(axes: Axes, x: Tensor, y: Tensor, title: str, labels: tuple[str, str]) -> None:
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    axes.plot([low, high], [low, high], color="#999999", lw=0.8)
    axes.plot(x.flatten(), y.flatten(), ".", ms=2, color="#34568b", alpha=0.5, rasterized=True)
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1])


def draw_nearest(axes: Axes, drawn: Tensor, natural: Tensor, d: int) -> None:
    bins = (np.arange(d + 1) + 0.5) / d
    for shares, name, colour in ((natural, "alignment", "#b8a46a"), (drawn, "draws", "#34568b")):
        axes.hist(
            shares, bins=bins, density=True, histtype="step", lw=1.6, color=colour, label=name
        )
    axes.set(title="nearest other of the family", xlabel="share of equal sites", yticks=[])
    axes.legend(frameon=False)


def main(folder: Path) -> None:
    began = time.process_time()
    alignment = family()
    d, v = alignment.x.shape[1], len(alignment.alphabet)
    weights = alignment.weights()
    print(f"{len(alignment.x):,} sequences, worth {weights.sum():.0f}, of {d} sites")
    target = tcsis.formats.fit_potts(alignment)
    off = farthest(target, alignment.x[:20])
    print(f"log p̄ of 20 sequences, against plain sums: off by {off:.1e}")

    model = tcsis.train(target, steps=STEPS)
    draws = model.sample(NUM_DRAWS, seed=1)
    chains = tcsis.mcmc.sample(target, num_chains=100, num_steps=5_200, burn_in=200, thin=20)
    worth = tcsis.mcmc.diagnose(chains, target).ess
    upper = tcsis.weights.upper_bound(model, chains.flat.x[::5])
    bracket = tcsis.weights.bracket(draws, upper)
    annealed = tcsis.mcmc.population_annealing(target, num_replicas=4_096, seed=3)
    print(f"ESS {draws.ess:.4f}, log Z {draws.log_z:.4f} ± {draws.log_z_error:.4f}")
    print(
        f"  bracket {bracket.elbo:.4f} to {bracket.eubo:.4f}; annealed {annealed.log_z:.4f} ± "
        f"{annealed.log_z_error:.4f}"
    )
    print(f"  {tcsis.judge(draws, target, bracket=bracket)}")

    data = frequencies(alignment.x, v, weights / weights.sum(), float(weights.sum()))
    drawn = frequencies(draws.x, v, draws.weights, NUM_DRAWS * draws.ess)
    long = frequencies(
        chains.flat.x, v, torch.full((len(chains.flat.x),), 1 / len(chains.flat.x)).double(), worth
    )
    say("draws against chains", difference(drawn, long))
    say("model against alignment", difference(drawn, data))
    slope = float((drawn.two * data.two).sum() / data.two.square().sum())
    print(f"  C of the model is {slope:.2f} times that of the alignment (least squares)")

    sites = strongest(target, 5)
    few = tcsis.formats.fit_potts(alignment.columns(sites))
    few_draws = tcsis.train(few, steps=300).sample(NUM_DRAWS, seed=1)
    log_z, one = every_sequence(few)
    found = frequencies(few_draws.x, v, few_draws.weights, NUM_DRAWS * few_draws.ess).one
    print(
        f"sites {sites.tolist()} alone: ESS {few_draws.ess:.4f}, log Z {few_draws.log_z:.4f} ± "
        f"{few_draws.log_z_error:.4f}, all 21^5 sequences {log_z:.4f}"
    )
    print(
        f"  one site off by {np.abs(found.numpy() - one).mean():.5f}, floor "
        f"{tcsis.metrics.mean_floor(torch.from_numpy(np.sqrt(one * (1 - one))), NUM_DRAWS):.5f}"
    )

    natural, new = alignment.x, draws.resample(2_000, seed=2).x.long()
    drawn_near, natural_near = nearest(new, natural, v), nearest(natural, natural, v)
    print(f"nearest other: draws {drawn_near.mean():.2f}, alignment {natural_near.mean():.2f}")
    for row in new[:5]:
        print("  " + "".join(alignment.alphabet[a] for a in row.tolist()))

    figure, axes = plt.subplots(1, 4, figsize=(15, 4), layout="constrained")
    draw_against(axes[0], long.one, drawn.one, "P(x_i = a)", ("chains", "draws"))
    draw_against(axes[1], long.two, drawn.two, "C_ij(a, b), the same model", ("chains", "draws"))
    draw_against(axes[2], data.two, drawn.two, "C_ij(a, b), model and data", ("alignment", "draws"))
    draw_nearest(axes[3], drawn_near, natural_near, d)
    print(f"{time.process_time() - began:.0f} s of CPU")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "protein.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
