"""A small result with everything in it."""

import math

import pytest
import torch

import tcsis
from tcsis.app.results import Result
from tcsis.app.summaries import compare_results
from tcsis.noise import UniformNoise
from tcsis.targets import Ising

NASTY = "</script><script>alert(1)</script>"


def make_film(target: Ising) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x_0 = tcsis.exact.draw(target, 1, seed=3).x.long()
    generator = torch.Generator().manual_seed(0)
    times = torch.linspace(1, 0, 9)
    noise = UniformNoise(target.num_values)
    return [(t, noise.draw(x_0, t.expand(1, 16), generator=generator)[0]) for t in times]


@pytest.fixture(scope="session")
def result() -> Result:
    target = Ising(4, 0.4407)
    exact = tcsis.exact.draw(target, 4_000, seed=5)
    sampler = tcsis.Draws(exact.x, seconds=1.2, num_density_calls=4_000, num_network_calls=96_000)
    scores = torch.linspace(-3, 3, 3_000)
    return compare_results(
        target,
        {
            f"sampler {NASTY}": sampler,
            "learning-free": tcsis.learning_free(target, num_rungs=60).sample(2_000, seed=1),
            "gwg": tcsis.mcmc.sample(
                target, "gwg", num_chains=20, num_steps=600, burn_in=100, seed=1, progress=False
            ),
        },
        training_seconds={f"sampler {NASTY}": 20.0},
        film=make_film(target),
        scores=(scores + 0.1 * scores.cos(), scores),
        history=[
            {
                "seconds": i,
                "step": 10 * i,
                "loss": math.exp(-i),
                "error": 1 / i,
                "floor": 0.04,
                "ess": 1 - 1 / i,
                "leak": 0.1 / i,
                "missed": 0.2 / i,
            }
            for i in range(1, 20)
        ],
        config='[target]\nname = "ising"',
        commands=[f"tcsis sample --name '{NASTY}'"],
        environment={"python": "3.11"},
    )
