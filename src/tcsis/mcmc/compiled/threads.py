"""Sharing chains out among threads.

The compiled loops release the interpreter lock, so plain threads run them side by side.  This
compiles in half the time of numba's own parallel loops, works after a fork, and nobody spins:
asking numba for its number of threads would start them, with an OpenMP of its own beside torch's.
So the most there may be is torch's number, and NUMBA_NUM_THREADS where that is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Thread
from typing import Any

import torch
from numba import config

UPDATES_PER_THREAD = 2**17
"""About as many single-site updates as a thread must have to be worth starting."""


def share_out(
    kernel: Callable[..., None], num_chains: int, num_updates: int, block: int, *args: Any
) -> None:
    """Call ``kernel(first, stop, *args)`` for ranges of chains, whole blocks of them, that
    together are all chains; ``num_updates`` is the work of one chain."""
    num_blocks = -(-num_chains // block)
    worthwhile = num_chains * num_updates // UPDATES_PER_THREAD
    num_threads = max(1, min(most_threads(), num_blocks, worthwhile))
    bounds = [block * round(num_blocks * k / num_threads) for k in range(num_threads + 1)]
    *others, last = pairwise(bounds)
    threads = [Thread(target=kernel, args=(*chains, *args)) for chains in others]
    for thread in threads:
        thread.start()
    kernel(last[0], num_chains, *args)
    for thread in threads:
        thread.join()


def most_threads() -> int:
    # numba sets its options at run time, where no checker sees them
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return min(torch.get_num_threads(), most)
