"""One run on one rank or on several: the same losses, weights, checkpoints, and a clean end."""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tcsis.basics.ranks import ALONE, RankEndedError, Ranks, all_ranks
from tcsis.learn import checkpoint, presets
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import train
from tcsis.learn.training import Run
from tcsis.targets import Ising, from_callable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
FORK = multiprocessing.get_context("fork")
ISING = Ising(4, 0.4407, dtype=torch.float64)
METHODS = ["autoregressive", "any-time", "self-normalized", "unbiased"]
NUM_STEPS = 8


def config_of(method: str, **changes: Any) -> Config:
    """A few steps with a refresh of the buffer, and two shards."""
    few = {"num_calls": 4} if method in ("self-normalized", "unbiased") else {}
    common = {"num_steps": NUM_STEPS, "num_evaluations": 0, "shards": 2, "dtype": "float64"}
    buffer = {"size": 64, "num_rungs": 4, "every": 3}
    tiny = presets.tiny(ISING, method).changed(method=few, buffer=buffer)
    return tiny.changed(**{**common, **changes})


def trained(config: Config, ranks: Ranks = ALONE, **options: Any) -> tuple[Learned, list[float]]:
    """The model and the loss of every step."""
    losses: list[float] = []
    healthy = Run.healthy

    def noted(run: Run, loss: Tensor) -> bool:
        losses.append(float(loss))
        return healthy(run, loss)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "healthy", noted)
        model = train(ISING, config=config, progress=False, ranks=ranks, **options)
    return model, losses


def weights(model: Learned) -> list[float]:
    tensors = [value.double().flatten() for value in model.module.state_dict().values()]
    return torch.cat(tensors).nan_to_num(0.0, 0.0, 0.0).tolist()


def on_ranks(size: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """What ``work`` returns, or the name and message of its error, at every one of so many
    processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(number: int, pipe: Any) -> None:
        os.environ |= {
            "RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_RANK": str(number),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        torch.set_num_threads(1)
        try:
            with all_ranks() as ranks:
                pipe.send(work(ranks))
        except BaseException as error:
            traceback.print_exc()
            pipe.send((type(error).__name__, str(error)))

    pipes = [FORK.Pipe() for _ in range(size)]
    children = [FORK.Process(target=run, args=(n, there)) for n, (_, there) in enumerate(pipes)]
    for child in children:
        child.start()
    try:
        return [here.recv() if here.poll(120) else "no answer" for here, _ in pipes]
    finally:
        for child in children:
            child.join(10)
            child.kill()


def both(config: Config, **options: Any) -> list[Any]:
    """Losses and weights of a run, as every one of two ranks has them."""

    def work(ranks: Ranks) -> tuple[list[float], list[float]]:
        model, losses = trained(config, ranks, **options)
        return losses, weights(model)

    return on_ranks(2, work)


def check_close(found: list[float], expected: list[float]) -> None:
    assert len(found) == len(expected)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


# -- the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_same_on_one_rank_and_on_two(method: str) -> None:
    """Losses of every step, and all weights, to rounding."""
    config = config_of(method)
    alone, losses = trained(config)
    assert len(losses) == NUM_STEPS
    for theirs, their_weights in both(config):
        check_close(theirs, losses)
        check_close(their_weights, weights(alone))
