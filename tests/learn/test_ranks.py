"""One run on one rank or on several: the same losses, weights, checkpoints, and a clean end."""

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tcsis.basics.ranks import ALONE, Ranks, Together, all_ranks
from tcsis.learn import checkpoint, presets, shards
from tcsis.learn.config import Config
from tcsis.learn.learned import Learned
from tcsis.learn.trainer import train
from tcsis.learn.training import Run
from tcsis.targets import Ising

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
FORK = multiprocessing.get_context("fork")
ISING = Ising(4, 0.4407, dtype=torch.float64)
METHODS = ["autoregressive", "any-time", "self-normalized", "unbiased"]
NUM_STEPS = 6


@pytest.fixture(autouse=True)
def small_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits before training to a few states, which take most of the time otherwise."""
    monkeypatch.setattr("tcsis.learn.unbiased.NUM_FITTED", 128)


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
            pipe.send((type(error).__name__, str(error)))

    pipes = [FORK.Pipe() for _ in range(size)]
    children = [FORK.Process(target=run, args=(n, there)) for n, (_, there) in enumerate(pipes)]
    for child in children:
        child.start()
    for _, there in pipes:
        there.close()
    try:
        return [answer(here) for here, _ in pipes]
    finally:
        for child in children:
            child.join(10)
            child.kill()


def answer(pipe: Any) -> Any:
    try:
        return pipe.recv() if pipe.poll(300) else "no answer"
    except EOFError:
        return "killed"


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


@pytest.mark.parametrize("wrong", ["gradients of one rank alone", "the same shard twice"])
def test_a_wrong_sharing_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above fails where it should."""
    config = config_of("autoregressive")
    _, losses = trained(config)
    if wrong == "the same shard twice":
        monkeypatch.setattr(shards, "numbers", lambda num_shards, ranks: range(1))
    else:
        monkeypatch.setattr(Together, "parallel", lambda ranks, module: module)
    (found, _), _ = both(config)
    with pytest.raises(AssertionError):
        check_close(found, losses)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_loss_changes_in_the_model_is_said(method: str) -> None:
    """All other tensors that are not trained stay as they were."""
    run = Run(ISING, config_of(method), seed=0)
    run.start()
    moved = {id(tensor) for tensor in run.method.moved(run.model)}
    others = {name: x for name, x in run.model.named_buffers() if id(x) not in moved}
    before = {name: x.clone() for name, x in others.items()}
    run.make_step()
    assert all(torch.equal(x, before[name]) for name, x in others.items())
    assert bool(moved) == (method == "unbiased")


# -- stopping, dying and going on ------------------------------------------------------------------


def ended_by(number: int, sent: signal.Signals, step: int, config: Config, folder: Path) -> Any:
    """What two ranks say of a run that saves at every step, where one has a signal after some of
    them."""
    make_step = Run.make_step

    def work(ranks: Ranks) -> None:
        def struck(run: Run) -> Tensor:
            loss = make_step(run)
            if run.step == step and ranks.number == number:
                os.kill(os.getpid(), sent)
            return loss

        Run.make_step = struck  # type: ignore[method-assign]
        trained(config, ranks, folder=folder, checkpoint_every=0)

    return on_ranks(2, work)


def saved_step(folder: Path) -> int:
    return checkpoint.load(folder / "checkpoint")[1]["step"]


@pytest.mark.parametrize("method", ["autoregressive", "unbiased"])
def test_a_run_goes_on_on_any_number_of_ranks(method: str, tmp_path: Path) -> None:
    """From two ranks, where a signal to one stops both, to one, and from one to two."""
    config = config_of(method)
    whole, losses = trained(config)
    said = ended_by(1, signal.SIGTERM, 3, config, tmp_path)
    assert said[0] == ("StopError", "SIGTERM")  # told by the other, which the signal itself ends
    assert saved_step(tmp_path) == 3
    for theirs, their_weights in both(config, folder=tmp_path, resume=True):
        check_close(theirs, losses[3:])
        check_close(their_weights, weights(whole))
    ended_by(0, signal.SIGTERM, 3, config, tmp_path / "other")
    model, found = trained(config.changed(shards=1), folder=tmp_path / "other", resume=True)
    assert model.config.shards == 2  # those of the run that goes on
    check_close(found, losses[3:])


@pytest.mark.parametrize("number", [0, 1])
def test_the_end_of_a_rank_ends_the_others(number: int, tmp_path: Path) -> None:
    """kill -9: the other says where the last checkpoint is, from which one rank goes on."""
    config = config_of("autoregressive")
    _, losses = trained(config)
    said = ended_by(number, signal.SIGKILL, 4, config, tmp_path)
    assert said[number] == "killed"
    kind, sentence = said[1 - number]
    assert kind == "RankEndedError"
    assert sentence.startswith("another rank has ended")
    assert f"the last checkpoint is in {tmp_path / 'checkpoint'}: go on with" in sentence
    assert saved_step(tmp_path) == 3  # that of the step before
    _, found = trained(config, folder=tmp_path, resume=True)
    check_close(found, losses[3:])


def test_a_loss_that_is_no_number_is_noticed_by_all() -> None:
    """The ranks go back together, where it was one of them that diverged."""
    config = config_of("autoregressive")

    def work(ranks: Ranks) -> tuple[int, int]:
        run = Run(ISING, config, 0, ranks=ranks)
        run.start()
        loss, broken = run.shards[0].loss, []

        def breaking(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            found, x_0 = loss(x, generator)
            if run.step == 2 and not broken and ranks.number == 1:
                broken.append(True)
                return found * torch.nan, x_0
            return found, x_0

        run.shards[0].loss = breaking
        return sum(1 for _ in run.steps()), run.restarts

    assert on_ranks(2, work) == [(NUM_STEPS + 2, 1)] * 2


def test_a_budget_is_refused_by_all_ranks() -> None:
    """With the seconds that were given, and not those of rank 0 alone."""
    (kind, sentence), other = both(config_of("autoregressive"), time_budget=1e-3)
    assert kind == "BudgetError"
    assert sentence.startswith("time_budget is 0.001 s")
    assert other == (kind, sentence)


def test_a_share_that_pays_for_no_growth_is_left_to_the_lattice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tcsis.learn.growth.SHARE", 1e-9)
    (losses, _), (others, _) = both(config_of("any-time", grows=[[2, 2]]), time_budget=600)
    assert len(losses) == NUM_STEPS
    check_close(others, losses)


# -- settings --------------------------------------------------------------------------------------


class OfTwo(Ranks):
    size = 2


def test_shards_that_do_not_fit_are_refused() -> None:
    config = presets.tiny(ISING)
    with pytest.raises(ValueError, match="shards is 3 and the batch_size 64: expected shards of"):
        config.changed(shards=3)
    with pytest.raises(ValueError, match="shards is 3 and there are 2 ranks: expected a number"):
        shards.numbers(3, OfTwo())
    assert list(shards.numbers(4, OfTwo())) == [0, 2]


def test_one_shard_for_each_rank_unless_there_are_several() -> None:
    config = presets.tiny(ISING)
    assert config.over(2).shards == 2
    assert config.changed(shards=4).over(2).shards == 4


def test_a_run_of_one_shard_has_the_names_of_before(tmp_path: Path) -> None:
    train(ISING, config=config_of("autoregressive", shards=1), folder=tmp_path, progress=False)
    names = set(checkpoint.load(tmp_path / "checkpoint")[0])
    assert {"buffer", "scale", "generator"} <= names
    assert not [name for name in names if name.startswith("shard-")]
