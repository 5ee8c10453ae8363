"""Compiled log densities against those of the target."""

import numpy as np
import pytest
import torch

from tcsis.mcmc.compiled import arrays_of, log_densities, threads
from tcsis.mcmc.compiled.lanes import WIDTH
from tcsis.mcmc.runner import start_chains
from tcsis.targets import Factors, Ising, Pairwise, Potts, SpinGlass, Target
from tcsis.targets.base import counting

DOUBLE = {"dtype": torch.float64}


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **DOUBLE)


def factors(forbidden: float) -> Factors:
    counts = [3, 2, 2, 3]
    rng = np.random.default_rng(1)
    scopes = [(0, 1, 2), (2, 3), (1, 3), (0,)]
    tables = [rng.normal(size=[counts[site] for site in scope]) for scope in scopes]
    tables[0][1, 1, 1] = tables[1][0, 1] = tables[3][2] = forbidden
    return Factors(list(zip(scopes, tables, strict=True)), counts, constant=0.7, **DOUBLE)


POTTS = Potts((3, 4), 5, 0.9, **DOUBLE)
TARGETS = {
    "ising": Ising(5, 0.4, 0.3, **DOUBLE),
    "glass": SpinGlass(6, 1.1, seed=1, **DOUBLE),
    "gaussian": SpinGlass((3, 4), 0.8, "gaussian", seed=2, **DOUBLE),
    "potts": POTTS,
    "potts-fields": Pairwise(
        POTTS.edges, POTTS.couplings, normal(12, 5, seed=3), constant=2.5, **DOUBLE
    ),
    "tables": Pairwise(
        [[0, 2], [3, 1], [0, 1], [1, 2]],
        normal(4, 3, 3, seed=4),
        normal(5, 3, seed=5),
        constant=-1.5,
        **DOUBLE,
    ),
    "fields-only": Pairwise(torch.zeros(0, 2).long(), torch.zeros(0, 4, 4), normal(3, 4, seed=6)),
    "factors": factors(0.4),
    "factors-forbidding": factors(-np.inf),
    "factors-of-one-site": Factors([((1,), np.array([0.3, -0.1]))], [2, 2, 2], **DOUBLE),
}


def states(target: Target, n: int) -> torch.Tensor:
    """Also of values that some sites do not have."""
    generator = torch.Generator().manual_seed(n)
    shape = (n, target.num_sites)
    return torch.randint(target.num_values, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("n", [1, WIDTH, 2 * WIDTH + 5])
@pytest.mark.parametrize("name", TARGETS)
def test_densities_are_those_of_the_target(name: str, n: int) -> None:
    target = TARGETS[name]
    x = states(target, n)
    expected = target.to(dtype=torch.float64).log_density(x.long()).numpy()
    np.testing.assert_allclose(log_densities(arrays_of(target), x.numpy()), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["glass", "tables", "factors"])
def test_threads_share_the_states(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGETS[name]
    x = states(target, 7 * WIDTH + 3).numpy()
    alone = log_densities(arrays_of(target), x)
    monkeypatch.setattr(threads, "UPDATES_PER_THREAD", 1)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    assert np.array_equal(log_densities(arrays_of(target), x), alone)


@pytest.mark.parametrize("kernel", ["gibbs", "gwg"])
def test_engines_have_the_same_densities(kernel: str) -> None:
    """At scale 1 whatever the chains' own scale, and for one density a chain."""
    target = TARGETS["ising"]
    chains = start_chains(target, kernel, states(target, 20).long(), seed=0)
    chains.temper(torch.linspace(0, 1, 20, **DOUBLE))
    chains.advance(3)
    with counting(target) as cost:
        log_density = chains.log_density()
    assert cost.densities == 20
    torch.testing.assert_close(log_density, target.log_density(chains.x.long()))
