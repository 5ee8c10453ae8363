"""Values that refuse change and what they do not know, in one sentence."""

from typing import Any

import pytest
from pydantic import ValidationError

from tcsis.basics.frozen import Frozen, Positive, parse


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
