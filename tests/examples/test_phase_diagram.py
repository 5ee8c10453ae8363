"""The example of a phase diagram, at side 4 with a tiny network."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tcsis import exact
from tcsis.targets import Ising


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "phase_diagram.py"
    spec = importlib.util.spec_from_file_location("phase_diagram", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_exact_curves_are_those_of_enumeration(example: ModuleType) -> None:
    """Heat capacity from a spline against the variance over all states."""
    betas = np.linspace(0.1, 0.6, 51)
    points = example.solved(4, betas)
    for number in (10, 34, 45):
        point = points[number]
        table = exact.Enumeration(Ising(4, betas[number]))
        x = table.states(torch.arange(table.num_states))
        target = Ising(4, 1.0)
        s, m = target.log_density(x).double().numpy(), 2 * x.double().mean(1).numpy() - 1
        weights = np.exp(betas[number] * s - table.log_z)
        truth = example.averages(betas[number], 16, s, m, weights)
        for name, value in truth.items():
            assert point.observables[name] == pytest.approx(value, rel=1e-3), name


@pytest.mark.statistical
def test_the_diagram_of_a_tiny_model(example: ModuleType, tmp_path: Path) -> None:
    """Every observable within 5 standard errors, and log Z by integration within 0.1; a curve
    moved by a few hundredths of β is told apart."""
    options = {"side": 4, "preset": "tiny", "num_draws": 4_000, "num_betas": 8, "num_exact": 15}
    drawn, truth = example.main(tmp_path, steps=250, **options)
    assert (tmp_path / "phase_diagram.png").stat().st_size > 10_000
    off, moved = [], []
    for k, (one, expected) in enumerate(zip(drawn, truth, strict=True)):
        assert one.ess > 0.8
        for name in ("magnetisation", "energy", "log Z"):
            error = one.errors[name] + 1e-4
            off.append(abs(one.observables[name] - expected.observables[name]) / error)
            if k:
                before = truth[k - 1].observables[name]
                moved.append(abs(one.observables[name] - before) / error)
    assert max(off) < 5
    assert np.median(moved) > 10
    through = example.integrated(drawn)[0] - [point.log_z for point in truth]
    assert abs(through).max() < 0.1
    # the run is kept, and nothing is trained again
    again, _ = example.main(tmp_path, steps=250, **options)
    assert [point.log_z for point in again] == [point.log_z for point in drawn]


def test_errors_of_the_integral_are_those_of_its_slopes(example: ModuleType) -> None:
    """log Z by integration of slopes with noise, many times: its spread is the one that is said."""
    betas, generator = np.linspace(0.1, 0.6, 8), np.random.default_rng(0)
    points = [example.Point(beta, {}, {}, 1.0, 0.0, 50 * beta, 0.3) for beta in betas]
    _, said = example.integrated(points)
    found = []
    for _ in range(2_000):
        noisy = [
            example.Point(p.beta, {}, {}, 1.0, 0.0, p.slope + 0.3 * generator.normal())
            for p in points
        ]
        found.append(example.integrated(noisy)[0])
    assert np.std(found, axis=0)[1:] == pytest.approx(said[1:], rel=0.1)
