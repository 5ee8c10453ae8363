"""A million draws: the memory they take, and what a second process gains.

    python benchmarks/million.py RUN [CALLS]        writes docs/results/scale/draws.md

RUN is the folder of a trained run, such as that of

    tcsis train ising --side 10 --beta 0.4407 --method any-time --time-budget 180 --out RUN

Memory is the peak of the whole command, ``tcsis sample`` with judgement and report.  Speeds are of
``model.sample_to`` alone, in a process by itself and in two that torchrun starts, one thread each:
by the clock, and by the processor time of the busier process, which a busy machine leaves as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NUMBERS = (10**5, 10**6)
NUM_SHARED, SHARD = 2**18, 2**15
PAGE = Path(__file__).parents[1] / "docs/results/scale/draws.md"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def main(run: str, calls: str = "10") -> None:
    with tempfile.TemporaryDirectory() as folder:
        peaks = {n: peak(run, calls, n, Path(folder) / str(n)) for n in NUMBERS}
        print(peaks, flush=True)
        times = {world: timed(run, calls, world, Path(folder)) for world in (1, 2)}
        print(times, flush=True)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(run, calls, peaks, times))


def peak(run: str, calls: str, n: int, out: Path) -> dict[str, float]:
    """Megabytes and seconds of processor time of a command line, and of its draws.nc."""
    line = ["-m", "tcsis", "sample", run, "-n", str(n), "--calls", calls, "--out", str(out)]
    process = subprocess.Popen([sys.executable, *line, "--quiet"], env=ENVIRONMENT)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, line
    size = (out / "draws.nc").stat().st_size
    return {"MB": used.ru_maxrss / 1e3, "cpu": used.ru_utime + used.ru_stime, "file": size / 1e6}


def timed(run: str, calls: str, world: int, folder: Path) -> dict[str, float]:
    """Seconds of ``world`` processes, by the clock and by the processor."""
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(world)] if world > 1 else []
    here = [str(Path(__file__).absolute()), "draw", run, calls, str(folder / f"by-{world}.nc")]
    subprocess.run([sys.executable, *start, *here], env=ENVIRONMENT, check=True)
    told = [json.loads(path.read_text()) for path in folder.glob(f"by-{world}.nc.rank-*")]
    return {name: max(one[name] for one in told) for name in ("wall", "cpu")}


def draw(run: str, calls: str, path: str) -> None:
    """One process of ``timed``."""
    import tcsis

    rank, model = os.environ.get("RANK", "0"), tcsis.load(run)
    model.sample(64, calls=int(calls))  # plans the blocks, and whatever else is done once
    wall, cpu = time.perf_counter(), time.process_time()
    model.sample_to(path, NUM_SHARED, calls=int(calls), size=SHARD, progress=False)
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    Path(f"{path}.rank-{rank}").write_text(json.dumps(spent))


def page(
    run: str, calls: str, peaks: dict[int, dict[str, float]], times: dict[int, dict[str, float]]
) -> str:
    rows = "\n".join(
        f"| {n:,} | {p['MB']:,.0f} | {p['cpu']:,.0f} | {p['file']:,.1f} |" for n, p in peaks.items()
    )
    (few, low), (many, high) = ((n, p["MB"]) for n, p in peaks.items())
    speeds = "\n".join(
        f"| {world} | {t['wall']:.1f} | {t['cpu']:.1f} | {NUM_SHARED / t['cpu']:,.0f} |"
        for world, t in times.items()
    )
    by_cpu, by_clock = (times[1][what] / times[2][what] for what in ("cpu", "wall"))
    return f"""# A million draws

What `benchmarks/million.py RUN {calls}` printed, for a model of the any-time method on the
critical 10×10 Ising lattice, {calls} network calls a draw, one thread a process, on two cores.

The whole command, with judgement and report: `tcsis sample RUN -n N --calls {calls}`.

| draws | peak memory, MB | processor, s | draws.nc, MB |
|---:|---:|---:|---:|
{rows}

With {many // few} times as many draws the peak is {high - low:+.0f} MB away; their log weights and
energies are {16 * (many - few) / 1e6:.0f} MB, and their states {100 * (many - few) / 1e6:.0f}.

`model.sample_to` alone, {NUM_SHARED:,} draws in shards of {SHARD:,}, in one process and in two that
`torchrun` starts; the time is that of the slower process, the file included:

| processes | by the clock, s | processor, s | draws a second of the processor |
|---:|---:|---:|---:|
{speeds}

Two processes are {by_cpu:.2f} times as fast by processor time, and were {by_clock:.2f} times by the
clock.
"""


if __name__ == "__main__":
    draw(*sys.argv[2:]) if sys.argv[1] == "draw" else main(*sys.argv[1:])
