"""Frozen values that a TOML or JSON file can hold, and one sentence on what is wrong with one."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Positive = Annotated[int, Field(ge=1)]
Kind = TypeVar("Kind", bound=BaseModel)


class Frozen(BaseModel):
    """A value that never changes and refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def parse(kind: type[Kind], data: Any, where: str = "config") -> Kind:
    """A value of its kind from plain data, or one clear sentence on what is wrong with it."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, where)) from None


def explain(error: ValidationError, where: str) -> str:
    """The first fault, with the path of its entry below ``where``."""
    first = error.errors()[0]
    place = ".".join([where, *(str(part) for part in first["loc"])])
    return f"{place} is wrong: {first['msg']}"


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the entries of ``over`` in their places, table by table; a table of another
    ``kind`` takes the place of the whole."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        same = both and value.get("kind", merged[key].get("kind")) == merged[key].get("kind")
        merged[key] = merge(merged[key], value) if same else value
    return merged
