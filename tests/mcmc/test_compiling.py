"""Who waits for chains to be compiled is told so, once, and nobody else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tcsis.mcmc import compiling
from tcsis.mcmc.compiled import cache

RUN = """
import sys
from rich.console import Console
from tcsis import mcmc, targets
from tcsis.mcmc import compiling

shown = []
class Terminal(Console):
    is_terminal = True
    def print(self, text):
        shown.append(text)
compiling.Console = Terminal
for kernel in sys.argv[1:]:
    aloud = kernel != "wolff"
    mcmc.sample(targets.Ising(3, 0.4), kernel, num_chains=3, num_steps=2, progress=aloud)
    print(kernel, len(shown))
"""


def test_only_what_is_not_kept_is_told(tmp_path: Path) -> None:
    """ "glauber" and "wolff" are compiled at first; wolff runs without progress."""

    def said() -> list[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", RUN, "glauber", "wolff"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return run.stdout.splitlines()

    assert said() == ["glauber 1", "wolff 1"]
    assert said() == ["glauber 0", "wolff 0"]


@pytest.mark.parametrize(
    ("enabled", "terminal", "times"), [(True, True, 1), (True, False, 0), (False, True, 0)]
)
def test_one_note_where_somebody_looks(
    enabled: bool, terminal: bool, times: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        compiling, "Console", lambda **given: Console(**given, force_terminal=terminal)
    )
    with compiling.compiling_said(enabled):
        for _ in range(3):
            for tell in cache.LISTENERS:
                tell()
    assert capsys.readouterr().err.count("compiling chains, once on this machine") == times
    assert cache.LISTENERS == []
