"""Frozen values that a TOML or JSON file can hold, and one sentence on what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import core_schema

Positive = Annotated[int, Field(ge=1)]
Kind = TypeVar("Kind", bound=BaseModel)


class Frozen(BaseModel):
    """A value that never changes and refuses what it does not know, in one sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(explain(error, type(self).__name__, type(self))) from None

    # so that values inside others are checked in place, and their faults are told by their place
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class Named:
    """For a field that holds one of several values, functions for instance, which files call by
    name: ``Annotated[Step, Named({"euler": euler, "tweedie": tweedie})]``."""

    def __init__(self, choices: dict[str, Any]):
        self.choices = choices

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        named = core_schema.plain_serializer_function_ser_schema(self.name_of)
        return core_schema.no_info_plain_validator_function(self.find, serialization=named)

    def find(self, given: Any) -> Any:
        for name, value in self.choices.items():
            if given in (name, value):
                return value
        raise ValueError(f"{given!r} is none of {', '.join(self.choices)}")

    def name_of(self, value: Any) -> str:
        return next(name for name, one in self.choices.items() if one == value)


def parse(kind: type[Kind], data: Any, where: str = "config") -> Kind:
    """A value of its kind from plain data, or one clear sentence on what is wrong with it."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, where, kind)) from None


def explain(error: ValidationError, where: str, kind: type[BaseModel]) -> str:
    """One fault, with the path of its entry below ``where``; of a setting that is not there, whose
    it would be and which ones there are."""
    faults = error.errors()
    fault = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    if fault["type"] == "extra_forbidden":
        path, owner = locate(where, kind, fault["loc"][:-1])
        named = "" if kind_of(owner) is None else f" ({kind_of(owner)})"
        known = ", ".join(owner.model_fields)
        return f"{path}{named} has no setting {fault['loc'][-1]!r}: expected {known}"
    path, _ = locate(where, kind, fault["loc"])
    if fault["type"] == "union_tag_invalid":
        tag, tags = fault["ctx"]["tag"], fault["ctx"]["expected_tags"]
        return f"{path}.kind is {tag!r}: expected one of {tags}"
    return f"{path} is wrong: {fault['msg'].removeprefix('Value error, ')}"


def locate(
    where: str, kind: type[BaseModel], loc: Sequence[int | str]
) -> tuple[str, type[BaseModel]]:
    """A place of pydantic's as a user would write it, and the class that stands there.  Pydantic
    names fields, places in lists and, after a field that may be of several kinds, the kind."""
    path, choices = where, [kind]
    for part in loc:
        fields = choices[0].model_fields if choices else {}
        of_kind = [one for one in choices if kind_of(one) == part]
        if part in fields:
            path, choices = f"{path}.{part}", models_in(fields[str(part)].annotation)
        elif of_kind:
            choices = of_kind
        else:
            path = f"{path}.{part}"
    return path, choices[0] if choices else kind


def kind_of(model: type[BaseModel]) -> Any:
    return model.model_fields["kind"].default if "kind" in model.model_fields else None


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models among the kinds that a field, or an entry of its list, may be of."""
    if get_args(annotation):
        return [one for part in get_args(annotation) for one in models_in(part)]
    return (
        [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
    )


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the entries of ``over`` in their places, table by table; a table of another
    ``kind`` takes the place of the whole."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        same = both and value.get("kind", merged[key].get("kind")) == merged[key].get("kind")
        merged[key] = merge(merged[key], value) if same else value
    return merged
