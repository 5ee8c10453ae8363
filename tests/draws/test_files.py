"""Draws from files, ours and anybody's; what is malformed is told by its line."""

import contextlib
import json
from pathlib import Path

import arviz_base
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tcsis
from tcsis.draws.files import HEAP, OBJECT, load_draws
from tcsis.targets import Ising
from tcsis.targets.factors import Factors

TARGET = Ising(3, 0.4, dtype=torch.float64)
DRAWS = tcsis.exact.draw(TARGET, 60, seed=1)
CHAINS = tcsis.Draws(DRAWS.x.reshape(3, 20, 9))
SPINS = 2 * DRAWS.x.numpy().astype(int) - 1


def write_text(path: Path, rows: list[list[object]], mark: str = ",") -> Path:
    path.write_text("".join(mark.join(str(cell) for cell in row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("mark", [",", ";", "\t", " ", ", "])
@pytest.mark.parametrize("head", [None, list(range(9)), [f"x{i}" for i in range(9)]])
def test_tables(tmp_path: Path, mark: str, head: list[object] | None) -> None:
    rows = SPINS.tolist() if head is None else [head, *DRAWS.x.tolist()]
    path = write_text(tmp_path / "samples.csv", rows, mark)
    assert torch.equal(load_draws(path, TARGET).x, DRAWS.x)


def test_tables_of_pandas_and_dimod(tmp_path: Path, weather: Factors) -> None:
    draws = tcsis.exact.draw(weather, 30, seed=1)
    for index in (True, False):
        draws.to_pandas(weather).to_csv(tmp_path / "a.csv", index=index)
        back = load_draws(tmp_path / "a.csv", weather)
        assert torch.equal(back.x, draws.x)
        assert torch.equal(back.log_weight, draws.log_weight)
    words = draws.to_pandas(weather)[["sky", "grass", "dog"]]
    words.to_csv(tmp_path / "b.csv", index=False, header=False)
    assert torch.equal(load_draws(tmp_path / "b.csv", weather).x, draws.x)
    CHAINS.to_pandas().to_csv(tmp_path / "c.csv")
    assert torch.equal(load_draws(tmp_path / "c.csv", TARGET).x, CHAINS.x)
    aggregated = DRAWS.to_dimod(TARGET, vartype="SPIN", aggregate=True)
    aggregated.to_pandas_dataframe().to_csv(tmp_path / "d.csv")
    assert len(load_draws(tmp_path / "d.csv", TARGET)) == 60


def test_arrays_trees_and_sample_sets(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", SPINS)
    np.savez(tmp_path / "a.npz", **DRAWS.to_numpy())
    np.savez(tmp_path / "b.npz", samples=DRAWS.x.numpy())
    DRAWS.to_netcdf(tmp_path / "ours.nc", TARGET)
    DRAWS.to_inferencedata().to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    text = json.dumps(DRAWS.to_dimod(TARGET).to_serializable())
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json").write_text(json.dumps(SPINS.tolist()))
    for name in ("a.npy", "a.npz", "b.npz", "ours.nc", "tree.nc", "a.json", "b.json"):
        assert torch.equal(load_draws(tmp_path / name, TARGET).x, DRAWS.x), name
    for name in ("a.npz", "ours.nc", "tree.nc", "a.json"):
        assert torch.equal(load_draws(tmp_path / name, TARGET).log_weight, DRAWS.log_weight), name


def test_a_file_of_arviz(tmp_path: Path) -> None:
    tree = arviz_base.from_dict({"posterior": {"spins": SPINS.reshape(3, 20, 9)}})
    tree.to_netcdf(tmp_path / "chains.nc", engine="h5netcdf")
    assert torch.equal(load_draws(tmp_path / "chains.nc", TARGET).x, CHAINS.x)


def test_a_heap_that_hdf5_would_never_leave_is_refused(tmp_path: Path) -> None:
    tree = arviz_base.from_dict({"posterior": {"spins": SPINS.reshape(3, 20, 9)}})
    tree.to_netcdf(tmp_path / "chains.nc", engine="h5netcdf")
    content = bytearray((tmp_path / "chains.nc").read_bytes())
    first = content.index(HEAP) + 2 * len(HEAP)
    content[first + OBJECT.size - 8 + 1] = 1  # its size, plus 256: what follows is zeros
    (tmp_path / "chains.nc").write_bytes(content)
    with pytest.raises(ValueError, match="a heap has free space of no size"):
        load_draws(tmp_path / "chains.nc", TARGET)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"", "is empty: expected a draw a row"),
        ("a.csv", b"x0,x1,x2,x3,x4,x5,x6,x7,x8\n", "has names of sites and no draws"),
        ("a.csv", b"0,1,0,1,0,1,0,1,0\n0,1,0\n", "line 2 has 3 cells: expected 9"),
        ("a.csv", b"0,1,0,1,0,1,0,1\n", "8 columns of values .*: expected 9"),
        ("a.csv", b"0,1,0,1,0,1,0,1,zwei\n", "'zwei' at site 8: expected a number"),
        ("a.csv", b"x0,x0,x2,x3,x4,x5,x6,x7,x8\n0,0,0,0,0,0,0,0,0\n", "two columns 'x0'"),
        ("a.csv", b"\xff\xfe\x00\x01", "cannot be read .* expected a table of text"),
        ("a.npy", b"no array", "cannot be read .* expected an array of numbers"),
        ("a.npz", b"PK\x03\x04", "cannot be read .* expected an array of numbers"),
        ("a.nc", b"\x89HDF\r\n\x1a\n\0\0", "cannot be read .* that tcsis or ArviZ wrote"),
        ("a.json", b"{", "cannot be read .* expected a sample set or a list"),
        ("a.json", b"{}", "has no sample set: expected one as dimod"),
        ("a.json", b'{"type": "SampleSet"}', "cannot be read .* expected a sample set as dimod"),
        ("a.xls", b"", "ends in '.xls': expected draws in a file .csv"),
        ("a", b"", "ends in 'nothing': expected"),
    ],
)
def test_refusals(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why) as caught:
        load_draws(path, TARGET)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is not a file"):
        load_draws(tmp_path / "missing.csv", TARGET)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    suffix=st.sampled_from([".csv", ".npy", ".npz", ".nc", ".json"]),
    damage=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=20),
    end=st.floats(0, 1),
)
def test_damaged_files_are_refused_or_read(
    tmp_path: Path, suffix: str, damage: list[tuple[int, int]], end: float
) -> None:
    """Bytes changed and the end cut off: a sentence or draws, never anything else."""
    good = tmp_path / f"good{suffix}"
    if not good.exists():
        writers = {
            ".csv": lambda: DRAWS.to_pandas().to_csv(good), ".npy": lambda: np.save(good, SPINS),
            ".npz": lambda: np.savez(good, **DRAWS.to_numpy()),
            ".nc": lambda: CHAINS.to_inferencedata().to_netcdf(good, engine="h5netcdf"),
            ".json": lambda: good.write_text(json.dumps(DRAWS.to_dimod(TARGET).to_serializable())),
        }  # fmt: skip
        writers[suffix]()
    content = bytearray(good.read_bytes())
    for place, value in damage:
        content[place % len(content)] = value
    bad = tmp_path / f"bad{suffix}"
    bad.write_bytes(content[: round(end * len(content))])
    with contextlib.suppress(ValueError):
        assert load_draws(bad, TARGET).x.shape[-1] == 9
