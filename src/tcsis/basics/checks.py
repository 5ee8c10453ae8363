"""Refusals that many modules share, and generators made from a seed."""

from __future__ import annotations

import hashlib
import operator
from typing import Any

import torch

MAX_VALUES = 255
"""Tokens are stored as bytes."""
MAX_SEED = 2**64 - 1


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """The value as an int of at least ``least``; numpy's integers are welcome, booleans are not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise ValueError(f"{name} is {value!r}: expected an integer of at least {least}")
    return number


def check_counts(**counts: int) -> None:
    """Every count must be an integer of at least one; the keyword is its name."""
    for name, count in counts.items():
        check_integer(name, count)


def check_num_values(num_values: int) -> int:
    """The number of values V of a site, from 2 to what a byte holds."""
    number = check_integer("num_values", num_values, least=2)
    if number > MAX_VALUES:
        raise ValueError(f"num_values is {number}: expected at most {MAX_VALUES}")
    return number


def check_seed(seed: Any) -> int:
    """A seed: an integer of 64 bits, not negative, as files and generators hold it."""
    number = check_integer("seed", seed, least=0)
    if number > MAX_SEED:
        raise ValueError(f"seed is {number}: expected at most 2^64 - 1 = {MAX_SEED}")
    return number


def derive_seed(seed: int, purpose: str) -> int:
    """A 63-bit seed for one purpose, so that several streams from one seed are independent."""
    number = check_seed(seed)
    digest = hashlib.blake2b(f"{number}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def make_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one purpose of a seed."""
    return torch.Generator(device).manual_seed(derive_seed(seed, purpose))
