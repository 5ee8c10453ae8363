"""Comparisons and reports given some sites."""

from pathlib import Path

import pytest
import torch

import tcsis
from tcsis.app.trajectory import film, score_pairs
from tcsis.targets import Given, Ising

LATTICE = Ising(3, 0.4, field=0.3).given({0: 1, 1: 0, 5: 1})


def test_compare_and_report(given_target: Given, tmp_path: Path) -> None:
    methods = ["autoregressive", "gibbs", "learning-free", "population-annealing", "exact"]
    comparison = tcsis.compare(
        given_target, methods, n=300, preset="tiny", steps=5, equal="densities", progress=False
    )
    for draws in comparison.methods.values():
        assert not given_target.known.contradicted(draws.x).any()
    comparison.report(tmp_path / "report.html")
    assert "given(" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("method", ["autoregressive", "self-normalized"])
def test_a_film_shows_what_is_known_from_the_start(method: str) -> None:
    model = tcsis.train(LATTICE, method, "tiny", steps=2, progress=False)
    frames = film(model)
    assert len(frames) > 2
    for times, x in frames:
        assert x.shape == (9,)
        assert x[[0, 1, 5]].tolist() == [1, 0, 1]
        assert times.ndim == 0 or not times[[0, 1, 5]].any()
    learned, truth = score_pairs(model)
    assert learned.shape == truth.shape
    assert torch.isfinite(truth).all()
