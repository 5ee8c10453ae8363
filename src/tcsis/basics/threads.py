"""How many threads a piece of work is worth.

The most there may be is one number, torch's: ``torch.set_num_threads`` or OMP_NUM_THREADS.  Threads
of OpenMP wait for each other by spinning: on small work a second one gains a tenth when the cores
are idle, and where they are shared with other programs, waiting for it costs a factor of ten.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

PRODUCTS_PER_THREAD = 2**27
"""About as many products of numbers as a thread must have to be worth waiting for."""


def num_worthwhile(products: float) -> int:
    """How many of torch's threads so many products of numbers are worth, at least one."""
    return max(1, min(torch.get_num_threads(), int(products / PRODUCTS_PER_THREAD)))


@contextmanager
def at_most(num_threads: int) -> Iterator[None]:
    """Torch on at most so many threads inside a ``with`` block, or in a function."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, num_threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)
