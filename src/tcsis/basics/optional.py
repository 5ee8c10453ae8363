"""Libraries of others that not everybody has."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


def need(module: str, purpose: str, extra: str) -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(missing(module, purpose, extra)) from None


def missing(module: str, purpose: str, extra: str) -> str:
    return f"{purpose} needs {module}, which is not installed: pip install 'tcsis[{extra}]'"


def is_instance(value: Any, module: ModuleType | None, *names: str) -> bool:
    """Whether a value is of one of the classes of a module that may never have been imported, and
    then no value is."""
    kinds = tuple(getattr(module, name) for name in names if hasattr(module, name))
    return bool(kinds) and isinstance(value, kinds)
