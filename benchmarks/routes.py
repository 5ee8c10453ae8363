"""What the ways to a score of the unbiased model cost, and how wrong they are.

    python benchmarks/routes.py              writes docs/results/learned/routes.md

Ising, side 4, where enumeration knows every score: the marginal assembled neighbour by neighbour,
which is the model itself, and the second head.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import tcsis
from tcsis.exact import Enumeration
from tcsis.learn.models import marginal
from tcsis.learn.models.marginal import MarginalModel
from tcsis.reverse import schedules
from tcsis.reverse.steps import tweedie

PAGE = Path(__file__).parents[1] / "docs" / "results" / "learned" / "routes.md"
BETAS = (0.28, 0.4407, 0.6)
TIMES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9)
NUM_STATES, NUM_DRAWS, NUM_STEPS = 500, 2_000, 21
ROUTES = {
    "assembled": (marginal.assembled, "d·(V-1) + 1"),
    "learned": (marginal.learned, "1"),
}


def main() -> None:
    scores, draws = [], []
    for beta in BETAS:
        target = tcsis.targets.Ising(side=4, beta=beta)
        model = tcsis.train(target, "unbiased", seed=0, progress=False)
        assert isinstance(model.module, MarginalModel)
        for name in ROUTES:
            scores.append(score_line(model.module, target, beta, name))
            draws.append(draw_line(model, beta, name))
            print(scores[-1] + draws[-1], end="", flush=True)
    PAGE.write_text(page(scores, draws))


def score_line(module: MarginalModel, target: tcsis.targets.Target, beta: float, name: str) -> str:
    """RMS errors of log p_t(y)/p_t(x) over states x ~ p_t and their neighbours y."""
    truth = Enumeration(target.to(dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    x_0 = truth.draw(NUM_STATES, generator).long()
    errors = [rms(module, truth, name, x_0, t, generator) for t in TIMES]
    return f"| {beta} | {name} | " + " | ".join(f"{error:.3f}" for error in errors) + " |\n"


def rms(
    module: MarginalModel, truth: Enumeration, name: str, x_0: Tensor, moment: float,
    generator: torch.Generator,
) -> float:  # fmt: skip
    noise, t = module.noise, torch.full(x_0.shape, moment, dtype=torch.float64)
    x = noise.draw(x_0, t, generator=generator)
    with torch.no_grad():
        found = ROUTES[name][0](module, x, t.float()).double()
    gap = [noise.log_score_from_denoiser(d, x, t) for d in (found, truth.denoiser(noise, x, t))]
    other = (1 - x)[..., None]
    return float((gap[0] - gap[1]).gather(-1, other).square().mean().sqrt())


def draw_line(model: tcsis.Learned, beta: float, name: str) -> str:
    """Draws by Tweedie steps, which every route can take, at equal calls of the denoiser."""
    assert isinstance(model.module, MarginalModel)
    began = time.perf_counter()
    draws = tcsis.reverse.sample(
        model.target, partial(ROUTES[name][0], model.module), model.module.noise,
        schedules.parallel(16, schedules.uniform_grid(model.module.noise, NUM_STEPS)), tweedie,
        NUM_DRAWS,
        generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    row = tcsis.evaluate(draws, model.target)["correlation"]
    gap = draws.log_z - tcsis.exact.solve(model.target).log_z
    return (
        f"| {beta} | {name} | {ROUTES[name][1]} | {NUM_DRAWS / seconds:,.0f} | {row.error:.4f} "
        f"| {row.floor:.4f} | {draws.ess:.3f} | {gap:+.4f} |\n"
    )


def page(scores: list[str], draws: list[str]) -> str:
    times = " | ".join(f"t = {t}" for t in TIMES)
    return f"""# Ways to a score of the unbiased model

`python benchmarks/routes.py`: Ising, side 4, preset `fast`, one training seed. The model knows
log p̄_t. "assembled" takes the density of every neighbour from it, and is what the model means;
"learned", the default, is the second head, trained beside the first on the same estimates, one
pass.

## Error of the log-score

Root mean square over {NUM_STATES} states of p_t and all their neighbours, against enumeration.

| β | route | {times} |
|---|---|{"---|" * len(TIMES)}
{"".join(scores)}
## Draws

{NUM_DRAWS:,} uncorrected draws in {NUM_STEPS} Tweedie steps. Path weights make all of them
right in the end, so the bias of a route shows in the error and costs ESS; log Z is weighted.

| β | route | network calls a step | draws/s | G(r) error | floor | ESS | log Z error |
|---|---|---|---|---|---|---|---|
{"".join(draws)}"""


if __name__ == "__main__":
    main()
