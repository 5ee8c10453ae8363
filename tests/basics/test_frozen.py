"""Values that refuse change and what they do not know, in one sentence."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from tcsis.basics.frozen import Frozen, Named, Positive, merge, parse


class Inner(Frozen):
    size: Positive = 1


class Outer(Frozen):
    name: str
    inner: Inner = Inner()
    more: list[Inner] | None = None


def test_plain_data_becomes_a_value() -> None:
    value = parse(Outer, {"name": "a", "inner": {"size": 3}})
    assert value == Outer(name="a", inner=Inner(size=3))
    with pytest.raises(ValidationError, match="frozen"):
        value.name = "b"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "run.name is wrong: Field required"),
        ({"name": "a", "inner": {"size": 0}}, "run.inner.size is wrong: .* equal to 1"),
        ({"name": "a", "age": 3}, "run has no setting 'age': expected name, inner, more$"),
        ({"name": "a", "inner": {"age": 3}}, "run.inner has no setting 'age': expected size$"),
        ({"name": "a", "more": [{"age": 3}]}, "run.more.0 has no setting 'age': expected size$"),
        ([], "run is wrong: .* valid dictionary"),
    ],
)
def test_refusals_name_the_entry(data: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        parse(Outer, data, "run")


# -- values that files call by name ---------------------------------------------------------------


class Chosen(Frozen):
    rounding: Annotated[Callable[[float], int], Named({"up": math.ceil, "down": math.floor})] = (
        math.floor
    )


def test_a_value_by_name_or_as_it_is() -> None:
    assert Chosen().rounding is math.floor
    for given in ("up", math.ceil):
        chosen = parse(Chosen, {"rounding": given})
        assert chosen.rounding(0.5) == 1
        assert chosen.model_dump() == {"rounding": "up"}
        assert json.loads(chosen.model_dump_json()) == {"rounding": "up"}
        assert deepcopy(chosen) == chosen == parse(Chosen, chosen.model_dump())


@pytest.mark.parametrize("given", ["sideways", math.trunc, 3, None])
def test_another_value_is_refused_with_the_names(given: Any) -> None:
    with pytest.raises(ValueError, match=r"config\.rounding is wrong: .* is none of up, down$"):
        parse(Chosen, {"rounding": given})


def test_another_kind_takes_the_place_of_the_whole() -> None:
    base = {"part": {"kind": "a", "x": 1, "y": 2}, "n": 3}
    assert merge(base, {"part": {"x": 5}}) == {"part": {"kind": "a", "x": 5, "y": 2}, "n": 3}
    assert merge(base, {"part": {"kind": "a", "x": 5}})["part"] == {"kind": "a", "x": 5, "y": 2}
    assert merge(base, {"part": {"kind": "b"}}) == {"part": {"kind": "b"}, "n": 3}
    assert base["part"] == {"kind": "a", "x": 1, "y": 2}
