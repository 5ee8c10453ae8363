"""Which of many variables explain a measurement?  All 2^k linear models at once.

python examples/variable_selection.py [FOLDER]        needs scikit-learn, for its table of diabetes

A model is a set γ of columns.  With Zellner's g-prior on its coefficients (g = n) and all models
equally likely before the data, its probability is

    log p̄(γ) = (n - 1 - |γ|)/2·log(1 + g) - (n - 1)/2·log(1 + g·(1 - R²_γ)),

R²_γ being what least squares on the columns of γ explains.  Ten measurements of 442 patients with
products of the strongest give k = 20 columns, whose 1,048,576 models can be enumerated: a check that
no sampler had a part in.
"""

import math
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor

import tcsis

NUM_COLUMNS, NUM_DRAWS = 20, 20_000


def table() -> tuple[Tensor, Tensor, list[str]]:
    """Columns (n, k), centred and of length 1, what is to be explained (n,), and names: the ten
    measurements, and of their products those that go with it most beside all ten."""
    data = load_diabetes()
    x, y = (torch.tensor(part, dtype=torch.float64) for part in (data.data, data.target))
    y = y - y.mean()
    i, j = torch.triu_indices(10, 10)
    products = x[:, i] * x[:, j]
    names = [f"{data.feature_names[a]}·{data.feature_names[b]}" for a, b in zip(i, j, strict=True)]
    x, products = (part - part.mean(0) for part in (x, products))
    left = y - x @ torch.linalg.lstsq(x, y[:, None]).solution[:, 0]
    aside = products - x @ torch.linalg.lstsq(x, products).solution
    strength = (aside.T @ left).abs() / aside.norm(dim=0).clamp_min(1e-9)
    chosen = strength.argsort(descending=True)[: NUM_COLUMNS - 10]
    columns = torch.cat([x, products[:, chosen]], 1)
    return columns / columns.norm(dim=0), y, [*data.feature_names, *(names[k] for k in chosen)]


def log_evidence(columns: Tensor, y: Tensor):  # noqa: ANN201
    """log p̄ of models, tokens (b, k) -> (b,); a column that is left out has a 1 of its own in the
    Gram matrix and nothing to explain."""
    n, k = columns.shape
    gram, goal, total = columns.T @ columns, columns.T @ y, float(y @ y)

    def log_density(x: Tensor) -> Tensor:
        inside = x.double()
        matrix = inside[:, :, None] * gram * inside[:, None, :] + torch.diag_embed(1 - inside)
        factor = torch.linalg.cholesky(matrix)
        right = (inside * goal)[..., None]
        explained = torch.linalg.solve_triangular(factor, right, upper=False).square().sum((1, 2))
        g, size = float(n), inside.sum(-1)
        return (n - 1 - size) / 2 * math.log1p(g) - (n - 1) / 2 * torch.log1p(
            g * (1 - explained / total)
        )

    return log_density


def main(folder: Path) -> None:
    columns, y, names = table()
    target = tcsis.targets.from_callable(log_evidence(columns, y), NUM_COLUMNS, 2)
    truth = tcsis.exact.solve(target)
    inclusion = truth.site_marginals[:, 1]
    model = tcsis.train(target, time_budget=60)
    draws = model.sample(NUM_DRAWS, seed=1)
    learned = draws.weights @ draws.x.double()
    chains = tcsis.mcmc.sample(
        target, "gibbs", num_chains=20, num_steps=60, burn_in=10, seed=1, progress=False
    )
    by_chains = chains.x.double().mean((0, 1))
    print(f"log of all evidence: {draws.log_z:.4f} ± {draws.log_z_error:.1g}, exact {truth.log_z:.4f}")
    print(f"ESS {draws.ess:.4f}, {model.num_density_calls:,.0f} densities of training")
    print(f"inclusion probabilities off by at most {float((learned - inclusion).abs().max()):.4f},")
    print(f"  those of Gibbs chains by {float((by_chains - inclusion).abs().max()):.4f}")
    print("learned:", tcsis.judge(draws, target))
    print("chains:", tcsis.judge(chains, target))
    picture(names, inclusion, learned, by_chains, folder)


def picture(
    names: list[str], exact: Tensor, learned: Tensor, by_chains: Tensor, folder: Path
) -> None:
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 5.4), height_ratios=(2, 1), sharex=True, layout="constrained"
    )
    place = torch.arange(len(names))
    above.bar(place, exact, color="#c8ccd2", label="exact, all 1,048,576 models")
    above.plot(place, learned, "o", color="#1b6e43", ms=5, label=f"{NUM_DRAWS:,} learned draws")
    above.plot(place, by_chains, "x", color="#b3261e", ms=6, label="20 Gibbs chains")
    above.set_ylabel("P(column is in the model)")
    above.legend(frameon=False)
    floor = (exact * (1 - exact) / NUM_DRAWS).sqrt()
    below.fill_between(place, -2 * floor, 2 * floor, step="mid", color="#e6e8eb", label="2 standard errors")
    below.plot(place, learned - exact, "o", color="#1b6e43", ms=5)
    below.set_ylabel("learned - exact")
    below.set_xticks(place, names, rotation=60, ha="right", fontsize=8)
    below.legend(frameon=False, fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "variable_selection.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures"))
