"""Tests run side by side on the cores, so each keeps to one thread."""

import signal
import subprocess
import time
from collections.abc import Callable

import numba
import pytest
import torch
from torch import nn

torch.set_num_threads(1)
numba.set_num_threads(1)


@pytest.fixture
def awake() -> Callable[..., nn.Module]:
    """A module in float64 with random weights, away from the zeros that much of it starts at."""

    def wake(module: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
        generator = torch.Generator().manual_seed(seed)
        module.double()
        with torch.no_grad():
            for weights in module.parameters():
                noise = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
                weights.add_(noise, alpha=scale)
        return module

    return wake


@pytest.fixture
def interrupt() -> Callable[..., str]:
    """Ctrl-C for a command line once it is ready: it ends with its code and no traceback; what it
    says on standard error comes back."""

    def stop(process: subprocess.Popen, ready: Callable[[], bool]) -> str:
        begin = time.monotonic()
        try:
            while not ready():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() - begin < 120
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        return err.strip()

    return stop
