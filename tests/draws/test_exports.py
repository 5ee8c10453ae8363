"""Draws in the tools of others: names, energies, weights, and chains that are chains."""

import math
from pathlib import Path

import arviz_base
import dimod
import numpy as np
import pytest
import torch
import xarray

import tcsis
from tcsis.targets import Ising, Potts
from tcsis.targets.factors import Factors

TARGET = Ising(3, 0.4, dtype=torch.float64)
DRAWS = tcsis.exact.draw(TARGET, 300, seed=1)
CHAINS = tcsis.Draws(DRAWS.x.reshape(3, 100, 9), torch.arange(300.0).reshape(3, 100) / 100)


def as_bqm(target: Ising, beta: float) -> dimod.BinaryQuadraticModel:
    """E of p̄ = exp(-β·E), by dimod's own hands."""
    edges = {tuple(edge): -float(j[1, 1]) / beta for edge, j in zip(
        target.edges.tolist(), target.couplings, strict=True)}  # fmt: skip
    return dimod.BinaryQuadraticModel.from_ising({}, edges)


def test_a_sample_set_has_the_energies_of_the_model() -> None:
    samples = DRAWS.to_dimod(TARGET, vartype="SPIN", beta=0.4)
    dimod.testing.assert_sampleset_energies(samples, as_bqm(TARGET, 0.4))
    assert samples.vartype is dimod.SPIN
    assert list(samples.variables) == list(range(9))
    assert np.array_equal(samples.record.sample, 2 * DRAWS.x.numpy().astype(int) - 1)
    assert samples.info["log_z"] == DRAWS.log_z
    assert samples.info["ess"] == pytest.approx(1)
    assert samples.info["independent"]
    binary = DRAWS.to_dimod(TARGET)
    assert binary.vartype is dimod.BINARY
    assert np.allclose(binary.record.energy, -TARGET.log_density(DRAWS.x).numpy())


def test_aggregated_weights_keep_their_sum() -> None:
    draws = tcsis.Draws(DRAWS.x, torch.randn(300, generator=torch.Generator().manual_seed(0)))
    samples = draws.to_dimod(TARGET, aggregate=True)
    record = samples.record
    assert len(record) < 300
    assert record.num_occurrences.sum() == 300
    total = np.logaddexp.reduce(record.log_weight + np.log(record.num_occurrences))
    assert total - math.log(300) == pytest.approx(draws.log_z)
    assert len(np.unique(record.sample, axis=0)) == len(record)


def test_many_values_are_discrete_and_chains_are_numbered() -> None:
    target = Potts(3, 4, 0.5)
    chains = tcsis.Draws(tcsis.exact.draw(target, 40).x.reshape(2, 20, 9))
    samples = chains.to_dimod(target)
    assert samples.vartype is dimod.DISCRETE
    assert np.array_equal(samples.record.chain, np.repeat([0, 1], len(samples) // 2))
    assert "log_weight" not in samples.record.dtype.names
    assert "log_z" not in samples.info
    assert not samples.info["independent"]
    with pytest.raises(ValueError, match="sites have 4 values: expected none"):
        chains.to_dimod(target, vartype="SPIN")
    with pytest.raises(ValueError, match="vartype is 'REAL': expected one of SPIN, BINARY"):
        DRAWS.to_dimod(TARGET, vartype="REAL")
    with pytest.raises(ValueError, match="beta is 0: expected a number above 0"):
        DRAWS.to_dimod(TARGET, beta=0)


def test_names_survive(weather: Factors) -> None:
    draws = tcsis.exact.draw(weather, 50, seed=2)
    assert list(draws.to_dimod(weather).variables) == ["sky", "grass", "dog"]
    tree = draws.to_inferencedata(weather)
    assert tree["posterior"]["site"].values.tolist() == ["sky", "grass", "dog"]
    table = draws.to_pandas(weather)
    assert table.columns.tolist() == ["sky", "grass", "dog", "energy", "log_weight"]
    named = [weather.value_names[0][token] for token in draws.x[:, 0].tolist()]
    assert table["sky"].tolist() == named
    assert list(table["sky"].cat.categories) == ["clear", "cloudy", "rain"]
    assert np.allclose(table["energy"], weather.energy(draws.x).numpy())


def test_independent_draws_are_one_chain_that_says_so(tmp_path: Path) -> None:
    tree = DRAWS.to_inferencedata(TARGET)
    assert tree["posterior"]["x"].dims == ("chain", "draw", "site")
    assert tree["posterior"]["x"].shape == (1, 300, 9)
    assert tree.attrs["independent"] == 1
    assert np.allclose(tree["sample_stats"]["log_weight"], DRAWS.log_z)
    DRAWS.to_netcdf(tmp_path / "draws.nc", TARGET)
    with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as written:
        for group in ("posterior", "sample_stats"):
            assert written[group].to_dataset().equals(tree[group].to_dataset())
        assert written.attrs["independent"] == 1


def test_chains_are_chains() -> None:
    tree = CHAINS.to_inferencedata()
    assert tree["posterior"]["x"].shape == (3, 100, 9)
    assert tree.attrs["independent"] == 0
    assert "energy" not in tree["sample_stats"]
    assert arviz_base.convert_to_datatree(tree) is tree
    assert arviz_base.extract(tree, keep_dataset=True)["x"].shape == (9, 300)
    table = CHAINS.to_pandas()
    assert table.columns.tolist() == [f"x{i}" for i in range(9)] + ["chain", "draw", "log_weight"]
    assert table["chain"].tolist() == [0] * 100 + [1] * 100 + [2] * 100
    assert table["draw"].tolist() == [*range(100)] * 3


def test_a_name_that_is_taken() -> None:
    target = Factors([((0, 1), [[0.0, 1], [1, 0]])], [2, 2], site_names=["energy", "b"])
    with pytest.raises(ValueError, match="a site has the name 'energy', which is that of another"):
        tcsis.exact.draw(target, 3).to_pandas(target)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("dimod", lambda: DRAWS.to_dimod(TARGET)),
        ("xarray", lambda: DRAWS.to_inferencedata()),
        ("pandas", lambda: DRAWS.to_pandas()),
    ],
)
def test_what_is_not_installed_is_said(module: str, call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ValueError, match=rf"needs {module}, which is not installed: pip install"):
        call()
