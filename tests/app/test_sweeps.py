"""``tcsis.sweep``: rows in order, each what its seed gives anywhere, failures as sentences."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock
from typing import Any

import cloudpickle
import pytest
import torch

import tcsis
from tcsis.app import sweeps
from tcsis.learn.trainer import train
from tcsis.targets import Factors, Ising, Potts, Target, from_callable

SMALL: dict[str, Any] = {"preset": "tiny", "steps": 2, "n": 300, "progress": False}


@pytest.fixture
def pool() -> Iterator[Executor]:
    """Pieces go through bytes here too, and stay in this process."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_rows_are_in_order_and_are_what_their_seeds_give(pool: Executor) -> None:
    targets = {"ising": Ising(3, 0.3), "potts": Potts(2, 3, 0.5)}
    told: list[tuple[str, int]] = []
    sweep = tcsis.sweep(
        targets,
        [4, 1],
        executor=pool,
        each=lambda row: told.append((row.target, row.seed)),
        **SMALL,
    )
    expected = [("ising", 4), ("ising", 1), ("potts", 4), ("potts", 1)]
    assert [(row.target, row.seed) for row in sweep] == expected
    assert sorted(told) == sorted(expected)
    assert sweep.failures == []
    again = train(targets["ising"], preset="tiny", steps=2, seed=1, progress=False)
    draws = again.sample(300, seed=1)
    row = sweep[1]
    assert torch.equal(row.draws.x, draws.x)
    assert row.log_z == draws.log_z
    assert row.ess == draws.ess
    assert torch.equal(row.model.sample(50, seed=7).x, again.sample(50, seed=7).x)
    assert row.error is not None and row.floor is not None
    assert row.verdict == tcsis.judge(draws, targets["ising"]).level


def test_seeds_that_come_once_are_those_of_every_target(pool: Executor) -> None:
    targets = {"a": Ising(2, 0.3), "b": Ising(2, 0.4)}
    sweep = tcsis.sweep(targets, (seed for seed in (2, 0)), executor=pool, **SMALL)
    assert [(row.target, row.seed) for row in sweep] == [("a", 2), ("a", 0), ("b", 2), ("b", 0)]


def test_a_model_that_fails_is_a_row_that_says_why(
    pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(target: Target, *, seed: int, **settings: Any) -> Any:
        if seed == 1:
            raise ValueError("one |\nis refused")
        return train(target, seed=seed, **settings)

    monkeypatch.setattr(sweeps, "train", fail)
    sweep = tcsis.sweep(Ising(2, 0.3), 2, executor=pool, **SMALL)
    assert [row.failure for row in sweep] == ["", "one | is refused"]
    assert len(sweep.failures) == 1
    assert "seed 1: one | is refused" in sweep.failures[0]
    assert "failed: one | is refused" in str(sweep)
    with pytest.raises(ValueError, match=r"seed 1 has no model: one \| is refused"):
        assert sweep[1].model
    lines = sweep.to_markdown().splitlines()
    assert {line.replace(r"\|", "").count("|") for line in lines} == {9}
    assert r"failed: one \| is refused" in lines[-1]


def spins(x: torch.Tensor) -> torch.Tensor:
    return (2 * x - 1).prod(-1).double()


SENT: dict[str, Callable[[], Target]] = {
    "ising": lambda: Ising(3, 0.4, field=0.1),
    "potts": lambda: Potts((2, 3), 3, 0.8),
    "factors": lambda: Factors([((0, 2), torch.eye(2, 3)), ((1,), torch.ones(2))], [2, 2, 3]),
    "function": lambda: from_callable(spins, 5, 2),
    "lambda": lambda: from_callable(lambda x: 0.5 * spins(x), 5, 2),
}


@pytest.mark.parametrize("name", SENT)
def test_targets_travel(name: str) -> None:
    same_after_travel(SENT[name]())


def test_targets_with_known_sites_travel(given_target: Target) -> None:
    same_after_travel(given_target)


def same_after_travel(target: Target) -> None:
    sent = cloudpickle.loads(cloudpickle.dumps(target))
    x = torch.randint(2, (20, target.free.num_sites), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sent.free.log_density(x), target.free.log_density(x))


def test_a_target_that_cannot_travel_is_refused(pool: Executor) -> None:
    lock = Lock()

    def density(x: torch.Tensor) -> torch.Tensor:
        with lock:
            return spins(x)

    with pytest.raises(ValueError, match=r"^target from.* cannot be sent .*no open files, lock"):
        tcsis.sweep(from_callable(density, 4, 2), executor=pool, **SMALL)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"targets": []}, "targets is empty"),
        ({"targets": 3}, "targets is 3: expected a Target"),
        ({"targets": [3]}, "target 3 is a int: expected a Target"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "each once"),
        ({"seeds": [-1]}, "seed is -1"),
        ({"workers": 2}, "workers and executor exclude each other"),
        ({"n": 0}, "n is 0"),
    ],
)
def test_bad_arguments_are_refused(given: dict[str, Any], told: str, pool: Executor) -> None:
    arguments = {"targets": Ising(2, 0.3), "executor": pool, **SMALL} | given
    with pytest.raises(ValueError, match=told):
        tcsis.sweep(**arguments)
