"""The example of models of a regression, on fewer columns and with fewer steps."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import tcsis

pytest.importorskip("sklearn")

from sklearn.linear_model import LinearRegression


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "variable_selection.py"
    spec = importlib.util.spec_from_file_location("variable_selection", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_fit_is_that_of_scikit_learn(example: ModuleType) -> None:
    table = example.diabetes(products_of=("bmi",))
    left, size = example.every_model(table)
    assert len(left) == 2**20
    for number in np.random.default_rng(0).integers(1, 2**20, 20):
        chosen = (number >> np.arange(19, -1, -1) & 1).astype(bool)
        assert size[number] == chosen.sum()
        columns = table.columns[:, chosen]
        fit = LinearRegression().fit(columns, table.answer).score(columns, table.answer)
        assert 1 - left[number] == pytest.approx(fit, abs=1e-10)


@pytest.mark.parametrize("products_of", [("bmi",), ()])
def test_evidence_is_that_of_a_normal_law(example: ModuleType, products_of: tuple[str]) -> None:
    """Up to 64 columns that nearly depend on each other, condition 3e7."""
    assert example.farthest(example.diabetes(products_of)) < 1e-7


def test_ratios_are_differences_of_log_densities(example: ModuleType) -> None:
    target = example.Selection(example.Evidence(example.diabetes()))
    generator = torch.Generator().manual_seed(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        x = (torch.rand(8, 64, generator=generator) < share).long()
        expected = tcsis.targets.Target._log_ratios(target, x)
        torch.testing.assert_close(target.log_ratios(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.statistical
def test_draws_agree_with_all_models(example: ModuleType) -> None:
    """Ten columns alone; a mean error of two floors, and log Z at 4 standard errors, are beyond
    what exact draws show in one run of a thousand."""
    table = example.diabetes(products_of=("none of them",))
    assert len(table.names) == 10
    p, log_z = example.exact_answers(table)
    draws = example.small_sampler(table, 200).sample(10_000, seed=1)
    exact = example.inclusion_of(p, 10)
    assert draws.ess > 0.95
    assert abs(draws.log_z - log_z) < 4 * draws.log_z_error + 1e-4
    assert np.abs(example.inclusion(draws) - exact).mean() < 2 * example.floor(exact, 10_000)
    # a law that forgets the prior on the size is told apart
    size = example.every_model(table)[1]
    flat = p * np.array([math.comb(10, s) for s in range(11)])[size]
    wrong = example.inclusion_of(flat / flat.sum(), 10)
    assert np.abs(example.inclusion(draws) - wrong).mean() > 4 * example.floor(wrong, 10_000)
