"""Machine code on disk: used again by the next process, never after a change to any source."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tcsis.mcmc import compiled

TOSS = """
from typing import NamedTuple
from copied.cache import jit
from copied.skeleton import make_step

class Coin(NamedTuple):
    rows: int = 0

@jit()
def heads(model, chain, site, x, u, work):
    x[chain, site] = u & 1
    return 1

@jit()
def tails(model, chain, site, x, u, work):
    x[chain, site] = 1 - (u & 1)
    return 1

STEPS = make_step(heads), make_step(tails)
"""

RUN = """
import json
import numpy as np
from copied.random import make_streams
from copied.toss import STEPS, Coin

def toss(step):
    x, counts = np.zeros((64, 1), np.uint8), np.zeros((2, 64), np.int64)
    step(0, 64, x, make_streams(0, 64), counts, 5, Coin())
    return x[:, 0].tolist()

tosses = [toss(step) for step in STEPS]
hits = [sum(step.stats.cache_hits.values()) for step in STEPS]
print(json.dumps([tosses, hits, STEPS[0]._cache.cache_path]))
"""


def copy_package(folder: Path) -> Path:
    """The compiled loops as a package of their own, with a coin in place of a target (and so
    without torch, which takes long to import)."""
    package = folder / "copied"
    package.mkdir()
    for source in Path(compiled.__file__).parent.glob("*.py"):
        text = source.read_text().replace("tcsis.mcmc.compiled", "copied")
        text = text.replace("from tcsis.targets import Pairwise", "Pairwise = object")
        (package / source.name).write_text("" if source.name == "__init__.py" else text)
    (package / "toss.py").write_text(TOSS)
    return package


def tosses(folder: Path) -> tuple[list[list[int]], list[int], Path]:
    """What both steps toss in a new process, whether each found its code on disk, and where."""
    environment = {name: value for name, value in os.environ.items() if "NUMBA" not in name}
    environment |= {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "user")}
    command = [sys.executable, "-B", "-c", RUN]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    states, hits, path = json.loads(run.stdout)
    return states, hits, Path(path)


def test_machine_code_follows_every_source(tmp_path: Path) -> None:
    """The loop is in ``skeleton``; what changes is one digit in ``random``."""
    package = copy_package(tmp_path)
    first, hits, path = tosses(tmp_path)
    assert first[0] == [1 - side for side in first[1]]
    assert hits == [0, 0]
    assert path.is_relative_to(package)
    assert tosses(tmp_path) == (first, [1, 1], path)

    source = package / "random.py"
    source.write_text(source.read_text().replace("uint32(s1 << 9)", "uint32(s1 << 8)"))
    changed, hits, _ = tosses(tmp_path)
    assert hits == [0, 0]
    assert changed != first


def test_machine_code_goes_to_the_user_where_the_package_takes_none(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "__pycache__").touch()  # so that nobody can write there, root included
    first, hits, path = tosses(tmp_path)
    assert hits == [0, 0]
    assert path.is_relative_to(tmp_path / "user")
    assert tosses(tmp_path) == (first, [1, 1], path)
