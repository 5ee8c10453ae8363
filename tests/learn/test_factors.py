"""Training on factor models: values that sites do not have, and states that are forbidden."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tcsis
from tcsis import exact
from tcsis.learn.presets import fast
from tcsis.targets import Factors


def model(zeros: float) -> Factors:
    rng = np.random.default_rng(2)
    counts = np.array([2, 3, 2, 3, 2, 2, 3, 2])
    factors = []
    for i in range(8):
        scope = np.array([i, (i + 1) % 8, (i + 3) % 8])[: 2 + i % 2]
        table = rng.normal(size=counts[scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        factors.append((scope, table))
    return Factors(factors, counts, site_names=[f"s{i}" for i in range(8)])


@pytest.mark.statistical
@pytest.mark.parametrize("zeros", [0.0, 0.15], ids=["soft", "hard"])
def test_the_default_method(zeros: float, tmp_path: Path) -> None:
    """log Z within five standard errors, which happens by chance once in a million."""
    target = model(zeros)
    truth = exact.solve(target)
    config = fast(target)
    buffer = config.buffer.model_copy(update={"size": 512, "num_rungs": 10})
    config = config.model_copy(update={"buffer": buffer, "num_steps": 150})
    learned = tcsis.train(target, config=config, seed=0, progress=False)
    draws = learned.sample(4_000, seed=1)
    site = torch.arange(target.num_sites)
    assert bool(target.possible[site, draws.x.long()].all())
    assert draws.ess > 0.3
    assert abs(draws.log_z - truth.log_z) < 5 * draws.log_z_error
    learned.save(tmp_path / "model")
    again = tcsis.load(tmp_path / "model")
    assert again.target.site_names == target.site_names
    assert torch.equal(again.sample(50, seed=2).x, learned.sample(50, seed=2).x)


def test_impossible_values_have_no_probability() -> None:
    target = model(0.0)
    law = fast(target).method.model(target)
    x = torch.zeros(1, 8, dtype=torch.long)
    log_q = law.conditionals(law.read(x))[0]
    possible = target.possible[law.order]
    assert bool((log_q.exp()[~possible] == 0).all())
    assert bool((log_q.exp()[possible] > 0).all())
