"""Draws survive the disk, other programs read them, and a damaged file says so."""

from pathlib import Path

import arviz_base
import numpy as np
import pytest
import torch
import xarray

import tcsis
from tcsis.basics.seals import seal_bytes
from tcsis.draws.storage import read_draws, write_draws
from tcsis.targets import Ising, Potts

TARGET = Ising(4, 0.4407)
CHAINS = tcsis.Draws(
    torch.randint(2, (3, 5, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8),
    torch.arange(15.0, dtype=torch.float64).reshape(3, 5),
    seconds=1.5,
    num_density_calls=240.0,
    num_network_calls=7.0,
    acceptance=0.25,
)


def test_independent_draws_come_back(tmp_path: Path) -> None:
    draws = tcsis.exact.draw(TARGET, 200, seed=1)
    write_draws(tmp_path / "new" / "draws.nc", draws, TARGET, {"method": "exact β", "seed": 1})
    back, attrs = read_draws(tmp_path / "new" / "draws.nc")
    assert torch.equal(back.x, draws.x)
    assert torch.equal(back.log_weight, draws.log_weight)
    assert back.seconds == draws.seconds
    assert back.acceptance is None
    assert attrs["target"] == repr(TARGET)
    assert (attrs["method"], attrs["seed"]) == ("exact β", 1)


def test_chains_come_back(tmp_path: Path) -> None:
    write_draws(tmp_path / "draws.nc", CHAINS, TARGET)
    back, _ = read_draws(tmp_path / "draws.nc")
    assert torch.equal(back.x, CHAINS.x)
    assert torch.equal(back.log_weight, CHAINS.log_weight)
    costs = ("seconds", "num_density_calls", "num_network_calls", "acceptance")
    assert all(getattr(back, name) == getattr(CHAINS, name) for name in costs)


def test_no_weights_no_variable(tmp_path: Path) -> None:
    write_draws(tmp_path / "draws.nc", tcsis.Draws(CHAINS.x), TARGET)
    assert read_draws(tmp_path / "draws.nc")[0].log_weight is None
    with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as tree:
        assert list(tree["sample_stats"].data_vars) == ["energy"]


def test_xarray_reads_it(tmp_path: Path) -> None:
    write_draws(tmp_path / "draws.nc", CHAINS, TARGET)
    with xarray.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as tree:
        x = tree["posterior"]["x"]
        assert x.dims == ("chain", "draw", "site")
        assert x.dtype == np.uint8
        assert np.array_equal(x.values, CHAINS.x.numpy())
        energy = tree["sample_stats"]["energy"]
        assert energy.dims == ("chain", "draw")
        exact = TARGET.to(dtype=torch.float64)
        assert energy.dtype == np.float64
        assert np.array_equal(energy.values, -exact.log_density(CHAINS.x).numpy())
        assert tree.attrs["num_density_calls"] == 240


def test_arviz_reads_it(tmp_path: Path) -> None:
    write_draws(tmp_path / "draws.nc", tcsis.exact.draw(TARGET, 50), TARGET)
    tree = arviz_base.convert_to_datatree(str(tmp_path / "draws.nc"), engine="h5netcdf")
    stacked = arviz_base.extract(tree, group="posterior", var_names="x")
    assert stacked.sizes["sample"] == 50
    assert tree["sample_stats"]["log_weight"].shape == (1, 50)
    tree.close()


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "draws.nc"
    write_draws(path, CHAINS, TARGET)
    before = path.read_bytes()
    monkeypatch.setattr("tcsis.draws.storage.write_groups", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_draws(path, CHAINS, TARGET)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not a file of draws",
        lambda content: content[: len(content) // 2],
        lambda content: content[:100] + b"\0" * 400 + content[500:],
    ],
    ids=["empty", "text", "half", "overwritten"],
)
def test_damaged_files(tmp_path: Path, damage) -> None:
    path = tmp_path / "draws.nc"
    write_draws(path, CHAINS, TARGET)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"(has no|does not match its) checksum"):
        read_draws(path)


def test_nothing_damaged_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a flipped bit nor a lost block reaches HDF5, which may not come back from it."""
    path = tmp_path / "draws.nc"
    write_draws(path, tcsis.exact.draw(TARGET, 3_000), TARGET)
    whole = path.read_bytes()
    monkeypatch.setattr("h5py.File", lambda *given: pytest.fail("it is read"))
    places = np.random.default_rng(0).integers(len(whole), size=200)
    flipped = [whole[:p] + bytes([whole[p] ^ 0x10]) + whole[p + 1 :] for p in places]
    blanks = [whole[:p] + bytes(512) + whole[p + 512 :] for p in range(0, len(whole) - 512, 512)]
    for damaged in (*flipped, *blanks, whole[:-1], whole + b"\n"):
        if damaged != whole:  # blocks of zeros there are
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="checksum"):
                read_draws(path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "foreign.nc"
    xarray.Dataset({"x": ("site", [1, 2])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="has no checksum"):
        read_draws(path)
    path.write_bytes(seal_bytes(path.read_bytes()))
    with pytest.raises(ValueError, match=r"foreign.nc cannot be read"):
        read_draws(path)
    with pytest.raises(ValueError, match="is not a file"):
        read_draws(tmp_path / "nothing.nc")


def test_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "draws.nc"
    with pytest.raises(ValueError, match="'target' is written by tcsis"):
        write_draws(path, CHAINS, TARGET, {"target": "mine"})
    with pytest.raises(ValueError, match="is a list: expected a string or a number"):
        write_draws(path, CHAINS, TARGET, {"steps": [1, 2]})
    with pytest.raises(ValueError, match=r"expected \(n, d\) or \(chain, draw, site\)"):
        write_draws(path, tcsis.Draws(CHAINS.x[None]), TARGET)
    with pytest.raises(ValueError, match="x has shape"):
        write_draws(path, CHAINS, Potts(3, 3, 1.0))
    assert not path.exists()
