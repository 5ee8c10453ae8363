"""What fits into memory, asked before work begins."""

from __future__ import annotations

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def check_fits(name: str, number: int, each: float, what: str = "") -> int:
    """The number, if so many of ``each`` bytes fit into memory; or what would fit."""
    free = free_memory()
    if number * each > free:
        raise ValueError(
            f"{name} is {number}: that takes about {spelled(number * each)} of memory, and "
            f"{spelled(free)} are free; at most {max(0, int(free / each)):,}{what} fit"
        )
    return number


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, and of a container's share of it."""
    return min(free_of_machine(), free_of_group())


def free_of_machine() -> int:
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return sum(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):  # not Linux: all that is built in
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_of_group() -> float:
    try:
        most, now = (int((GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no group, or one without a limit
        return float("inf")
    return max(0, most - now)


def spelled(size: float) -> str:
    """Bytes in the unit that keeps the number below a thousand."""
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {UNITS[unit]}"
