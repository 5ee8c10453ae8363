"""What the rest of a state may be: draws given a part of it, from one network for any evidence.

python examples/inpainting.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import tcsis

SIDE, BETA = 12, 0.4407
NUM_DRAWS, NUM_SHOWN = 4_096, 4
GREY = 0.5


def masks(side: int) -> dict[str, Tensor]:
    """Which sites are known, (d,) each."""
    row, column = torch.arange(side * side) // side, torch.arange(side * side) % side
    hole = ((row - side / 2 + 0.5).abs() < side / 3) & ((column - side / 2 + 0.5).abs() < side / 3)
    scattered = torch.rand(side * side, generator=torch.Generator().manual_seed(3)) < 0.15
    return {"the left half": column < side // 2, "a frame": ~hole, "15 % of the sites": scattered}


def main(folder: Path) -> None:
    target = tcsis.targets.Ising(side=SIDE, beta=BETA)
    model = tcsis.train(target, "any-time", steps=2_500)
    states = tcsis.exact.draw(target, 3, seed=11).x
    figure, axes = plt.subplots(3, NUM_SHOWN + 4, figsize=(11, 4.6), layout="constrained")
    for row, state, (name, mask) in zip(axes, states, masks(SIDE).items(), strict=True):
        given = model.given(state, mask)
        draws = given.sample(NUM_DRAWS, seed=1)
        up = (draws.weights[:, None] * draws.x).sum(0)
        truth = tcsis.exact.solve(given.target)
        exact_up = truth.site_marginals[:, 1]
        found = given.log_evidence(NUM_DRAWS)
        log_p = truth.log_z - tcsis.exact.solve(target).log_z
        print(f"{name}: ESS {draws.ess:.3f}, {found}, exact {log_p:.4f}")
        print(f"  P(spin up) off by at most {float((up - exact_up).abs().max()):.4f}")
        known = state.double().where(mask, GREY)
        pictures = [state, known, *draws.resample(NUM_SHOWN, seed=2).x, up, exact_up]
        for place, picture in zip(row, pictures, strict=True):
            place.imshow(picture.reshape(SIDE, SIDE), cmap="cividis", vmin=0, vmax=1)
            place.set(xticks=[], yticks=[])
        row[0].set_ylabel(name)
    titles = [
        "state",
        "known",
        *[f"draw {k + 1}" for k in range(NUM_SHOWN)],
        "P(up)",
        "exact P(up)",
    ]
    for place, title in zip(axes[0], titles, strict=True):
        place.set_title(title, fontsize=9)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "inpainting.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures"))
