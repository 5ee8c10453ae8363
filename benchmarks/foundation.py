"""Speed of the foundations, each as a ratio to brute force or against its limit, in one run."""

import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from tcsis import exact
from tcsis.exact import kaufman, transfer
from tcsis.targets import RBM, Ising, Potts, SherringtonKirkpatrick, SpinGlass, Target

NUM_STATES = 4_096


def seconds(work: Callable[[], object], least: float = 0.5) -> float:
    """Seconds a call, the best of several over at least ``least`` seconds."""
    work()
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < least:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def ratios_table() -> Table:
    table = Table(title=f"log_ratios of {NUM_STATES:,} states, float32", title_justify="left")
    for name in ("target", "ms", "million ratios/s", "brute force ms", "times faster"):
        table.add_column(name, justify="left" if name == "target" else "right")
    generator = torch.Generator().manual_seed(0)
    targets: list[Target] = [
        Ising(10, 0.4407),
        Potts(10, 3, 1.0),
        SpinGlass((5, 5, 4), 1.0, "gaussian"),
        SherringtonKirkpatrick(100, 1.0),
        RBM(*(torch.randn(s, generator=generator) for s in ((100, 25), (100,), (25,)))),
    ]
    for target in targets:
        shape = (NUM_STATES, target.num_sites)
        x = torch.randint(target.num_values, shape, generator=generator)
        few = x[: NUM_STATES // 16]  # brute force on a sixteenth of the states, scaled up
        fast = seconds(lambda target=target, x=x: target.log_ratios(x))
        brute = 16 * seconds(lambda target=target, x=few: Target._log_ratios(target, x))
        rate = NUM_STATES * target.num_sites * (target.num_values - 1) / fast / 1e6
        table.add_row(
            repr(target), f"{fast * 1e3:.2f}", f"{rate:.0f}", f"{brute * 1e3:.0f}",
            f"{brute / fast:.0f}",
        )  # fmt: skip
    return table


def exact_table() -> Table:
    table = Table(title="exact answers, first call", title_justify="left")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    critical = Ising(10, 0.4407)
    jobs: list[tuple[str, Callable[[], object]]] = [
        ("enumeration, side 4: everything", lambda: exact.solve(Ising(4, 0.4407))),
        ("transfer matrix, side 10: log Z, energy, G(r)", lambda: transfer.solve(critical)),
        ("transfer matrix, side 10: magnetisation", lambda: transfer.magnetisation(critical)),
        ("transfer matrix, side 10: 10,000 draws", lambda: exact.draw(critical, 10_000)),
        ("transfer matrix, 8×8 glass: solve", lambda: transfer.solve(SpinGlass(8, 1.0))),
        ("Kaufman, side 128: log Z", lambda: kaufman.log_z((128, 128), 0.4407)),
        ("Kaufman, side 128: energy", lambda: kaufman.mean_energy((128, 128), 0.4407)),
    ]
    for name, job in jobs:
        begin = time.perf_counter()
        job()
        table.add_row(name, f"{time.perf_counter() - begin:.3f}")
    return table


if __name__ == "__main__":
    console = Console(width=120)
    console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    console.print(ratios_table())
    console.print(exact_table())
