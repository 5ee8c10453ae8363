"""Targets survive the way to plain data and back; pairwise files are read or refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tcsis.targets import (
    RBM,
    Factors,
    Ising,
    Lattice,
    Pairwise,
    Potts,
    Scaled,
    SherringtonKirkpatrick,
    SpinGlass,
    Target,
    Tilted,
    from_callable,
)
from tcsis.targets.spec import build, describe, load_pairwise

DOUBLE = {"dtype": torch.float64}


def random_pairwise(**options: Any) -> Pairwise:
    generator = torch.Generator().manual_seed(1)
    edges = torch.combinations(torch.arange(6))[::2]
    couplings = torch.randn(len(edges), 3, 3, generator=generator)
    return Pairwise(edges, couplings, torch.randn(6, 3, generator=generator), **options)


def random_rbm(**options: Any) -> RBM:
    generator = torch.Generator().manual_seed(2)
    shapes = ((5, 3), (5,), (3,))
    return RBM(*(torch.randn(shape, generator=generator) for shape in shapes), **options)


def random_factors(**options: Any) -> Factors:
    table = np.random.default_rng(3).normal(size=(3, 2, 1))
    table[1, 0, 0] = -np.inf
    factors = [((1, 0, 2), table), ((1,), [0.1, 0.2, 0.3])]
    return Factors(factors, [2, 3, 1], constant=0.7, **options)


NAMED = {
    "ising": [
        Ising(4, 0.44),
        Ising(3, 0.3, field=0.2, boundary="open", **DOUBLE),
        Ising((5,), -0.7),
        Ising((2, 3, 2), 0.1, **DOUBLE),
    ],
    "potts": [Potts(3, 4, 1.005), Potts((2, 4), 3, 0.5, "open", **DOUBLE)],
    "spin-glass": [
        SpinGlass(4, 1.2, seed=7),
        SpinGlass((3, 4), 0.8, "gaussian", np.int64(2**40), "open", **DOUBLE),
    ],
    "sherrington-kirkpatrick": [SherringtonKirkpatrick(7, 1.1, seed=np.int32(5), **DOUBLE)],
}
OTHER = {
    "pairwise": [
        random_pairwise(),
        random_pairwise(constant=0.7, lattice=Lattice((2, 3), "open"), **DOUBLE),
        Pairwise([], [], torch.zeros(3, 2)),
        Ising(4, 0.44).scaled(0.5),
        Ising(4, 0.44, constant=1.5),
        SherringtonKirkpatrick(9, 1.0, lattice=Lattice.of(3)),
    ],
    "factors": [
        random_factors(),
        random_factors(
            site_names=["a", "b", "c"], value_names=[["no", "yes"], ["x", "y", "z"], ["only"]]
        ),
    ],
    "rbm": [random_rbm(), random_rbm(**DOUBLE)],
}
TARGETS = [
    pytest.param(name, target, id=f"{name}-{number}")
    for name, targets in {**NAMED, **OTHER}.items()
    for number, target in enumerate(targets)
]


@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_round_trip(name: str, target: Target) -> None:
    spec, tensors = describe(target)
    assert spec["name"] == name
    again = build(json.loads(json.dumps(spec)), tensors)
    shape = (50, target.num_sites)
    x = torch.randint(target.num_values, shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.log_density(x), target.log_density(x))
    assert torch.equal(again.log_ratios(x), target.log_ratios(x))
    assert (again.dtype, again.lattice) == (target.dtype, target.lattice)
    assert again.symmetries == target.symmetries
    if name in NAMED:
        assert (type(again), repr(again), tensors) == (type(target), repr(target), {})
    assert describe(again)[0] == spec


def test_specs_read_as_they_are_written() -> None:
    expected = {"name": "ising", "side": 4, "beta": 0.44, "field": 0.0, "boundary": "periodic"}
    assert describe(Ising(4, 0.44)) == ({**expected, "dtype": "float32"}, {})
    assert describe(Ising((2, 4), 0.44))[0]["side"] == [2, 4]
    assert repr(build({"name": "ising", "side": 4, "beta": 0.44})) == repr(Ising(4, 0.44))
    assert build({"name": "ising", "side": 4, "beta": 0.44}).dtype == torch.get_default_dtype()


class Doubled(Ising):
    """A user's class: what it computes is not in its arguments."""

    def _log_density(self, x: Tensor) -> Tensor:
        return 2 * super()._log_density(x)


@pytest.mark.parametrize(
    "target",
    [
        from_callable(lambda x: x.double().sum(-1), 5, 3),
        Scaled(Ising(3, 0.4), 0.5),
        Tilted(Ising(3, 0.4), torch.zeros(9, 2)),
        Doubled(3, 0.4),
    ],
    ids=["callable", "scaled", "tilted", "subclass"],
)
def test_what_cannot_be_saved_says_so(target: Target) -> None:
    spec, tensors = describe(target)
    assert spec == {
        "name": "callable",
        "num_sites": target.num_sites,
        "num_values": target.num_values,
        "repr": repr(target),
        "dtype": str(target.dtype).removeprefix("torch."),
    }
    assert tensors == {}
    with pytest.raises(ValueError, match=r"without the function itself: pass the target"):
        build(spec, tensors)


ISING = {"name": "ising", "side": 4, "beta": 0.44}


@pytest.mark.parametrize(
    ("spec", "tensors", "message"),
    [
        ({}, {}, "target is {}: expected a name, one of ising, potts"),
        ({"name": "icing"}, {}, "unknown target 'icing': expected ising, .*mean ising"),
        ({"name": ["ising"]}, {}, r"unknown target \['ising'\]"),
        ({"name": "ising", "side": 4}, {}, "missing argument of target ising beta: expected side"),
        ({**ISING, "feild": 1}, {}, "unknown argument of target ising 'feild': .*mean field"),
        ({**ISING, "num_values": 3}, {}, "expected side, beta, field, boundary, dtype$"),
        ({**ISING, "dtype": "float"}, {}, "unknown dtype 'float': expected float32, float64"),
        ({**ISING, "side": "4"}, {}, "side is '4'"),
        (ISING, {"fields": torch.zeros(1)}, "unknown tensor of target ising .*: expected none"),
        ({"name": "rbm"}, {}, "missing tensor of target rbm weights, visible_bias, hidden_bias"),
        (
            {"name": "pairwise", "boundary": "open"},
            describe(random_pairwise())[1],
            "without a side",
        ),
        ({"name": "pairwise", "side": 2}, describe(random_pairwise())[1], "4 sites: expected 6"),
    ],
)
def test_wrong_specs(spec: dict, tensors: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build(spec, tensors)
    assert "\n" not in str(caught.value)


def test_half_precision_is_not_described() -> None:
    with pytest.raises(ValueError, match="unknown dtype 'bfloat16': expected float32, float64"):
        describe(Scaled(random_rbm(dtype=torch.bfloat16), 1.0))


# -- files of users --------------------------------------------------------------------------

J = [[0.0, 0.5, 0.0], [0.5, 0.0, -1.0], [0.0, -1.0, 0.0]]
TABLES = np.random.default_rng(0).normal(size=(2, 3, 3))
EDGES = {"edges": [[0, 1], [2, 1]], "couplings": TABLES, "fields": np.ones((3, 3))}
DENSE = np.zeros((3, 3, 2, 2))
DENSE[0, 1] = [[1.0, 2.0], [3.0, 4.0]]
DENSE[1, 0] = DENSE[0, 1].T
FILES = [
    ({"J": J}, Pairwise.from_spins(J)),
    ({"J": J, "h": [1, 2, 3], "beta": 0.5}, Pairwise.from_spins(J, [1.0, 2.0, 3.0], beta=0.5)),
    (EDGES, Pairwise(**EDGES)),
    ({**EDGES, "constant": 2}, Pairwise(**EDGES, constant=2.0)),
    ({"couplings": DENSE}, Pairwise.from_dense(DENSE)),
    ({"couplings": DENSE, "fields": np.eye(3, 2)}, Pairwise.from_dense(DENSE, np.eye(3, 2))),
]


def write(path: Path, arrays: dict[str, Any]) -> Path:
    arrays = {key: np.asarray(value) for key, value in arrays.items()}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        path.write_text(json.dumps({key: array.tolist() for key, array in arrays.items()}))
    return path


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize(("arrays", "expected"), FILES)
def test_pairwise_files(tmp_path: Path, suffix: str, arrays: dict, expected: Pairwise) -> None:
    target = load_pairwise(write(tmp_path / f"model{suffix}", arrays))
    x = torch.randint(target.num_values, (40, 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(target.log_density(x), expected.log_density(x))


def test_arrays_of_any_width_and_byte_order(tmp_path: Path) -> None:
    odd = {
        "edges": np.array(EDGES["edges"], dtype=np.uint64),
        "couplings": TABLES.astype(">f4"),
        "fields": np.ones((3, 3), dtype=np.float16),
    }
    target = load_pairwise(write(tmp_path / "model.npz", odd))
    assert torch.equal(target.couplings[0], torch.from_numpy(TABLES[0].astype(np.float32)).double())


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"has the keys \(none\): expected edges, couplings and fields, or dense"),
        ({"fields": np.ones((3, 3))}, "has the keys fields: expected edges"),
        ({"edges": EDGES["edges"]}, "missing key in .* couplings, fields"),
        ({**EDGES, "beta": 1.0}, "unknown key in .* 'beta': expected edges"),
        ({"couplings": DENSE, "feilds": [1]}, "unknown key in .*; did you mean fields"),
        ({"J": J, "beta": [1.0, 2.0]}, r"beta in .* has shape \(2,\): expected one number"),
        ({"J": J, "h": [1.0, 2.0]}, r"fields has shape \(2,\)"),
        ({"J": [["a", "b"], ["b", "a"]]}, "J in .* is not an array of numbers"),
        ({"couplings": np.zeros((3, 3))}, r"couplings has shape \(3, 3\): expected \(d, d, v, v\)"),
    ],
)
def test_wrong_pairwise_files(tmp_path: Path, suffix: str, arrays: dict, message: str) -> None:
    path = write(tmp_path / f"model{suffix}", arrays)
    with pytest.raises(ValueError, match=message) as caught:
        load_pairwise(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.csv", b"1,2", "has the extension '.csv': expected .npz or .json"),
        ("model.npz", b"", "cannot be read: expected arrays of numbers saved by numpy.savez"),
        ("model.npz", b"PK\x03\x04 and no more", "cannot be read"),
        ("model.npz", b"\x80\x04K\x01.", "cannot be read"),
        ("model.json", b"{", "is not valid JSON"),
        ("model.json", b"\xff", "is not valid JSON"),
        ("model.json", b"[1]", "holds a list: expected an object"),
        ("model.json", b'{"J": [[0, 1], [1]]}', "J in .* is not an array of numbers"),
        ("model.json", b'{"J": [[0, NaN], [NaN, 0]]}', "couplings has nan at index"),
    ],
)
def test_foreign_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_pairwise(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_lone_array_and_missing_file(tmp_path: Path) -> None:
    np.save(tmp_path / "lone.npy", np.eye(3))
    (tmp_path / "lone.npy").rename(tmp_path / "lone.npz")
    with pytest.raises(ValueError, match="cannot be read"):
        load_pairwise(tmp_path / "lone.npz")
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'none.npz'} is not a file")):
        load_pairwise(tmp_path / "none.npz")


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", J=np.array([{"any": "object"}], dtype=object))
    with pytest.raises(ValueError, match="cannot be read"):
        load_pairwise(tmp_path / "model.npz")
