"""Tests run side by side on the cores, so each keeps to one thread."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from tcsis.targets import RBM, Given, Ising, Pairwise, Potts, from_callable

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key of the tests, not that of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


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


def count_sites(x: torch.Tensor) -> torch.Tensor:
    """A density that no pairs make up, (n, d) -> (n,)."""
    return torch.sin((x * torch.arange(1, x.shape[-1] + 1)).sum(-1).double() ** 2)


def independent_sets(x: torch.Tensor) -> torch.Tensor:
    """Sets without neighbours on a ring, (n, d) -> (n,)."""
    both = (x & x.roll(1, -1)).any(-1)
    return torch.where(both, -torch.inf, 0.5 * x.sum(-1).double())


def random_pairwise() -> Pairwise:
    """Asymmetric tables of three values on half of all pairs of six sites."""
    generator = torch.Generator().manual_seed(1)
    edges = torch.combinations(torch.arange(6))[::2]
    couplings = torch.randn(len(edges), 3, 3, generator=generator)
    fields = torch.randn(6, 3, generator=generator)
    return Pairwise(edges, couplings, fields, constant=0.7, dtype=torch.float64)


def random_rbm() -> RBM:
    generator = torch.Generator().manual_seed(2)
    shapes = ((7, 4), (7,), (4,))
    normal = (torch.randn(shape, generator=generator) for shape in shapes)
    return RBM(*normal, constant=0.3, dtype=torch.float64)


GIVEN = {
    "ising": lambda: Ising(3, 0.4, field=0.3, dtype=torch.float64).given({0: 1, 1: 0, 5: 1}),
    "potts": lambda: Potts((2, 3), 3, 0.8, dtype=torch.float64).given({1: 2, 2: 2}),
    "pairwise": lambda: random_pairwise().given({0: 2, 4: 1, 5: 0}),
    "rbm": lambda: random_rbm().given({0: 1, 3: 0, 4: 1}),
    "function": lambda: from_callable(count_sites, 6, 3).given({1: 2, 5: 0}),
    "constraints": lambda: from_callable(independent_sets, 8, 2).given({1: 1, 4: 0}),
}
"""Small targets with pairs of known sites among them, of every kind."""


@pytest.fixture(params=GIVEN)
def given_target(request: pytest.FixtureRequest) -> Given:
    return GIVEN[request.param]()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as shells have it for what they run in the background; the tests of ctrl-C need one that works
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup has it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
