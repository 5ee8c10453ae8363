"""Names of sites and values: told, kept, found again, and refused in one sentence."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tcsis.app.target_file import read_target, write_target
from tcsis.targets import RBM, Factors, Ising, Pairwise, Target, from_callable
from tcsis.targets.spec import build, describe

SITES, VALUES = ("a", "b", "3"), ("no", "yes")


def targets() -> list[Target]:
    rng = np.random.default_rng(0)
    pairwise = Pairwise([(0, 1), (1, 2)], rng.normal(size=(2, 2, 2)), rng.normal(size=(3, 2)))
    factors = Factors([((0, 1, 2), rng.normal(size=(2, 2, 2)))], [2, 2, 2])
    machine = RBM(rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=2))
    function = from_callable(lambda x: x.double().sum(-1), 3, 2)
    return [target.named(SITES, VALUES) for target in (pairwise, factors, machine, function)]


@pytest.mark.parametrize("target", targets(), ids=lambda target: type(target).__name__)
def test_names_survive(target: Target) -> None:
    assert target.site_names == SITES
    assert target.value_names == (VALUES,) * 3
    given = target.given({"a": "yes"})
    assert given.known.pairs == ((0, 1),)
    assert given.site_names == SITES
    assert given.free.site_names == ("b", "3")
    assert given.free.value_names == (VALUES,) * 2
    assert given.given({"b": "no"}).known.pairs == ((0, 1), (1, 0))
    for other in (
        target.to(dtype=torch.float64),
        target.scaled(0.5),
        given.to(dtype=torch.float64),
    ):
        assert other.names == target.names
    assert repr(given).endswith(".given({'a': 'yes'})")


@pytest.mark.parametrize("target", targets()[:3], ids=lambda target: type(target).__name__)
def test_names_are_saved(target: Target, tmp_path: Path) -> None:
    for one in (target, target.given({"a": "yes"})):
        spec, tensors = describe(one)
        assert spec["value_names"] == list(VALUES)  # once for all sites
        again = build(json.loads(json.dumps(spec)), tensors)
        assert again.names == target.names
        assert repr(again) == repr(one)
        write_target(tmp_path / "target", one)
        kept = read_target(tmp_path / "target")
        assert repr(kept) == repr(one)
        x = torch.tensor([[1, 0, 1]])
        assert torch.equal(kept.log_density(x), one.log_density(x))


def test_a_damaged_target_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "target"
    write_target(path, targets()[0])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="does not match its checksum"):
        read_target(path)


def test_values_of_their_own_at_every_site() -> None:
    table = np.zeros((2, 3))
    target = Factors([((0, 1), table)], [2, 3]).named(["u", "v"], [["n", "y"], ["1", "2", "3"]])
    assert target.given({"v": "3"}).known.pairs == ((1, 2),)
    assert target.given({"v": 0}).known.pairs == ((1, 0),)  # a number is one
    assert target.given({"u": "1"}).known.pairs == ((0, 1),)  # also as text, beside words


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        ({"c": "yes"}, "given has 'c' for a site: expected a, b, 3; did you mean"),
        ({"a": "maybe"}, "given has 'maybe' for the value at site a: expected no, yes; did you"),
        ({"0": "yes"}, "given has '0' for a site: expected a, b, 3"),  # for 3 is a name
        ({"a": "yes", 0: 0}, "given names site a twice: expected one value for it"),
        ({"a": 2}, "given has the value 2 at site 0: expected 0..1"),
        ({7: 1}, "given names site 7: expected sites 0..2"),
    ],
)
def test_evidence_that_is_refused(evidence: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        targets()[0].given(evidence)


def test_numbers_as_text_where_there_are_no_names() -> None:
    target = Ising(3, 0.4)
    assert target.given({"4": "1"}).known.pairs == ((4, 1),)
    with pytest.raises(ValueError, match="expected a number, for it has no names"):
        target.given({"a": "1"})


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({"site_names": ["a", "b"]}, "site_names has 2 names: expected 3"),
        ({"site_names": ["a", "b", "a"]}, "site_names has 'a' twice: expected different names"),
        ({"site_names": "abc"}, "site_names is 'abc': expected 3 strings"),
        ({"value_names": ["no"]}, "value_names has 1 names: expected 2"),
        ({"value_names": [["no", "yes"]]}, "value_names has 1 entries: expected the names"),
        ({"value_names": "no"}, "value_names is 'no': expected the names"),
    ],
)
def test_names_that_are_refused(names: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        targets()[0].named(**names)
