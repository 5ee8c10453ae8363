"""The example of a protein family, on five of its columns."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import tcsis


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "protein.py"
    spec = importlib.util.spec_from_file_location("protein", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_family(example: ModuleType) -> None:
    alignment = example.family()
    assert alignment.x.shape == (4_025, 28)
    assert len(alignment.alphabet) == 21
    frequencies = alignment.frequencies()
    assert float(frequencies[:, 0].max()) < 0.3
    # the two tryptophans that the family is named after
    tryptophan = frequencies[:, alignment.alphabet.index("W")]
    assert sorted(tryptophan.topk(2).indices.tolist()) == [2, 24]
    assert float(tryptophan.topk(2).values.min()) > 0.8


def test_frequencies_are_counts(example: ModuleType) -> None:
    x = torch.tensor([[0, 1, 2], [0, 2, 2], [1, 1, 0]])
    weights = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    found = example.frequencies(x, 3, weights, 3.0)
    assert found.one.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.75, 0.25], [0.25, 0.0, 0.75]]
    assert found.two[0, 0, 1] == 0.5 - 0.75 * 0.75  # sites 0 and 1
    assert found.two[1, 1, 0] == 0.25 - 0.25 * 0.25  # sites 0 and 2


@pytest.mark.slow
@pytest.mark.statistical
def test_draws_agree_with_all_sequences(example: ModuleType) -> None:
    """Four columns with both tryptophans and their neighbours, 21^4 sequences; a mean error of two
    floors and log Z at 4 standard errors are beyond what exact draws show once in a thousand."""
    alignment = example.family().columns(torch.tensor([1, 2, 3, 24]))
    target = tcsis.formats.fit_potts(alignment)
    assert example.farthest(target, alignment.x[:50]) < 1e-5
    draws = tcsis.train(target, steps=100).sample(10_000, seed=1)
    log_z, one = example.every_sequence(target)
    assert log_z == pytest.approx(tcsis.exact.solve(target).log_z, abs=1e-5)
    assert draws.ess > 0.95
    assert abs(draws.log_z - log_z) < 4 * draws.log_z_error + 1e-4
    found = example.frequencies(draws.x, 21, draws.weights, 10_000).one.numpy()
    floor = tcsis.metrics.mean_floor(torch.from_numpy(np.sqrt(one * (1 - one))), 10_000)
    assert np.abs(found - one).mean() < 2 * floor
    flipped = tcsis.targets.Pairwise(target.edges, -target.couplings, target.fields)
    wrong_log_z, wrong = example.every_sequence(flipped)  # a sign is seen
    assert abs(draws.log_z - wrong_log_z) > 20 * draws.log_z_error
    assert np.abs(found - wrong).mean() > 4 * floor
