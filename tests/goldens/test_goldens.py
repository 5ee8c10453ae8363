"""Bits that moving code must not change: weights after 20 steps, and draws.

Hashes are those of one machine, so they serve while code is moved and are of no use elsewhere:

    python tests/goldens/test_goldens.py        writes goldens.json
    pytest tests/goldens                        compares with it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import networkx
import pytest
import torch

import tcsis
from tcsis import exact, identity, mcmc, reverse, schedules
from tcsis.noise import UniformNoise
from tcsis.peers import leaps
from tcsis.reverse.steps import euler, tweedie
from tcsis.reverse.trapezoidal import Trapezoidal
from tcsis.reverse.unlearned import fresh
from tcsis.targets.physics import Ising, Potts

FILE = Path(__file__).with_name("goldens.json")
torch.set_num_threads(1)

SPINS = Ising(side=4, beta=0.4407)
FIELD = Ising(side=4, beta=0.4, field=0.2)
POTTS = Potts(side=3, num_values=3, beta=0.8)
GRAPH = tcsis.targets.Pairwise.from_spins(
    torch.tensor(networkx.to_numpy_array(networkx.petersen_graph())), beta=0.4
)
TARGETS = {"ising": SPINS, "potts": POTTS, "field": FIELD, "graph": GRAPH}
LEFT_OUT = ("log_scale", "centre.mean", "centre.seen")


def digest(*tensors: torch.Tensor) -> str:
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(tensor.detach().contiguous().cpu().numpy().tobytes())
    return sha256.hexdigest()[:16]


def weights_of(module: torch.nn.Module) -> list[torch.Tensor]:
    return [value for name, value in module.state_dict().items() if name not in LEFT_OUT]


def trained(target: str, method: str, preset: str, schedule: str) -> Callable[[], str]:
    def make() -> str:
        named = "autoregressive" if schedule == "sequential" else method
        config = tcsis.presets.choose(TARGETS[target], named, preset)
        if preset == "paper":
            config = config.changed(method={"estimator": {"num_samples": 5}})
            if config.buffer.kind == "mcmc":
                config = config.changed(buffer={"num_steps": 20, "size": 256})
        config = config.model_copy(update={"num_evaluations": 0})
        model = tcsis.train(TARGETS[target], config=config, steps=20, seed=3, progress=False)
        calls = {} if schedule == "sequential" else {"calls": 4}
        draws = model.sample(64, seed=5, **calls)
        counts = torch.tensor([draws.num_density_calls, draws.num_network_calls])
        return digest(*weights_of(model.module), draws.x, draws.log_weight, counts)

    return make


def by_reverse(target: str, step: str, schedule: str) -> Callable[[], str]:
    def make() -> str:
        p, noise = TARGETS[target], UniformNoise(TARGETS[target].num_values)
        table = exact.Enumeration(p)
        steps = {"euler": euler, "tweedie": tweedie, "second": Trapezoidal(p)}
        grid = schedules.uniform_grid(noise, 5)
        times = {
            "parallel": schedules.parallel(p.num_sites, grid),
            "coloured": schedules.coloured(p) if p.colouring is not None else None,
        }[schedule]
        draws = reverse.sample(
            p, lambda x, t: table.denoiser(noise, x, t), noise, times, steps[step], 50, seed=2
        )
        counts = torch.tensor([draws.num_density_calls, draws.num_network_calls])
        return digest(draws.x, draws.log_weight, counts)

    return make


def unlearned(estimator: str, step: str) -> Callable[[], str]:
    def make() -> str:
        noise = UniformNoise(2)
        if estimator == "joint":
            draws = tcsis.learning_free(SPINS, num_rungs=20).sample(40, seed=1)
            return digest(draws.x, draws.log_weight)
        own = fresh(identity.marginalised, num_samples=16) if estimator == "fresh" else estimator
        grid = schedules.uniform_grid(noise, 4)
        draws = tcsis.learning_free(FIELD, own).sample(
            20,
            seed=1,
            schedule=schedules.parallel(16, grid),
            batch_size=8,
            step={"tweedie": tweedie, "second": Trapezoidal(FIELD)}[step],
        )
        return digest(draws.x, draws.log_weight)

    return make


def by_leaps(target: str) -> Callable[[], str]:
    def make() -> str:
        model = leaps.train(TARGETS[target], steps=20, seed=1, progress=False)
        draws = model.sample(64, calls=5, seed=2)
        return digest(*model.module.state_dict().values(), draws.x, draws.log_weight)

    return make


def chains(target: str, kernel: str, num_chains: int) -> Callable[[], str]:
    def make() -> str:
        draws = mcmc.sample(
            TARGETS[target], kernel, num_chains=num_chains, num_steps=30, seed=4, progress=False
        )
        return digest(draws.x, torch.tensor([draws.acceptance, draws.num_density_calls]))

    return make


def annealed(target: str) -> Callable[[], str]:
    def make() -> str:
        population = mcmc.population_annealing(
            TARGETS[target], num_replicas=200, num_rungs=10, seed=3
        )
        return digest(population.draws.x, torch.tensor(population.log_z))

    return make


def swept(target: str) -> Callable[[], str]:
    def make() -> str:
        p, generator = TARGETS[target], torch.Generator().manual_seed(1)
        noise = UniformNoise(p.num_values)
        x_0 = torch.randint(p.num_values, (40, p.num_sites), generator=generator)
        x_t = noise.draw(x_0, 0.6, generator=generator)
        t = torch.full((40,), 0.6)
        log_d, x_0 = identity.warm(p, noise, x_t, t, x_0, num_sweeps=2, generator=generator)
        walked = identity.annealed(p, noise, x_t, t, num_chains=3, num_rungs=4, generator=generator)
        return digest(log_d, x_0, walked)

    return make


CASES: dict[str, Callable[[], str]] = {
    **{
        f"train {target} {method} {schedule} {preset}": trained(target, method, preset, schedule)
        for target in ("ising", "potts", "field", "graph")
        for method, schedule in (
            ("self-normalized", "sequential"), ("self-normalized", "parallel"),
            ("unbiased", "parallel"),
        )
        for preset in ("fast", "tiny")
        if preset == "fast" or target in ("ising", "potts")
    },
    **{
        f"train {target} {method} parallel paper": trained(target, method, "paper", "parallel")
        for target in ("ising", "potts")
        for method in ("self-normalized", "unbiased")
    },
    **{
        f"reverse {target} {step} {schedule}": by_reverse(target, step, schedule)
        for target in ("ising", "potts")
        for step in ("euler", "tweedie", "second")
        for schedule in ("parallel", "coloured")
    },
    **{
        f"unlearned {estimator} {step}": unlearned(estimator, step)
        for estimator, step in (
            ("joint", "tweedie"), ("fresh", "tweedie"), ("fresh", "second"),
            ("walkers", "tweedie"), ("coloured", "tweedie"),
        )
    },
    **{f"leaps {target}": by_leaps(target) for target in ("ising", "graph")},
    **{
        f"chains {target} {kernel} {n}": chains(target, kernel, n)
        for target in ("ising", "potts", "field", "graph")
        for kernel in ("metropolis", "glauber", "gibbs", "wolff", "tempering", "gwg", "dmala", "pas")
        for n in (5, 200)
        if not (kernel == "wolff" and target == "field")
    },
    **{f"annealed {target}": annealed(target) for target in TARGETS},
    **{f"swept {target}": swept(target) for target in TARGETS},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bits_are_what_they_were(name: str) -> None:
    assert CASES[name]() == json.loads(FILE.read_text())[name]


if __name__ == "__main__":
    import time

    found = {}
    for name, make in CASES.items():
        begin = time.perf_counter()
        found[name] = make()
        print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
