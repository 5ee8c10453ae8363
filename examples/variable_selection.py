"""Which columns of a table belong in a regression: draws of models beside all 2^20 of them.

python examples/variable_selection.py [FOLDER]
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
from sklearn.datasets import load_diabetes
from torch import Tensor

import tcsis

NUM_DRAWS = 10_000
SMALL_STEPS, LARGE_STEPS = 1_000, 1_500
DEPENDENT = 1e-10
"""Of a column's unit length, what must be left of it beside other columns."""


# -- the problem ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Columns (n, k) and an answer (n,), each centred and of length one."""

    columns: np.ndarray
    answer: np.ndarray
    names: tuple[str, ...]

    @property
    def products(self) -> np.ndarray:
        """Correlations of columns and answer, (k + 1, k + 1), the answer last."""
        both = np.column_stack([self.columns, self.answer])
        return both.T @ both


def diabetes(products_of: tuple[str, ...] | None = None) -> Table:
    """The ten columns of the diabetes data, and products of two of them: those with one of the
    columns named, or all.  The square of sex is left out, for it has two values."""
    data = load_diabetes(scaled=False)
    names, columns = list(data.feature_names), list(standard(data.data).T)
    for i in range(10):
        for j in range(i, 10):
            pair = (names[i], names[j])
            if pair != ("sex", "sex") and (not products_of or set(pair) & set(products_of)):
                names.append(f"{pair[0]}²" if i == j else f"{pair[0]}·{pair[1]}")
                columns.append(columns[i] * columns[j])
    return Table(standard(np.stack(columns, axis=1)), standard(data.target), tuple(names))


def standard(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean(0)
    return centred / np.linalg.norm(centred, axis=0)


class Evidence:
    """log p(y | model)·p(model) against the empty model, of models γ (b, k) in {0, 1}:

        (n-1-p)/2·log(1+g) - (n-1)/2·log(1+g(1-R²)) - log C(k, p) - log(k+1),   p = |γ|,

    with Zellner's g-prior on the coefficients, g = n, and every size of a model as likely.
    """

    def __init__(self, table: Table):
        self.n, self.k = table.columns.shape
        self.g = float(self.n)
        self.products = torch.from_numpy(table.products)
        p = torch.arange(self.k + 1, dtype=torch.float64)
        log_choices = math.lgamma(self.k + 1) - torch.lgamma(p + 1) - torch.lgamma(self.k - p + 1)
        self.of_size = (
            (self.n - 1 - p) / 2 * math.log1p(self.g) - log_choices - math.log(self.k + 1)
        )

    def of_fit(self, left: Tensor, size: Tensor) -> Tensor:
        """From 1 - R² and the size, (...) and (...) -> (...)."""
        return self.of_size[size] - (self.n - 1) / 2 * torch.log1p(self.g * left)

    def __call__(self, x: Tensor) -> Tensor:
        """(b, k) -> (b,)."""
        size = x.sum(-1)
        _, _, half = self.solve(x)
        return self.of_fit(1 - half.square().sum(-1), size)

    def solve(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The columns of each model, padded to those of the largest, (b, m), where R_γ = L Lᵀ, and
        L⁻¹ r_γ; padding has rows of the identity in L and zeros in r."""
        m = max(1, int(x.sum(-1).max()))
        chosen = x.argsort(dim=-1, descending=True, stable=True)[:, :m]
        there = x.gather(1, chosen).double()
        among = self.products[chosen[:, :, None], chosen[:, None]]
        among = among * there[:, :, None] * there[:, None] + torch.diag_embed(1 - there)
        root = torch.linalg.cholesky(among)  # which says so where columns are dependent
        with_answer = self.products[chosen, -1] * there
        half = torch.linalg.solve_triangular(root, with_answer[..., None], upper=False)
        return chosen, root, half.squeeze(-1)


# -- all models -----------------------------------------------------------------------------------


def every_model(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """1 - R² and the size of all 2^k models, the first column leading in the number of a model.

    One column after the other is left out or swept from the products of what comes after it:

        S <- S - s sᵀ/s_0,

    so that of 2^j models of the first j columns (k + 1 - j)² products are kept.
    """
    products, size = table.products[None], np.zeros(1, dtype=np.int64)
    for _ in range(len(table.names)):
        pivot, rest = products[:, 0, 0], products[:, 1:, 1:]
        assert pivot.min() > DEPENDENT, "columns are dependent"
        row = products[:, 0, 1:]
        swept = rest - row[:, :, None] * (row / pivot[:, None])[:, None]
        products = np.stack([rest, swept], axis=1).reshape(-1, *rest.shape[1:])
        size = np.stack([size, size + 1], axis=1).reshape(-1)
    return products[:, 0, 0], size


def exact_answers(table: Table) -> tuple[np.ndarray, float]:
    """Probabilities of all models, (2^k,), and log Z, by a formula written out once more."""
    left, size = every_model(table)
    n, k = table.columns.shape
    log_p = (n - 1 - size) / 2 * np.log(1 + n) - (n - 1) / 2 * np.log(1 + n * left)
    log_p -= np.log([math.comb(k, p) * (k + 1) for p in range(k + 1)])[size]
    log_z = float(np.logaddexp.reduce(log_p))
    return np.exp(log_p - log_z), log_z


def inclusion_of(p: np.ndarray, k: int) -> np.ndarray:
    """P(column i in the model) from probabilities of all models, (2^k,) -> (k,)."""
    return np.array([p.reshape(2**i, 2, -1)[:, 1].sum() for i in range(k)])


# -- where nobody can enumerate -------------------------------------------------------------------


class Selection(tcsis.targets.Target):
    """The same as a target that has the ratios of all neighbours of a model from one solution.

    With b = R_γ⁻¹ r_γ, 1 - R² rises by b_j²/(R_γ⁻¹)_jj where column j goes, and falls by
    (r_j - R_jγ b)²/(1 - R_jγ R_γ⁻¹ R_γj) where it comes.
    """

    def __init__(self, evidence: Evidence):
        self.evidence = evidence
        self.num_sites, self.num_values = evidence.k, 2
        self.device, self.dtype = torch.device("cpu"), torch.float64

    @property
    def ratios_cost(self) -> float:
        return 6.0  # measured, at models of ten columns

    def _log_density(self, x: Tensor) -> Tensor:
        return self.evidence(x.reshape(-1, self.num_sites)).reshape(x.shape[:-1])

    def _log_ratios(self, x: Tensor) -> Tensor:
        flat, evidence = x.reshape(-1, self.num_sites), self.evidence
        chosen, root, half = evidence.solve(flat)
        there = flat.gather(1, chosen).double()
        left, size = 1 - half.square().sum(-1, keepdim=True), flat.sum(-1, keepdim=True)
        inverse = torch.cholesky_inverse(root).diagonal(dim1=-2, dim2=-1)
        b = torch.linalg.solve_triangular(root.mT, half[..., None], upper=True).squeeze(-1)
        towards = evidence.products[chosen, :-1] * there[..., None]  # R_γj, (b, m, k)
        across = torch.linalg.solve_triangular(root, towards, upper=False)
        apart = 1 - across.square().sum(1)  # what is left of column j beside the model
        gain = (evidence.products[:-1, -1] - (across * half[..., None]).sum(1)).square()
        change = -gain / apart.where(flat == 0, 1.0)
        change = change.where(
            flat == 0, torch.zeros_like(change).scatter(1, chosen, b**2 / inverse)
        )
        here = evidence.of_fit(left, size)
        ratio = evidence.of_fit(left + change, size + 1 - 2 * flat) - here
        ratios = torch.stack([ratio * (flat == 1), ratio * (flat == 0)], dim=-1)
        return ratios.reshape(*x.shape, 2)


# -- the sampler ----------------------------------------------------------------------------------


def small_sampler(table: Table, steps: int) -> tcsis.Learned:
    """The sampler is given the function alone."""
    k = len(table.names)
    target = tcsis.targets.from_callable(Evidence(table), num_sites=k, num_values=2)
    return tcsis.train(target, steps=steps)


def large_sampler(table: Table, steps: int) -> tcsis.Learned:
    """Solving for a model takes longer than most densities: a smaller population will do."""
    target = Selection(Evidence(table))
    config = tcsis.presets.fast(target).changed(
        buffer={"size": 1_024, "num_rungs": 20, "steps_per_rung": 1}, num_steps=steps
    )
    return tcsis.train(target, config=config)


def inclusion(draws: tcsis.Draws) -> np.ndarray:
    """P(column in the model), by weight where there are weights, (k,)."""
    x = draws.flat.x.double()
    p = x.mean(0) if draws.log_weight is None else draws.weights @ x
    return p.clamp(0, 1).numpy()  # weights add up to one but for rounding


def floor(p: np.ndarray, n: int) -> float:
    """The mean error of n independent draws, over the columns."""
    return tcsis.metrics.mean_floor(torch.from_numpy(np.sqrt(p * (1 - p))), n)


def by_covariance(table: Table, x: np.ndarray) -> float:
    """log p̄ of one model (k,) another way: y is normal with covariance σ²(I + gH), H the
    projection on its columns, and σ² is integrated out."""
    n, k = table.columns.shape
    q, _ = np.linalg.qr(table.columns[:, x == 1])
    covariance = np.eye(n) + n * q @ q.T
    fit = table.answer @ np.linalg.solve(covariance, table.answer)
    log_p = -np.linalg.slogdet(covariance)[1] / 2 - (n - 1) / 2 * np.log(fit)
    return float(log_p) - math.log(math.comb(k, int(x.sum())) * (k + 1))


def farthest(table: Table, num_models: int = 20) -> float:
    """How far log p̄ is from that of ``by_covariance`` at random models."""
    x = torch.randint(2, (num_models, len(table.names)), generator=torch.Generator().manual_seed(0))
    expected = np.array([by_covariance(table, row) for row in x.numpy()])
    return float(np.abs(Evidence(table)(x).numpy() - expected).max())


# -- figures and picture --------------------------------------------------------------------------


def best_models(table: Table, p: np.ndarray, num_best: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the most probable models, (num_best,), and which columns they have, (..., k)."""
    numbers = np.argsort(-p)[:num_best]
    return numbers, (numbers[:, None] >> np.arange(len(table.names) - 1, -1, -1) & 1).astype(bool)


def draw_exact(axes: Axes, table: Table, exact: np.ndarray, found: np.ndarray) -> None:
    places = np.arange(len(exact))
    axes.bar(places, exact, width=0.75, color="#b8c4d6", label="all 2²⁰ models")
    axes.plot(places, found, "o", ms=4, color="#b3361b", label="draws")
    axes.set_xticks(places, table.names, rotation=90, fontsize=8)
    axes.set(ylabel="P(column in the model)", title="20 columns")
    axes.legend(frameon=False, loc="upper right")


def draw_best(axes: Axes, table: Table, p: np.ndarray, draws: tcsis.Draws) -> None:
    numbers, has = best_models(table, p, 10)
    names, common, places = np.array(table.names), has.all(0), np.arange(len(has))[::-1]
    number = tcsis.metrics.state_index(draws.x, 2)
    found = [float(draws.weights[number == model].sum()) for model in numbers.tolist()]
    axes.barh(places, p[numbers], height=0.75, color="#b8c4d6")
    axes.plot(found, places, "o", ms=4, color="#b3361b")
    shown = [" + ".join(names[row & ~common]) or "no other" for row in has]
    axes.set_yticks(places, shown, fontsize=8)
    axes.set(xlabel="P(model)", title=f"the ten likeliest models:\n{', '.join(names[common])} and")


def draw_large(axes: Axes, table: Table, chains: np.ndarray, found: np.ndarray) -> None:
    order = np.argsort(-found)[:24]
    places = np.arange(len(order))
    axes.bar(places, chains[order], width=0.75, color="#d9cfae", label="Gibbs chains")
    axes.plot(places, found[order], "o", ms=4, color="#b3361b", label="draws")
    axes.set_xticks(places, [table.names[i] for i in order], rotation=90, fontsize=8)
    axes.set(ylabel="P(column in the model)", title="64 columns, the 24 likeliest of them")
    axes.legend(frameon=False, loc="upper right")


def main(folder: Path) -> None:
    began = time.process_time()
    figure, axes = plt.subplots(
        1, 3, figsize=(14, 4.6), width_ratios=[4, 3, 4], layout="constrained"
    )

    table = diabetes(products_of=("bmi",))
    p, log_z = exact_answers(table)
    exact = inclusion_of(p, len(table.names))
    draws = small_sampler(table, SMALL_STEPS).sample(NUM_DRAWS, seed=1)
    found = inclusion(draws)
    print(f"log p̄ of 20 random models, against dense covariances: off by {farthest(table):.1e}")
    print(f"20 columns: ESS {draws.ess:.4f}, log Z {draws.log_z:.4f} ± {draws.log_z_error:.4f}")
    print(f"  all models: log Z {log_z:.4f}")
    error = np.abs(found - exact)
    print(f"  inclusion off by {error.mean():.4f}, at most {error.max():.4f}")
    print(f"  floor {floor(exact, NUM_DRAWS):.4f}")
    print(f"  {tcsis.judge(draws, Selection(Evidence(table)))}")
    draw_exact(axes[0], table, exact, found)
    draw_best(axes[1], table, p, draws)

    table = diabetes()
    model = large_sampler(table, LARGE_STEPS)
    draws = model.sample(NUM_DRAWS, seed=1)
    chains = tcsis.mcmc.sample(model.target, num_chains=64, num_steps=1_600, burn_in=100, thin=10)
    found, reference = inclusion(draws), inclusion(chains)
    bracket = tcsis.weights.bracket(draws, tcsis.weights.upper_bound(model, chains.flat.x))
    print(f"64 columns: ESS {draws.ess:.4f}, log Z {draws.log_z:.4f} ± {draws.log_z_error:.4f}")
    print(f"  bracket: {bracket.elbo:.4f} to {bracket.eubo:.4f}; {bracket.why}")
    error = np.abs(found - reference)
    print(f"  inclusion off from chains by {error.mean():.4f}, at most {error.max():.4f}")
    mixed = tcsis.mcmc.diagnose(chains, model.target)
    worth = [floor(found, round(n)) for n in (NUM_DRAWS * draws.ess, mixed.ess)]
    print(f"  floor {math.hypot(*worth):.4f}; chains {mixed.verdict}: {mixed.why}")
    print(f"  {tcsis.judge(draws, model.target, bracket=bracket)}")
    draw_large(axes[2], table, reference, found)

    print(f"{time.process_time() - began:.0f} s of CPU")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "variable_selection.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
