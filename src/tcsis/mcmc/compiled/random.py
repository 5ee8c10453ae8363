"""One independent random stream per chain: xoshiro128++ seeded through SplitMix64.

``streams`` is (4, chains) uint32, column c being the generator of chain c.  It is derived from
(seed, c) alone, and only chain c draws from it, so what happens to a chain does not depend on how
many others run beside it, nor on threads.  Uniform numbers are 31-bit integers u in [0, 2^31): an
event of probability p happens when u < round(2^31 p), which is exact at p = 0 and at p = 1.

numba widens every integer operation to 64 bits.  The casts below bring each result back to 32,
which the algorithm needs, and keep twice as many lanes in a vector register.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import ArrayLike, NDArray

from tcsis.mcmc.compiled.arrays import Words
from tcsis.mcmc.compiled.cache import jit

UNIT = 2**31
"""Probability one, in the units of ``thresholds``."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
WORD = np.uint64(32)


def make_streams(seed: int, num_chains: int) -> Words:
    """Streams of chains 0..num_chains-1, (4, chains)."""
    key = split_mix(np.array([seed % 2**64], dtype=np.uint64) + GOLDEN)
    chain = np.arange(1, num_chains + 1, dtype=np.uint64)
    first = split_mix(split_mix(key + chain * GOLDEN))
    second = split_mix(first + GOLDEN)
    return np.stack([first, first >> WORD, second, second >> WORD]).astype(np.uint32)


def split_mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64: a bijection of 64-bit words."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def thresholds(probability: ArrayLike) -> Words:
    """round(2^31 p): u is below it with probability p."""
    return np.rint(np.asarray(probability, dtype=np.float64) * UNIT).astype(np.uint32)


@jit()
def load_stream(streams: Words, chain: int) -> Any:
    """The state of one generator as a tuple, which the compiler can keep in registers."""
    return streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain]


@jit()
def store_stream(state: Any, streams: Words, chain: int) -> None:
    """The inverse of ``load_stream``."""
    streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain] = state


@jit()
def advance(state: Any) -> Any:
    """One step of xoshiro128++: the upper 31 bits of the output, and the next state."""
    s0, s1, s2, s3 = state
    total = uint32(s0 + s3)
    output = uint32(uint32(uint32(total << 7) | uint32(total >> 25)) + s0)
    shifted = uint32(s1 << 9)
    s2 = uint32(s2 ^ s0)
    s3 = uint32(s3 ^ s1)
    s1 = uint32(s1 ^ s2)
    s0 = uint32(s0 ^ s3)
    s2 = uint32(s2 ^ shifted)
    s3 = uint32(uint32(s3 << 11) | uint32(s3 >> 21))
    return uint32(output >> 1), (s0, s1, s2, s3)


@jit()
def pick(u: Any, count: int) -> Any:
    """One of 0..count-1 from the uniform u."""
    return int64((uint64(u) * uint64(count)) >> uint64(31))
